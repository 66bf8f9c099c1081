//! The event: one side sets it, the other waits.

use super::{blank_event, wait, wait_until};
use crate::Result;
use crate::pool::{PoolBox, PoolTag};
use core::cell::UnsafeCell;
use nt::ke::{KEVENT, NotificationEvent, SynchronizationEvent};

/// What happens to an event when a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It stays set, and every waiter goes on.
    Notification,
    /// It is reset, and one waiter goes on.
    Synchronization,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The event was set.
    Signalled,
    /// The time was up.
    TimedOut,
}

/// An event, in the pool: an initialised one must not move.
pub struct Event(PoolBox<UnsafeCell<KEVENT>>);

// SAFETY: the event is only passed to the kernel, which synchronizes it.
unsafe impl Sync for Event {}
// SAFETY: as above; it stays where it is in the pool.
unsafe impl Send for Event {}

impl Event {
    /// An event that is not set.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    /// Source: `KeInitializeEvent`, wdm.h.
    pub fn try_new(tag: PoolTag, kind: EventKind) -> Result<Self> {
        let event = PoolBox::try_new(tag, UnsafeCell::new(blank_event()))?;
        let kind = match kind {
            EventKind::Notification => NotificationEvent,
            EventKind::Synchronization => SynchronizationEvent,
        };
        // SAFETY: memory for an event that nobody uses yet, and that will not move.
        unsafe { nt::ke::KeInitializeEvent(event.get(), kind, 0) };
        Ok(Self(event))
    }

    /// Sets it: who waits goes on.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeSetEvent`, wdm.h.
    pub fn set(&self) {
        // SAFETY: an initialised event; no wait follows, so `Wait` is false.
        unsafe { nt::ke::KeSetEvent(self.0.get(), 0, 0) };
    }

    /// Resets it.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeClearEvent`, wdm.h.
    pub fn reset(&self) {
        // SAFETY: an initialised event.
        unsafe { nt::ke::KeClearEvent(self.0.get()) };
    }

    /// Whether it is set at this moment.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeReadStateEvent`, wdm.h.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // SAFETY: an initialised event.
        unsafe { nt::ke::KeReadStateEvent(self.0.get()) != 0 }
    }

    /// Waits until it is set.
    ///
    /// IRQL: `<= APC_LEVEL`.
    /// Source: `KeWaitForSingleObject`, wdm.h.
    pub fn wait(&self) {
        wait(self.0.get());
    }

    /// Waits until it is set or the time is up; 0 only looks.
    ///
    /// Units: ms. IRQL: `<= APC_LEVEL`.
    /// Source: `KeWaitForSingleObject`, wdm.h.
    pub fn wait_for(&self, timeout_ms: u32) -> Waited {
        const UNITS_PER_MS: i64 = 10_000;
        wait_until(self.0.get(), -i64::from(timeout_ms) * UNITS_PER_MS)
    }
}
