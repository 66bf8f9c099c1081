//! `Ob…`: references and handles.
#![expect(unsafe_code, reason = "exports have foreign signatures")]

use std::ffi::c_void;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{HANDLE, KernelMode};
use nt::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};

use super::{data, exports};
use crate::guest;
use crate::machine::{Machine, current};
use crate::object::Kind;
use crate::sched::State;

exports! {
    ob;

    fn ObReferenceObjectByHandle(Handle: HANDLE, _DesiredAccess: u32, ObjectType: *mut c_void, _AccessMode: i8, Object: *mut *mut c_void, _HandleInformation: *mut c_void) -> NTSTATUS {
        let machine = current();
        let kind = data::kind_of_type(ObjectType as u64);
        let resolved = machine.resolve_handle(Handle as u64, kind);
        match resolved {
            Ok(object) => {
                machine.objects.borrow_mut().reference(object, machine.call_site());
                guest::write(Object, object as *mut c_void);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn ObOpenObjectByPointer(Object: *mut c_void, HandleAttributes: u32, _PassedAccessState: *mut c_void, _DesiredAccess: u32, ObjectType: *mut c_void, AccessMode: i8, Handle: *mut HANDLE) -> NTSTATUS {
        let machine = current();
        let site = machine.call_site();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let kind = machine.objects.borrow().get(Object as u64).map(|object| object.kind);
        let Some(kind) = kind else { machine.no_object(Object as u64) };
        if data::kind_of_type(ObjectType as u64).is_some_and(|wanted| wanted != kind) {
            return nt::status::STATUS_OBJECT_TYPE_MISMATCH;
        }
        if AccessMode == KernelMode && HandleAttributes & nt::base::OBJ_KERNEL_HANDLE == 0 && machine.current_process() != machine.process(4).unwrap_or_default() {
            machine.violate(RuleId::BadHandle, [0xE0, Object as u64, 0, 0], "a handle without OBJ_KERNEL_HANDLE was opened in a user's process".into());
        }
        match machine.objects.borrow_mut().open(Object as u64, site) {
            Some(handle) => {
                guest::write(Handle, handle as HANDLE);
                STATUS_SUCCESS
            }
            None => STATUS_INVALID_PARAMETER,
        }
    }
    fn ObfReferenceObject(Object: *mut c_void) -> isize {
        let machine = current();
        let site = machine.call_site();
        let count = machine.objects.borrow_mut().reference(Object as u64, site);
        match count {
            Some(count) => count as isize,
            None => machine.no_object(Object as u64),
        }
    }
    fn ObfDereferenceObject(Object: *mut c_void) -> isize { current().dereference(Object as u64) as isize }
}

impl Machine {
    fn no_object(&self, address: u64) -> ! {
        self.violate(
            RuleId::ObjectReference,
            [address, 0, 0, 0],
            format!("{address:#x} is no object"),
        )
    }

    /// The object of a handle; the current-process and current-thread handles count.
    pub(crate) fn resolve_handle(&self, handle: u64, kind: Option<Kind>) -> Result<u64, NTSTATUS> {
        match handle.cast_signed() {
            -1 => Ok(self.current_process()),
            -2 => Ok(self.current_thread_object()),
            _ => self.objects.borrow().resolve(handle, kind),
        }
    }

    /// `ObDereferenceObject` by the driver.
    fn dereference(&self, address: u64) -> i64 {
        let taken = self
            .objects
            .borrow()
            .get(address)
            .map(|object| !object.taken.is_empty());
        match taken {
            None => self.no_object(address),
            Some(false) => self.violate(
                RuleId::ObjectReference,
                [address, 0, 0, 0],
                format!("object {address:#x} was dereferenced more often than referenced"),
            ),
            Some(true) => {}
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
                let device = guest::get!(address as *mut nt::irp::FILE_OBJECT, DeviceObject);
                guest::set!(
                    device,
                    ReferenceCount = guest::get!(device, ReferenceCount) - 1
                );
                self.free_object(address);
                self.finish_delete(device as u64);
            }
            Some(Kind::Event) if references <= 0 => self.free_object(address),
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
