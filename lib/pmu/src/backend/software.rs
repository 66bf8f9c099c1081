//! The software PMU: time, and ticks of the processor's constant-rate counter.
//!
//! It is there where no PMU is: in virtual machines, and where the system lends no counters. What it
//! counts it really counts; it claims no event that only hardware sees.

use super::Pmu;
use crate::{Model, Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

/// What tells the time.
pub trait Clock {
    /// Monotonic. Units: ns.
    fn now_ns(&mut self) -> u64;
    /// The constant-rate counter of the processor (TSC, CNTVCT_EL0).
    fn ticks(&mut self) -> u64;
}

/// [`Pmu`] over a clock. Its counters run free, so there is nothing to start or stop.
#[derive(Debug)]
pub struct SoftwarePmu<C>(pub C);

impl<C: Clock> Pmu for SoftwarePmu<C> {
    fn busy(&mut self) -> SlotSet {
        SlotSet::EMPTY
    }
    fn begin(&mut self) {}
    fn end(&mut self) {}
    fn program(&mut self, _: Slot, _: EventCode, _: EventFilter) {}
    fn clear(&mut self, _: Slot) {}
    fn enable(&mut self, _: SlotSet) {}
    fn disable(&mut self, _: SlotSet) {}

    fn read(&mut self, slot: Slot) -> u64 {
        match slot {
            Slot::Fixed(Model::SOFTWARE_NS) => self.0.now_ns(),
            Slot::Fixed(_) | Slot::General(_) => self.0.ticks(),
        }
    }

    fn mask(&self, _: Slot) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
pub(crate) mod fake;
