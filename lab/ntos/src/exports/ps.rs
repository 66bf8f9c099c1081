//! `Ps…`: processes and threads.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::{HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use nt::ps::{
    KSTART_ROUTINE, PCREATE_PROCESS_NOTIFY_ROUTINE, PCREATE_THREAD_NOTIFY_ROUTINE,
    PLOAD_IMAGE_NOTIFY_ROUTINE,
};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_PROCEDURE_NOT_FOUND,
    STATUS_SUCCESS,
};

use super::exports;
use crate::guest::{self, set};
use crate::machine::{Machine, current};
use crate::process::SYSTEM_PROCESS;
use crate::resources::Held;
use crate::sched::{Job, State, ThreadId};

/// Notify routines of a kind, at most (64 since Windows 7).
const MAX_NOTIFY_ROUTINES: usize = 64;

exports! {
    ps;

    fn PsCreateSystemThread(ThreadHandle: *mut HANDLE, _DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES, _ProcessHandle: HANDLE, _ClientId: *mut c_void, StartRoutine: KSTART_ROUTINE, StartContext: *mut c_void) -> NTSTATUS {
        let machine = current();
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let user = machine.opens_for_user(Machine::attributes_of(ObjectAttributes));
        match machine.create_system_thread(StartRoutine as usize as u64, StartContext as u64, user) {
            Ok(handle) => {
                guest::write(ThreadHandle, handle as HANDLE);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn PsTerminateSystemThread(_ExitStatus: NTSTATUS) -> NTSTATUS {
        let machine = current();
        let Some(id) = machine.running.get().filter(|id| machine.thread(*id).is_system_thread.get()) else {
            return STATUS_INVALID_PARAMETER;
        };
        machine.check_thread_end(id);
        machine.end_system_thread(id);
        machine.abandon_fiber(id)
    }
    fn PsGetCurrentProcessId() -> HANDLE {
        let machine = current();
        let process = || machine.process_id(machine.current_process()).unwrap_or(SYSTEM_PROCESS);
        machine.interrupted_program().map_or_else(process, |program| program.process) as HANDLE
    }
    fn PsGetCurrentThreadId() -> HANDLE {
        let machine = current();
        machine.interrupted_program().map_or_else(|| machine.current_thread_id(), |program| program.thread) as HANDLE
    }
    fn PsGetProcessId(Process: *mut c_void) -> HANDLE { current().process_id(Process as u64).unwrap_or(0) as HANDLE }
    fn PsLookupProcessByProcessId(ProcessId: HANDLE, Process: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        let site = machine.call_site();
        let found = machine.processes.borrow().iter().find(|process| process.id == ProcessId as u64).map(|process| process.address);
        match found {
            Some(address) => {
                machine.objects.borrow_mut().reference(address, site);
                guest::write(Process, address as *mut c_void);
                STATUS_SUCCESS
            }
            None => STATUS_INVALID_PARAMETER,
        }
    }
    fn PsSetCreateProcessNotifyRoutine(NotifyRoutine: PCREATE_PROCESS_NOTIFY_ROUTINE, Remove: u8) -> NTSTATUS {
        let routine = NotifyRoutine as usize as u64;
        if Remove != 0 {
            current().remove_notify(Held::ProcessNotifyRoutine, routine)
        } else {
            current().add_notify(Held::ProcessNotifyRoutine, routine)
        }
    }
    fn PsSetCreateThreadNotifyRoutine(NotifyRoutine: PCREATE_THREAD_NOTIFY_ROUTINE) -> NTSTATUS {
        current().add_notify(Held::ThreadNotifyRoutine, NotifyRoutine as usize as u64)
    }
    fn PsRemoveCreateThreadNotifyRoutine(NotifyRoutine: PCREATE_THREAD_NOTIFY_ROUTINE) -> NTSTATUS {
        current().remove_notify(Held::ThreadNotifyRoutine, NotifyRoutine as usize as u64)
    }
    fn PsSetLoadImageNotifyRoutine(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE) -> NTSTATUS {
        current().add_notify(Held::ImageNotifyRoutine, NotifyRoutine as usize as u64)
    }
    fn PsRemoveLoadImageNotifyRoutine(NotifyRoutine: PLOAD_IMAGE_NOTIFY_ROUTINE) -> NTSTATUS {
        current().remove_notify(Held::ImageNotifyRoutine, NotifyRoutine as usize as u64)
    }
    fn PsGetVersion(MajorVersion: *mut u32, MinorVersion: *mut u32, BuildNumber: *mut u32, _CSDVersion: *mut UNICODE_STRING) -> u8 {
        for (place, value) in [(MajorVersion, 10), (MinorVersion, 0), (BuildNumber, crate::shared_page::BUILD)] {
            if !place.is_null() {
                guest::write(place, value);
            }
        }
        0
    }
}

impl Machine {
    /// Adds a notify routine; at most as many of a kind as Windows takes.
    pub(super) fn add_notify(&self, kind: Held, routine: u64) -> NTSTATUS {
        let full = {
            let resources = self.resources.borrow();
            resources.held(kind).count() >= MAX_NOTIFY_ROUTINES || resources.holds(kind, routine)
        };
        if full {
            return STATUS_INVALID_PARAMETER;
        }
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        resources.hold(kind, routine, site);
        STATUS_SUCCESS
    }

    pub(super) fn remove_notify(&self, kind: Held, routine: u64) -> NTSTATUS {
        if self.resources.borrow_mut().drop_held(kind, routine) {
            STATUS_SUCCESS
        } else {
            STATUS_PROCEDURE_NOT_FOUND
        }
    }

    fn create_system_thread(
        &self,
        function: u64,
        context: u64,
        user: bool,
    ) -> Result<u64, NTSTATUS> {
        let process = self.process(SYSTEM_PROCESS)?;
        let id = self.free_thread(process)?;
        let thread = self.thread(id);
        thread.is_system_thread.set(true);
        let object = thread.object.get();
        set!(object as *mut nt::ke::DISPATCHER_HEADER, SignalState = 0);
        let site = self.call_site();
        let handle = self
            .objects
            .borrow_mut()
            .open_for(object, site, user)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        self.start(
            id,
            Job::Call {
                function,
                args: [context, 0, 0, 0],
            },
        );
        self.request_schedule();
        self.tell_of_thread(id, true);
        Ok(handle)
    }

    /// Tells of a thread that a driver makes or that ends, on the thread that runs.
    fn tell_of_thread(&self, id: ThreadId, starts: bool) {
        let routines: Vec<u64> = self
            .resources
            .borrow()
            .held(Held::ThreadNotifyRoutine)
            .collect();
        let thread = crate::machine::thread_id(id);
        for routine in routines {
            self.call(routine, [SYSTEM_PROCESS, thread, u64::from(starts), 0]);
        }
    }

    /// Signals a thread's object and, if nobody refers to it, lets the thread be used again.
    pub(crate) fn end_system_thread(&self, id: ThreadId) {
        self.tell_of_thread(id, false);
        let thread = self.thread(id);
        thread.state.set(State::Free);
        let object = thread.object.get();
        self.signal(object, 1);
        let references = self
            .objects
            .borrow()
            .get(object)
            .map_or(0, |object| object.references);
        if references <= 1 {
            self.retire_thread(id);
        }
    }

    /// Makes an ended system thread an ordinary free one.
    pub(crate) fn retire_thread(&self, id: ThreadId) {
        let thread = self.thread(id);
        thread.is_system_thread.set(false);
        set!(
            thread.object.get() as *mut nt::ke::DISPATCHER_HEADER,
            SignalState = 0
        );
        self.reuse_thread(id);
    }
}
