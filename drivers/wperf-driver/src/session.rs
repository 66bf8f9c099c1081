//! What belongs to one open handle.

use crate::TAG;
use kernel::Result;
use kernel::pool::PoolArc;
use kernel::status::STATUS_FILE_CLOSED;
use kernel::sync::SpinLock;
use kernel::wait::WaitSlot;
use pmu::Session;

/// The session of a handle, until its last handle is closed.
///
/// Requests of one handle may come at the same time, so the session is locked; never for long.
pub struct File {
    session: SpinLock<Option<Session>>,
    /// The same session, as far as it holds uncore units.
    units: SpinLock<Option<Session>>,
    slot: PoolArc<WaitSlot>,
}

impl File {
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub(crate) fn try_new(session: Session) -> Result<Self> {
        Ok(Self {
            units: SpinLock::new(Some(session.elsewhere())),
            session: SpinLock::new(Some(session)),
            slot: WaitSlot::try_new(TAG)?,
        })
    }

    /// Where a request of the session waits for samples.
    pub(crate) const fn slot(&self) -> &PoolArc<WaitSlot> {
        &self.slot
    }

    /// Looks at the session.
    ///
    /// Errors: `STATUS_FILE_CLOSED` for a request that comes after the cleanup.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Session) -> R) -> Result<R> {
        self.session
            .lock()
            .as_mut()
            .map(look)
            .ok_or(STATUS_FILE_CLOSED)
    }

    /// Looks at the session as far as it holds uncore units.
    ///
    /// Errors: `STATUS_FILE_CLOSED` for a request that comes after the cleanup.
    pub(crate) fn with_units<R>(&self, look: impl FnOnce(&mut Session) -> R) -> Result<R> {
        self.units
            .lock()
            .as_mut()
            .map(look)
            .ok_or(STATUS_FILE_CLOSED)
    }

    /// Ends it for uncore units: whatever comes later about one fails.
    pub(crate) fn close_units(&self) -> Option<Session> {
        self.units.lock().take()
    }

    /// Ends it: whatever comes later on this handle fails.
    pub(crate) fn close(&self) -> Option<Session> {
        self.session.lock().take()
    }
}
