//! Kernel core: IRQL, spin locks, DPCs, timers, dispatcher objects, processors.

use core::ffi::c_void;

use crate::base::{
    BOOLEAN, GROUP_AFFINITY, HANDLE, KPROCESSOR_MODE, LARGE_INTEGER, LIST_ENTRY, PROCESSOR_NUMBER,
};
use crate::status::NTSTATUS;

pub type KIRQL = u8;
pub type KSPIN_LOCK = usize;
pub type KAFFINITY = usize;
pub type KPRIORITY = i32;

pub const PASSIVE_LEVEL: KIRQL = 0;
pub const APC_LEVEL: KIRQL = 1;
pub const DISPATCH_LEVEL: KIRQL = 2;
/// `CLOCK_LEVEL` on x86-64.
pub const CLOCK_LEVEL: KIRQL = 13;
/// `IPI_LEVEL` on x86-64.
pub const IPI_LEVEL: KIRQL = 14;
/// `PROFILE_LEVEL` on x86-64: performance-monitor interrupts.
pub const PROFILE_LEVEL: KIRQL = 15;
pub const HIGH_LEVEL: KIRQL = 15;

/// `DISPATCHER_HEADER.Type` values.
pub const EVENT_NOTIFICATION_OBJECT: u8 = 0;
pub const EVENT_SYNCHRONIZATION_OBJECT: u8 = 1;
pub const MUTANT_OBJECT: u8 = 2;
pub const PROCESS_OBJECT: u8 = 3;
pub const SEMAPHORE_OBJECT: u8 = 5;
pub const THREAD_OBJECT: u8 = 6;
pub const TIMER_NOTIFICATION_OBJECT: u8 = 8;
pub const TIMER_SYNCHRONIZATION_OBJECT: u8 = 9;

#[repr(C)]
pub struct DISPATCHER_HEADER {
    pub Type: u8,
    pub Signalling: u8,
    pub Size: u8,
    pub Reserved1: u8,
    pub SignalState: i32,
    pub WaitListHead: LIST_ENTRY,
}
layout!(DISPATCHER_HEADER, 0x18, SignalState @ 4, WaitListHead @ 8);

pub type KDEFERRED_ROUTINE = unsafe extern "efiapi" fn(
    Dpc: *mut KDPC,
    DeferredContext: *mut c_void,
    SystemArgument1: *mut c_void,
    SystemArgument2: *mut c_void,
);

/// `KDPC.Type` of an ordinary DPC.
pub const DPC_OBJECT: u8 = 19;

#[repr(C)]
pub struct KDPC {
    pub Type: u8,
    pub Importance: u8,
    /// Target processor index + `MAXIMUM_PROC_PER_GROUP`-style bias; 0 = the inserting one.
    pub Number: u16,
    pub DpcListEntry: *mut c_void,
    pub ProcessorHistory: usize,
    pub DeferredRoutine: Option<KDEFERRED_ROUTINE>,
    pub DeferredContext: *mut c_void,
    pub SystemArgument1: *mut c_void,
    pub SystemArgument2: *mut c_void,
    /// Not null while queued.
    pub DpcData: *mut c_void,
}
layout!(KDPC, 0x40, DeferredRoutine @ 0x18, DeferredContext @ 0x20, SystemArgument1 @ 0x28, DpcData @ 0x38);

#[repr(C)]
pub struct KTIMER {
    pub Header: DISPATCHER_HEADER,
    pub DueTime: u64,
    pub TimerListEntry: LIST_ENTRY,
    pub Dpc: *mut KDPC,
    pub Processor: u32,
    pub Period: u32,
}
layout!(KTIMER, 0x40, DueTime @ 0x18, TimerListEntry @ 0x20, Dpc @ 0x30, Processor @ 0x38, Period @ 0x3C);

#[repr(C)]
pub struct KEVENT {
    pub Header: DISPATCHER_HEADER,
}
layout!(KEVENT, 0x18);

#[repr(C)]
pub struct KSEMAPHORE {
    pub Header: DISPATCHER_HEADER,
    pub Limit: i32,
}
layout!(KSEMAPHORE, 0x20, Limit @ 0x18);

#[repr(C)]
pub struct KMUTANT {
    pub Header: DISPATCHER_HEADER,
    pub MutantListEntry: LIST_ENTRY,
    pub OwnerThread: *mut c_void,
    pub Abandoned: u8,
    pub ApcDisable: u8,
}
layout!(KMUTANT, 0x38, OwnerThread @ 0x28, Abandoned @ 0x30);

/// `EVENT_TYPE`.
pub const NotificationEvent: i32 = 0;
pub const SynchronizationEvent: i32 = 1;
/// `TIMER_TYPE`.
pub const NotificationTimer: i32 = 0;
pub const SynchronizationTimer: i32 = 1;
/// `WAIT_TYPE`.
pub const WaitAll: i32 = 0;
pub const WaitAny: i32 = 1;
/// `KWAIT_REASON`.
pub const Executive: i32 = 0;
/// `KDPC_IMPORTANCE`.
pub const LowImportance: i32 = 0;
pub const MediumImportance: i32 = 1;
pub const HighImportance: i32 = 2;

/// Wait objects that need no `WaitBlockArray`.
pub const THREAD_WAIT_OBJECTS: u32 = 3;
pub const MAXIMUM_WAIT_OBJECTS: u32 = 64;

/// What `KeStackAttachProcess` saves.
#[repr(C)]
pub struct KAPC_STATE {
    pub ApcListHead: [LIST_ENTRY; 2],
    pub Process: *mut c_void,
    pub InProgressFlags: u8,
    pub KernelApcPending: BOOLEAN,
    pub UserApcPendingAll: BOOLEAN,
}
layout!(KAPC_STATE, 0x30, Process @ 0x20, InProgressFlags @ 0x28);

pub type KIPI_BROADCAST_WORKER = unsafe extern "efiapi" fn(Argument: usize) -> usize;

image! {
    /// The IRQL of the current processor.
    fn KeGetCurrentIrql() -> KIRQL where irql <= HIGH_LEVEL;
    /// Raises the IRQL; returns the old one.
    fn KfRaiseIrql(NewIrql: KIRQL) -> KIRQL where irql <= HIGH_LEVEL;
    /// Raises the IRQL to `DISPATCH_LEVEL`; returns the old one.
    fn KeRaiseIrqlToDpcLevel() -> KIRQL where irql <= DISPATCH_LEVEL;
    /// Lowers the IRQL to what a paired raise returned.
    fn KeLowerIrql(NewIrql: KIRQL) where irql <= HIGH_LEVEL;
    /// Initialises a spin lock.
    fn KeInitializeSpinLock(SpinLock: *mut KSPIN_LOCK) where irql <= HIGH_LEVEL;
    /// Acquires a spin lock at `DISPATCH_LEVEL`; returns the IRQL to restore.
    fn KeAcquireSpinLockRaiseToDpc(SpinLock: *mut KSPIN_LOCK) -> KIRQL where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Releases a spin lock and lowers the IRQL to `NewIrql`.
    fn KeReleaseSpinLock(SpinLock: *mut KSPIN_LOCK, NewIrql: KIRQL) where irql == DISPATCH_LEVEL, RELEASES;
    /// Acquires a spin lock by a caller that is at `DISPATCH_LEVEL` already.
    fn KeAcquireSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK) where irql >= DISPATCH_LEVEL, ACQUIRES;
    /// Releases a spin lock and stays at `DISPATCH_LEVEL`.
    fn KeReleaseSpinLockFromDpcLevel(SpinLock: *mut KSPIN_LOCK) where irql >= DISPATCH_LEVEL, RELEASES;
    /// Acquires a spin lock if it is free.
    fn KeTryToAcquireSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK) -> BOOLEAN where irql >= DISPATCH_LEVEL, ACQUIRES;

    /// Initialises a DPC object.
    fn KeInitializeDpc(Dpc: *mut KDPC, DeferredRoutine: KDEFERRED_ROUTINE, DeferredContext: *mut c_void) where irql <= HIGH_LEVEL;
    /// Queues a DPC; false if it was queued already.
    fn KeInsertQueueDpc(Dpc: *mut KDPC, SystemArgument1: *mut c_void, SystemArgument2: *mut c_void) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Takes a DPC off its queue; false if it was not queued.
    fn KeRemoveQueueDpc(Dpc: *mut KDPC) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Binds a DPC to a processor of group 0.
    fn KeSetTargetProcessorDpc(Dpc: *mut KDPC, Number: i8) where irql <= HIGH_LEVEL;
    /// Binds a DPC to a processor.
    fn KeSetTargetProcessorDpcEx(Dpc: *mut KDPC, ProcNumber: *mut PROCESSOR_NUMBER) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Sets where in its queue a DPC is put.
    fn KeSetImportanceDpc(Dpc: *mut KDPC, Importance: i32) where irql <= HIGH_LEVEL;
    /// Returns when every DPC queued before has run on every processor.
    fn KeFlushQueuedDpcs() where irql == PASSIVE_LEVEL, WAITS;

    /// Initialises a notification timer.
    fn KeInitializeTimer(Timer: *mut KTIMER) where irql <= DISPATCH_LEVEL;
    /// Initialises a timer of either type.
    fn KeInitializeTimerEx(Timer: *mut KTIMER, Type: i32) where irql <= DISPATCH_LEVEL;
    /// Sets a timer (100 ns; negative = relative); true if it was set already.
    fn KeSetTimer(Timer: *mut KTIMER, DueTime: LARGE_INTEGER, Dpc: *mut KDPC) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Sets a timer with a period in milliseconds.
    fn KeSetTimerEx(Timer: *mut KTIMER, DueTime: LARGE_INTEGER, Period: i32, Dpc: *mut KDPC) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Sets a timer with a tolerable delay in milliseconds.
    fn KeSetCoalescableTimer(Timer: *mut KTIMER, DueTime: LARGE_INTEGER, Period: u32, TolerableDelay: u32, Dpc: *mut KDPC) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Takes a timer off the queue; true if it was set.
    fn KeCancelTimer(Timer: *mut KTIMER) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Whether a timer is signalled.
    fn KeReadStateTimer(Timer: *mut KTIMER) -> BOOLEAN where irql <= DISPATCH_LEVEL;

    /// Initialises an event.
    fn KeInitializeEvent(Event: *mut KEVENT, Type: i32, State: BOOLEAN) where irql <= HIGH_LEVEL;
    /// Signals an event; returns its former state.
    fn KeSetEvent(Event: *mut KEVENT, Increment: KPRIORITY, Wait: BOOLEAN) -> i32 where irql <= DISPATCH_LEVEL;
    /// Makes an event not signalled.
    fn KeClearEvent(Event: *mut KEVENT) where irql <= DISPATCH_LEVEL;
    /// Makes an event not signalled; returns its former state.
    fn KeResetEvent(Event: *mut KEVENT) -> i32 where irql <= DISPATCH_LEVEL;
    /// Whether an event is signalled.
    fn KeReadStateEvent(Event: *mut KEVENT) -> i32 where irql <= DISPATCH_LEVEL;
    /// Initialises a semaphore.
    fn KeInitializeSemaphore(Semaphore: *mut KSEMAPHORE, Count: i32, Limit: i32) where irql == PASSIVE_LEVEL;
    /// Adds to a semaphore; returns the former count.
    fn KeReleaseSemaphore(Semaphore: *mut KSEMAPHORE, Increment: KPRIORITY, Adjustment: i32, Wait: BOOLEAN) -> i32 where irql <= DISPATCH_LEVEL;
    /// Initialises a mutex.
    fn KeInitializeMutex(Mutex: *mut KMUTANT, Level: u32) where irql <= HIGH_LEVEL;
    /// Releases a mutex; returns the former state.
    fn KeReleaseMutex(Mutex: *mut KMUTANT, Wait: BOOLEAN) -> i32 where irql <= DISPATCH_LEVEL;
    /// Waits for a dispatcher object. A wait that can block needs IRQL <= `APC_LEVEL`.
    fn KeWaitForSingleObject(Object: *mut c_void, WaitReason: i32, WaitMode: KPROCESSOR_MODE, Alertable: BOOLEAN, Timeout: *const LARGE_INTEGER) -> NTSTATUS where irql <= DISPATCH_LEVEL, WAITS;
    /// Waits for any or all of several dispatcher objects.
    fn KeWaitForMultipleObjects(Count: u32, Object: *mut *mut c_void, WaitType: i32, WaitReason: i32, WaitMode: KPROCESSOR_MODE, Alertable: BOOLEAN, Timeout: *const LARGE_INTEGER, WaitBlockArray: *mut c_void) -> NTSTATUS where irql <= DISPATCH_LEVEL, WAITS;
    /// Sleeps (100 ns; negative = relative).
    fn KeDelayExecutionThread(WaitMode: KPROCESSOR_MODE, Alertable: BOOLEAN, Interval: *const LARGE_INTEGER) -> NTSTATUS where irql <= APC_LEVEL, WAITS;
    /// Keeps the processor busy for some microseconds.
    fn KeStallExecutionProcessor(MicroSeconds: u32) where irql <= HIGH_LEVEL;

    /// Stops the system.
    fn KeBugCheckEx(BugCheckCode: u32, P1: usize, P2: usize, P3: usize, P4: usize) -> ! where irql <= HIGH_LEVEL;
    /// Stops the system.
    fn KeBugCheck(BugCheckCode: u32) -> ! where irql <= HIGH_LEVEL;

    /// The performance counter; its frequency in Hz goes to `PerformanceFrequency`.
    fn KeQueryPerformanceCounter(PerformanceFrequency: *mut LARGE_INTEGER) -> LARGE_INTEGER where irql <= HIGH_LEVEL;
    /// Time since boot in 100 ns, as of the last clock tick.
    fn KeQueryInterruptTime() -> u64 where irql <= HIGH_LEVEL;
    /// Time since boot in 100 ns; the performance counter at that instant goes to `QpcTimeStamp`.
    fn KeQueryInterruptTimePrecise(QpcTimeStamp: *mut u64) -> u64 where irql <= HIGH_LEVEL;
    /// Wall time (UTC) in 100 ns since 1601.
    fn KeQuerySystemTimePrecise(CurrentTime: *mut LARGE_INTEGER) where irql <= HIGH_LEVEL;
    /// Wall time (UTC) in 100 ns since 1601, as of the last clock tick.
    fn KeQuerySystemTime(CurrentTime: *mut LARGE_INTEGER) where irql <= HIGH_LEVEL;
    /// Length of a clock tick in 100 ns.
    fn KeQueryTimeIncrement() -> u32 where irql <= HIGH_LEVEL;

    /// Mask of the active processors of group 0.
    fn KeQueryActiveProcessors() -> KAFFINITY where irql <= HIGH_LEVEL;
    /// Number of active processors of group 0.
    fn KeQueryActiveProcessorCount(ActiveProcessors: *mut KAFFINITY) -> u32 where irql <= HIGH_LEVEL;
    /// Number of active processors of a group, or of all.
    fn KeQueryActiveProcessorCountEx(GroupNumber: u16) -> u32 where irql <= HIGH_LEVEL;
    /// Number of processors a group, or the machine, can have.
    fn KeQueryMaximumProcessorCountEx(GroupNumber: u16) -> u32 where irql <= HIGH_LEVEL;
    /// Number of active groups.
    fn KeQueryActiveGroupCount() -> u16 where irql <= HIGH_LEVEL;
    /// Mask of the active processors of a group.
    fn KeQueryGroupAffinity(GroupNumber: u16) -> KAFFINITY where irql <= HIGH_LEVEL;
    /// Group and number of a processor index.
    fn KeGetProcessorNumberFromIndex(ProcIndex: u32, ProcNumber: *mut PROCESSOR_NUMBER) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Index of a processor's group and number.
    fn KeGetProcessorIndexFromNumber(ProcNumber: *mut PROCESSOR_NUMBER) -> u32 where irql <= HIGH_LEVEL;
    /// Index of the current processor; its group and number go to `ProcNumber`.
    fn KeGetCurrentProcessorNumberEx(ProcNumber: *mut PROCESSOR_NUMBER) -> u32 where irql <= HIGH_LEVEL;
    /// Moves the current thread to processors of group 0.
    fn KeSetSystemAffinityThread(Affinity: KAFFINITY) where irql <= APC_LEVEL;
    /// Undoes `KeSetSystemAffinityThread`.
    fn KeRevertToUserAffinityThread() where irql <= APC_LEVEL;
    /// Moves the current thread to processors of group 0; returns the former mask.
    fn KeSetSystemAffinityThreadEx(Affinity: KAFFINITY) -> KAFFINITY where irql <= APC_LEVEL;
    /// Undoes `KeSetSystemAffinityThreadEx`.
    fn KeRevertToUserAffinityThreadEx(Affinity: KAFFINITY) where irql <= APC_LEVEL;
    /// Moves the current thread to processors of one group.
    fn KeSetSystemGroupAffinityThread(Affinity: *mut GROUP_AFFINITY, PreviousAffinity: *mut GROUP_AFFINITY) where irql <= APC_LEVEL;
    /// Undoes `KeSetSystemGroupAffinityThread`.
    fn KeRevertToUserGroupAffinityThread(PreviousAffinity: *mut GROUP_AFFINITY) where irql <= APC_LEVEL;
    /// Runs a function at `IPI_LEVEL` on every processor at once.
    fn KeIpiGenericCall(BroadcastFunction: KIPI_BROADCAST_WORKER, Context: usize) -> usize where irql < IPI_LEVEL;
    /// Disables normal kernel APCs for the current thread.
    fn KeEnterCriticalRegion() where irql <= APC_LEVEL;
    /// Undoes `KeEnterCriticalRegion`.
    fn KeLeaveCriticalRegion() where irql <= APC_LEVEL;
    /// Sets a thread's priority; returns the former one.
    fn KeSetPriorityThread(Thread: *mut c_void, Priority: KPRIORITY) -> KPRIORITY where irql <= PASSIVE_LEVEL;
    /// Makes another process the current thread's, until `KeUnstackDetachProcess`.
    fn KeStackAttachProcess(Process: *mut c_void, ApcState: *mut KAPC_STATE) where irql <= APC_LEVEL, ACQUIRES;
    /// Undoes `KeStackAttachProcess`.
    fn KeUnstackDetachProcess(ApcState: *mut KAPC_STATE) where irql <= APC_LEVEL, RELEASES;
    /// Handle-free identity of the current thread.
    fn KeGetCurrentThread() -> HANDLE where irql <= DISPATCH_LEVEL;
}
