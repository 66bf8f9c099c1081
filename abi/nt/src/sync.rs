//! Locks of one word: reader-writer spin locks, rundown protection, push locks by their older names.

use crate::base::BOOLEAN;
use crate::ex::FAST_MUTEX;
use crate::ke::{KEVENT, KIRQL, KMUTANT, KPRIORITY, KSEMAPHORE, KSPIN_LOCK};
use crate::lock::EX_PUSH_LOCK;

/// Twice the number of holders; the low bit is set once they must leave.
pub type EX_RUNDOWN_REF = usize;
/// A spin lock with readers and a writer.
pub type EX_SPIN_LOCK = i32;

image! {
    /// Acquires a guarded mutex in a guarded region or at `APC_LEVEL`.
    fn KeAcquireGuardedMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, WAITS;
    /// Releases a guarded mutex of `KeAcquireGuardedMutexUnsafe`.
    fn KeReleaseGuardedMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL;
    /// Whether no APC at all reaches the thread: in a guarded region, or at `APC_LEVEL` or above.
    fn KeAreAllApcsDisabled() -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Acquires a fast mutex where APCs are kept out already.
    fn ExAcquireFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, WAITS;
    /// Releases a fast mutex of `ExAcquireFastMutexUnsafe`.
    fn ExReleaseFastMutexUnsafe(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL;
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
    /// Sets an event, lets those go on that wait for it, and resets it; returns the old state.
    fn KePulseEvent(Event: *mut KEVENT, Increment: KPRIORITY, Wait: BOOLEAN) -> i32 where irql <= DISPATCH_LEVEL;
    /// Whether a mutex is free (1), or how deeply it is owned.
    fn KeReadStateMutex(Mutex: *mut KMUTANT) -> i32 where irql <= DISPATCH_LEVEL;
    /// The count of a semaphore.
    fn KeReadStateSemaphore(Semaphore: *mut KSEMAPHORE) -> i32 where irql <= HIGH_LEVEL;
}
