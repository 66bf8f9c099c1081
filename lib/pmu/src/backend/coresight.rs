//! CoreSight PMU.
//!
//! ```text
//!  page 0  0x000 PMEVCNTR<n>, 4 or 8 bytes each   0xC00 PMCNTENSET  0xC60 PMINTENCLR
//!          0x400 PMEVTYPER<n>  0x47C PMCCFILTR    0xC20 PMCNTENCLR  0xC80 PMOVSCLR
//!          0xA00 PMEVFILTR<n>                     0xE00 PMCFGR  0xE04 PMCR  0xE08 PMIIDR
//!  page 1  PMEVCNTR<n>, PMOVSCLR, when the unit has two pages
//! ```
//! Registers are read and written 32 bits at a time; a wider counter is read until its upper half stays
//! the same. Counters are never written: totals are differences. Event numbers, and what filters mean,
//! are the implementer's; filters are set to 0, which the architecture lets mean none.
//! Source: Arm CoreSight PMU architecture IHI 0091.

use super::{MappedRegisters, Pmu, low_bits};
use crate::{CoreSightModel, Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

const EVENT_TYPE: u32 = 0x400;
const CYCLE_FILTER: u32 = 0x47C;
const EVENT_FILTER: u32 = 0xA00;
const ENABLE_SET: u32 = 0xC00;
const ENABLE_CLEAR: u32 = 0xC20;
const INTERRUPT_CLEAR: u32 = 0xC60;
const OVERFLOW_CLEAR: u32 = 0xC80;
const CONFIGURATION: u32 = 0xE00;
const CONTROL: u32 = 0xE04;
const IDENTIFICATION: u32 = 0xE08;

const CONTROL_ENABLE: u32 = 1;
/// P and C of PMCR, which reset counters, and are written 0 else.
const CONTROL_RESETS: u32 = 0b110;

/// What a unit says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Its counters.
    pub model: CoreSightModel,
    /// PMIIDR.
    pub identification: u32,
}

/// Asks a unit; its registers are in page 0.
pub fn detect(page_0: &mut impl MappedRegisters) -> Detected {
    Detected {
        model: CoreSightModel::from_configuration(page_0.read(CONFIGURATION)),
        identification: page_0.read(IDENTIFICATION),
    }
}

/// How the unit was before it was borrowed; kept from start to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreSightBefore {
    was_enabled: bool,
    cycle_filter: u32,
    cycles_ran: bool,
}

/// [`Pmu`] over one page of registers, or two.
#[derive(Debug)]
pub struct CoreSightPmu<'s, R> {
    model: CoreSightModel,
    page_0: R,
    page_1: Option<R>,
    before: &'s mut CoreSightBefore,
}

impl<'s, R: MappedRegisters> CoreSightPmu<'s, R> {
    /// For a unit of this model.
    pub const fn new(
        model: CoreSightModel,
        page_0: R,
        page_1: Option<R>,
        before: &'s mut CoreSightBefore,
    ) -> Self {
        Self {
            model,
            page_0,
            page_1,
            before,
        }
    }

    fn counters(&mut self) -> &mut R {
        self.page_1.as_mut().unwrap_or(&mut self.page_0)
    }

    const fn index(&self, slot: Slot) -> u32 {
        match slot {
            Slot::General(counter) => self.model.index_of(counter) as u32,
            Slot::Fixed(_) => CoreSightModel::CYCLE_INDEX as u32,
        }
    }

    /// The bits of counters in each of the two words of an enable, interrupt or overflow register.
    fn words(&self, slots: SlotSet) -> [u32; 2] {
        let mut words = [0; 2];
        let general = (0..self.model.counters).map(Slot::General);
        for slot in general.chain([Slot::Fixed(0)]) {
            let index = self.index(slot);
            if let Some(word) = words
                .get_mut(index as usize / 32)
                .filter(|_| slots.contains(slot))
            {
                *word |= 1 << (index % 32);
            }
        }
        words
    }

    /// Each word with its offset from the first; none that is 0: a unit need not have the second.
    fn written(&self, slots: SlotSet) -> impl Iterator<Item = (u32, u32)> + use<R> {
        let words = [0, 4].into_iter().zip(self.words(slots));
        words.filter(|&(_, word)| word != 0)
    }

    fn read_wide(&mut self, low_at: u32) -> u64 {
        /// A counter whose upper half changes each time it is looked at does not exist.
        const ATTEMPTS: usize = 8;
        let counters = self.counters();
        let mut high = counters.read(low_at + 4);
        let mut low = counters.read(low_at);
        for _ in 0..ATTEMPTS {
            let again = counters.read(low_at + 4);
            if again == high {
                break;
            }
            high = again;
            low = counters.read(low_at);
        }
        u64::from(high) << 32 | u64::from(low)
    }
}

impl<R: MappedRegisters> Pmu for CoreSightPmu<'_, R> {
    /// The cycle counter is shared by reading it, so it is never busy.
    fn busy(&mut self) -> SlotSet {
        let has_second = self.model.index_of(self.model.counters.saturating_sub(1)) >= 32;
        let second = if has_second {
            self.page_0.read(ENABLE_SET + 4)
        } else {
            0
        };
        let running = u64::from(self.page_0.read(ENABLE_SET)) | u64::from(second) << 32;
        let mut busy = SlotSet::EMPTY;
        for counter in 0..self.model.counters {
            if running >> self.model.index_of(counter) & 1 != 0 {
                busy.insert(Slot::General(counter));
            }
        }
        busy
    }

    fn begin(&mut self) {
        let control = self.page_0.read(CONTROL) & !CONTROL_RESETS;
        let running = self.page_0.read(ENABLE_SET);
        self.before.was_enabled = control & CONTROL_ENABLE != 0;
        self.before.cycles_ran = running >> CoreSightModel::CYCLE_INDEX & 1 != 0;
        self.page_0.write(CONTROL, control | CONTROL_ENABLE);
    }

    fn end(&mut self) {
        if !self.before.was_enabled {
            let control = self.page_0.read(CONTROL) & !CONTROL_RESETS;
            self.page_0.write(CONTROL, control & !CONTROL_ENABLE);
        }
    }

    fn program(&mut self, slot: Slot, code: EventCode, _: EventFilter) {
        let index = self.index(slot);
        if let Slot::Fixed(_) = slot {
            self.before.cycle_filter = self.page_0.read(CYCLE_FILTER);
            self.page_0.write(CYCLE_FILTER, 0);
            return;
        }
        let mut slots = SlotSet::EMPTY;
        slots.insert(slot);
        for (offset, word) in self.written(slots) {
            self.page_0.write(INTERRUPT_CLEAR + offset, word);
        }
        self.page_0.write(EVENT_TYPE + 4 * index, code.0 & 0xFFFF);
        self.page_0.write(EVENT_FILTER + 4 * index, 0);
    }

    fn clear(&mut self, slot: Slot) {
        if let Slot::Fixed(_) = slot {
            let filter = self.before.cycle_filter;
            self.page_0.write(CYCLE_FILTER, filter);
            return;
        }
        let index = self.index(slot);
        self.page_0.write(EVENT_TYPE + 4 * index, 0);
        let mut slots = SlotSet::EMPTY;
        slots.insert(slot);
        for (offset, word) in self.written(slots) {
            self.counters().write(OVERFLOW_CLEAR + offset, word);
        }
    }

    fn enable(&mut self, slots: SlotSet) {
        for (offset, word) in self.written(slots) {
            self.page_0.write(ENABLE_SET + offset, word);
        }
    }

    fn disable(&mut self, slots: SlotSet) {
        // A cycle counter that ran before must run on: somebody reads it.
        let own = match self.before.cycles_ran {
            true => SlotSet { fixed: 0, ..slots },
            false => slots,
        };
        for (offset, word) in self.written(own) {
            self.page_0.write(ENABLE_CLEAR + offset, word);
        }
    }

    fn read(&mut self, slot: Slot) -> u64 {
        let index = self.index(slot);
        if self.model.bits > 32 {
            self.read_wide(8 * index)
        } else {
            self.counters().read(4 * index).into()
        }
    }

    fn mask(&self, _: Slot) -> u64 {
        low_bits(self.model.bits)
    }
}

#[cfg(test)]
mod tests;
