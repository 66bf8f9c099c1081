//! Time in the lab: virtual, so that runs repeat, or the host's.

use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Which time a machine lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockKind {
    /// Time stands still while the driver runs and jumps to the next timer
    /// when everything waits: the same run gives the same times.
    #[default]
    Virtual,
    /// The host's monotonic clock.
    Host,
}

/// Nanoseconds by which reading the virtual clock advances it, so that a loop
/// that waits for time to pass ends.
const READ_COST_NS: u64 = 100;
/// 1601 to 1970 in 100 ns.
const UNIX_EPOCH_FILETIME: u64 = 116_444_736_000_000_000;
/// Boot of every virtual machine: 2024-01-01, in FILETIME units.
const VIRTUAL_BOOT_FILETIME: u64 = 133_485_408_000_000_000;

pub(crate) struct Clock {
    kind: ClockKind,
    virtual_ns: Cell<u64>,
    start: Instant,
    boot_filetime: u64,
}

impl Clock {
    pub(crate) fn new(kind: ClockKind) -> Self {
        let boot_filetime = match kind {
            ClockKind::Virtual => VIRTUAL_BOOT_FILETIME,
            ClockKind::Host => host_filetime(),
        };
        Self {
            kind,
            // A machine has been up for a while: time zero is a value drivers use for "never".
            virtual_ns: Cell::new(1_000_000_000),
            start: Instant::now(),
            boot_filetime,
        }
    }

    pub(crate) fn kind(&self) -> ClockKind {
        self.kind
    }

    /// Nanoseconds since boot.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.kind {
            ClockKind::Virtual => self.virtual_ns.get(),
            ClockKind::Host => {
                1_000_000_000
                    + u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
            }
        }
    }

    /// Nanoseconds since boot, read by a driver.
    pub(crate) fn read_ns(&self) -> u64 {
        self.advance(READ_COST_NS);
        self.now_ns()
    }

    /// Lets virtual time pass.
    pub(crate) fn advance(&self, ns: u64) {
        self.virtual_ns
            .set(self.virtual_ns.get().saturating_add(ns));
    }

    /// Lets virtual time pass up to an instant.
    pub(crate) fn advance_to(&self, ns: u64) {
        self.virtual_ns.set(self.virtual_ns.get().max(ns));
    }

    /// Wall time in 100 ns since 1601.
    pub(crate) fn filetime(&self) -> u64 {
        self.boot_filetime + self.now_ns() / 100
    }
}

fn host_filetime() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UNIX_EPOCH_FILETIME + u64::try_from(since_1970.as_nanos() / 100).unwrap_or(0)
}
