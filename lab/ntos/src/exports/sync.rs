//! Locks that are not waited for through a dispatcher object, and those made of one.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use super::ke::initialize_header;
use crate::guest::{self, get, set};
use crate::locks::{Kind, Mode};
use crate::machine::Machine;
use crate::machine::current;
use crate::wait::Timeout;
use lab_verifier::RuleId;
use nt::base::BOOLEAN;
use nt::ex::FAST_MUTEX;
use nt::ke::{
    APC_LEVEL, DISPATCH_LEVEL, KEVENT, KIRQL, KMUTANT, KPRIORITY, KSEMAPHORE, KSPIN_LOCK,
};
use nt::lock::EX_PUSH_LOCK;
use nt::sync::{EX_RUNDOWN_REF, EX_SPIN_LOCK};

exports! {
    sync;

    fn KeAcquireGuardedMutexUnsafe(FastMutex: *mut FAST_MUTEX) { current().acquire_mutex(FastMutex, Kind::GuardedMutex) }
    fn KeReleaseGuardedMutexUnsafe(FastMutex: *mut FAST_MUTEX) { { current().release_mutex(FastMutex, Kind::GuardedMutex); } }
    fn KeAreAllApcsDisabled() -> BOOLEAN {
        let machine = current();
        u8::from(machine.irql() >= APC_LEVEL || machine.in_guarded_region())
    }
    fn ExAcquireFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) { current().acquire_mutex(FastMutex, Kind::FastMutex) }
    fn ExReleaseFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) { { current().release_mutex(FastMutex, Kind::FastMutex); } }
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
    fn ExfAcquirePushLockShared(PushLock: *mut EX_PUSH_LOCK) { current().acquire_push_lock(PushLock as u64, Mode::Shared) }
    fn ExfAcquirePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) { current().acquire_push_lock(PushLock as u64, Mode::Exclusive) }
    fn ExfReleasePushLock(PushLock: *mut EX_PUSH_LOCK) { current().release_push_lock(PushLock as u64) }
    fn ExfReleasePushLockShared(PushLock: *mut EX_PUSH_LOCK) { current().release_push_lock(PushLock as u64) }
    fn ExfReleasePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) { current().release_push_lock(PushLock as u64) }
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

fn enter_rundown(reference: *mut EX_RUNDOWN_REF, count: u32) -> bool {
    let held = guest::read(reference);
    if held & 1 != 0 {
        return false;
    }
    guest::write(reference, held + 2 * count as usize);
    true
}

impl Machine {
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
