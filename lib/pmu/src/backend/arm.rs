//! Arm PMUv3.
//!
//! PMCR_EL0 is shared with the operating system, which also reads the cycle counter: PMCR_EL0 is
//! only ever read, changed and written back (its reset bits read as zero), counters are started and
//! stopped by PMCNTENSET/PMCNTENCLR of their own, and the cycle counter is never written: totals are
//! differences. Source: Arm ARM DDI 0487 D13, D24.5.

use super::{Pmu, SamplingPmu, low_bits};
use crate::{ArmModel, Model, Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

/// A system register of the PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmRegister {
    /// PMCR_EL0.
    Control,
    /// PMCNTENSET_EL0: write 1 to enable; reads as what is enabled.
    EnableSet,
    /// PMCNTENCLR_EL0: write 1 to disable.
    EnableClear,
    /// PMOVSCLR_EL0: write 1 to clear; reads as what overflowed.
    OverflowClear,
    /// PMINTENSET_EL1: write 1 to enable.
    InterruptSet,
    /// PMINTENCLR_EL1: write 1 to disable.
    InterruptClear,
    /// `PMEVCNTR<n>_EL0`.
    Counter(u8),
    /// `PMEVTYPER<n>_EL0`.
    EventType(u8),
    /// PMCCNTR_EL0.
    CycleCounter,
    /// PMCCFILTR_EL0.
    CycleFilter,
}

/// Registers of the core that the caller runs on.
pub trait ArmRegisters {
    /// `MRS`.
    fn read(&mut self, register: ArmRegister) -> u64;
    /// `MSR`.
    fn write(&mut self, register: ArmRegister, value: u64);
    /// `ISB`: what was written takes effect.
    fn synchronize(&mut self);
}

const CONTROL_ENABLE: u64 = 1;
/// PMCR_EL0.LP: event counters overflow where their 64 bits end, not their low 32.
const CONTROL_LONG: u64 = 1 << 7;
/// Bit of the cycle counter in the enable, overflow and interrupt registers.
const CYCLE_BIT: u64 = 1 << 31;
const EXCLUDE_EL1: u64 = 1 << 31;
const EXCLUDE_EL0: u64 = 1 << 30;

/// [`Pmu`] over Arm system registers.
#[derive(Debug)]
pub struct ArmPmu<'s, R> {
    model: ArmModel,
    registers: R,
    before: &'s mut ArmBefore,
}

/// How shared registers were before they were borrowed; one per core, kept from start to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArmBefore {
    was_enabled: bool,
    cycle_filter: u64,
    cycles_ran: bool,
}

impl ArmBefore {
    /// Nothing borrowed.
    pub const NONE: Self = Self {
        was_enabled: false,
        cycle_filter: 0,
        cycles_ran: false,
    };
}

impl<'s, R: ArmRegisters> ArmPmu<'s, R> {
    /// For a core of this model.
    pub const fn new(model: ArmModel, registers: R, before: &'s mut ArmBefore) -> Self {
        Self {
            model,
            registers,
            before,
        }
    }
}

const fn bits(slots: SlotSet) -> u64 {
    slots.general & (CYCLE_BIT - 1) | if slots.fixed & 1 != 0 { CYCLE_BIT } else { 0 }
}

const fn filter_bits(filter: EventFilter) -> u64 {
    (if filter.counts_kernel() {
        0
    } else {
        EXCLUDE_EL1
    }) | (if filter.counts_user() { 0 } else { EXCLUDE_EL0 })
}

impl<R: ArmRegisters> ArmPmu<'_, R> {
    /// Whether event counters overflow at 64 bits; it is the operating system's choice.
    fn overflows_long(&mut self) -> bool {
        let is_wide = Model::Arm(self.model).general_bits() == 64;
        is_wide && self.registers.read(ArmRegister::Control) & CONTROL_LONG != 0
    }
}

/// Event counters only: setting the cycle counter would disturb the operating system, which reads it.
impl<R: ArmRegisters> SamplingPmu for ArmPmu<'_, R> {
    fn program_sampling(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        if let Slot::General(index) = slot {
            self.program(slot, code, filter);
            self.registers.write(ArmRegister::InterruptSet, 1 << index);
            self.registers.synchronize();
        }
    }

    fn most_until_overflow(&mut self, _: Slot) -> u64 {
        if self.overflows_long() {
            1 << 63
        } else {
            low_bits(32)
        }
    }

    fn arm(&mut self, slot: Slot, events: u64) -> u64 {
        let Slot::General(index) = slot else { return 0 };
        let value = if self.overflows_long() {
            events.wrapping_neg()
        } else {
            events.wrapping_neg() & low_bits(32)
        };
        self.registers.write(ArmRegister::Counter(index), value);
        self.registers.synchronize();
        value
    }

    fn overflowed(&mut self, slots: SlotSet) -> SlotSet {
        let status = self.registers.read(ArmRegister::OverflowClear);
        SlotSet {
            general: slots.general & status & (CYCLE_BIT - 1),
            fixed: 0,
        }
    }

    fn acknowledge(&mut self, slots: SlotSet) {
        let own = SlotSet { fixed: 0, ..slots };
        if !own.is_empty() {
            self.registers.write(ArmRegister::OverflowClear, bits(own));
            self.registers.synchronize();
        }
    }
}

impl<R: ArmRegisters> Pmu for ArmPmu<'_, R> {
    /// The cycle counter is shared by reading it, so it is never busy.
    fn busy(&mut self) -> SlotSet {
        SlotSet::EMPTY
    }

    fn begin(&mut self) {
        let control = self.registers.read(ArmRegister::Control);
        self.before.was_enabled = control & CONTROL_ENABLE != 0;
        if !self.before.was_enabled {
            self.registers
                .write(ArmRegister::Control, control | CONTROL_ENABLE);
        }
        self.registers.synchronize();
    }

    fn end(&mut self) {
        if !self.before.was_enabled {
            let control = self.registers.read(ArmRegister::Control);
            self.registers
                .write(ArmRegister::Control, control & !CONTROL_ENABLE);
        }
        self.registers.synchronize();
    }

    fn program(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        match slot {
            Slot::General(index) => {
                let is_cycles = code == EventCode::CYCLES;
                let event = if is_cycles {
                    ArmModel::CPU_CYCLES
                } else {
                    code.0 & 0xFFFF
                };
                let event_type = u64::from(event) | filter_bits(filter);
                self.registers
                    .write(ArmRegister::InterruptClear, 1 << index);
                self.registers
                    .write(ArmRegister::EventType(index), event_type);
                self.registers.write(ArmRegister::Counter(index), 0);
            }
            Slot::Fixed(_) => {
                let enabled = self.registers.read(ArmRegister::EnableSet);
                self.before.cycle_filter = self.registers.read(ArmRegister::CycleFilter);
                self.before.cycles_ran = enabled & CYCLE_BIT != 0;
                self.registers
                    .write(ArmRegister::CycleFilter, filter_bits(filter));
            }
        }
        self.registers.synchronize();
    }

    fn clear(&mut self, slot: Slot) {
        match slot {
            Slot::General(index) => {
                self.registers
                    .write(ArmRegister::InterruptClear, 1 << index);
                self.registers.write(ArmRegister::EventType(index), 0);
                self.registers.write(ArmRegister::Counter(index), 0);
                self.registers.write(ArmRegister::OverflowClear, 1 << index);
            }
            Slot::Fixed(_) => self
                .registers
                .write(ArmRegister::CycleFilter, self.before.cycle_filter),
        }
        self.registers.synchronize();
    }

    fn enable(&mut self, slots: SlotSet) {
        let own = SlotSet { fixed: 0, ..slots };
        self.registers.write(ArmRegister::OverflowClear, bits(own));
        self.registers.write(ArmRegister::EnableSet, bits(slots));
        self.registers.synchronize();
    }

    fn disable(&mut self, slots: SlotSet) {
        // A cycle counter that ran before must run on: somebody reads it.
        let kept = if self.before.cycles_ran { CYCLE_BIT } else { 0 };
        self.registers
            .write(ArmRegister::EnableClear, bits(slots) & !kept);
        self.registers.synchronize();
    }

    fn read(&mut self, slot: Slot) -> u64 {
        match slot {
            Slot::General(index) => self.registers.read(ArmRegister::Counter(index)),
            Slot::Fixed(_) => self.registers.read(ArmRegister::CycleCounter),
        }
    }

    fn mask(&self, slot: Slot) -> u64 {
        low_bits(Model::Arm(self.model).bits(slot))
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
