//! Processes and threads.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use crate::status::NTSTATUS;

pub type KSTART_ROUTINE = unsafe extern "efiapi" fn(StartContext: *mut c_void);

pub type PCREATE_PROCESS_NOTIFY_ROUTINE =
    unsafe extern "efiapi" fn(ParentId: HANDLE, ProcessId: HANDLE, Create: BOOLEAN);
pub type PCREATE_THREAD_NOTIFY_ROUTINE =
    unsafe extern "efiapi" fn(ProcessId: HANDLE, ThreadId: HANDLE, Create: BOOLEAN);
pub type PLOAD_IMAGE_NOTIFY_ROUTINE = unsafe extern "efiapi" fn(
    FullImageName: *mut UNICODE_STRING,
    ProcessId: HANDLE,
    ImageInfo: *mut c_void,
);

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
    /// Adds or removes a routine that is told of new and ended processes: a client of the
    /// lab starts when it first opens a device, and ends when it closes its last file.
    fn PsSetCreateProcessNotifyRoutine(NotifyRoutine: PCREATE_PROCESS_NOTIFY_ROUTINE, Remove: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Adds a routine that is told of new and ended threads: of those that drivers make.
    fn PsSetCreateThreadNotifyRoutine(NotifyRoutine: PCREATE_THREAD_NOTIFY_ROUTINE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Removes a routine that is told of threads.
    fn PsRemoveCreateThreadNotifyRoutine(NotifyRoutine: PCREATE_THREAD_NOTIFY_ROUTINE) -> NTSTATUS where irql <= APC_LEVEL, RELEASES;
    /// Adds a routine that is told of images mapped from now on.
    fn PsSetLoadImageNotifyRoutine(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Removes a routine that is told of images.
    fn PsRemoveLoadImageNotifyRoutine(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE) -> NTSTATUS where irql <= APC_LEVEL, RELEASES;
}
