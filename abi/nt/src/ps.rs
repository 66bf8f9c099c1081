//! Processes and threads.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use crate::status::NTSTATUS;

pub type KSTART_ROUTINE = unsafe extern "efiapi" fn(StartContext: *mut c_void);

image! {
    /// Starts a system thread.
    fn PsCreateSystemThread(ThreadHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, ProcessHandle: HANDLE, ClientId: *mut c_void, StartRoutine: KSTART_ROUTINE, StartContext: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Ends the current system thread; returns only on error.
    fn PsTerminateSystemThread(ExitStatus: NTSTATUS) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Id of the current process.
    fn PsGetCurrentProcessId() -> HANDLE where irql <= HIGH_LEVEL;
    /// Id of the current thread.
    fn PsGetCurrentThreadId() -> HANDLE where irql <= HIGH_LEVEL;
    /// Id of a process.
    fn PsGetProcessId(Process: *mut c_void) -> HANDLE where irql <= HIGH_LEVEL;
    /// A referenced process by id.
    fn PsLookupProcessByProcessId(ProcessId: HANDLE, Process: *mut *mut c_void) -> NTSTATUS where irql <= APC_LEVEL, ACQUIRES;
    /// The version of Windows; true for a checked build.
    fn PsGetVersion(MajorVersion: *mut u32, MinorVersion: *mut u32, BuildNumber: *mut u32, CSDVersion: *mut UNICODE_STRING) -> BOOLEAN where irql == PASSIVE_LEVEL;
}
