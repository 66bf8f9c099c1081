//! Opening and closing devices.

use nt::NTSTATUS;
use nt::io::{DO_DEVICE_INITIALIZING, DO_EXCLUSIVE};
use nt::irp::{
    DEVICE_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IO_TYPE_FILE, IRP, IRP_MJ_CLEANUP, IRP_MJ_CLOSE,
    IRP_MJ_CREATE,
};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
    STATUS_NO_SUCH_DEVICE, STATUS_OBJECT_TYPE_MISMATCH,
};

use super::{Ask, Client, FileId};
use crate::files::OpenFile;
use crate::findings::Stopped;
use crate::guest::{get, set};
use crate::machine::Machine;
use crate::object::Kind;
use crate::security::{self, Privilege};

impl Machine {
    /// Opens a device by its Win32 or NT name with `FILE_READ_DATA`-style or generic rights.
    ///
    /// Errors: the status with which the kernel or the driver refuses.
    pub fn open(
        &self,
        path: &str,
        access: u32,
        client: Client,
    ) -> Result<Result<FileId, NTSTATUS>, Stopped> {
        self.check_running()?;
        if let Err(status) = self.announce_client(client)? {
            return Ok(Err(status));
        }
        let (device, rest) = match self.find_device(path, access, client.privilege) {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let file = match self.make_file(device, &rest, access, client) {
            Ok(file) => file,
            Err(status) => return Ok(Err(status)),
        };
        let device = device as *mut DEVICE_OBJECT;
        set!(device, ReferenceCount = get!(device, ReferenceCount) + 1);
        let fill = |stack: *mut IO_STACK_LOCATION, _: *mut IRP| {
            set!(stack, Parameters.Create.Options = 0x0100_0000u32);
            set!(stack, Parameters.Create.ShareAccess = 3u16);
        };
        let ask = Ask {
            major: IRP_MJ_CREATE,
            fill: &fill,
            buffer: None,
            output: None,
            output_len: 0,
        };
        let completion = self.perform(file, ask, &mut [])?;
        if completion.status.is_success() {
            return Ok(Ok(file));
        }
        self.drop_file(file);
        Ok(Err(completion.status))
    }

    /// The device a path leads to, if it may be opened, and the rest of the path.
    fn find_device(
        &self,
        path: &str,
        access: u32,
        privilege: Privilege,
    ) -> Result<(u64, String), NTSTATUS> {
        let (address, rest) = self.objects.borrow().lookup(path)?;
        let objects = self.objects.borrow();
        let object = objects.get(address).ok_or(STATUS_NO_SUCH_DEVICE)?;
        if object.kind != Kind::Device {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        let device = address as *mut DEVICE_OBJECT;
        let flags = get!(device, Flags);
        if flags & DO_DEVICE_INITIALIZING != 0 {
            return Err(STATUS_NO_SUCH_DEVICE);
        }
        if flags & DO_EXCLUSIVE != 0 && get!(device, ReferenceCount) > 0 {
            return Err(STATUS_ACCESS_DENIED);
        }
        let dacl = object.security.as_ref().unwrap_or(&None);
        if !security::allows(dacl, privilege, access) {
            return Err(STATUS_ACCESS_DENIED);
        }
        Ok((address, rest))
    }

    fn make_file(
        &self,
        device: u64,
        rest: &str,
        access: u32,
        client: Client,
    ) -> Result<FileId, NTSTATUS> {
        let process = self.process(client.process)?;
        let address = self
            .allocate_object(size_of::<FILE_OBJECT>() as u64, b"File", Kind::File)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let file = address as *mut FILE_OBJECT;
        let rights = security::map_generic(access);
        set!(file, Type = IO_TYPE_FILE);
        set!(
            file,
            Size = i16::try_from(size_of::<FILE_OBJECT>()).unwrap_or(0)
        );
        set!(file, DeviceObject = device as *mut DEVICE_OBJECT);
        set!(file, ReadAccess = u8::from(rights & 1 != 0));
        set!(file, WriteAccess = u8::from(rights & 2 != 0));
        if !rest.is_empty() {
            set!(file, FileName = self.keep_string(rest));
        }
        self.add_files(client.process, 1);
        let file = OpenFile {
            object: address,
            client,
            process,
        };
        Ok(self.files.borrow_mut().insert(file))
    }

    /// Closes a file: `IRP_MJ_CLEANUP`, cancellation of what is pending, `IRP_MJ_CLOSE`.
    pub fn close(&self, file: FileId) -> Result<NTSTATUS, Stopped> {
        self.check_running()?;
        if self.files.borrow().get(file).is_none() {
            return Ok(STATUS_INVALID_HANDLE);
        }
        let ask = |major| Ask {
            major,
            fill: &|_, _| {},
            buffer: None,
            output: None,
            output_len: 0,
        };
        let cleanup = self.perform(file, ask(IRP_MJ_CLEANUP), &mut [])?;
        self.perform(file, ask(IRP_MJ_CLOSE), &mut [])?;
        let client = self.files.borrow().get(file).map(|file| file.client);
        self.drop_file(file);
        if let Some(client) = client {
            self.announce_end(client)?;
        }
        Ok(cleanup.status)
    }

    /// Closes every open file, as when all processes end.
    pub fn close_all(&self) -> Result<(), Stopped> {
        let files = self.files.borrow().all();
        files
            .into_iter()
            .try_for_each(|file| self.close(file).map(drop))
    }

    fn drop_file(&self, file: FileId) {
        let Some(file) = self.files.borrow_mut().remove(file) else {
            return;
        };
        let device = get!(file.object as *mut FILE_OBJECT, DeviceObject);
        set!(device, ReferenceCount = get!(device, ReferenceCount) - 1);
        self.free_object(file.object);
        self.finish_delete(device as u64);
        self.add_files(file.client.process, -1);
    }

    /// Files that are open.
    pub fn open_files(&self) -> usize {
        self.files.borrow().len()
    }
}
