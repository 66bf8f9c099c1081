//! Object manager.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, HANDLE, KPROCESSOR_MODE};
use crate::status::NTSTATUS;

image! {
    /// Turns a handle into a referenced object.
    fn ObReferenceObjectByHandle(Handle: HANDLE, DesiredAccess: ACCESS_MASK, ObjectType: *mut c_void, AccessMode: KPROCESSOR_MODE, Object: *mut *mut c_void, HandleInformation: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, ACQUIRES;
    /// Turns an object into a handle.
    fn ObOpenObjectByPointer(Object: *mut c_void, HandleAttributes: u32, PassedAccessState: *mut c_void, DesiredAccess: ACCESS_MASK, ObjectType: *mut c_void, AccessMode: KPROCESSOR_MODE, Handle: *mut HANDLE) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Adds a reference; returns the new count.
    fn ObfReferenceObject(Object: *mut c_void) -> isize where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Removes a reference; returns the new count.
    fn ObfDereferenceObject(Object: *mut c_void) -> isize where irql <= DISPATCH_LEVEL, RELEASES;
}
