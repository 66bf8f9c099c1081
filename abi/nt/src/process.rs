//! Processes and threads: opening, asking, and being told of them.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, HANDLE, LARGE_INTEGER, OBJECT_ATTRIBUTES, UNICODE_STRING};
use crate::irp::FILE_OBJECT;
use crate::ke::KPRIORITY;
use crate::ps::PLOAD_IMAGE_NOTIFY_ROUTINE;
use crate::status::NTSTATUS;

/// A thread by its process's id and its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CLIENT_ID {
    pub UniqueProcess: usize,
    pub UniqueThread: usize,
}
layout!(CLIENT_ID, 0x10, UniqueThread @ 8);

/// What a routine of `PsSetCreateProcessNotifyRoutineEx` is told of a new process.
#[repr(C)]
pub struct PS_CREATE_NOTIFY_INFO {
    pub Size: usize,
    /// Bit 0: `ImageFileName` is the file's exact name.
    pub Flags: u32,
    pub ParentProcessId: HANDLE,
    pub CreatingThreadId: CLIENT_ID,
    pub FileObject: *mut FILE_OBJECT,
    pub ImageFileName: *const UNICODE_STRING,
    pub CommandLine: *const UNICODE_STRING,
    /// An error here keeps the process from starting.
    pub CreationStatus: NTSTATUS,
}
layout!(PS_CREATE_NOTIFY_INFO, 0x48, Flags @ 8, ParentProcessId @ 0x10, CreatingThreadId @ 0x18, FileObject @ 0x28, ImageFileName @ 0x30, CommandLine @ 0x38, CreationStatus @ 0x40);

/// `ProcessBasicInformation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PROCESS_BASIC_INFORMATION {
    pub ExitStatus: NTSTATUS,
    pub PebBaseAddress: *mut c_void,
    pub AffinityMask: usize,
    pub BasePriority: i32,
    pub UniqueProcessId: usize,
    pub InheritedFromUniqueProcessId: usize,
}
layout!(PROCESS_BASIC_INFORMATION, 0x30, PebBaseAddress @ 8, AffinityMask @ 0x10, BasePriority @ 0x18, UniqueProcessId @ 0x20);

/// `PROCESSINFOCLASS`.
pub const ProcessBasicInformation: i32 = 0;
pub const ProcessWow64Information: i32 = 26;
pub const ProcessImageFileName: i32 = 27;

pub type PCREATE_PROCESS_NOTIFY_ROUTINE_EX = unsafe extern "efiapi" fn(
    Process: *mut c_void,
    ProcessId: HANDLE,
    CreateInfo: *mut PS_CREATE_NOTIFY_INFO,
);

image! {
    /// Opens a process by its id.
    fn ZwOpenProcess(ProcessHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens a process by its id.
    fn NtOpenProcess(ProcessHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens a thread by its id.
    fn ZwOpenThread(ThreadHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Asks about a process.
    fn ZwQueryInformationProcess(ProcessHandle: HANDLE, ProcessInformationClass: i32, ProcessInformation: *mut c_void, ProcessInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks about a process.
    fn NtQueryInformationProcess(ProcessHandle: HANDLE, ProcessInformationClass: i32, ProcessInformation: *mut c_void, ProcessInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Ends a process. The lab's processes are the host's, which no driver may end (`STATUS_ACCESS_DENIED`).
    fn ZwTerminateProcess(ProcessHandle: HANDLE, ExitStatus: NTSTATUS) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// A referenced thread by its id.
    fn PsLookupThreadByThreadId(ThreadId: HANDLE, Thread: *mut *mut c_void) -> NTSTATUS where irql <= APC_LEVEL, ACQUIRES;
    /// The process of a thread.
    fn IoThreadToProcess(Thread: *mut c_void) -> *mut c_void where irql <= DISPATCH_LEVEL;
    /// The process of a thread.
    fn PsGetThreadProcess(Thread: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Id of a thread.
    fn PsGetThreadId(Thread: *mut c_void) -> HANDLE where irql <= DISPATCH_LEVEL;
    /// Id of the process of a thread.
    fn PsGetThreadProcessId(Thread: *mut c_void) -> HANDLE where irql <= HIGH_LEVEL;
    /// Whether a thread is the system's.
    fn PsIsSystemThread(Thread: *mut c_void) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Whether the current thread is about to end.
    fn PsIsThreadTerminating(Thread: *mut c_void) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// The current process.
    fn PsGetCurrentProcess() -> *mut c_void where irql <= HIGH_LEVEL;
    /// The current thread.
    fn PsGetCurrentThread() -> *mut c_void where irql <= HIGH_LEVEL;
    /// Name of a process's program: at most 15 bytes and a terminator, in the process object.
    fn PsGetProcessImageFileName(Process: *mut c_void) -> *mut u8 where irql <= HIGH_LEVEL;
    /// The environment block of a process; null: the lab's processes are no Windows programs.
    fn PsGetProcessPeb(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Where a process's program is mapped; null: the lab maps none.
    fn PsGetProcessSectionBaseAddress(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The 32-bit environment block of a process; null: no process here is 32-bit.
    fn PsGetProcessWow64Process(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The window manager's part of a process; null: there is none.
    fn PsGetProcessWin32Process(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The job of a process; null: there are none.
    fn PsGetProcessJob(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The debugger's port of a process; null: nobody debugs it.
    fn PsGetProcessDebugPort(Process: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// The window manager's part of a thread; null: there is none.
    fn PsGetThreadWin32Thread(Thread: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Id of the process that started a process.
    fn PsGetProcessInheritedFromUniqueProcessId(Process: *mut c_void) -> HANDLE where irql <= HIGH_LEVEL;
    /// Session of the current process: 0 is the services', which the lab's belong to.
    fn PsGetCurrentProcessSessionId() -> u32 where irql <= HIGH_LEVEL;
    /// Session of a process.
    fn PsGetProcessSessionId(Process: *mut c_void) -> u32 where irql <= HIGH_LEVEL;
    /// When a process started (100 ns since 1601).
    fn PsGetProcessCreateTimeQuadPart(Process: *mut c_void) -> LARGE_INTEGER where irql <= HIGH_LEVEL;
    /// When the current process ended; 0: it has not.
    fn PsGetProcessExitTime() -> LARGE_INTEGER where irql <= DISPATCH_LEVEL;
    /// How a process ended; `STATUS_PENDING`: it has not.
    fn PsGetProcessExitStatus(Process: *mut c_void) -> NTSTATUS where irql <= APC_LEVEL;
    /// Keeps a process from ending.
    fn PsAcquireProcessExitSynchronization(Process: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Lets a process end again.
    fn PsReleaseProcessExitSynchronization(Process: *mut c_void) where irql <= HIGH_LEVEL;
    /// Makes the thread one of another process, until `KeDetachProcess`.
    fn KeAttachProcess(Process: *mut c_void) where irql <= DISPATCH_LEVEL;
    /// Takes the thread back to its own process.
    fn KeDetachProcess() where irql <= DISPATCH_LEVEL;
    /// Adds or removes a routine that is told of processes, and may refuse them. The driver must be linked with `/INTEGRITYCHECK`.
    fn PsSetCreateProcessNotifyRoutineEx(NotifyRoutine: PCREATE_PROCESS_NOTIFY_ROUTINE_EX, Remove: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// As `PsSetCreateProcessNotifyRoutineEx`; type 0 are routines for all subsystems.
    fn PsSetCreateProcessNotifyRoutineEx2(NotifyType: i32, NotifyInformation: *mut c_void, Remove: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Adds a routine that is told of images mapped from now on; see `PsSetLoadImageNotifyRoutine`.
    fn PsSetLoadImageNotifyRoutineEx(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE, Flags: usize) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Sets a property of a thread. None of those it knows matters to the lab's scheduler.
    fn ZwSetInformationThread(ThreadHandle: HANDLE, ThreadInformationClass: i32, ThreadInformation: *mut c_void, ThreadInformationLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks about a thread.
    fn ZwQueryInformationThread(ThreadHandle: HANDLE, ThreadInformationClass: i32, ThreadInformation: *mut c_void, ThreadInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// The priority of a thread.
    fn KeQueryPriorityThread(Thread: *mut c_void) -> KPRIORITY where irql == PASSIVE_LEVEL;
    /// Sets the priority of a thread relative to its process's; returns the former increment.
    fn KeSetBasePriorityThread(Thread: *mut c_void, Increment: i32) -> i32 where irql == PASSIVE_LEVEL;
}
