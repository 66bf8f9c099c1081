//! `Zw…`: system services by handle.
#![expect(unsafe_code, reason = "exports have foreign signatures")]

use std::ffi::c_void;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::HANDLE;
use nt::se::DACL_SECURITY_INFORMATION;
use nt::status::{STATUS_INVALID_SECURITY_DESCR, STATUS_SUCCESS};

use super::exports;
use crate::machine::{Machine, current};
use crate::security;

exports! {
    zw;

    fn ZwClose(Handle: HANDLE) -> NTSTATUS {
        let machine = current();
        let closed = machine.objects.borrow_mut().close(Handle as u64);
        match closed {
            Some((object, references)) => {
                machine.settle_object(object, references);
                STATUS_SUCCESS
            }
            None => machine.violate(RuleId::BadHandle, [0xE0, Handle as u64, 0, 0], format!("handle {:#x} is not open", Handle as u64)),
        }
    }
    fn ZwSetSecurityObject(Handle: HANDLE, SecurityInformation: u32, SecurityDescriptor: *mut c_void) -> NTSTATUS {
        let machine = current();
        match machine.resolve_handle(Handle as u64, None) {
            Ok(object) if SecurityInformation & DACL_SECURITY_INFORMATION != 0 => machine.set_security(object, SecurityDescriptor as u64),
            Ok(_) => STATUS_SUCCESS,
            Err(status) => status,
        }
    }
}

impl Machine {
    fn set_security(&self, object: u64, descriptor: u64) -> NTSTATUS {
        let Some(dacl) = security::read_dacl(descriptor) else {
            return STATUS_INVALID_SECURITY_DESCR;
        };
        if let Some(object) = self.objects.borrow_mut().get_mut(object) {
            object.security = Some(dacl);
        }
        STATUS_SUCCESS
    }
}
