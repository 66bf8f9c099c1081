//! Locks: guarded and fast mutexes, queued and reader-writer spin locks, push locks, rundown protection.

use core::ffi::c_void;

use crate::base::BOOLEAN;
use crate::ex::FAST_MUTEX;
use crate::ke::{KEVENT, KIRQL, KMUTANT, KPRIORITY, KSEMAPHORE, KSPIN_LOCK};

/// A queued spin lock as its holder or waiter sees it, on the stack.
#[repr(C)]
pub struct KLOCK_QUEUE_HANDLE {
    pub Next: *mut c_void,
    pub Lock: *mut KSPIN_LOCK,
    pub OldIrql: KIRQL,
}
layout!(KLOCK_QUEUE_HANDLE, 0x18, Lock @ 8, OldIrql @ 0x10);

/// Since Windows 8 a guarded mutex is a fast mutex.
pub type KGUARDED_MUTEX = FAST_MUTEX;
/// Twice the number of holders; the low bit is set once they must leave.
pub type EX_RUNDOWN_REF = usize;
/// A lock with readers and a writer, in one word.
pub type EX_PUSH_LOCK = usize;
/// A spin lock with readers and a writer.
pub type EX_SPIN_LOCK = i32;

image! {
    /// Initialises a guarded mutex.
    fn KeInitializeGuardedMutex(Mutex: *mut KGUARDED_MUTEX) where irql <= APC_LEVEL;
    /// Acquires a guarded mutex and enters a guarded region.
    fn KeAcquireGuardedMutex(Mutex: *mut KGUARDED_MUTEX) where irql <= APC_LEVEL, WAITS;
    /// Acquires a guarded mutex if it is free, and then enters a guarded region.
    fn KeTryToAcquireGuardedMutex(Mutex: *mut KGUARDED_MUTEX) -> BOOLEAN where irql <= APC_LEVEL;
    /// Releases a guarded mutex and leaves its guarded region.
    fn KeReleaseGuardedMutex(Mutex: *mut KGUARDED_MUTEX) where irql <= APC_LEVEL;
    /// Acquires a guarded mutex in a guarded region or at `APC_LEVEL`.
    fn KeAcquireGuardedMutexUnsafe(FastMutex: *mut KGUARDED_MUTEX) where irql <= APC_LEVEL, WAITS;
    /// Releases a guarded mutex of `KeAcquireGuardedMutexUnsafe`.
    fn KeReleaseGuardedMutexUnsafe(FastMutex: *mut KGUARDED_MUTEX) where irql <= APC_LEVEL;
    /// Keeps all APCs from the thread.
    fn KeEnterGuardedRegion() where irql <= APC_LEVEL;
    /// Lets APCs to the thread again.
    fn KeLeaveGuardedRegion() where irql <= APC_LEVEL;
    /// Whether no APC at all reaches the thread: in a guarded region, or at `APC_LEVEL` or above.
    fn KeAreAllApcsDisabled() -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Acquires a fast mutex where APCs are kept out already.
    fn ExAcquireFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, WAITS;
    /// Releases a fast mutex of `ExAcquireFastMutexUnsafe`.
    fn ExReleaseFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL;
    /// Acquires a fast mutex if it is free, and then raises the IRQL to `APC_LEVEL`.
    fn ExTryToAcquireFastMutex(FastMutex: *mut FAST_MUTEX) -> BOOLEAN where irql <= APC_LEVEL;
    /// Acquires a queued spin lock and raises the IRQL to `DISPATCH_LEVEL`.
    fn KeAcquireInStackQueuedSpinLock(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql <= DISPATCH_LEVEL;
    /// Releases a queued spin lock and lowers the IRQL.
    fn KeReleaseInStackQueuedSpinLock(LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql == DISPATCH_LEVEL;
    /// Acquires a queued spin lock at `DISPATCH_LEVEL`.
    fn KeAcquireInStackQueuedSpinLockAtDpcLevel(SpinLock: *mut KSPIN_LOCK, LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql >= DISPATCH_LEVEL;
    /// Releases a queued spin lock and stays at `DISPATCH_LEVEL`.
    fn KeReleaseInStackQueuedSpinLockFromDpcLevel(LockHandle: *mut KLOCK_QUEUE_HANDLE) where irql >= DISPATCH_LEVEL;
    /// Whether a spin lock is free.
    fn KeTestSpinLock(SpinLock: *mut KSPIN_LOCK) -> BOOLEAN where irql >= DISPATCH_LEVEL;
    /// Acquires a reader-writer spin lock to read, at `DISPATCH_LEVEL`; returns the old IRQL.
    fn ExAcquireSpinLockShared(SpinLock: *mut EX_SPIN_LOCK) -> KIRQL where irql <= DISPATCH_LEVEL;
    /// Acquires a reader-writer spin lock to read.
    fn ExAcquireSpinLockSharedAtDpcLevel(SpinLock: *mut EX_SPIN_LOCK) where irql >= DISPATCH_LEVEL;
    /// Acquires a reader-writer spin lock to write, at `DISPATCH_LEVEL`; returns the old IRQL.
    fn ExAcquireSpinLockExclusive(SpinLock: *mut EX_SPIN_LOCK) -> KIRQL where irql <= DISPATCH_LEVEL;
    /// Acquires a reader-writer spin lock to write.
    fn ExAcquireSpinLockExclusiveAtDpcLevel(SpinLock: *mut EX_SPIN_LOCK) where irql >= DISPATCH_LEVEL;
    /// Releases a reader's hold and lowers the IRQL.
    fn ExReleaseSpinLockShared(SpinLock: *mut EX_SPIN_LOCK, OldIrql: KIRQL) where irql == DISPATCH_LEVEL;
    /// Releases a reader's hold.
    fn ExReleaseSpinLockSharedFromDpcLevel(SpinLock: *mut EX_SPIN_LOCK) where irql >= DISPATCH_LEVEL;
    /// Releases the writer's hold and lowers the IRQL.
    fn ExReleaseSpinLockExclusive(SpinLock: *mut EX_SPIN_LOCK, OldIrql: KIRQL) where irql == DISPATCH_LEVEL;
    /// Releases the writer's hold.
    fn ExReleaseSpinLockExclusiveFromDpcLevel(SpinLock: *mut EX_SPIN_LOCK) where irql >= DISPATCH_LEVEL;
    /// Initialises rundown protection.
    fn ExInitializeRundownProtection(RunRef: *mut EX_RUNDOWN_REF) where irql <= APC_LEVEL;
    /// Makes a rundown reference usable again after its rundown.
    fn ExReInitializeRundownProtection(RunRef: *mut EX_RUNDOWN_REF) where irql <= APC_LEVEL;
    /// Keeps an object from rundown; false once that has begun.
    fn ExAcquireRundownProtection(RunRef: *mut EX_RUNDOWN_REF) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Keeps an object from rundown, several times over.
    fn ExAcquireRundownProtectionEx(RunRef: *mut EX_RUNDOWN_REF, Count: u32) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Gives rundown protection back.
    fn ExReleaseRundownProtection(RunRef: *mut EX_RUNDOWN_REF) where irql <= DISPATCH_LEVEL;
    /// Gives rundown protection back, several times over.
    fn ExReleaseRundownProtectionEx(RunRef: *mut EX_RUNDOWN_REF, Count: u32) where irql <= DISPATCH_LEVEL;
    /// Begins the rundown, and waits until nobody is protected any more.
    fn ExWaitForRundownProtectionRelease(RunRef: *mut EX_RUNDOWN_REF) where irql <= APC_LEVEL, WAITS;
    /// Tells that the rundown is over.
    fn ExRundownCompleted(RunRef: *mut EX_RUNDOWN_REF) where irql <= APC_LEVEL;
    /// Initialises a push lock.
    fn ExInitializePushLock(PushLock: *mut EX_PUSH_LOCK) where irql <= HIGH_LEVEL;
    /// Acquires a push lock to read.
    fn ExfAcquirePushLockShared(PushLock: *mut EX_PUSH_LOCK) where irql <= APC_LEVEL, WAITS;
    /// Acquires a push lock to write.
    fn ExfAcquirePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) where irql <= APC_LEVEL, WAITS;
    /// Releases a push lock, whichever way it is held.
    fn ExfReleasePushLock(PushLock: *mut EX_PUSH_LOCK) where irql <= APC_LEVEL;
    /// Releases a reader's hold of a push lock.
    fn ExfReleasePushLockShared(PushLock: *mut EX_PUSH_LOCK) where irql <= APC_LEVEL;
    /// Releases the writer's hold of a push lock.
    fn ExfReleasePushLockExclusive(PushLock: *mut EX_PUSH_LOCK) where irql <= APC_LEVEL;
    /// Acquires a push lock to read.
    fn ExAcquirePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, WAITS;
    /// Acquires a push lock to write.
    fn ExAcquirePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL, WAITS;
    /// Releases a reader's hold of a push lock.
    fn ExReleasePushLockSharedEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL;
    /// Releases the writer's hold of a push lock.
    fn ExReleasePushLockExclusiveEx(PushLock: *mut EX_PUSH_LOCK, Flags: u32) where irql <= APC_LEVEL;
    /// Sets an event, lets those go on that wait for it, and resets it; returns the old state.
    fn KePulseEvent(Event: *mut KEVENT, Increment: KPRIORITY, Wait: BOOLEAN) -> i32 where irql <= DISPATCH_LEVEL;
    /// Whether a mutex is free (1), or how deeply it is owned.
    fn KeReadStateMutex(Mutex: *mut KMUTANT) -> i32 where irql <= DISPATCH_LEVEL;
    /// The count of a semaphore.
    fn KeReadStateSemaphore(Semaphore: *mut KSEMAPHORE) -> i32 where irql <= HIGH_LEVEL;
}
