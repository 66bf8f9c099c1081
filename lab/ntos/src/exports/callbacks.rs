//! Callbacks for handles and for the registry: registered, not called.
//!
//! Nobody but the driver itself opens processes, threads or keys on this
//! machine; what it does itself is not reported back to it.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest::{self, field, get};
use crate::machine::Machine;
use crate::machine::current;
use crate::resources::Held;
use nt::NTSTATUS;
use nt::base::{LARGE_INTEGER, UNICODE_STRING};
use nt::callbacks::{OB_CALLBACK_REGISTRATION, OB_FLT_REGISTRATION_VERSION};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_FLT_INSTANCE_ALTITUDE_COLLISION, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};
use std::ffi::c_void;

exports! {
    callbacks;

    fn ObRegisterCallbacks(CallbackRegistration: *mut OB_CALLBACK_REGISTRATION, RegistrationHandle: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        let (version, count) = (get!(CallbackRegistration, Version), get!(CallbackRegistration, OperationRegistrationCount));
        if version != OB_FLT_REGISTRATION_VERSION || count == 0 {
            return STATUS_INVALID_PARAMETER;
        }
        let first = get!(CallbackRegistration, OperationRegistration);
        for index in 0..usize::from(count) {
            let operation = first.wrapping_add(index);
            let routines = [get!(operation, PreOperation), get!(operation, PostOperation)];
            if get!(operation, Operations) & 3 == 0 || routines.iter().all(|routine| routine.is_null()) {
                return STATUS_INVALID_PARAMETER;
            }
            if !routines.iter().filter(|routine| !routine.is_null()).all(|routine| machine.is_integrity_checked(*routine as u64)) {
                return STATUS_ACCESS_DENIED;
            }
        }
        let altitude = match machine.string(field!(CallbackRegistration, Altitude).cast_const()) {
            Ok(altitude) => altitude,
            Err(status) => return status,
        };
        if machine.services.borrow().altitudes.values().any(|known| *known == altitude) {
            return STATUS_FLT_INSTANCE_ALTITUDE_COLLISION;
        }
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let handle = machine.register(Held::ObjectCallbacks);
        machine.services.borrow_mut().altitudes.insert(handle, altitude);
        machine.not_called("ObRegisterCallbacks");
        guest::write(RegistrationHandle, handle as *mut c_void);
        STATUS_SUCCESS
    }
    fn ObUnRegisterCallbacks(RegistrationHandle: *mut c_void) {
        let machine = current();
        machine.must_hold(Held::ObjectCallbacks, RegistrationHandle as u64);
        machine.services.borrow_mut().altitudes.remove(&(RegistrationHandle as u64));
    }
    fn ObGetFilterVersion() -> u16 { OB_FLT_REGISTRATION_VERSION }
    fn CmRegisterCallback(_Function: *mut c_void, _Context: *mut c_void, Cookie: *mut LARGE_INTEGER) -> NTSTATUS { current().keep_registry_callback(Cookie) }
    fn CmRegisterCallbackEx(_Function: *mut c_void, Altitude: *const UNICODE_STRING, _Driver: *mut c_void, _Context: *mut c_void, Cookie: *mut LARGE_INTEGER, _Reserved: *mut c_void) -> NTSTATUS {
        let machine = current();
        match machine.string(Altitude) {
            Ok(_) => machine.keep_registry_callback(Cookie),
            Err(status) => status,
        }
    }
    fn CmUnRegisterCallback(Cookie: LARGE_INTEGER) -> NTSTATUS {
        let held = current().resources.borrow_mut().drop_held(Held::RegistryCallback, Cookie.cast_unsigned());
        if held { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
    }
    fn CmGetCallbackVersion(Major: *mut u32, Minor: *mut u32) {
        for place in [Major, Minor] {
            if !place.is_null() {
                guest::write(place, 1);
            }
        }
    }
}

impl Machine {
    fn keep_registry_callback(&self, cookie: *mut i64) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        guest::write(cookie, self.register(Held::RegistryCallback).cast_signed());
        self.not_called("CmRegisterCallback");
        STATUS_SUCCESS
    }

    /// Says in the debugger's output that a callback is kept and not called.
    fn not_called(&self, what: &str) {
        (self.debug_print)(&format!("lab: what {what} registers is not called\n"));
    }
}
