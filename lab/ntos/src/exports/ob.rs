//! `Ob…`: references and handles.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{HANDLE, KernelMode, OBJ_KERNEL_HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use nt::status::{
    STATUS_INFO_LENGTH_MISMATCH, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH,
    STATUS_SUCCESS,
};

use super::{data, exports};
use crate::guest;
use crate::machine::{Machine, current};
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::sched::State;

exports! {
    ob;

    fn ObReferenceObjectByHandle(Handle: HANDLE, _DesiredAccess: u32, ObjectType: *mut c_void, AccessMode: i8, Object: *mut *mut c_void, _HandleInformation: *mut c_void) -> NTSTATUS {
        let machine = current();
        let kind = data::kind_of_type(ObjectType as u64);
        let resolved = if AccessMode == KernelMode {
            machine.resolve_handle(Handle as u64, kind)
        } else {
            machine.resolve_user_handle(Handle as u64, ObjectType as u64)
        };
        match resolved {
            Ok(object) => {
                machine.objects.borrow_mut().reference(object, machine.call_site());
                guest::write(Object, object as *mut c_void);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn ObOpenObjectByPointer(Object: *mut c_void, HandleAttributes: u32, _PassedAccessState: *mut c_void, _DesiredAccess: u32, ObjectType: *mut c_void, _AccessMode: i8, Handle: *mut HANDLE) -> NTSTATUS {
        let machine = current();
        let site = machine.call_site();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let kind = machine.objects.borrow().get(Object as u64).map(|object| object.kind);
        let Some(kind) = kind else { machine.no_object(Object as u64) };
        if data::kind_of_type(ObjectType as u64).is_some_and(|wanted| wanted != kind) {
            return STATUS_OBJECT_TYPE_MISMATCH;
        }
        let user = machine.opens_for_user(HandleAttributes);
        let opened = machine.objects.borrow_mut().open_for(Object as u64, site, user);
        match opened {
            Some(handle) => {
                guest::write(Handle, handle as HANDLE);
                STATUS_SUCCESS
            }
            None => STATUS_INVALID_PARAMETER,
        }
    }
    fn ObReferenceObjectByPointer(Object: *mut c_void, _DesiredAccess: u32, ObjectType: *mut c_void, _AccessMode: i8) -> NTSTATUS {
        let machine = current();
        let kind = machine.objects.borrow().get(Object as u64).map(|object| object.kind);
        let Some(kind) = kind else { machine.no_object(Object as u64) };
        if data::kind_of_type(ObjectType as u64).is_some_and(|wanted| wanted != kind) {
            return STATUS_OBJECT_TYPE_MISMATCH;
        }
        let site = machine.call_site();
        machine.objects.borrow_mut().reference(Object as u64, site);
        STATUS_SUCCESS
    }
    fn ObReferenceObjectByName(ObjectName: *const UNICODE_STRING, _Attributes: u32, _PassedAccessState: *mut c_void, _DesiredAccess: u32, ObjectType: *mut c_void, _AccessMode: i8, _ParseContext: *mut c_void, Object: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        match machine.string(ObjectName).and_then(|name| machine.object_named(&name, ObjectType as u64)) {
            Ok(object) => {
                guest::write(Object, object as *mut c_void);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn ObQueryNameString(Object: *mut c_void, ObjectNameInfo: *mut UNICODE_STRING, Length: u32, ReturnLength: *mut u32) -> NTSTATUS {
        current().query_name(Object as u64, ObjectNameInfo, Length, ReturnLength)
    }
    fn ObfReferenceObject(Object: *mut c_void) -> isize {
        let machine = current();
        let site = machine.call_site();
        let count = machine.objects.borrow_mut().reference(Object as u64, site);
        match count {
            Some(count) => isize::try_from(count).unwrap_or(0),
            None => machine.no_object(Object as u64),
        }
    }
    fn ObfDereferenceObject(Object: *mut c_void) -> isize { isize::try_from(current().dereference(Object as u64)).unwrap_or(0) }
}

impl Machine {
    /// A named object of a type, referenced for the driver.
    fn object_named(&self, name: &str, object_type: u64) -> Result<u64, NTSTATUS> {
        let (object, rest) = self.objects.borrow().lookup(name)?;
        if !rest.is_empty() {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        let kind = self.objects.borrow().get(object).map(|object| object.kind);
        if data::kind_of_type(object_type).is_some_and(|wanted| Some(wanted) != kind) {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        let site = self.call_site();
        self.objects.borrow_mut().reference(object, site);
        Ok(object)
    }

    /// Writes an object's name behind a string that points to it.
    fn query_name(
        &self,
        object: u64,
        to: *mut UNICODE_STRING,
        len: u32,
        needed: *mut u32,
    ) -> NTSTATUS {
        let known = self
            .objects
            .borrow()
            .get(object)
            .map(|object| object.name.clone());
        let Some(name) = known else {
            self.no_object(object)
        };
        let units: Vec<u16> = name.unwrap_or_default().encode_utf16().collect();
        let header = size_of::<UNICODE_STRING>();
        let bytes = if units.is_empty() {
            0
        } else {
            units.len() * 2 + 2
        };
        let total = header + bytes;
        guest::write(needed, u32::try_from(total).unwrap_or(u32::MAX));
        if (len as usize) < total {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        let buffer = to.wrapping_add(1).cast::<u16>();
        let string = UNICODE_STRING {
            Length: u16::try_from(units.len() * 2).unwrap_or(0),
            MaximumLength: u16::try_from(bytes).unwrap_or(0),
            Buffer: if units.is_empty() {
                std::ptr::null_mut()
            } else {
                buffer
            },
        };
        for (index, unit) in units.iter().chain([&0]).take(bytes / 2).enumerate() {
            guest::write(buffer.wrapping_add(index), *unit);
        }
        guest::write(to, string);
        STATUS_SUCCESS
    }

    fn no_object(&self, address: u64) -> ! {
        self.violate(
            RuleId::ObjectInvalid,
            [0, address, 0, 0],
            format!("{address:#x} is no object"),
        )
    }

    /// Whether a handle with these attributes goes into the table of a user's process.
    pub(crate) fn opens_for_user(&self, attributes: u32) -> bool {
        attributes & OBJ_KERNEL_HANDLE == 0
            && self.current_process() != self.process(SYSTEM_PROCESS).unwrap_or_default()
    }

    /// Attributes of an object that may be null.
    pub(crate) fn attributes_of(attributes: *const OBJECT_ATTRIBUTES) -> u32 {
        if attributes.is_null() {
            0
        } else {
            guest::get!(attributes.cast_mut(), Attributes)
        }
    }

    /// The object of a handle that the driver uses as the kernel's; the current-process and
    /// current-thread handles count.
    pub(crate) fn resolve_handle(&self, handle: u64, kind: Option<Kind>) -> Result<u64, NTSTATUS> {
        if let Some(object) = self.pseudo_handle(handle) {
            return Ok(object);
        }
        let resolved = self.objects.borrow().resolve(handle, kind);
        if resolved == Err(STATUS_INVALID_HANDLE) {
            self.report_handle(handle);
        }
        let opened_at = self.objects.borrow().user_handle(handle);
        if let Some(site) = opened_at {
            let what = format!(
                "handle {handle:#x}, opened without OBJ_KERNEL_HANDLE at {}, was used as the kernel's",
                self.site_in_words(site)
            );
            let parameters = [0, handle, self.current_process(), self.call_site()];
            self.report(RuleId::UserHandle, parameters, what);
        }
        resolved
    }

    /// The object of a handle that a user program passed.
    fn resolve_user_handle(&self, handle: u64, object_type: u64) -> Result<u64, NTSTATUS> {
        if object_type == 0 {
            self.report(
                RuleId::HandleTypeUnchecked,
                [0, handle, self.call_site(), 0],
                format!("handle {handle:#x} of a user program was referenced with no object type"),
            );
        }
        match self.pseudo_handle(handle) {
            Some(object) => Ok(object),
            None => self
                .objects
                .borrow()
                .resolve(handle, data::kind_of_type(object_type)),
        }
    }

    fn pseudo_handle(&self, handle: u64) -> Option<u64> {
        match handle.cast_signed() {
            -1 => Some(self.current_process()),
            -2 => Some(self.current_thread_object()),
            _ => None,
        }
    }

    /// Reports the use of a handle that is not open.
    pub(crate) fn report_handle(&self, handle: u64) {
        let (rule, what) = match handle {
            0 => (RuleId::NullHandle, "a null handle was used".into()),
            _ => (RuleId::BadHandle, format!("handle {handle:#x} is not open")),
        };
        self.report(rule, [0, handle, 0, 0], what);
    }

    /// `ObDereferenceObject` by the driver.
    pub(super) fn dereference(&self, address: u64) -> i64 {
        let known = self
            .objects
            .borrow()
            .get(address)
            .map(|object| (!object.taken.is_empty(), object.kind, object.references));
        match known {
            None => self.no_object(address),
            Some((false, kind, references)) => {
                let what = format!(
                    "the {} at {address:#x} was dereferenced more often than referenced",
                    kind.name()
                );
                let minus_one = u64::MAX;
                self.report(RuleId::ObjectReference, [0, address, minus_one, 0], what);
                return references;
            }
            Some(_) => {}
        }
        let left = self
            .objects
            .borrow_mut()
            .dereference(address, true)
            .unwrap_or(0);
        self.settle_object(address, left);
        left
    }

    /// Frees an object, or lets a thread be used again, when its last reference is gone.
    pub(crate) fn settle_object(&self, address: u64, references: i64) {
        let kind = self.objects.borrow().get(address).map(|object| object.kind);
        match kind {
            Some(Kind::File) if references <= 0 => {
                self.close_driver_file(address);
                let device = guest::get!(address as *mut nt::irp::FILE_OBJECT, DeviceObject);
                guest::set!(
                    device,
                    ReferenceCount = guest::get!(device, ReferenceCount) - 1
                );
                self.free_object(address);
                self.finish_delete(device as u64);
            }
            Some(Kind::Event | Kind::Section | Kind::Directory | Kind::SymbolicLink)
                if references <= 0 =>
            {
                self.services.borrow_mut().paths.remove(&address);
                // Views that are mapped keep what they show.
                self.services.borrow_mut().sections.remove(&address);
                self.free_object(address);
            }
            Some(Kind::Key) if references <= 0 => {
                self.resources.borrow_mut().keys.remove(&address);
                self.free_object(address);
            }
            Some(Kind::Callback) if references <= 0 => {
                self.resources.borrow_mut().callbacks.remove(address);
                self.free_object(address);
            }
            Some(Kind::Thread) if references <= 1 => {
                let ended = self.thread_at(address).filter(|id| {
                    let thread = self.thread(*id);
                    thread.is_system_thread.get() && thread.state.get() == State::Free
                });
                if let Some(id) = ended {
                    self.retire_thread(id);
                }
            }
            _ => {}
        }
    }
}
