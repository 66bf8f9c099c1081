//! Locks and regions besides spin locks and fast mutexes.

use core::ffi::c_void;

use crate::base::BOOLEAN;
use crate::ex::FAST_MUTEX;
use crate::ke::{KIRQL, KSPIN_LOCK};

/// Where an in-stack queued spin lock keeps its place in the queue.
#[repr(C)]
pub struct KLOCK_QUEUE_HANDLE {
    pub Next: *mut c_void,
    pub Lock: *mut KSPIN_LOCK,
    pub OldIrql: KIRQL,
}
layout!(KLOCK_QUEUE_HANDLE, 0x18, Lock @ 8, OldIrql @ 0x10);

/// A reader-writer lock of one word; zero when free.
pub type EX_PUSH_LOCK = usize;

image! {
    /// Acquires a spin lock in order of arrival, and raises to `DISPATCH_LEVEL`.
    fn KeAcquireInStackQueuedSpinLock(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Releases an in-stack queued spin lock and restores the IRQL.
    fn KeReleaseInStackQueuedSpinLock(LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql == DISPATCH_LEVEL, RELEASES;
    /// Acquires a spin lock in order of arrival by a caller that is at `DISPATCH_LEVEL` already.
    fn KeAcquireInStackQueuedSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql >= DISPATCH_LEVEL, ACQUIRES;
    /// Releases an in-stack queued spin lock and stays at `DISPATCH_LEVEL`.
    fn KeReleaseInStackQueuedSpinLockFromDpcLevel(LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql >= DISPATCH_LEVEL, RELEASES;

    /// Disables all kernel APCs for the current thread.
    fn KeEnterGuardedRegion() where irql <= APC_LEVEL;
    /// Undoes `KeEnterGuardedRegion`.
    fn KeLeaveGuardedRegion() where irql <= APC_LEVEL;
    /// Initialises a guarded mutex.
    fn KeInitializeGuardedMutex(Mutex: *mut FAST_MUTEX) where irql <= APC_LEVEL;
    /// Acquires a guarded mutex and enters a guarded region.
    fn KeAcquireGuardedMutex(Mutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Releases a guarded mutex and leaves the guarded region.
    fn KeReleaseGuardedMutex(Mutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, RELEASES;
    /// Acquires a guarded mutex if it is free.
    fn KeTryToAcquireGuardedMutex(Mutex: *mut FAST_MUTEX) -> BOOLEAN where irql <= APC_LEVEL, ACQUIRES;
    /// Acquires a fast mutex if it is free, and raises to `APC_LEVEL` then.
    fn ExTryToAcquireFastMutex(FastMutex: *mut FAST_MUTEX) -> BOOLEAN where irql <= APC_LEVEL, ACQUIRES;

    /// Acquires a push lock for writing.
    fn ExAcquirePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Acquires a push lock for reading.
    fn ExAcquirePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Releases a push lock that was acquired for writing.
    fn ExReleasePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, RELEASES;
    /// Releases a push lock that was acquired for reading.
    fn ExReleasePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, RELEASES;
}
