//! Callbacks for handles to processes and threads, and for the registry.

use core::ffi::c_void;

use crate::base::{LARGE_INTEGER, UNICODE_STRING};
use crate::status::NTSTATUS;

/// One kind of object whose handles a driver wants to be told of.
#[repr(C)]
pub struct OB_OPERATION_REGISTRATION {
    /// Address of `PsProcessType`, `PsThreadType` or `ExDesktopObjectType`.
    pub ObjectType: *mut *mut c_void,
    /// 1 = new handles, 2 = duplicated ones.
    pub Operations: u32,
    pub PreOperation: *mut c_void,
    pub PostOperation: *mut c_void,
}
layout!(OB_OPERATION_REGISTRATION, 0x20, Operations @ 8, PreOperation @ 0x10);

#[repr(C)]
pub struct OB_CALLBACK_REGISTRATION {
    pub Version: u16,
    pub OperationRegistrationCount: u16,
    pub Altitude: UNICODE_STRING,
    pub RegistrationContext: *mut c_void,
    pub OperationRegistration: *mut OB_OPERATION_REGISTRATION,
}
layout!(OB_CALLBACK_REGISTRATION, 0x28, Altitude @ 8, RegistrationContext @ 0x18, OperationRegistration @ 0x20);

/// `OB_CALLBACK_REGISTRATION.Version`.
pub const OB_FLT_REGISTRATION_VERSION: u16 = 0x100;

image! {
    /// Registers callbacks for handles to processes and threads. The driver must be linked with `/INTEGRITYCHECK`. The lab keeps them, and calls none.
    fn ObRegisterCallbacks(CallbackRegistration: *mut OB_CALLBACK_REGISTRATION, RegistrationHandle: *mut *mut c_void) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Withdraws callbacks for handles.
    fn ObUnRegisterCallbacks(RegistrationHandle: *mut c_void) where irql <= APC_LEVEL, RELEASES;
    /// Version of the interface of `ObRegisterCallbacks`.
    fn ObGetFilterVersion() -> u16 where irql <= HIGH_LEVEL;
    /// Registers a callback for the registry. The lab keeps it, and does not call it.
    fn CmRegisterCallback(Function: *mut c_void, Context: *mut c_void, Cookie: *mut LARGE_INTEGER) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// As `CmRegisterCallback`, at an altitude.
    fn CmRegisterCallbackEx(Function: *mut c_void, Altitude: *const UNICODE_STRING, Driver: *mut c_void, Context: *mut c_void, Cookie: *mut LARGE_INTEGER, Reserved: *mut c_void) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a callback for the registry.
    fn CmUnRegisterCallback(Cookie: LARGE_INTEGER) -> NTSTATUS where irql <= APC_LEVEL, RELEASES;
    /// Version of the interface of `CmRegisterCallbackEx`: 1.1.
    fn CmGetCallbackVersion(Major: *mut u32, Minor: *mut u32) where irql <= APC_LEVEL;
}
