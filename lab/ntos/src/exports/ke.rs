//! `Ke…`: IRQL, locks, DPCs, timers, dispatcher objects, processors.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

mod irql;
mod processor;

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{GROUP_AFFINITY, HANDLE, PROCESSOR_NUMBER};
use nt::ke::{
    DISPATCH_LEVEL, EVENT_NOTIFICATION_OBJECT, EVENT_SYNCHRONIZATION_OBJECT, IPI_LEVEL, KAFFINITY,
    KAPC_STATE, KDEFERRED_ROUTINE, KDPC, KEVENT, KIPI_BROADCAST_WORKER, KIRQL, KMUTANT, KPRIORITY,
    KSEMAPHORE, KSPIN_LOCK, KTIMER, MUTANT_OBJECT, SEMAPHORE_OBJECT, THREAD_WAIT_OBJECTS,
    TIMER_NOTIFICATION_OBJECT, TIMER_SYNCHRONIZATION_OBJECT,
};
use nt::status::{STATUS_INVALID_PARAMETER, STATUS_SEMAPHORE_LIMIT_EXCEEDED, STATUS_SUCCESS};

use super::exports;
use crate::dpc::TARGET_BIAS;
use crate::guest::{self, field, get, set};
use crate::locks::{How, Kind, Region};
use crate::machine::{current, thread_id};
use crate::resources::Held;
use crate::wait::Timeout;

exports! {
    ke;

    fn KeGetCurrentIrql() -> KIRQL { current().irql() }
    fn KfRaiseIrql(NewIrql: KIRQL) -> KIRQL { current().raise(NewIrql) }
    fn KeRaiseIrqlToDpcLevel() -> KIRQL { current().raise(DISPATCH_LEVEL) }
    fn KeLowerIrql(NewIrql: KIRQL) { current().lower(NewIrql) }
    fn KeInitializeSpinLock(SpinLock: *mut KSPIN_LOCK) { guest::write(SpinLock, 0) }
    fn KeAcquireSpinLockRaiseToDpc(SpinLock: *mut KSPIN_LOCK) -> KIRQL {
        let machine = current();
        machine.check_raising(SpinLock as u64);
        let old = machine.irql();
        machine.set_irql(old.max(DISPATCH_LEVEL));
        machine.acquire_spin(SpinLock, How::Raising);
        old
    }
    fn KeReleaseSpinLock(SpinLock: *mut KSPIN_LOCK, NewIrql: KIRQL) {
        let machine = current();
        machine.check_release_irql(SpinLock as u64, How::Raising);
        machine.release_spin(SpinLock, How::Raising);
        machine.lower(NewIrql);
    }
    fn KeAcquireSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK) {
        current().check_at_dpc(SpinLock as u64);
        current().acquire_spin(SpinLock, How::AtDpc);
    }
    fn KeReleaseSpinLockFromDpcLevel(SpinLock: *mut KSPIN_LOCK) {
        current().check_release_irql(SpinLock as u64, How::AtDpc);
        current().release_spin(SpinLock, How::AtDpc);
    }
    fn KeTryToAcquireSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK) -> u8 {
        u8::from(current().try_acquire(SpinLock))
    }

    fn KeInitializeDpc(Dpc: *mut KDPC, DeferredRoutine: KDEFERRED_ROUTINE, DeferredContext: *mut c_void) {
        guest::set_bytes(Dpc.cast(), 0, size_of::<KDPC>());
        set!(Dpc, Type = nt::ke::DPC_OBJECT);
        set!(Dpc, Importance = 1u8);
        set!(Dpc, DeferredRoutine = Some(DeferredRoutine));
        set!(Dpc, DeferredContext = DeferredContext);
    }
    fn KeInsertQueueDpc(Dpc: *mut KDPC, SystemArgument1: *mut c_void, SystemArgument2: *mut c_void) -> u8 {
        let machine = current();
        if !machine.is_dpc(Dpc as u64) {
            return 0;
        }
        let cpu = machine.current_cpu.get();
        u8::from(machine.queue_dpc(Dpc as u64, cpu, SystemArgument1 as u64, SystemArgument2 as u64))
    }
    fn KeRemoveQueueDpc(Dpc: *mut KDPC) -> u8 { u8::from(current().remove_dpc(Dpc as u64)) }
    fn KeSetTargetProcessorDpc(Dpc: *mut KDPC, Number: i8) {
        set!(Dpc, Number = TARGET_BIAS + u16::from(Number.cast_unsigned()));
    }
    fn KeSetTargetProcessorDpcEx(Dpc: *mut KDPC, ProcNumber: *mut PROCESSOR_NUMBER) -> NTSTATUS {
        match current().index_of(guest::read(ProcNumber)) {
            Some(index) => {
                set!(Dpc, Number = TARGET_BIAS + u16::try_from(index).unwrap_or(0));
                STATUS_SUCCESS
            }
            None => STATUS_INVALID_PARAMETER,
        }
    }
    fn KeSetImportanceDpc(Dpc: *mut KDPC, Importance: i32) {
        set!(Dpc, Importance = u8::try_from(Importance).unwrap_or(1));
    }
    fn KeFlushQueuedDpcs() {
        current().flush_dpcs();
    }

    fn KeInitializeTimer(Timer: *mut KTIMER) { initialize_timer(Timer, TIMER_NOTIFICATION_OBJECT) }
    fn KeInitializeTimerEx(Timer: *mut KTIMER, Type: i32) {
        initialize_timer(Timer, if Type == 0 { TIMER_NOTIFICATION_OBJECT } else { TIMER_SYNCHRONIZATION_OBJECT });
    }
    fn KeSetTimer(Timer: *mut KTIMER, DueTime: i64, Dpc: *mut KDPC) -> u8 {
        u8::from(current().set_driver_timer(Timer as u64, DueTime, 0, Dpc as u64))
    }
    fn KeSetTimerEx(Timer: *mut KTIMER, DueTime: i64, Period: i32, Dpc: *mut KDPC) -> u8 {
        u8::from(current().set_driver_timer(Timer as u64, DueTime, Period.max(0).cast_unsigned(), Dpc as u64))
    }
    fn KeSetCoalescableTimer(Timer: *mut KTIMER, DueTime: i64, Period: u32, _TolerableDelay: u32, Dpc: *mut KDPC) -> u8 {
        u8::from(current().set_driver_timer(Timer as u64, DueTime, Period, Dpc as u64))
    }
    fn KeCancelTimer(Timer: *mut KTIMER) -> u8 { u8::from(current().timers.borrow_mut().cancel(Timer as u64)) }
    fn KeReadStateTimer(Timer: *mut KTIMER) -> u8 { u8::from(get!(Timer, Header.SignalState) != 0) }

    fn KeInitializeEvent(Event: *mut KEVENT, Type: i32, State: u8) {
        let kind = if Type == 0 { EVENT_NOTIFICATION_OBJECT } else { EVENT_SYNCHRONIZATION_OBJECT };
        initialize_header(Event.cast(), kind, size_of::<KEVENT>(), i32::from(State != 0));
    }
    fn KeSetEvent(Event: *mut KEVENT, _Increment: KPRIORITY, _Wait: u8) -> i32 {
        current().check_dispatcher(Event as u64);
        current().signal(Event as u64, 1)
    }
    fn KeClearEvent(Event: *mut KEVENT) { set!(Event, Header.SignalState = 0) }
    fn KeResetEvent(Event: *mut KEVENT) -> i32 {
        let old = get!(Event, Header.SignalState);
        set!(Event, Header.SignalState = 0);
        old
    }
    fn KeReadStateEvent(Event: *mut KEVENT) -> i32 { get!(Event, Header.SignalState) }
    fn KeInitializeSemaphore(Semaphore: *mut KSEMAPHORE, Count: i32, Limit: i32) {
        initialize_header(Semaphore.cast(), SEMAPHORE_OBJECT, size_of::<KSEMAPHORE>(), Count);
        set!(Semaphore, Limit = Limit);
    }
    fn KeReleaseSemaphore(Semaphore: *mut KSEMAPHORE, _Increment: KPRIORITY, Adjustment: i32, _Wait: u8) -> i32 {
        current().check_dispatcher(Semaphore as u64);
        let count = get!(Semaphore, Header.SignalState);
        let sum = count.checked_add(Adjustment).filter(|sum| *sum <= get!(Semaphore, Limit) && *sum >= count);
        match sum {
            Some(sum) => current().signal(Semaphore as u64, sum),
            None => current().refuse_release(Semaphore),
        }
    }
    fn KeInitializeMutex(Mutex: *mut KMUTANT, _Level: u32) {
        guest::set_bytes(Mutex.cast(), 0, size_of::<KMUTANT>());
        initialize_header(Mutex.cast(), MUTANT_OBJECT, size_of::<KMUTANT>(), 1);
        set!(Mutex, ApcDisable = 1u8);
    }
    fn KeReleaseMutex(Mutex: *mut KMUTANT, _Wait: u8) -> i32 {
        let machine = current();
        machine.check_dispatcher(Mutex as u64);
        let thread = machine.current_thread_object();
        let state = get!(Mutex, Header.SignalState);
        if get!(Mutex, OwnerThread) as u64 != thread {
            machine.report_not_owned(Mutex as u64, Kind::Mutex);
            return state;
        }
        machine.lock_released(Mutex as u64);
        if state == 0 {
            set!(Mutex, OwnerThread = ptr::null_mut());
        }
        machine.signal(Mutex as u64, state + 1)
    }
    fn KeWaitForSingleObject(Object: *mut c_void, _WaitReason: i32, WaitMode: i8, _Alertable: u8, Timeout: *const i64) -> NTSTATUS {
        let machine = current();
        machine.check_waited(&[Object as u64]);
        machine.check_wait_mode(&[Object as u64], WaitMode);
        machine.wait(&[Object as u64], false, machine.timeout(Timeout))
    }
    fn KeWaitForMultipleObjects(Count: u32, Object: *mut *mut c_void, WaitType: i32, _WaitReason: i32, WaitMode: i8, _Alertable: u8, Timeout: *const i64, WaitBlockArray: *mut c_void) -> NTSTATUS {
        let machine = current();
        let limit = if WaitBlockArray.is_null() { THREAD_WAIT_OBJECTS } else { nt::ke::MAXIMUM_WAIT_OBJECTS };
        if Count == 0 || Count > limit {
            machine.violate(RuleId::BadObject, [u64::from(Count), 0, 0, 0], format!("a wait for {Count} objects; at most {limit} are allowed here"));
        }
        let objects: Vec<u64> = (0..Count as usize).map(|index| guest::read(Object.wrapping_add(index)) as u64).collect();
        machine.check_waited(&objects);
        machine.check_wait_mode(&objects, WaitMode);
        machine.wait(&objects, WaitType == nt::ke::WaitAll, machine.timeout(Timeout))
    }
    fn KeDelayExecutionThread(_WaitMode: i8, _Alertable: u8, Interval: *const i64) -> NTSTATUS {
        let machine = current();
        machine.delay(match guest::read(Interval) {
            0 => Timeout::Now,
            due => Timeout::At(machine.due_ns(due)),
        })
    }
    fn KeStallExecutionProcessor(MicroSeconds: u32) {
        let machine = current();
        machine.clock.advance(u64::from(MicroSeconds) * 1000);
        machine.yield_while_busy();
    }

    fn KeQueryPerformanceCounter(PerformanceFrequency: *mut i64) -> i64 {
        if !PerformanceFrequency.is_null() {
            guest::write(PerformanceFrequency, 10_000_000);
        }
        (current().clock.read_ns() / 100).cast_signed()
    }
    fn KeQueryInterruptTime() -> u64 { current().clock.now_ns() / 100 }
    fn KeQueryInterruptTimePrecise(QpcTimeStamp: *mut u64) -> u64 {
        let now = current().clock.read_ns() / 100;
        guest::write(QpcTimeStamp, now);
        now
    }
    fn KeQuerySystemTimePrecise(CurrentTime: *mut i64) { guest::write(CurrentTime, current().clock.filetime().cast_signed()) }
    fn KeQuerySystemTime(CurrentTime: *mut i64) { guest::write(CurrentTime, current().clock.filetime().cast_signed()) }
    fn KeQueryTimeIncrement() -> u32 { 156_250 }

    fn KeQueryActiveProcessors() -> KAFFINITY { current().group_mask(0) }
    fn KeQueryActiveProcessorCount(ActiveProcessors: *mut KAFFINITY) -> u32 {
        let mask = current().group_mask(0);
        if !ActiveProcessors.is_null() {
            guest::write(ActiveProcessors, mask);
        }
        mask.count_ones()
    }
    fn KeQueryActiveProcessorCountEx(GroupNumber: u16) -> u32 { current().processors_in(GroupNumber) }
    fn KeQueryMaximumProcessorCountEx(GroupNumber: u16) -> u32 { current().processors_in(GroupNumber) }
    fn KeQueryActiveGroupCount() -> u16 { u16::try_from(current().cpu_count().div_ceil(64)).unwrap_or(0) }
    fn KeQueryGroupAffinity(GroupNumber: u16) -> KAFFINITY { current().group_mask(GroupNumber) }
    fn KeGetProcessorNumberFromIndex(ProcIndex: u32, ProcNumber: *mut PROCESSOR_NUMBER) -> NTSTATUS {
        if ProcIndex as usize >= current().cpu_count() {
            return STATUS_INVALID_PARAMETER;
        }
        guest::write(ProcNumber, number_of(ProcIndex));
        STATUS_SUCCESS
    }
    fn KeGetProcessorIndexFromNumber(ProcNumber: *mut PROCESSOR_NUMBER) -> u32 {
        current().index_of(guest::read(ProcNumber)).map_or(u32::MAX, |index| u32::try_from(index).unwrap_or(u32::MAX))
    }
    fn KeGetCurrentProcessorNumberEx(ProcNumber: *mut PROCESSOR_NUMBER) -> u32 {
        let index = u32::try_from(current().current_cpu.get()).unwrap_or(0);
        if !ProcNumber.is_null() {
            guest::write(ProcNumber, number_of(index));
        }
        index
    }
    fn KeSetSystemAffinityThread(Affinity: KAFFINITY) { current().set_affinity(0, Affinity as u64); }
    fn KeRevertToUserAffinityThread() { current().clear_affinity() }
    fn KeSetSystemAffinityThreadEx(Affinity: KAFFINITY) -> KAFFINITY { usize::try_from(current().set_affinity(0, Affinity as u64).Mask).unwrap_or(0) }
    fn KeRevertToUserAffinityThreadEx(Affinity: KAFFINITY) { current().restore_affinity(GROUP_AFFINITY { Mask: Affinity as u64, ..GROUP_AFFINITY::default() }) }
    fn KeSetSystemGroupAffinityThread(Affinity: *mut GROUP_AFFINITY, PreviousAffinity: *mut GROUP_AFFINITY) {
        let wanted = guest::read(Affinity);
        let previous = current().set_affinity(wanted.Group, wanted.Mask);
        if !PreviousAffinity.is_null() {
            guest::write(PreviousAffinity, previous);
        }
    }
    fn KeRevertToUserGroupAffinityThread(PreviousAffinity: *mut GROUP_AFFINITY) {
        current().restore_affinity(guest::read(PreviousAffinity));
    }
    fn KeIpiGenericCall(BroadcastFunction: KIPI_BROADCAST_WORKER, Context: usize) -> usize {
        let machine = current();
        let old = machine.raise(IPI_LEVEL);
        let mine = machine.current_cpu.get();
        machine.close_gate();
        let mut result = 0;
        for cpu in 0..machine.cpu_count() {
            let value = machine.call_on(cpu, BroadcastFunction as usize as u64, [Context as u64, 0, 0, 0]);
            if cpu == mine {
                result = value;
            }
        }
        machine.open_gate();
        machine.lower(old);
        usize::try_from(result).unwrap_or(0)
    }
    fn KeEnterCriticalRegion() { current().enter_region(Region::Critical) }
    fn KeLeaveCriticalRegion() { current().leave_region(Region::Critical) }
    fn KeSetPriorityThread(Thread: *mut c_void, Priority: KPRIORITY) -> KPRIORITY {
        let machine = current();
        match machine.thread_at(Thread as u64) {
            Some(id) => machine.thread(id).priority.replace(Priority),
            None => machine.violate(RuleId::BadObject, [Thread as u64, 0, 0, 0], "not a thread".into()),
        }
    }
    fn KeStackAttachProcess(Process: *mut c_void, ApcState: *mut KAPC_STATE) {
        let machine = current();
        machine.check_process(Process as u64);
        let site = machine.call_site();
        set!(ApcState, Process = machine.current_process() as *mut c_void);
        machine.resources.borrow_mut().hold(Held::AttachedProcess, ApcState as u64, site);
        machine.enter_process(Process as u64);
    }
    fn KeUnstackDetachProcess(ApcState: *mut KAPC_STATE) {
        let machine = current();
        machine.must_hold(Held::AttachedProcess, ApcState as u64);
        machine.enter_process(get!(ApcState, Process) as u64);
    }
    fn KeGetCurrentThread() -> HANDLE { current().current_thread_object() as HANDLE }

    never KeBugCheckEx(BugCheckCode: u32, P1: usize, P2: usize, P3: usize, P4: usize) {
        current().bug_check(BugCheckCode, [P1 as u64, P2 as u64, P3 as u64, P4 as u64])
    }
    never KeBugCheck(BugCheckCode: u32) { current().bug_check(BugCheckCode, [0; 4]) }
}

pub(super) fn initialize_header(
    header: *mut nt::ke::DISPATCHER_HEADER,
    kind: u8,
    size: usize,
    state: i32,
) {
    guest::set_bytes(header.cast(), 0, size_of::<nt::ke::DISPATCHER_HEADER>());
    set!(header, Type = kind);
    set!(header, Size = u8::try_from(size / 4).unwrap_or(0));
    set!(header, SignalState = state);
    let list = field!(header, WaitListHead);
    set!(list, Flink = list);
    set!(list, Blink = list);
}

fn initialize_timer(timer: *mut KTIMER, kind: u8) {
    let machine = current();
    if machine.timers.borrow_mut().cancel(timer as u64) {
        machine.violate(
            RuleId::BadObject,
            [timer as u64, 0, 0, 0],
            "a timer was initialised while it was set".into(),
        );
    }
    guest::set_bytes(timer.cast(), 0, size_of::<KTIMER>());
    initialize_header(timer.cast(), kind, size_of::<KTIMER>(), 0);
}

fn number_of(index: u32) -> PROCESSOR_NUMBER {
    PROCESSOR_NUMBER {
        Group: u16::try_from(index / 64).unwrap_or(0),
        Number: u8::try_from(index % 64).unwrap_or(0),
        Reserved: 0,
    }
}

impl crate::machine::Machine {
    pub(crate) fn current_thread_object(&self) -> u64 {
        self.running
            .get()
            .map_or(0, |id| self.thread(id).object.get())
    }

    /// A semaphore would be released beyond its limit: raises where a handler of the driver can be
    /// meant to see it.
    fn refuse_release(&self, semaphore: *mut KSEMAPHORE) -> i32 {
        let limit = get!(semaphore, Limit);
        if self.is_guarded(&self.call_registers()) {
            self.raise_status(STATUS_SEMAPHORE_LIMIT_EXCEEDED);
        } else {
            self.report(
                RuleId::SemaphoreLimit,
                [
                    0,
                    self.call_site(),
                    semaphore as u64,
                    u64::from(limit.cast_unsigned()),
                ],
                format!("a semaphore was released beyond its limit, {limit}"),
            );
        }
        get!(semaphore, Header.SignalState)
    }

    /// `KeBugCheckEx` by the driver.
    fn bug_check(&self, code: u32, parameters: [u64; 4]) -> ! {
        let name = nt::stop::StopCode(code)
            .name()
            .unwrap_or("a code of its own");
        self.found.own_code.set(Some(code));
        self.violate(
            RuleId::BugCheck,
            parameters,
            format!("the driver called KeBugCheckEx with {code:#x} ({name})"),
        )
    }

    /// Id of the current thread.
    pub(crate) fn current_thread_id(&self) -> u64 {
        self.running.get().map_or(0, thread_id)
    }
}
