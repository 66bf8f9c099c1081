//! Locks and events.
#![expect(unsafe_code, reason = "wraps kernel locks and events")]

mod event;
mod high;

use crate::pool::{PoolBox, PoolTag};
use crate::{Result, status};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};
pub use event::{Event, EventKind, Waited};
pub use high::{HighLock, HighLockGuard};
use nt::base::KernelMode;
use nt::ke::{
    DISPATCHER_HEADER, Executive, KEVENT, KIRQL, KSPIN_LOCK, NotificationEvent,
    SynchronizationEvent,
};

/// A value that one processor at a time may touch, also in a DPC.
pub struct SpinLock<T> {
    raw: UnsafeCell<KSPIN_LOCK>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one processor at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: an unlocked spin lock is a plain number.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Unlocked. An initialised `KSPIN_LOCK` is zero (`KeInitializeSpinLock`, wdm.h).
    ///
    /// IRQL: any.
    pub const fn new(value: T) -> Self {
        Self {
            raw: UnsafeCell::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks; the caller is at `DISPATCH_LEVEL` until the guard is dropped. Not recursive.
    ///
    /// Of several guards, the last one must be dropped first: each restores the IRQL it found.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeAcquireSpinLockRaiseToDpc`, wdm.h.
    pub fn lock(&self) -> SpinLockGuard<'_, T> {
        // SAFETY: `raw` is an initialised spin lock.
        let irql = unsafe { nt::ke::KeAcquireSpinLockRaiseToDpc(self.raw.get()) };
        SpinLockGuard {
            lock: self,
            irql,
            _here: PhantomData,
        }
    }
}

/// The locked value. Stays on the processor that locked.
#[must_use = "dropping the guard unlocks"]
pub struct SpinLockGuard<'a, T> {
    lock: &'a SpinLock<T>,
    irql: KIRQL,
    _here: PhantomData<*const ()>,
}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard holds the lock, and `irql` is what locking returned.
        unsafe { nt::ke::KeReleaseSpinLock(self.lock.raw.get(), self.irql) };
    }
}

/// A value that one thread at a time may touch, and that it may keep across waits.
///
/// A synchronization event that is signalled while the mutex is free. Not a `KMUTANT`: that is
/// bound to a thread and recursive, of which neither is wanted.
pub struct Mutex<T> {
    /// In the pool: an initialised event must not move.
    free: PoolBox<UnsafeCell<KEVENT>>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex gives the value to one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the event may be used from any thread, and the value may move.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// Unlocked.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub fn try_new(tag: PoolTag, value: T) -> Result<Self> {
        let free = PoolBox::try_new(tag, UnsafeCell::new(blank_event()))?;
        // SAFETY: `free` is memory for an event, and will not move.
        unsafe { nt::ke::KeInitializeEvent(free.get(), SynchronizationEvent, 1) };
        Ok(Self {
            free,
            value: UnsafeCell::new(value),
        })
    }

    /// Locks, waiting if another thread holds it. Not recursive.
    ///
    /// IRQL: `<= APC_LEVEL`.
    /// Source: `KeWaitForSingleObject`, `KeEnterCriticalRegion`, wdm.h.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // A thread that is suspended must not hold it.
        // SAFETY: undone when the guard is dropped, on the same thread: the guard is not `Send`.
        unsafe { nt::ke::KeEnterCriticalRegion() };
        wait(self.free.get());
        MutexGuard {
            mutex: self,
            _here: PhantomData,
        }
    }
}

/// The locked value. Stays on the thread that locked.
#[must_use = "dropping the guard unlocks"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _here: PhantomData<*const ()>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mutex is held as long as the guard lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held as long as the guard lives.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: an initialised event; no wait follows, so `Wait` is false.
        unsafe { nt::ke::KeSetEvent(self.mutex.free.get(), 0, 0) };
        // SAFETY: undoes the one of `lock`, on the same thread.
        unsafe { nt::ke::KeLeaveCriticalRegion() };
    }
}

const fn blank_event() -> KEVENT {
    use core::ptr::null_mut;
    let links = nt::base::LIST_ENTRY {
        Flink: null_mut(),
        Blink: null_mut(),
    };
    let header = DISPATCHER_HEADER {
        Type: 0,
        Signalling: 0,
        Size: 0,
        Reserved1: 0,
        SignalState: 0,
        WaitListHead: links,
    };
    KEVENT { Header: header }
}

/// Waits for as long as it takes, without being woken for anything else.
///
/// In kernel mode, so that the stack, where the event may be, stays resident.
fn wait(event: *mut KEVENT) {
    let (object, forever) = (event.cast(), core::ptr::null());
    // SAFETY: every caller passes an initialised event that outlives the wait.
    unsafe { nt::ke::KeWaitForSingleObject(object, Executive, KernelMode, 0, forever) };
}

/// Waits until a time, as [`wait`] does. Units: 100 ns, negative from now.
fn wait_until(event: *mut KEVENT, due: i64) -> Waited {
    let (object, due) = (event.cast(), &raw const due);
    // SAFETY: (1) every caller passes an initialised event that outlives the wait. (2) `due` is valid.
    let status = unsafe { nt::ke::KeWaitForSingleObject(object, Executive, KernelMode, 0, due) };
    if status == status::STATUS_TIMEOUT {
        Waited::TimedOut
    } else {
        Waited::Signalled
    }
}

/// Counts pieces of work and waits until all of them are done.
///
/// # Invariants
/// Does not move between [`begin`](Self::begin) and the end of [`wait`](Self::wait).
pub(crate) struct Pending {
    count: AtomicUsize,
    done: UnsafeCell<KEVENT>,
}

// SAFETY: the count is atomic; the event is only passed to the kernel, which synchronizes it.
unsafe impl Sync for Pending {}

impl Pending {
    /// One piece of work, the caller's own, is pending already.
    pub(crate) const fn new() -> Self {
        Self {
            count: AtomicUsize::new(1),
            done: UnsafeCell::new(blank_event()),
        }
    }

    /// Makes the event ready. Call once, where it will stay.
    pub(crate) fn begin(&self) {
        // SAFETY: memory for an event that nobody uses yet.
        unsafe { nt::ke::KeInitializeEvent(self.done.get(), NotificationEvent, 0) };
    }

    /// One more piece of work.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// One piece less; whether it was the last.
    fn finish(&self) -> bool {
        self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// One piece less; wakes the waiter if it was the last.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub(crate) fn finish_and_wake(&self) {
        if self.finish() {
            // SAFETY: an initialised event; the waiter keeps it until it is signalled.
            unsafe { nt::ke::KeSetEvent(self.done.get(), 0, 0) };
        }
    }

    /// Ends the caller's own piece and waits for the others.
    ///
    /// IRQL: `<= APC_LEVEL`.
    pub(crate) fn wait(&self) {
        if !self.finish() {
            wait(self.done.get());
        }
    }
}
