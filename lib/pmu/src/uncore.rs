//! PMUs that belong to no core: the DynamIQ Shared Unit of a cluster, the DMC-620 memory controller,
//! and whatever has a PMU of Arm's CoreSight architecture.
//!
//! ```text
//!  firmware ─▶ apmt, resources ─▶ where registers are ─▶ UnitModel ─▶ backend::{dsu, dmc620, coresight}
//! ```
//! All events of a unit count at the same time: their counters are of one machine, and what is left
//! out in turns could not be compared with what is not.

pub mod apmt;
pub mod clusters;
pub mod resources;

use crate::schedule::{Place, Schedule, ScheduleError, ScheduledEvent};
use crate::{Slot, SlotSet};
use wperf_abi::EventCode;
use wperf_abi::record::{AssignEvent, UnitKind};

/// The PMU of an uncore unit, as it describes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitModel {
    /// DynamIQ Shared Unit.
    Dsu(DsuModel),
    /// DMC-620, which is always the same.
    Dmc620,
    /// CoreSight PMU.
    CoreSight(CoreSightModel),
}

/// A DynamIQ Shared Unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsuModel {
    /// CLUSTERPMCR_EL1.N.
    pub counters: u8,
    /// CLUSTERPMCEID0_EL1 and CLUSTERPMCEID1_EL1: events 0x00–0x1F and 0x20–0x3F.
    pub announced: [u32; 2],
}

/// A CoreSight PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSightModel {
    /// Event counters, the cycle counter not among them. At most [`Self::MOST_COUNTERS`] are used.
    pub counters: u8,
    /// Width of the widest. Units: bits.
    pub bits: u8,
    /// Whether there is a cycle counter.
    pub has_cycles: bool,
}

impl DsuModel {
    /// The event of the cycle counter.
    const CYCLES: u32 = 0x11;
    /// What is sure of a counter's width: 32 in the first DSU, 64 in later ones. Differences of the low
    /// half are right for both. Units: bits.
    const COUNTER_BITS: u8 = 32;

    /// From the registers.
    ///
    /// Source: DSU TRM 100453, B2.2 (CLUSTERPMCR_EL1.N), B2.12 and B2.13 (CLUSTERPMCEID).
    #[must_use]
    pub const fn from_registers(pmcr: u64, announced: [u64; 2]) -> Self {
        let [low, high] = announced;
        #[expect(clippy::cast_possible_truncation, reason = "fields of 5 and 32 bits")]
        Self {
            counters: (pmcr >> 11 & 0x1F) as u8,
            announced: [low as u32, high as u32],
        }
    }

    /// Implementation-defined events and those past the announced range are not announced.
    fn has(&self, event: u32) -> bool {
        let [low, high] = self.announced;
        match event {
            0x00..=0x1F => low >> event & 1 != 0,
            0x20..=0x3F => high >> (event - 0x20) & 1 != 0,
            _ => event <= 0xFFFF,
        }
    }
}

impl CoreSightModel {
    /// As many as a [`SlotSet`] names; the architecture allows 256, and the rest stays unused.
    pub const MOST_COUNTERS: u8 = 63;
    /// Index of the cycle counter.
    pub const CYCLE_INDEX: u8 = 31;

    /// From PMCFGR.
    ///
    /// Source: Arm CoreSight PMU architecture IHI 0091, PMCFGR: N in 7:0 (counters, less one), SIZE in
    /// 13:8 (bits, less one), CC in 14.
    #[must_use]
    pub const fn from_configuration(pmcfgr: u32) -> Self {
        let has_cycles = pmcfgr >> 14 & 1 != 0;
        let all = (pmcfgr & 0xFF) + 1;
        let events = if has_cycles { all - 1 } else { all };
        #[expect(clippy::cast_possible_truncation, reason = "at most 63, and 64")]
        Self {
            counters: if events > Self::MOST_COUNTERS as u32 {
                Self::MOST_COUNTERS
            } else {
                events as u8
            },
            bits: (pmcfgr >> 8 & 0x3F) as u8 + 1,
            has_cycles,
        }
    }

    /// The hardware's index of an event counter: where there is a cycle counter, its own is passed over.
    #[must_use]
    pub const fn index_of(&self, counter: u8) -> u8 {
        if self.has_cycles && counter >= Self::CYCLE_INDEX {
            counter + 1
        } else {
            counter
        }
    }
}

/// Counters of the halved clock of a DMC-620, and of the full one.
const DMC_620: [u8; 2] = [8, 2];
/// Events of the halved clock, and of the full one.
///
/// Source: DMC-620 TRM 100568, table of PMU events.
const DMC_620_EVENTS: [u32; 2] = [0x1A, 0x03];

impl UnitModel {
    /// What the contract calls it.
    #[must_use]
    pub const fn kind(&self) -> UnitKind {
        match self {
            Self::Dsu(_) => UnitKind::DSU,
            Self::Dmc620 => UnitKind::DMC_620,
            Self::CoreSight(_) => UnitKind::CORESIGHT,
        }
    }

    /// Number of general-purpose counters; of a DMC-620 those of the halved clock, then of the full one.
    #[must_use]
    pub const fn general_counters(&self) -> [u8; 2] {
        match self {
            Self::Dsu(model) => [model.counters, 0],
            Self::Dmc620 => DMC_620,
            Self::CoreSight(model) => [model.counters, 0],
        }
    }

    /// Number of fixed counters.
    #[must_use]
    pub const fn fixed_counters(&self) -> u8 {
        match self {
            Self::Dsu(_) => 1,
            Self::Dmc620 => 0,
            Self::CoreSight(model) => model.has_cycles as u8,
        }
    }

    /// Width of a counter. Units: bits.
    #[must_use]
    pub const fn bits(&self, slot: Slot) -> u8 {
        match (self, slot) {
            (Self::Dsu(_), Slot::Fixed(_)) => 64,
            (Self::Dsu(_), Slot::General(_)) => DsuModel::COUNTER_BITS,
            (Self::Dmc620, _) => 32,
            (Self::CoreSight(model), _) => model.bits,
        }
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> SlotSet {
        let [first, second] = self.general_counters();
        SlotSet::first(first + second, self.fixed_counters())
    }

    /// How many of a set are of each domain.
    #[must_use]
    pub const fn by_domain(&self, set: SlotSet) -> [u16; 2] {
        let [first, _] = self.general_counters();
        let low = (1 << first) - 1;
        #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
        [
            (set.general & low).count_ones() as u16,
            (set.general & !low).count_ones() as u16,
        ]
    }

    /// The events it announces, and the named codes it has.
    pub fn supported(&self) -> impl Iterator<Item = EventCode> + '_ {
        let [low, high] = match self {
            Self::Dsu(_) => [0x40, 0],
            Self::Dmc620 => DMC_620_EVENTS,
            Self::CoreSight(_) => [0, 0],
        };
        let full_clock = (0..high).map(|event| event | EventCode::DMC_CLK);
        let events = (0..low).chain(full_clock).map(EventCode);
        core::iter::once(EventCode::CYCLES)
            .chain(events)
            .filter(|&code| !self.takers(code).is_empty())
    }

    /// Whether the event is counted by a fixed counter alone.
    #[must_use]
    pub fn is_fixed(&self, code: EventCode) -> bool {
        let takers = self.takers(code);
        takers.fixed != 0 && takers.general == 0
    }

    /// The counters that can take an event; none: the unit does not have it.
    #[must_use]
    pub fn takers(&self, code: EventCode) -> SlotSet {
        let all = self.counters();
        let cycles = SlotSet { general: 0, ..all };
        let events = SlotSet { fixed: 0, ..all };
        match self {
            _ if code == EventCode::CYCLES => cycles,
            Self::Dsu(_) if code.0 == DsuModel::CYCLES => cycles,
            Self::Dsu(model) if model.has(code.0) => events,
            Self::CoreSight(_) if code.0 <= 0xFFFF => events,
            Self::Dmc620 => dmc_takers(code),
            Self::Dsu(_) | Self::CoreSight(_) => SlotSet::EMPTY,
        }
    }

    /// Gives each event a counter, into storage with one place per event.
    ///
    /// Errors: an event the unit does not have; more events than counters, by the group of the first
    /// that has none. The storage is then of no use.
    pub fn place(
        &self,
        free: SlotSet,
        events: impl Iterator<Item = AssignEvent>,
        storage: &mut [ScheduledEvent],
    ) -> Result<Schedule, ScheduleError> {
        let mut left = free;
        let mut places = storage.iter_mut();
        for event in events {
            let AssignEvent { code, group, .. } = event;
            let takers = self.takers(code);
            if takers.is_empty() {
                return Err(ScheduleError::Unsupported(code));
            }
            let slot = takers.within(left).first_counter();
            let slot = slot.ok_or(ScheduleError::GroupTooLarge { group })?;
            left.remove(slot);
            *places.next().ok_or(ScheduleError::Storage)? = ScheduledEvent {
                code,
                group,
                place: Place::Always(slot),
                ..ScheduledEvent::UNUSED
            };
        }
        match places.next() {
            Some(_) => Err(ScheduleError::Storage),
            None => Ok(Schedule { windows: 1 }),
        }
    }
}

fn dmc_takers(code: EventCode) -> SlotSet {
    let [halved, full] = DMC_620;
    let [halved_events, full_events] = DMC_620_EVENTS;
    let general = match code.0 {
        event if event < halved_events => SlotSet::first(halved, 0).general,
        event if event ^ EventCode::DMC_CLK < full_events => {
            SlotSet::first(full, 0).general << halved
        }
        _ => 0,
    };
    SlotSet { general, fixed: 0 }
}

#[cfg(test)]
pub(crate) mod tests;
