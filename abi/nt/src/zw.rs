//! System services by handle.

use core::ffi::c_void;

use crate::base::HANDLE;
use crate::status::NTSTATUS;

image! {
    /// Closes a handle.
    fn ZwClose(Handle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Sets parts of an object's security descriptor.
    fn ZwSetSecurityObject(Handle: HANDLE, SecurityInformation: u32, SecurityDescriptor: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL;
}
