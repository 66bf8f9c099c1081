//! The samples of one core: counters that interrupt, and what their interrupts become.
//!
//! ```text
//!  counter   −interval ─▶ … ─▶ 0 ─▶ rest        interrupt: a sample, and the counter is set to
//!                              │                 −(interval − rest), whether there was room or not
//!            late: interval or more ─▶ 0         what was due meanwhile is counted as late
//! ```
//! So whatever the interrupts' delays, `generated` is what the counters counted, divided by the
//! interval. An interrupt that comes after a stop or a reset finds no counter of its own overflowed,
//! or nothing running, and leaves no trace.

use crate::backend::SamplingPmu;
use crate::ring::{RawSample, Ring, RingPlace};
use crate::schedule::{Free, ScheduleError};
use crate::{Model, Slot, SlotSet};
use core::ops::{Deref, DerefMut};
use wperf_abi::record::SampleSource;
use wperf_abi::{EventCode, EventFilter, MAX_SOURCES};

/// A source of samples on its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it counts.
    pub code: EventCode,
    /// In which modes not.
    pub filter: EventFilter,
    /// Its counter.
    pub slot: Slot,
    /// Events from one sample to the next.
    interval: u64,
    /// Process whose samples are wanted; 0: every process.
    pid: u32,
    /// Events until the next sample, as of when the counter was last set.
    left: u64,
    /// Value the counter was last set to.
    base: u64,
}

impl Source {
    /// For storage that is about to be filled.
    pub const UNUSED: Self = Self {
        code: EventCode(0),
        filter: EventFilter::NONE,
        slot: Slot::General(0),
        interval: 1,
        pid: 0,
        left: 1,
        base: 0,
    };

    fn new(source: &SampleSource, slot: Slot) -> Self {
        Self {
            code: source.code,
            filter: source.filter,
            slot,
            interval: source.interval.max(1),
            pid: source.pid,
            left: source.interval.max(1),
            base: 0,
        }
    }

    /// Sets its counter, which stands still, to overflow when the next sample is due.
    fn arm(&mut self, pmu: &mut impl SamplingPmu) {
        let events = self.left.min(pmu.most_until_overflow(self.slot)).max(1);
        self.base = pmu.arm(self.slot, events);
    }

    /// Takes what its counter has counted since; gives how many samples that makes due.
    fn advance(&mut self, pmu: &mut impl SamplingPmu) -> u64 {
        let value = pmu.read(self.slot);
        let moved = value.wrapping_sub(self.base) & pmu.mask(self.slot);
        self.base = value;
        let Some(beyond) = moved.checked_sub(self.left) else {
            self.left -= moved;
            return 0;
        };
        let interval = self.interval.max(1);
        self.left = interval - beyond % interval;
        beyond / interval + 1
    }
}

/// Gives each source a counter of its own that can interrupt; storage has one place per source.
///
/// Errors: [`ScheduleError`]; the storage is then of no use.
pub fn place_sources(
    model: &Model,
    free: Free,
    sources: impl Iterator<Item = SampleSource>,
    storage: &mut [Source],
) -> Result<(), ScheduleError> {
    let mut left = free;
    let mut places = storage.iter_mut();
    for source in sources {
        let place = places.next().ok_or(ScheduleError::Storage)?;
        let slot = interrupting_slot(model, left, source.code)?;
        left.remove(slot);
        *place = Source::new(&source, slot);
    }
    places
        .next()
        .map_or(Ok(()), |_| Err(ScheduleError::Storage))
}

fn interrupting_slot(model: &Model, left: Free, code: EventCode) -> Result<Slot, ScheduleError> {
    let unsupported = ScheduleError::Unsupported(code);
    let placement = model.placement(code).ok_or(unsupported)?;
    if placement.shared {
        return Err(ScheduleError::NoInterrupt);
    }
    let fixed = placement.fixed.filter(|_| model.fixed_may_be_set());
    let fixed = fixed.map(Slot::Fixed).filter(|&slot| left.contains(slot));
    let general = left.first_general().filter(|_| placement.general);
    // A group of sources is always larger by one than what is left for the one that does not fit.
    fixed
        .or(general)
        .ok_or(ScheduleError::GroupTooLarge { group: 0 })
}

/// What an interrupt interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// When. Units: ns.
    pub time_ns: u64,
    /// Instruction that was next.
    pub pc: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Whether the processor was in user mode.
    pub user: bool,
}

/// What became of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Served {
    /// Counters of its own that had overflowed.
    pub overflowed: u32,
    /// Samples that are in the ring because of it.
    pub samples: u32,
}

/// The sources of one core. `S` is their storage.
///
/// # Invariants
/// Counters are programmed if and only if it is running.
#[derive(Debug)]
pub struct Sampler<S> {
    generation: u64,
    is_running: bool,
    sources: Option<S>,
}

impl<S> Default for Sampler<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Sampler<S> {
    /// Without sources.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            generation: 0,
            is_running: false,
            sources: None,
        }
    }
}

impl<S: Deref<Target = [Source]> + DerefMut> Sampler<S> {
    /// Whether counters are running.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Puts sources in; gives the storage of the former ones back. Not while it runs.
    #[must_use = "the storage must be freed where that is allowed"]
    pub fn assign(&mut self, sources: S, generation: u64) -> Option<S> {
        debug_assert!(!self.is_running, "counters would stay programmed");
        self.generation = generation;
        self.sources.replace(sources)
    }

    /// Forgets the sources. Not while it runs.
    #[must_use = "the storage must be freed where that is allowed"]
    pub fn clear(&mut self) -> Option<S> {
        debug_assert!(!self.is_running, "counters would stay programmed");
        self.sources.take()
    }

    /// The events of the sources, in the order of the assignment.
    #[must_use]
    pub fn codes(&self) -> [EventCode; MAX_SOURCES] {
        let mut codes = [EventCode::default(); MAX_SOURCES];
        let sources = self.sources.iter().flat_map(|sources| sources.iter());
        for (code, source) in codes.iter_mut().zip(sources) {
            *code = source.code;
        }
        codes
    }

    fn slots(&self) -> SlotSet {
        let mut slots = SlotSet::EMPTY;
        for source in self.sources.iter().flat_map(|sources| sources.iter()) {
            slots.insert(source.slot);
        }
        slots
    }

    /// Starts, on the core itself; no effect unless there are sources that stand still.
    pub fn start(&mut self, pmu: &mut impl SamplingPmu) {
        let slots = self.slots();
        let Some(sources) = self.sources.as_mut().filter(|_| !self.is_running) else {
            return;
        };
        pmu.begin();
        for source in sources.iter_mut() {
            pmu.program_sampling(source.slot, source.code, source.filter);
            source.arm(pmu);
        }
        self.is_running = true;
        pmu.enable(slots);
    }

    /// Stops, on the core itself. A sample that was due and whose interrupt did not come in time is late.
    pub fn stop(
        &mut self,
        pmu: &mut impl SamplingPmu,
        ring: &Ring<impl Deref<Target = [RingPlace]>>,
    ) {
        let slots = self.slots();
        let Some(sources) = self.sources.as_mut().filter(|_| self.is_running) else {
            return;
        };
        pmu.disable(slots);
        for source in sources.iter_mut() {
            let due = source.advance(pmu);
            if source.pid == 0 {
                ring.note_late(due);
            }
            pmu.clear(source.slot);
        }
        pmu.acknowledge(slots);
        pmu.end();
        self.is_running = false;
    }

    /// Begins a new generation with an empty ring, on the core itself if it runs. Nobody reads meanwhile.
    pub fn reset(
        &mut self,
        pmu: &mut impl SamplingPmu,
        ring: &Ring<impl Deref<Target = [RingPlace]>>,
        generation: u64,
    ) {
        let slots = self.slots();
        let is_running = self.is_running;
        self.generation = generation;
        if is_running {
            pmu.disable(slots);
        }
        for source in self.sources.iter_mut().flat_map(|all| all.iter_mut()) {
            source.left = source.interval;
            if is_running {
                source.arm(pmu);
            }
        }
        ring.clear();
        if is_running {
            pmu.acknowledge(slots);
            pmu.enable(slots);
        }
    }

    /// The interrupt of the counters, on the core itself. Whoever else's it is, nothing happens.
    ///
    /// Its work is bounded by the number of sources.
    pub fn interrupt(
        &mut self,
        pmu: &mut impl SamplingPmu,
        ring: &Ring<impl Deref<Target = [RingPlace]>>,
        at: &Interrupted,
    ) -> Served {
        let slots = self.slots();
        let generation = self.generation;
        let mut served = Served::default();
        let Some(sources) = self.sources.as_mut().filter(|_| self.is_running) else {
            return served;
        };
        // First: what overflows from here on would be acknowledged unseen.
        pmu.disable(slots);
        let overflowed = pmu.overflowed(slots);
        for (source, number) in sources.iter_mut().zip(0u16..) {
            if !overflowed.contains(source.slot) {
                continue;
            }
            served.overflowed += 1;
            let due = source.advance(pmu);
            source.arm(pmu);
            let is_wanted = source.pid == 0 || source.pid == at.pid;
            if due > 0 && is_wanted {
                ring.note_late(due - 1);
                let sample = RawSample {
                    time_ns: at.time_ns,
                    pc: at.pc,
                    generation,
                    pid: at.pid,
                    tid: at.tid,
                    source: number,
                    user: at.user,
                };
                served.samples += u32::from(ring.push(sample));
            }
        }
        pmu.acknowledge(overflowed);
        pmu.enable(slots);
        served
    }
}

#[cfg(test)]
mod tests;
