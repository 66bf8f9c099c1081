//! What each processor has, and what work items do.

use super::TAG;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::Result;
use kernel::debug;
use kernel::device::DeviceRef;
use kernel::per_cpu::PerCore;
use kernel::process;
use kernel::processor::CurrentCore;
use kernel::sync::{Event, EventKind, SpinLock};
use kernel::time::monotonic_ns;
use kernel::work_item::{Work, WorkItem};

/// Work that counts its runs and wakes whoever waits for them.
pub(crate) struct Wake {
    pub(crate) done: Event,
    /// Nobody sets it; a run waits for it for so long.
    never: Event,
    takes_ms: AtomicU32,
    runs: AtomicU32,
    process: AtomicU32,
}

impl Wake {
    pub(crate) fn try_new() -> Result<Self> {
        Ok(Self {
            done: Event::try_new(TAG, EventKind::Synchronization)?,
            never: Event::try_new(TAG, EventKind::Notification)?,
            takes_ms: AtomicU32::new(0),
            runs: AtomicU32::new(0),
            process: AtomicU32::new(0),
        })
    }

    /// From now on, a run takes so long.
    pub(crate) fn take(&self, ms: u32) {
        self.takes_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::Acquire)
    }

    /// The process that the last run was in.
    pub(crate) fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }
}

impl Work for Wake {
    fn run(&self) {
        self.never.wait_for(self.takes_ms.load(Ordering::Relaxed));
        self.process.store(process::current_id(), Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::AcqRel);
        self.done.set();
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        debug::note(DROPPED_AFTER, [self.runs().into(), 0, 0]);
    }
}

/// [`protocol::DROPPED_AFTER`](crate::protocol::DROPPED_AFTER), terminated.
const DROPPED_AFTER: &CStr = c"work dropped after runs:";

/// What a tick does besides counting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnTick {
    Nothing,
    /// Sets the event at this tick.
    SetEventAt(u32),
    QueueWork,
}

struct Ticks {
    count: u32,
    then: OnTick,
}

/// One processor.
pub(crate) struct Core {
    ticks: SpinLock<Ticks>,
    pub(crate) reached: Event,
    pub(crate) work: WorkItem<Wake>,
}

impl Core {
    pub(crate) fn try_new(device: DeviceRef<'_>) -> Result<Self> {
        Ok(Self {
            ticks: SpinLock::new(Ticks {
                count: 0,
                then: OnTick::Nothing,
            }),
            reached: Event::try_new(TAG, EventKind::Notification)?,
            work: WorkItem::try_new(device, TAG, Wake::try_new()?)?,
        })
    }

    pub(crate) fn begin(&self, then: OnTick) {
        self.reached.reset();
        let mut ticks = self.ticks.lock();
        ticks.count = 0;
        ticks.then = then;
    }

    pub(crate) fn tick_count(&self) -> u32 {
        self.ticks.lock().count
    }
}

impl PerCore for Core {
    fn tick(&self, _: &CurrentCore) {
        let mut ticks = self.ticks.lock();
        increment(&mut ticks.count);
        match ticks.then {
            OnTick::SetEventAt(n) if ticks.count == n => self.reached.set(),
            OnTick::QueueWork => {
                self.work.queue();
            }
            OnTick::Nothing | OnTick::SetEventAt(_) => {}
        }
    }
}

/// Adds one in two steps, between which another processor may come: unless a lock keeps it out, one
/// of both is lost.
pub(crate) fn increment<T: Copy + core::ops::Add<Output = T> + From<u8>>(number: &mut T) {
    let before = *number;
    monotonic_ns();
    *number = before + T::from(1);
}
