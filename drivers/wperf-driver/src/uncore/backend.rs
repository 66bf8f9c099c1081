//! The counters of a unit, whatever its kind.

use kernel::uncore::{DsuRegistersHere, Page};
use pmu::backend::Pmu;
use pmu::backend::coresight::{CoreSightBefore, CoreSightPmu};
use pmu::backend::dmc620::Dmc620Pmu;
use pmu::backend::dsu::{DsuBefore, DsuPmu};
use pmu::{Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

/// What a back end keeps from start to stop.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) dsu: DsuBefore,
    pub(super) coresight: CoreSightBefore,
}

/// Counters of a unit.
pub(super) enum UnitPmu<'a> {
    Dsu(DsuPmu<'a, DsuRegistersHere<'a>>),
    Dmc620(Dmc620Pmu<Page<'a>>),
    CoreSight(CoreSightPmu<'a, Page<'a>>),
}

macro_rules! forward {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        match $self {
            Self::Dsu(pmu) => pmu.$method($($argument),*),
            Self::Dmc620(pmu) => pmu.$method($($argument),*),
            Self::CoreSight(pmu) => pmu.$method($($argument),*),
        }
    };
}

impl Pmu for UnitPmu<'_> {
    fn busy(&mut self) -> SlotSet {
        forward!(self.busy())
    }
    fn begin(&mut self) {
        forward!(self.begin());
    }
    fn end(&mut self) {
        forward!(self.end());
    }
    fn program(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        forward!(self.program(slot, code, filter));
    }
    fn clear(&mut self, slot: Slot) {
        forward!(self.clear(slot));
    }
    fn enable(&mut self, slots: SlotSet) {
        forward!(self.enable(slots));
    }
    fn disable(&mut self, slots: SlotSet) {
        forward!(self.disable(slots));
    }
    fn read(&mut self, slot: Slot) -> u64 {
        forward!(self.read(slot))
    }
    fn mask(&self, slot: Slot) -> u64 {
        forward!(self.mask(slot))
    }
}
