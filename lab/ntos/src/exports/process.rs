//! `Ps…`, `Zw…`: processes and threads.
#![expect(non_upper_case_globals, reason = "constants of the WDK in patterns")]
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::{exports, kernel_addresses};
use crate::guest::{self, get};
use crate::machine::Machine;
use crate::machine::current;
use crate::machine::thread_id;
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::resources::Held;
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{ACCESS_MASK, BOOLEAN, HANDLE, LARGE_INTEGER, OBJECT_ATTRIBUTES, UNICODE_STRING};
use nt::ke::KPRIORITY;
use nt::process::{
    CLIENT_ID, PCREATE_PROCESS_NOTIFY_ROUTINE_EX, PROCESS_BASIC_INFORMATION,
    ProcessBasicInformation, ProcessImageFileName, ProcessWow64Information,
};
use nt::ps::PLOAD_IMAGE_NOTIFY_ROUTINE;
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_INFO_LENGTH_MISMATCH, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_CID, STATUS_INVALID_INFO_CLASS, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_PARAMETER_MIX, STATUS_PENDING, STATUS_SUCCESS,
};
use std::ffi::c_void;
use std::ptr;

exports! {
    process;

    fn ZwOpenProcess(ProcessHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, _ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS {
        kernel_addresses!(ProcessHandle, ClientId);
        current().open_process(ProcessHandle, ClientId)
    }
    fn NtOpenProcess(ProcessHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, _ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS { current().open_process(ProcessHandle, ClientId) }
    fn ZwOpenThread(ThreadHandle: *mut HANDLE, _DesiredAccess: ACCESS_MASK, _ObjectAttributes: *mut OBJECT_ATTRIBUTES, ClientId: *mut CLIENT_ID) -> NTSTATUS {
        kernel_addresses!(ThreadHandle, ClientId);
        let machine = current();
        let Some(thread) = machine.thread_by_id(get!(ClientId, UniqueThread) as u64) else { return STATUS_INVALID_CID };
        machine.open_object(thread, ThreadHandle)
    }
    fn ZwQueryInformationProcess(ProcessHandle: HANDLE, ProcessInformationClass: i32, ProcessInformation: *mut c_void, ProcessInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(ProcessInformation, ReturnLength);
        current().query_process(ProcessHandle, ProcessInformationClass, ProcessInformation, ProcessInformationLength, ReturnLength)
    }
    fn NtQueryInformationProcess(ProcessHandle: HANDLE, ProcessInformationClass: i32, ProcessInformation: *mut c_void, ProcessInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS { current().query_process(ProcessHandle, ProcessInformationClass, ProcessInformation, ProcessInformationLength, ReturnLength) }
    fn ZwTerminateProcess(ProcessHandle: HANDLE, _ExitStatus: NTSTATUS) -> NTSTATUS {
        // Null is the current one, as the native call has it.
        let handle = if ProcessHandle.is_null() { u64::MAX } else { ProcessHandle as u64 };
        current().resolve_handle(handle, Some(Kind::Process)).err().unwrap_or(STATUS_ACCESS_DENIED)
    }
    fn PsLookupThreadByThreadId(ThreadId: HANDLE, Thread: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        let Some(thread) = machine.thread_by_id(ThreadId as u64) else { return STATUS_INVALID_PARAMETER };
        machine.objects.borrow_mut().reference(thread, machine.call_site());
        guest::write(Thread, thread as *mut c_void);
        STATUS_SUCCESS
    }
    fn IoThreadToProcess(Thread: *mut c_void) -> *mut c_void { current().process_of_thread(Thread) }
    fn PsGetThreadProcess(Thread: *mut c_void) -> *mut c_void { current().process_of_thread(Thread) }
    fn PsGetThreadId(Thread: *mut c_void) -> HANDLE {
        let machine = current();
        thread_id(machine.known_thread(Thread)) as HANDLE
    }
    fn PsGetThreadProcessId(Thread: *mut c_void) -> HANDLE {
        let machine = current();
        machine.process_id(machine.process_of_thread(Thread) as u64).unwrap_or(0) as HANDLE
    }
    fn PsIsSystemThread(Thread: *mut c_void) -> BOOLEAN {
        let machine = current();
        u8::from(machine.thread(machine.known_thread(Thread)).is_system_thread.get())
    }
    fn PsIsThreadTerminating(Thread: *mut c_void) -> BOOLEAN {
        current().known_thread(Thread);
        0
    }
    fn PsGetCurrentProcess() -> *mut c_void { current().current_process() as *mut c_void }
    fn PsGetCurrentThread() -> *mut c_void { current().current_thread_object() as *mut c_void }
    fn PsGetProcessImageFileName(Process: *mut c_void) -> *mut u8 {
        current().check_process(Process as u64);
        Process.cast::<u8>().wrapping_add(crate::process::IMAGE_NAME)
    }
    fn PsGetProcessPeb(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetProcessSectionBaseAddress(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetProcessWow64Process(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetProcessWin32Process(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetProcessJob(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetProcessDebugPort(Process: *mut c_void) -> *mut c_void { current().nothing_of(Process) }
    fn PsGetThreadWin32Thread(Thread: *mut c_void) -> *mut c_void {
        current().known_thread(Thread);
        ptr::null_mut()
    }
    fn PsGetProcessInheritedFromUniqueProcessId(Process: *mut c_void) -> HANDLE {
        current().check_process(Process as u64);
        PARENT as HANDLE
    }
    fn PsGetCurrentProcessSessionId() -> u32 { 0 }
    fn PsGetProcessSessionId(Process: *mut c_void) -> u32 {
        current().check_process(Process as u64);
        0
    }
    fn PsGetProcessCreateTimeQuadPart(Process: *mut c_void) -> LARGE_INTEGER {
        let machine = current();
        machine.check_process(Process as u64);
        let processes = machine.processes.borrow();
        processes.iter().find(|process| process.address == Process as u64).map_or(0, |process| process.started)
    }
    fn PsGetProcessExitTime() -> LARGE_INTEGER { 0 }
    fn PsGetProcessExitStatus(Process: *mut c_void) -> NTSTATUS {
        current().check_process(Process as u64);
        STATUS_PENDING
    }
    fn PsAcquireProcessExitSynchronization(Process: *mut c_void) -> NTSTATUS {
        current().check_process(Process as u64);
        STATUS_SUCCESS
    }
    fn PsReleaseProcessExitSynchronization(Process: *mut c_void) { current().check_process(Process as u64) }
    fn KeAttachProcess(Process: *mut c_void) {
        let machine = current();
        machine.check_process(Process as u64);
        let thread = machine.current_thread_object();
        let (site, home) = (machine.call_site(), machine.current_process());
        machine.resources.borrow_mut().hold(Held::AttachedProcess, thread, site);
        machine.services.borrow_mut().attached_from.insert(thread, home);
        machine.enter_process(Process as u64);
    }
    fn KeDetachProcess() {
        let machine = current();
        let thread = machine.current_thread_object();
        machine.must_hold(Held::AttachedProcess, thread);
        let home = machine.services.borrow_mut().attached_from.remove(&thread);
        machine.enter_process(home.unwrap_or_default());
    }
    fn PsSetCreateProcessNotifyRoutineEx(NotifyRoutine: PCREATE_PROCESS_NOTIFY_ROUTINE_EX, Remove: BOOLEAN) -> NTSTATUS { current().set_process_notify(NotifyRoutine as usize as u64, Remove != 0) }
    fn PsSetCreateProcessNotifyRoutineEx2(NotifyType: i32, NotifyInformation: *mut c_void, Remove: BOOLEAN) -> NTSTATUS {
        if NotifyType != 0 {
            return STATUS_INVALID_PARAMETER;
        }
        current().set_process_notify(NotifyInformation as u64, Remove != 0)
    }
    fn PsSetLoadImageNotifyRoutineEx(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE, _Flags: usize) -> NTSTATUS { current().add_notify(Held::ImageNotifyRoutine, NotifyRoutine as usize as u64) }
    fn ZwSetInformationThread(ThreadHandle: HANDLE, ThreadInformationClass: i32, _ThreadInformation: *mut c_void, ThreadInformationLength: u32) -> NTSTATUS {
        if let Err(status) = current().resolve_handle(ThreadHandle as u64, Some(Kind::Thread)) {
            return status;
        }
        match (ThreadInformationClass, ThreadInformationLength) {
            // ThreadPriority and ThreadBasePriority; ThreadAffinityMask; ThreadHideFromDebugger.
            (2 | 3, 4) | (4, 8) | (17, 0) => STATUS_SUCCESS,
            (2..=4 | 17, _) => STATUS_INFO_LENGTH_MISMATCH,
            _ => STATUS_INVALID_INFO_CLASS,
        }
    }
    fn ZwQueryInformationThread(ThreadHandle: HANDLE, ThreadInformationClass: i32, ThreadInformation: *mut c_void, ThreadInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(ThreadInformation, ReturnLength);
        current().query_thread(ThreadHandle, ThreadInformationClass, ThreadInformation, ThreadInformationLength, ReturnLength)
    }
    fn KeQueryPriorityThread(Thread: *mut c_void) -> KPRIORITY {
        let machine = current();
        machine.thread(machine.known_thread(Thread)).priority.get()
    }
    fn KeSetBasePriorityThread(Thread: *mut c_void, Increment: i32) -> i32 {
        let machine = current();
        let thread = machine.thread(machine.known_thread(Thread));
        thread.priority.replace(BASE_PRIORITY + Increment) - BASE_PRIORITY
    }
}

/// Id of the process that every client counts as started by.
const PARENT: u64 = SYSTEM_PROCESS;
/// Priority of a process's threads.
const BASE_PRIORITY: i32 = 8;
/// `IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY`.
const FORCE_INTEGRITY: u16 = 0x80;

/// Writes an answer of a fixed length.
fn answer<T>(value: T, to: *mut c_void, len: u32, needed: *mut u32) -> NTSTATUS {
    let size = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    if !needed.is_null() {
        guest::write(needed, size);
    }
    if len != size {
        return STATUS_INFO_LENGTH_MISMATCH;
    }
    guest::write(to.cast(), value);
    STATUS_SUCCESS
}

impl Machine {
    /// Opens a handle of the driver's to an object.
    pub(super) fn open_object(&self, object: u64, to: *mut HANDLE) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let site = self.call_site();
        match self.objects.borrow_mut().open(object, site) {
            Some(handle) => {
                guest::write(to, handle as HANDLE);
                STATUS_SUCCESS
            }
            None => STATUS_INSUFFICIENT_RESOURCES,
        }
    }

    fn open_process(&self, to: *mut HANDLE, client: *mut CLIENT_ID) -> NTSTATUS {
        if client.is_null() {
            return STATUS_INVALID_PARAMETER_MIX;
        }
        let id = get!(client, UniqueProcess) as u64;
        let found = self
            .processes
            .borrow()
            .iter()
            .find(|process| process.id == id)
            .map(|process| process.address);
        match found {
            Some(process) => self.open_object(process, to),
            None => STATUS_INVALID_CID,
        }
    }

    /// The thread object with an id.
    fn thread_by_id(&self, id: u64) -> Option<u64> {
        let index = guest::size(id.checked_div(4)?.checked_sub(1)?);
        let known = id.is_multiple_of(4) && index < self.thread_count();
        known.then(|| self.thread(crate::sched::ThreadId(index)).object.get())
    }

    fn known_thread(&self, thread: *mut c_void) -> crate::sched::ThreadId {
        self.thread_at(thread as u64).unwrap_or_else(|| {
            self.violate(
                RuleId::BadObject,
                [thread as u64, 0, 0, 0],
                "not a thread".into(),
            )
        })
    }

    fn process_of_thread(&self, thread: *mut c_void) -> *mut c_void {
        self.thread(self.known_thread(thread)).process.get() as *mut c_void
    }

    /// What no process of the lab has.
    fn nothing_of(&self, process: *mut c_void) -> *mut c_void {
        self.check_process(process as u64);
        ptr::null_mut()
    }

    fn query_process(
        &self,
        handle: HANDLE,
        class: i32,
        to: *mut c_void,
        len: u32,
        needed: *mut u32,
    ) -> NTSTATUS {
        let process = match self.resolve_handle(handle as u64, Some(Kind::Process)) {
            Ok(process) => process,
            Err(status) => return status,
        };
        let id = self.process_id(process).unwrap_or(0);
        match class {
            ProcessBasicInformation => answer(
                PROCESS_BASIC_INFORMATION {
                    ExitStatus: STATUS_PENDING,
                    PebBaseAddress: ptr::null_mut(),
                    AffinityMask: self.group_mask(0),
                    BasePriority: BASE_PRIORITY,
                    UniqueProcessId: guest::size(id),
                    InheritedFromUniqueProcessId: if id == SYSTEM_PROCESS {
                        0
                    } else {
                        guest::size(PARENT)
                    },
                },
                to,
                len,
                needed,
            ),
            ProcessWow64Information => answer(0usize, to, len, needed),
            ProcessImageFileName => self.deliver_string(&self.process_path(id), to, len, needed),
            _ => STATUS_INVALID_INFO_CLASS,
        }
    }

    /// Writes a counted string and its characters behind it.
    pub(super) fn deliver_string(
        &self,
        text: &str,
        to: *mut c_void,
        len: u32,
        needed: *mut u32,
    ) -> NTSTATUS {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let header = size_of::<UNICODE_STRING>();
        let total = header + 2 * units.len();
        if !needed.is_null() {
            guest::write(needed, u32::try_from(total).unwrap_or(u32::MAX));
        }
        if (len as usize) < total {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        let buffer = to.wrapping_byte_add(header).cast::<u16>();
        for (index, unit) in units.iter().enumerate() {
            guest::write(buffer.wrapping_add(index), *unit);
        }
        let bytes = u16::try_from(2 * units.len()).unwrap_or(u16::MAX);
        let string = UNICODE_STRING {
            Length: bytes - 2,
            MaximumLength: bytes,
            Buffer: buffer,
        };
        guest::write(to.cast(), string);
        STATUS_SUCCESS
    }

    fn query_thread(
        &self,
        handle: HANDLE,
        class: i32,
        to: *mut c_void,
        len: u32,
        needed: *mut u32,
    ) -> NTSTATUS {
        /// `THREAD_BASIC_INFORMATION`.
        #[repr(C)]
        struct Basic {
            status: NTSTATUS,
            teb: u64,
            client: CLIENT_ID,
            affinity: usize,
            priority: i32,
            base_priority: i32,
        }
        let object = match self.resolve_handle(handle as u64, Some(Kind::Thread)) {
            Ok(object) => object,
            Err(status) => return status,
        };
        let id = self.known_thread(object as *mut c_void);
        let thread = self.thread(id);
        match class {
            0 => {
                let process = self.process_id(thread.process.get()).unwrap_or(0);
                let basic = Basic {
                    status: STATUS_PENDING,
                    teb: 0,
                    client: CLIENT_ID {
                        UniqueProcess: guest::size(process),
                        UniqueThread: guest::size(thread_id(id)),
                    },
                    affinity: self.group_mask(0),
                    priority: thread.priority.get(),
                    base_priority: BASE_PRIORITY,
                };
                answer(basic, to, len, needed)
            }
            _ => STATUS_INVALID_INFO_CLASS,
        }
    }

    fn set_process_notify(&self, routine: u64, remove: bool) -> NTSTATUS {
        if remove {
            return self.remove_notify(Held::ProcessNotifyRoutineEx, routine);
        }
        if !self.is_integrity_checked(routine) {
            return STATUS_ACCESS_DENIED;
        }
        self.add_notify(Held::ProcessNotifyRoutineEx, routine)
    }

    /// Whether an address is in an image whose signature is always checked.
    pub(super) fn is_integrity_checked(&self, address: u64) -> bool {
        let checked = self.with_module(address, |module| {
            module.image.image().header().dll_characteristics & FORCE_INTEGRITY != 0
        });
        checked == Some(true)
    }
}
