//! The lock that keeps interrupts out.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use nt::ke::{HIGH_LEVEL, KIRQL, KSPIN_LOCK};

/// A value that one processor at a time may touch, also in the interrupt of the counters.
///
/// Whoever holds it is at `HIGH_LEVEL`: hold it for moments only, and do nothing that waits.
pub struct HighLock<T> {
    raw: UnsafeCell<KSPIN_LOCK>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one processor at a time.
unsafe impl<T: Send> Sync for HighLock<T> {}
// SAFETY: an unlocked spin lock is a plain number.
unsafe impl<T: Send> Send for HighLock<T> {}

impl<T> HighLock<T> {
    /// Unlocked.
    ///
    /// IRQL: any.
    pub const fn new(value: T) -> Self {
        Self {
            raw: UnsafeCell::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks; the caller is at `HIGH_LEVEL` until the guard is dropped. Not recursive.
    ///
    /// Of several guards, the last one must be dropped first: each restores the IRQL it found.
    ///
    /// IRQL: any.
    /// Source: `KfRaiseIrql`, `KeAcquireSpinLockAtDpcLevel` (`>= DISPATCH_LEVEL`), wdm.h.
    pub fn lock(&self) -> HighLockGuard<'_, T> {
        // SAFETY: no level is higher; the guard lowers it again.
        let irql = unsafe { nt::ke::KfRaiseIrql(HIGH_LEVEL) };
        // SAFETY: an initialised spin lock; no interrupt comes on this processor while it is held.
        unsafe { nt::ke::KeAcquireSpinLockAtDpcLevel(self.raw.get()) };
        HighLockGuard {
            lock: self,
            irql,
            _here: PhantomData,
        }
    }
}

/// The locked value. Stays on the processor that locked.
#[must_use = "dropping the guard unlocks"]
pub struct HighLockGuard<'a, T> {
    lock: &'a HighLock<T>,
    irql: KIRQL,
    _here: PhantomData<*const ()>,
}

impl<T> Deref for HighLockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for HighLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for HighLockGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard holds the lock.
        unsafe { nt::ke::KeReleaseSpinLockFromDpcLevel(self.lock.raw.get()) };
        // SAFETY: what the raise in `lock` returned.
        unsafe { nt::ke::KeLowerIrql(self.irql) };
    }
}
