//! The run of one core that counts; of one that samples, its state and generation.
//!
//! ```text
//!            start        tick         tick       stop
//!  window      │──── 0 ────│──── 1 ─────│─── 0 ────│
//!  harvest     b           h,b          h,b        h       h: read, add the difference
//!                                                          b: base for the next difference
//! ```
//! A *generation* is what totals belong to. It grows with every assignment, reset and change of
//! owner; totals and bases of the old one are gone by then, so that nothing of it can be read later.

use crate::backend::Pmu;
use crate::schedule::{Place, Schedule, ScheduledEvent};
use crate::{Model, Slot, SlotSet};
use core::ops::{Deref, DerefMut};
use wperf_abi::State;
use wperf_abi::record::{EventCount, count_flags};

/// What is assigned to one core, and its totals. `S` is the storage of the events.
///
/// # Invariants
/// Counters of the core are programmed if and only if the state is [`State::Counting`].
#[derive(Debug)]
pub struct Core<S> {
    generation: u64,
    run: Option<Run<S>>,
    /// Set instead of `run` on a core that samples or is about to: whether it does.
    sampling: Option<bool>,
}

#[derive(Debug)]
struct Run<S> {
    events: S,
    windows: u16,
    window: u16,
    /// When the present window or the last harvest began; `None` while nothing counts. Units: ns.
    since_ns: Option<u64>,
    enabled_ns: u64,
    rotations: u64,
}

/// Totals of a core, without those of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// What they belong to.
    pub generation: u64,
    /// Windows that take turns.
    pub windows: u16,
    /// How long the core counted. Units: ns.
    pub enabled_ns: u64,
    /// Turns so far.
    pub rotations: u64,
}

impl<S> Default for Core<S> {
    fn default() -> Self {
        Self {
            generation: 0,
            run: None,
            sampling: None,
        }
    }
}

impl<S: Deref<Target = [ScheduledEvent]> + DerefMut> Core<S> {
    /// State of a core that somebody holds.
    #[must_use]
    pub fn state(&self) -> State {
        if let Some(is_running) = self.sampling {
            return if is_running {
                State::Sampling
            } else {
                State::Armed
            };
        }
        match &self.run {
            None => State::Acquired,
            Some(run) if run.since_ns.is_none() => State::Assigned,
            Some(_) => State::Counting,
        }
    }

    /// Whether the core must be looked at now and then: to rotate, or before a counter wraps.
    #[must_use]
    pub fn needs_ticks(&self, model: &Model) -> bool {
        self.needs_ticks_with(|slot| model.bits(slot))
    }

    /// The same, where the widths of counters come from elsewhere. Units: bits.
    #[must_use]
    pub fn needs_ticks_with(&self, bits: impl Fn(Slot) -> u8) -> bool {
        self.run.as_ref().is_some_and(|run| {
            let is_narrow = |event: &ScheduledEvent| match event.place {
                Place::Nowhere => false,
                Place::Always(slot) | Place::Window(_, slot) => bits(slot) < 64,
            };
            run.windows > 1 || run.events.iter().any(is_narrow)
        })
    }

    /// Puts a schedule in; gives the storage of the former one back. Not while the core counts.
    #[must_use = "the storage must be freed where that is allowed"]
    pub fn assign(&mut self, events: S, schedule: Schedule) -> Option<S> {
        debug_assert!(
            self.state() != State::Counting,
            "counters would stay programmed"
        );
        self.generation += 1;
        let run = Run {
            events,
            windows: schedule.windows.max(1),
            window: 0,
            since_ns: None,
            enabled_ns: 0,
            rotations: 0,
        };
        self.sampling = None;
        self.run.replace(run).map(|run| run.events)
    }

    /// Makes it a core that samples; gives the storage of the former schedule back. Not while it counts.
    #[must_use = "the storage must be freed where that is allowed"]
    pub fn arm(&mut self) -> Option<S> {
        debug_assert!(
            self.state() != State::Counting,
            "counters would stay programmed"
        );
        self.generation += 1;
        self.sampling = Some(false);
        self.run.take().map(|run| run.events)
    }

    /// Notes that the sampler of the core runs, or stands still.
    pub fn note_sampling(&mut self, is_running: bool) {
        if let Some(sampling) = &mut self.sampling {
            *sampling = is_running;
        }
    }

    /// What totals and samples belong to now.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Forgets everything: the core changes hands. Not while the core counts.
    #[must_use = "the storage must be freed where that is allowed"]
    pub fn clear(&mut self) -> Option<S> {
        debug_assert!(
            self.state() != State::Counting,
            "counters would stay programmed"
        );
        self.generation += 1;
        self.sampling = None;
        self.run.take().map(|run| run.events)
    }

    /// Starts counting, on the core itself; no effect unless the state is [`State::Assigned`].
    pub fn start(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        if let Some(run) = self.run.as_mut().filter(|run| run.since_ns.is_none()) {
            pmu.begin();
            run.open_window(pmu, now_ns);
        }
    }

    /// Stops counting and harvests, on the core itself; no effect unless it counts.
    pub fn stop(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        if let Some(run) = self.run.as_mut().filter(|run| run.since_ns.is_some()) {
            run.close_window(pmu, now_ns);
            pmu.end();
        }
    }

    /// Zero totals and a new generation, on the core itself if it counts.
    pub fn reset(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        self.generation += 1;
        let Some(run) = &mut self.run else { return };
        // What was counted up to now belongs to the old generation: take it, then forget it.
        run.harvest(pmu, now_ns);
        run.enabled_ns = 0;
        run.rotations = 0;
        for event in run.events.iter_mut() {
            event.value = 0;
            event.running_ns = 0;
        }
    }

    /// Harvests and, when windows take turns, opens the next one. On the core itself.
    ///
    /// A tick that comes late, after a stop, does nothing.
    pub fn tick(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        let Some(run) = self.run.as_mut().filter(|run| run.since_ns.is_some()) else {
            return;
        };
        if run.windows == 1 {
            run.harvest(pmu, now_ns);
        } else {
            run.close_window(pmu, now_ns);
            run.window = (run.window + 1) % run.windows;
            run.rotations += 1;
            run.open_window(pmu, now_ns);
        }
    }

    /// Brings the totals up to date, on the core itself if it counts.
    pub fn harvest(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        if let Some(run) = &mut self.run {
            run.harvest(pmu, now_ns);
        }
    }

    /// Totals as of the last harvest; `None` if nothing is assigned.
    #[must_use]
    pub fn totals(&self) -> Option<(Totals, impl ExactSizeIterator<Item = EventCount>)> {
        let run = self.run.as_ref()?;
        let totals = Totals {
            generation: self.generation,
            windows: run.windows,
            enabled_ns: run.enabled_ns,
            rotations: run.rotations,
        };
        Some((
            totals,
            run.events.iter().map(|event| event.count(run.enabled_ns)),
        ))
    }
}

impl ScheduledEvent {
    fn count(&self, enabled_ns: u64) -> EventCount {
        let flags = match self.place {
            Place::Nowhere => count_flags::NO_COUNTER,
            Place::Always(Slot::Fixed(_)) | Place::Window(_, Slot::Fixed(_)) => count_flags::FIXED,
            Place::Always(_) | Place::Window(..) => 0,
        };
        EventCount {
            code: self.code,
            group: self.group,
            flags: flags | self.flags,
            value: self.value,
            enabled_ns,
            running_ns: self.running_ns,
        }
    }
}

impl<S: Deref<Target = [ScheduledEvent]> + DerefMut> Run<S> {
    fn slots(&self) -> SlotSet {
        let mut slots = SlotSet::EMPTY;
        let in_window = |event: &ScheduledEvent| event.slot_in(self.window);
        self.events
            .iter()
            .filter_map(in_window)
            .for_each(|slot| slots.insert(slot));
        slots
    }

    fn open_window(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        let window = self.window;
        for event in self.events.iter_mut() {
            if let Some(slot) = event.slot_in(window) {
                pmu.program(slot, event.code, event.filter);
                event.last = pmu.read(slot);
            }
        }
        self.since_ns = Some(now_ns);
        pmu.enable(self.slots());
    }

    fn close_window(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        pmu.disable(self.slots());
        self.harvest(pmu, now_ns);
        let window = self.window;
        self.events
            .iter()
            .filter_map(|event| event.slot_in(window))
            .for_each(|slot| pmu.clear(slot));
        self.since_ns = None;
    }

    /// Adds what each counter moved since it was last read; its width bounds the difference.
    fn harvest(&mut self, pmu: &mut impl Pmu, now_ns: u64) {
        let Some(since_ns) = self.since_ns else {
            return;
        };
        let elapsed_ns = now_ns.saturating_sub(since_ns);
        self.since_ns = Some(now_ns);
        self.enabled_ns += elapsed_ns;
        let window = self.window;
        for event in self.events.iter_mut() {
            if let Some(slot) = event.slot_in(window) {
                let now = pmu.read(slot);
                let moved = now.wrapping_sub(event.last) & pmu.mask(slot);
                event.last = now;
                event.value = event.value.wrapping_add(moved);
                event.running_ns += elapsed_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests;
