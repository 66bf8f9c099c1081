//! Locks and regions besides spin locks and fast mutexes.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use nt::ex::FAST_MUTEX;
use nt::ke::{DISPATCH_LEVEL, EVENT_SYNCHRONIZATION_OBJECT, KEVENT, KSPIN_LOCK};
use nt::lock::{EX_PUSH_LOCK, KLOCK_QUEUE_HANDLE};

use super::exports;
use crate::guest::{self, field, get, set};
use crate::locks::{How, Kind, Mode, Region};
use crate::machine::{Machine, current};
use crate::wait::Timeout;

exports! {
    lock;

    fn KeAcquireInStackQueuedSpinLock(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        let machine = current();
        set!(LockHandle, Lock = SpinLock);
        set!(LockHandle, OldIrql = machine.raise(DISPATCH_LEVEL));
        machine.acquire_spin(SpinLock, How::Queued);
    }
    fn KeReleaseInStackQueuedSpinLock(LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        let machine = current();
        machine.release_spin(get!(LockHandle, Lock), How::Queued);
        machine.lower(get!(LockHandle, OldIrql));
    }
    fn KeAcquireInStackQueuedSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        set!(LockHandle, Lock = SpinLock);
        current().acquire_spin(SpinLock, How::QueuedAtDpc);
    }
    fn KeReleaseInStackQueuedSpinLockFromDpcLevel(LockHandle: *mut KLOCK_QUEUE_HANDLE) {
        current().release_spin(get!(LockHandle, Lock), How::QueuedAtDpc);
    }

    fn KeEnterGuardedRegion() { current().enter_region(Region::Guarded) }
    fn KeLeaveGuardedRegion() { current().leave_region(Region::Guarded) }
    fn KeInitializeGuardedMutex(Mutex: *mut FAST_MUTEX) {
        guest::set_bytes(Mutex.cast(), 0, size_of::<FAST_MUTEX>());
        set!(Mutex, Count = 1);
        super::ke::initialize_header(field!(Mutex, Event).cast(), EVENT_SYNCHRONIZATION_OBJECT, size_of::<KEVENT>(), 0);
    }
    fn KeAcquireGuardedMutex(Mutex: *mut FAST_MUTEX) {
        let machine = current();
        machine.enter_region(Region::Guarded);
        machine.acquire_mutex(Mutex, Kind::GuardedMutex);
    }
    fn KeReleaseGuardedMutex(Mutex: *mut FAST_MUTEX) {
        let machine = current();
        if machine.release_mutex(Mutex, Kind::GuardedMutex) {
            machine.leave_region(Region::Guarded);
        }
    }
    fn KeTryToAcquireGuardedMutex(Mutex: *mut FAST_MUTEX) -> u8 {
        let machine = current();
        let taken = machine.try_mutex(Mutex, Kind::GuardedMutex);
        if taken {
            machine.enter_region(Region::Guarded);
        }
        u8::from(taken)
    }
    fn ExTryToAcquireFastMutex(FastMutex: *mut FAST_MUTEX) -> u8 {
        let machine = current();
        let old = machine.irql();
        let taken = machine.try_mutex(FastMutex, Kind::FastMutex);
        if taken {
            set!(FastMutex, OldIrql = u32::from(old));
            machine.set_irql(nt::ke::APC_LEVEL);
        }
        u8::from(taken)
    }

    fn ExAcquirePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().acquire_push_lock(PushLock as u64, Mode::Exclusive) }
    fn ExAcquirePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().acquire_push_lock(PushLock as u64, Mode::Shared) }
    fn ExReleasePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().release_push_lock(PushLock as u64) }
    fn ExReleasePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, _Flags: u32) { current().release_push_lock(PushLock as u64) }
}

impl Machine {
    /// Takes a fast or guarded mutex; waits for it.
    pub(crate) fn acquire_mutex(&self, mutex: *mut FAST_MUTEX, kind: Kind) {
        let thread = self.current_thread_object();
        if get!(mutex, Owner) as u64 == thread && get!(mutex, Count) < 1 {
            self.lock_recursion(mutex as u64, kind);
        }
        self.lock_wanted(mutex as u64, Mode::Exclusive);
        while !self.try_mutex(mutex, kind) {
            self.wait(&[field!(mutex, Event) as u64], false, Timeout::Never);
        }
    }

    /// Takes a fast or guarded mutex if it is free.
    fn try_mutex(&self, mutex: *mut FAST_MUTEX, kind: Kind) -> bool {
        if get!(mutex, Count) < 1 {
            return false;
        }
        set!(mutex, Count = 0);
        set!(mutex, Owner = self.current_thread_object() as *mut _);
        self.lock_taken(mutex as u64, kind, Mode::Exclusive);
        true
    }

    /// Releases a fast or guarded mutex; false if the running thread does not hold it.
    pub(crate) fn release_mutex(&self, mutex: *mut FAST_MUTEX, kind: Kind) -> bool {
        if get!(mutex, Owner) as u64 != self.current_thread_object() {
            self.report_not_owned(mutex as u64, kind);
            return false;
        }
        self.lock_released(mutex as u64);
        set!(mutex, Owner = std::ptr::null_mut());
        set!(mutex, Count = 1);
        self.signal(field!(mutex, Event) as u64, 1);
        true
    }

    pub(super) fn acquire_push_lock(&self, lock: u64, mode: Mode) {
        self.check_apcs_disabled(lock, Kind::PushLock);
        if self.my_hold(lock).is_some() {
            self.lock_recursion(lock, Kind::PushLock);
        }
        self.lock_wanted(lock, mode);
        self.wait_for_owners(lock, mode);
        self.lock_taken(lock, Kind::PushLock, mode);
    }

    pub(super) fn release_push_lock(&self, lock: u64) {
        if self.lock_released(lock) {
            self.release_owners(lock);
        } else {
            self.report_not_owned(lock, Kind::PushLock);
        }
    }
}
