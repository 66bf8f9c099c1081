//! Files of devices that the driver opens itself: the requests behind `Zw…File`.
//!
//! Each is sent to the top of the device's stack and waited for, as for a
//! file opened with `FILE_SYNCHRONOUS_IO_NONALERT`. Closing the last handle
//! sends `IRP_MJ_CLEANUP`, the last reference `IRP_MJ_CLOSE`.

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::{HANDLE, OBJECT_ATTRIBUTES};
use nt::irp::{
    DEVICE_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IO_STATUS_BLOCK, IRP, IRP_MJ_CLEANUP,
    IRP_MJ_CLOSE, IRP_MJ_CREATE, IRP_MJ_QUERY_INFORMATION,
};
use nt::ke::{EVENT_NOTIFICATION_OBJECT, KEVENT};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_PATH_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH, STATUS_PENDING,
};

use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::object::Kind;
use crate::security::map_generic;
use crate::wait::Timeout;

/// How a file is to be opened.
pub(in crate::exports) struct Open {
    pub(in crate::exports) access: u32,
    pub(in crate::exports) share: u32,
    pub(in crate::exports) disposition: u32,
    pub(in crate::exports) options: u32,
}

/// What is to be read or written.
pub(super) struct Transfer {
    pub(super) major: u8,
    pub(super) buffer: *mut c_void,
    pub(super) length: u32,
    pub(super) offset: *mut i64,
}

/// Where a request that is waited for leaves its outcome.
struct Outcome {
    event: KEVENT,
    iosb: IO_STATUS_BLOCK,
}

/// Whether a path is one of a disk: there is none.
fn is_on_a_disk(path: &str) -> bool {
    let path = path.to_lowercase();
    let rest = [r"\??\", r"\dosdevices\", r"\global??\"]
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix));
    let drive = rest.is_some_and(|rest| {
        let mut bytes = rest.bytes();
        bytes
            .next()
            .is_some_and(|letter| letter.is_ascii_lowercase())
            && bytes.next() == Some(b':')
    });
    drive || path.starts_with(r"\systemroot") || path.starts_with(r"\device\harddisk")
}

impl Machine {
    pub(in crate::exports) fn create_file(
        &self,
        handle: *mut HANDLE,
        attributes: *mut OBJECT_ATTRIBUTES,
        iosb: *mut IO_STATUS_BLOCK,
        how: Open,
    ) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        match self.open_file(attributes, &how) {
            Ok((opened, outcome)) => {
                guest::write(handle, opened as HANDLE);
                guest::write(iosb, outcome);
                outcome.Status
            }
            Err(status) => {
                set!(iosb, Status = status);
                status
            }
        }
    }

    fn open_file(
        &self,
        attributes: *mut OBJECT_ATTRIBUTES,
        how: &Open,
    ) -> Result<(u64, IO_STATUS_BLOCK), NTSTATUS> {
        let path = self.string(get!(attributes, ObjectName).cast_const())?;
        let found = self.objects.borrow().lookup(&path);
        let (device, rest) = match found {
            Ok(found) => found,
            Err(_) if is_on_a_disk(&path) => return Err(STATUS_OBJECT_PATH_NOT_FOUND),
            Err(_) => return Err(STATUS_OBJECT_NAME_NOT_FOUND),
        };
        if self.objects.borrow().get(device).map(|object| object.kind) != Some(Kind::Device) {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        let device = device as *mut DEVICE_OBJECT;
        let file = self.make_driver_file(device, &rest, map_generic(how.access))?;
        let options = how.disposition << 24 | how.options & 0x00FF_FFFF;
        let share = u16::try_from(how.share & 7).unwrap_or(0);
        let created = self.send(file, IRP_MJ_CREATE, |stack, _| {
            set!(stack, Parameters.Create.Options = options);
            set!(stack, Parameters.Create.ShareAccess = share);
        });
        match created {
            Ok(outcome) if outcome.Status.is_success() => {
                self.resources.borrow_mut().driver_files.insert(file);
                let site = self.call_site();
                let user = self.opens_for_user(Self::attributes_of(attributes));
                let mut objects = self.objects.borrow_mut();
                let handle = objects
                    .open_for(file, site, user)
                    .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
                objects.dereference(file, false);
                Ok((handle, outcome))
            }
            failed => {
                self.settle_object(file, 0);
                Err(failed.map_or_else(|status| status, |outcome| outcome.Status))
            }
        }
    }

    fn make_driver_file(
        &self,
        device: *mut DEVICE_OBJECT,
        rest: &str,
        rights: u32,
    ) -> Result<u64, NTSTATUS> {
        let file = self
            .allocate_object(size_of::<FILE_OBJECT>() as u64, b"File", Kind::File)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let object = file as *mut FILE_OBJECT;
        set!(object, Type = nt::irp::IO_TYPE_FILE);
        set!(
            object,
            Size = i16::try_from(size_of::<FILE_OBJECT>()).unwrap_or(0)
        );
        set!(object, DeviceObject = device);
        set!(
            object,
            ReadAccess = u8::from(rights & nt::io::FILE_READ_DATA != 0)
        );
        set!(
            object,
            WriteAccess = u8::from(rights & nt::io::FILE_WRITE_DATA != 0)
        );
        if !rest.is_empty() {
            set!(object, FileName = self.keep_string(rest));
        }
        set!(device, ReferenceCount = get!(device, ReferenceCount) + 1);
        Ok(file)
    }

    pub(super) fn transfer_file(
        &self,
        handle: HANDLE,
        event: HANDLE,
        iosb: *mut IO_STATUS_BLOCK,
        what: &Transfer,
    ) -> NTSTATUS {
        let event = match self.event_of(event) {
            Ok(event) => event,
            Err(status) => return status,
        };
        let done = self
            .resolve_handle(handle as u64, Some(Kind::File))
            .and_then(|file| {
                self.wait_for_irp(file, |machine, device, event, iosb| {
                    machine.fsd_request(
                        u32::from(what.major),
                        device,
                        what.buffer,
                        what.length,
                        what.offset,
                        event,
                        iosb,
                    )
                })
            });
        let status = finish(done, iosb);
        if event != 0 {
            self.signal(event, 1);
        }
        status
    }

    pub(in crate::exports) fn event_of(&self, event: HANDLE) -> Result<u64, NTSTATUS> {
        if event.is_null() {
            return Ok(0);
        }
        let event = self.resolve_handle(event as u64, Some(Kind::Event))?;
        self.signal(event, 0);
        Ok(event)
    }

    pub(super) fn query_file(
        &self,
        handle: HANDLE,
        iosb: *mut IO_STATUS_BLOCK,
        to: *mut c_void,
        length: u32,
        class: i32,
    ) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        if length == 0 {
            return STATUS_INVALID_PARAMETER;
        }
        let done = self
            .resolve_handle(handle as u64, Some(Kind::File))
            .and_then(|file| {
                self.send(file, IRP_MJ_QUERY_INFORMATION, |stack, irp| {
                    set!(stack, Parameters.QueryFile.Length = length);
                    set!(stack, Parameters.QueryFile.FileInformationClass = class);
                    set!(irp, UserBuffer = to);
                    self.buffer_threaded(irp, to as u64, length, 0);
                })
            });
        finish(done, iosb)
    }

    /// Sends a request without data of its own to a file's device, and waits for it.
    pub(in crate::exports) fn send(
        &self,
        file: u64,
        major: u8,
        fill: impl FnOnce(*mut IO_STACK_LOCATION, *mut IRP),
    ) -> Result<IO_STATUS_BLOCK, NTSTATUS> {
        self.wait_for_irp(file, |machine, device, event, iosb| {
            let irp = machine.build_threaded(device, event, iosb);
            if !irp.is_null() {
                let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
                set!(stack, MajorFunction = major);
                fill(stack, irp);
            }
            irp
        })
    }

    /// Sends the IRP that `make` builds and waits until it is complete.
    pub(in crate::exports) fn wait_for_irp(
        &self,
        file: u64,
        make: impl FnOnce(&Self, *mut DEVICE_OBJECT, *mut KEVENT, *mut IO_STATUS_BLOCK) -> *mut IRP,
    ) -> Result<IO_STATUS_BLOCK, NTSTATUS> {
        let device = self.top_of_stack(get!(file as *mut FILE_OBJECT, DeviceObject));
        let mut outcome: Box<std::mem::MaybeUninit<Outcome>> = Box::new_zeroed();
        let outcome = outcome.as_mut_ptr();
        let event = guest::field!(outcome, event);
        super::super::ke::initialize_header(
            event.cast(),
            EVENT_NOTIFICATION_OBJECT,
            size_of::<KEVENT>(),
            0,
        );
        let irp = make(self, device, event, guest::field!(outcome, iosb));
        if irp.is_null() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, FileObject = file as *mut FILE_OBJECT);
        if self.call_device(device, irp) == STATUS_PENDING {
            self.wait(&[event as u64], false, Timeout::Never);
        }
        Ok(get!(outcome, iosb))
    }

    /// Tells a device that the last handle to a file the driver opened is about to be closed.
    pub(super) fn clean_up_file(&self, handle: u64) {
        let resolved = self.objects.borrow().resolve(handle, Some(Kind::File));
        let Ok(file) = resolved else { return };
        let handles = self
            .objects
            .borrow()
            .open_handles()
            .filter(|(object, _)| *object == file)
            .count();
        if handles == 1 && self.resources.borrow().driver_files.contains(&file) {
            // A device that does not handle it is as well off without.
            let _ = self.send(file, IRP_MJ_CLEANUP, |_, _| {});
        }
    }

    /// Tells a device that a file the driver opened is gone.
    pub(in crate::exports) fn close_driver_file(&self, file: u64) {
        if self.resources.borrow_mut().driver_files.remove(&file) {
            // Close can't fail.
            let _ = self.send(file, IRP_MJ_CLOSE, |_, _| {});
        }
    }
}

pub(in crate::exports) fn finish(
    done: Result<IO_STATUS_BLOCK, NTSTATUS>,
    iosb: *mut IO_STATUS_BLOCK,
) -> NTSTATUS {
    match done {
        Ok(outcome) => {
            guest::write(iosb, outcome);
            outcome.Status
        }
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_disks_are_told_from_names_of_devices() {
        for path in [
            r"\??\C:\x",
            r"\DosDevices\z:",
            r"\SystemRoot\System32",
            r"\Device\HarddiskVolume1\x",
        ] {
            assert!(is_on_a_disk(path), "{path}");
        }
        for path in [r"\??\Thing", r"\Device\Thing", "", r"\??\"] {
            assert!(!is_on_a_disk(path), "{path}");
        }
    }
}
