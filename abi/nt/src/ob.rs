//! Object manager.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, HANDLE, KPROCESSOR_MODE, UNICODE_STRING};
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
    /// Adds a reference to an object of a type.
    fn ObReferenceObjectByPointer(Object: *mut c_void, DesiredAccess: ACCESS_MASK, ObjectType: *mut c_void, AccessMode: KPROCESSOR_MODE) -> NTSTATUS where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// A referenced object by its name.
    fn ObReferenceObjectByName(ObjectName: *const UNICODE_STRING, Attributes: u32, PassedAccessState: *mut c_void, DesiredAccess: ACCESS_MASK, ObjectType: *mut c_void, AccessMode: KPROCESSOR_MODE, ParseContext: *mut c_void, Object: *mut *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, ACQUIRES;
    /// The name of an object (`UNICODE_STRING` and its characters).
    fn ObQueryNameString(Object: *mut c_void, ObjectNameInfo: *mut UNICODE_STRING, Length: u32, ReturnLength: *mut u32) -> NTSTATUS where irql < DISPATCH_LEVEL;
}
