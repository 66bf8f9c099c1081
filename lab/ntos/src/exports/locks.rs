//! Locks that are not waited for through a dispatcher object, and those made of one.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use super::ke::initialize_header;
use crate::guest::{self, field, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::wait::Timeout;
use lab_verifier::RuleId;
use nt::base::BOOLEAN;
use nt::ex::FAST_MUTEX;
use nt::ke::{
    APC_LEVEL, DISPATCH_LEVEL, EVENT_SYNCHRONIZATION_OBJECT, KEVENT, KIRQL, KMUTANT, KPRIORITY,
    KSEMAPHORE, KSPIN_LOCK,
};
use nt::locks::{EX_PUSH_LOCK, EX_RUNDOWN_REF, EX_SPIN_LOCK, KGUARDED_MUTEX, KLOCK_QUEUE_HANDLE};
use std::ffi::c_void;
use std::ptr;

exports! {
    locks;

    fn KeInitializeGuardedMutex(Mutex: *mut KGUARDED_MUTEX) {
        guest::set_bytes(Mutex.cast(), 0, size_of::<KGUARDED_MUTEX>());
        set!(Mutex, Count = 1);
        initialize_header(field!(Mutex, Event).cast(), EVENT_SYNCHRONIZATION_OBJECT, size_of::<KEVENT>(), 0);
    }
    fn KeAcquireGuardedMutex(Mutex: *mut KGUARDED_MUTEX) {
        let machine = current();
        machine.change_guarded(1);
        machine.take_mutex(Mutex, "guarded");
    }
    fn KeTryToAcquireGuardedMutex(Mutex: *mut KGUARDED_MUTEX) -> BOOLEAN {
        let machine = current();
        let free = machine.try_mutex(Mutex);
        if free {
            machine.change_guarded(1);
        }
        u8::from(free)
    }
    fn KeReleaseGuardedMutex(Mutex: *mut KGUARDED_MUTEX) {
        let machine = current();
        machine.give_mutex(Mutex, "guarded");
        machine.change_guarded(-1);
    }
    fn KeAcquireGuardedMutexUnsafe(FastMutex: *mut KGUARDED_MUTEX) { current().take_mutex(FastMutex, "guarded") }
    fn KeReleaseGuardedMutexUnsafe(FastMutex: *mut KGUARDED_MUTEX) { current().give_mutex(FastMutex, "guarded") }
    fn KeEnterGuardedRegion() { current().change_guarded(1) }
    fn KeLeaveGuardedRegion() { current().change_guarded(-1) }
    fn KeAreAllApcsDisabled() -> BOOLEAN {
        let machine = current();
        u8::from(machine.irql() >= APC_LEVEL || machine.guarded_depth() > 0)
    }
    fn ExAcquireFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) { current().take_mutex(FastMutex, "fast") }
    fn ExReleaseFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) { current().give_mutex(FastMutex, "fast") }
    fn ExTryToAcquireFastMutex(FastMutex: *mut FAST_MUTEX) -> BOOLEAN {
        let machine = current();
        let free = machine.try_mutex(FastMutex);
        if free {
            set!(FastMutex, OldIrql = u32::from(machine.irql()));
            machine.cpu().set_irql(APC_LEVEL);
        }
        u8::from(free)
    }
    fn KeAcquireInStackQueuedSpinLock(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        let machine = current();
        let old = machine.raise(DISPATCH_LEVEL);
        machine.acquire(SpinLock);
        guest::write(LockHandle, KLOCK_QUEUE_HANDLE { Next: ptr::null_mut(), Lock: SpinLock, OldIrql: old });
    }
    fn KeReleaseInStackQueuedSpinLock(LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        let machine = current();
        machine.release_lock(get!(LockHandle, Lock));
        machine.lower(get!(LockHandle, OldIrql));
    }
    fn KeAcquireInStackQueuedSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        let machine = current();
        machine.acquire(SpinLock);
        guest::write(LockHandle, KLOCK_QUEUE_HANDLE { Next: ptr::null_mut(), Lock: SpinLock, OldIrql: DISPATCH_LEVEL });
    }
    fn KeReleaseInStackQueuedSpinLockFromDpcLevel(LockHandle: *mut KLOCK_QUEUE_HANDLE) { current().release_lock(get!(LockHandle, Lock)) }
    fn KeTestSpinLock(SpinLock: *mut KSPIN_LOCK) -> BOOLEAN { u8::from(guest::read(SpinLock) == 0) }
    fn ExAcquireSpinLockShared(SpinLock: *mut EX_SPIN_LOCK) -> KIRQL {
        let machine = current();
        let old = machine.raise(DISPATCH_LEVEL);
        machine.spin_shared(SpinLock);
        old
    }
    fn ExAcquireSpinLockSharedAtDpcLevel(SpinLock: *mut EX_SPIN_LOCK) { current().spin_shared(SpinLock) }
    fn ExAcquireSpinLockExclusive(SpinLock: *mut EX_SPIN_LOCK) -> KIRQL {
        let machine = current();
        let old = machine.raise(DISPATCH_LEVEL);
        machine.spin_exclusive(SpinLock);
        old
    }
    fn ExAcquireSpinLockExclusiveAtDpcLevel(SpinLock: *mut EX_SPIN_LOCK) { current().spin_exclusive(SpinLock) }
    fn ExReleaseSpinLockShared(SpinLock: *mut EX_SPIN_LOCK, OldIrql: KIRQL) {
        current().release_shared(SpinLock);
        current().lower(OldIrql);
    }
    fn ExReleaseSpinLockSharedFromDpcLevel(SpinLock: *mut EX_SPIN_LOCK) { current().release_shared(SpinLock) }
    fn ExReleaseSpinLockExclusive(SpinLock: *mut EX_SPIN_LOCK, OldIrql: KIRQL) {
        current().release_exclusive(SpinLock);
        current().lower(OldIrql);
    }
    fn ExReleaseSpinLockExclusiveFromDpcLevel(SpinLock: *mut EX_SPIN_LOCK) { current().release_exclusive(SpinLock) }
    fn ExInitializeRundownProtection(RunRef: *mut EX_RUNDOWN_REF) { guest::write(RunRef, 0) }
    fn ExReInitializeRundownProtection(RunRef: *mut EX_RUNDOWN_REF) { guest::write(RunRef, 0) }
    fn ExAcquireRundownProtection(RunRef: *mut EX_RUNDOWN_REF) -> BOOLEAN { u8::from(enter_rundown(RunRef, 1)) }
    fn ExAcquireRundownProtectionEx(RunRef: *mut EX_RUNDOWN_REF, Count: u32) -> BOOLEAN { u8::from(enter_rundown(RunRef, Count)) }
    fn ExReleaseRundownProtection(RunRef: *mut EX_RUNDOWN_REF) { current().leave_rundown(RunRef, 1) }
    fn ExReleaseRundownProtectionEx(RunRef: *mut EX_RUNDOWN_REF, Count: u32) { current().leave_rundown(RunRef, Count) }
    fn ExWaitForRundownProtectionRelease(RunRef: *mut EX_RUNDOWN_REF) {
        let machine = current();
        guest::write(RunRef, guest::read(RunRef) | 1);
        while guest::read(RunRef) > 1 {
            machine.park(RunRef as u64);
        }
    }
    fn ExRundownCompleted(RunRef: *mut EX_RUNDOWN_REF) { guest::write(RunRef, 1) }
    fn ExInitializePushLock(PushLock: *mut EX_PUSH_LOCK) { guest::write(PushLock, 0) }
    fn ExfAcquirePushLockShared(PushLock: *mut EX_PUSH_LOCK) { current().push_shared(PushLock) }
    fn ExfAcquirePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) { current().push_exclusive(PushLock) }
    fn ExfReleasePushLock(PushLock: *mut EX_PUSH_LOCK) { current().push_release(PushLock, None) }
    fn ExfReleasePushLockShared(PushLock: *mut EX_PUSH_LOCK) { current().push_release(PushLock, Some(false)) }
    fn ExfReleasePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) { current().push_release(PushLock, Some(true)) }
    fn ExAcquirePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().push_shared(PushLock) }
    fn ExAcquirePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().push_exclusive(PushLock) }
    fn ExReleasePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().push_release(PushLock, Some(false)) }
    fn ExReleasePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().push_release(PushLock, Some(true)) }
    fn KePulseEvent(Event: *mut KEVENT, _Increment: KPRIORITY, _Wait: BOOLEAN) -> i32 {
        let old = current().signal(Event as u64, 1);
        set!(Event, Header.SignalState = 0);
        old
    }
    fn KeReadStateMutex(Mutex: *mut KMUTANT) -> i32 { get!(Mutex, Header.SignalState) }
    fn KeReadStateSemaphore(Semaphore: *mut KSEMAPHORE) -> i32 { get!(Semaphore, Header.SignalState) }
}

/// Writer's mark in a reader-writer spin lock.
const WRITER: i32 = i32::MIN;
/// Of a push lock: held by a writer; else twice the number of readers.
const PUSH_WRITER: usize = 1;

fn enter_rundown(reference: *mut EX_RUNDOWN_REF, count: u32) -> bool {
    let held = guest::read(reference);
    if held & 1 != 0 {
        return false;
    }
    guest::write(reference, held + 2 * count as usize);
    true
}

impl Machine {
    fn take_mutex(&self, mutex: *mut FAST_MUTEX, kind: &str) {
        let thread = self.current_thread_object();
        if get!(mutex, Owner) as u64 == thread && get!(mutex, Count) < 1 {
            self.violate(
                RuleId::SpinLockRecursive,
                [0x1001, mutex as u64, 0, 0],
                format!("a {kind} mutex was acquired by the thread that owns it"),
            );
        }
        while !self.try_mutex(mutex) {
            self.wait(&[field!(mutex, Event) as u64], false, Timeout::Never);
        }
    }

    fn try_mutex(&self, mutex: *mut FAST_MUTEX) -> bool {
        if get!(mutex, Count) < 1 {
            return false;
        }
        set!(mutex, Count = 0);
        set!(mutex, Owner = self.current_thread_object() as *mut c_void);
        true
    }

    fn give_mutex(&self, mutex: *mut FAST_MUTEX, kind: &str) {
        if get!(mutex, Owner) as u64 != self.current_thread_object() {
            self.violate(
                RuleId::SpinLockNotOwned,
                [mutex as u64, 0, 0, 0],
                format!("a {kind} mutex was released by a thread that does not own it"),
            );
        }
        set!(mutex, Owner = ptr::null_mut());
        set!(mutex, Count = 1);
        self.signal(field!(mutex, Event) as u64, 1);
    }

    fn guarded_depth(&self) -> i32 {
        let thread = self.current_thread_object();
        let services = self.services.borrow();
        services.guarded.get(&thread).copied().unwrap_or(0)
    }

    fn change_guarded(&self, by: i32) {
        let depth = self.guarded_depth() + by;
        if depth < 0 {
            self.violate(
                RuleId::BadObject,
                [0; 4],
                "a guarded region was left that the thread is not in".into(),
            );
        }
        let thread = self.current_thread_object();
        let mut services = self.services.borrow_mut();
        if depth == 0 {
            services.guarded.remove(&thread);
        } else {
            services.guarded.insert(thread, depth);
        }
    }

    fn spin_shared(&self, lock: *mut EX_SPIN_LOCK) {
        while guest::read(lock) < 0 {
            self.spin_once(lock);
        }
        guest::write(lock, guest::read(lock) + 1);
    }

    fn spin_exclusive(&self, lock: *mut EX_SPIN_LOCK) {
        while guest::read(lock) != 0 {
            self.spin_once(lock);
        }
        guest::write(lock, WRITER);
    }

    /// Lets the other processors run, one of which must hold the lock.
    fn spin_once(&self, lock: *mut EX_SPIN_LOCK) {
        if !self.anyone_else_can_run() {
            self.violate(
                RuleId::Deadlock,
                [lock as u64, 0, 0, 0],
                format!(
                    "no processor can run to release spin lock {:#x}",
                    lock as u64
                ),
            );
        }
        self.yield_to_scheduler();
    }

    fn release_shared(&self, lock: *mut EX_SPIN_LOCK) {
        let held = guest::read(lock);
        if held <= 0 {
            self.not_held(lock as u64, "to read");
        }
        guest::write(lock, held - 1);
    }

    fn release_exclusive(&self, lock: *mut EX_SPIN_LOCK) {
        if guest::read(lock) != WRITER {
            self.not_held(lock as u64, "to write");
        }
        guest::write(lock, 0);
    }

    fn not_held(&self, lock: u64, how: &str) -> ! {
        self.violate(
            RuleId::SpinLockNotOwned,
            [lock, 0, 0, 0],
            format!("the lock at {lock:#x} was released, which nobody holds {how}"),
        )
    }

    fn leave_rundown(&self, reference: *mut EX_RUNDOWN_REF, count: u32) {
        let held = guest::read(reference);
        let Some(left) = held.checked_sub(2 * count as usize) else {
            self.violate(
                RuleId::BadObject,
                [reference as u64, held as u64, 0, 0],
                "rundown protection was released more often than acquired".into(),
            )
        };
        guest::write(reference, left);
        if left == 1 {
            self.unpark(reference as u64);
        }
    }

    fn push_shared(&self, lock: *mut EX_PUSH_LOCK) {
        while guest::read(lock) & PUSH_WRITER != 0 {
            self.park(lock as u64);
        }
        guest::write(lock, guest::read(lock) + 2);
    }

    fn push_exclusive(&self, lock: *mut EX_PUSH_LOCK) {
        while guest::read(lock) != 0 {
            self.park(lock as u64);
        }
        guest::write(lock, PUSH_WRITER);
    }

    /// Releases a push lock; `writes` says how its holder thinks to hold it.
    fn push_release(&self, lock: *mut EX_PUSH_LOCK, writes: Option<bool>) {
        let held = guest::read(lock);
        let written = held == PUSH_WRITER;
        if held == 0 || writes.is_some_and(|writes| writes != written) {
            self.not_held(
                lock as u64,
                if writes == Some(true) {
                    "to write"
                } else {
                    "to read"
                },
            );
        }
        guest::write(lock, if written { 0 } else { held - 2 });
        self.unpark(lock as u64);
    }

    /// Blocks the thread until somebody calls [`Self::unpark`] for an address.
    pub(super) fn park(&self, address: u64) {
        let event = {
            let mut services = self.services.borrow_mut();
            let event = services.parked.entry(address).or_insert_with(|| {
                let mut event: Box<std::mem::MaybeUninit<KEVENT>> = Box::new_zeroed();
                let kind = nt::ke::EVENT_NOTIFICATION_OBJECT;
                initialize_header(event.as_mut_ptr().cast(), kind, size_of::<KEVENT>(), 0);
                event
            });
            event.as_mut_ptr() as u64
        };
        self.wait(&[event], false, Timeout::Never);
    }

    /// Lets those go on that are parked at an address.
    pub(super) fn unpark(&self, address: u64) {
        let parked = self.services.borrow_mut().parked.remove(&address);
        if let Some(mut event) = parked {
            self.signal(event.as_mut_ptr() as u64, 1);
        }
    }
}
