//! x86 architectural performance monitoring.
//!
//! Every shared register is read, own bits are changed, and it is written back: other bits belong to
//! whoever set them. Source: Intel SDM vol. 3 §20.2.

use super::{Pmu, SamplingPmu, low_bits};
use crate::{Model, Slot, SlotSet, X86Model};
use wperf_abi::{EventCode, EventFilter};

/// A model-specific register of the PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Msr {
    /// `IA32_PMCx`.
    Counter(u8),
    /// `IA32_PERFEVTSELx`.
    EventSelect(u8),
    /// `IA32_FIXED_CTRx`.
    FixedCounter(u8),
    /// `IA32_FIXED_CTR_CTRL`.
    FixedControl,
    /// `IA32_PERF_GLOBAL_STATUS`: bits of counters that overflowed.
    GlobalStatus,
    /// `IA32_PERF_GLOBAL_CTRL`.
    GlobalControl,
    /// `IA32_PERF_GLOBAL_OVF_CTRL`: write 1 to clear.
    GlobalOverflowControl,
}

impl Msr {
    /// Address of the register (SDM vol. 4 table 2-2).
    #[must_use]
    pub const fn address(self) -> u32 {
        match self {
            Self::Counter(index) => 0xC1 + index as u32,
            Self::EventSelect(index) => 0x186 + index as u32,
            Self::FixedCounter(index) => 0x309 + index as u32,
            Self::FixedControl => 0x38D,
            Self::GlobalStatus => 0x38E,
            Self::GlobalControl => 0x38F,
            Self::GlobalOverflowControl => 0x390,
        }
    }
}

/// Registers of the core that the caller runs on.
pub trait X86Registers {
    /// `RDMSR`.
    fn read(&mut self, msr: Msr) -> u64;
    /// `WRMSR`.
    fn write(&mut self, msr: Msr, value: u64);
    /// `RDPMC`: the value of a counter, without the cost of `RDMSR`.
    fn read_counter(&mut self, slot: Slot) -> u64;
}

/// Bits of `IA32_PERFEVTSELx`.
mod select {
    pub(super) const USER: u64 = 1 << 16;
    pub(super) const KERNEL: u64 = 1 << 17;
    pub(super) const INTERRUPT: u64 = 1 << 20;
    pub(super) const ENABLE: u64 = 1 << 22;
}

/// Event select and unit mask of core cycles (architectural event 0).
const CYCLES_RAW: u32 = 0x003C;

/// [`Pmu`] over x86 registers.
#[derive(Debug)]
pub struct X86Pmu<R> {
    model: X86Model,
    registers: R,
}

impl<R: X86Registers> X86Pmu<R> {
    /// For a core of this model.
    pub const fn new(model: X86Model, registers: R) -> Self {
        Self { model, registers }
    }

    fn change(&mut self, msr: Msr, clear: u64, set: u64) {
        let value = self.registers.read(msr);
        self.registers.write(msr, value & !clear | set);
    }

    const fn has_global_control(&self) -> bool {
        self.model.version >= 2
    }

    /// Each counter's own enable bit: all there is before version 2.
    fn gate_each(&mut self, slots: SlotSet, set: u64) {
        for index in (0..32).filter(|&index| slots.contains(Slot::General(index))) {
            self.change(Msr::EventSelect(index), select::ENABLE, set);
        }
    }
}

const fn modes(filter: EventFilter, user: u64, kernel: u64) -> u64 {
    (if filter.counts_user() { user } else { 0 })
        | (if filter.counts_kernel() { kernel } else { 0 })
}

/// Bits of the global registers: general counters from 0, fixed ones from 32.
const fn global_bits(slots: SlotSet) -> u64 {
    slots.general & 0xFFFF_FFFF | (slots.fixed as u64) << 32
}

/// Interrupt on overflow, of the four bits of a fixed counter in `IA32_FIXED_CTR_CTRL`.
const FIXED_INTERRUPT: u64 = 0b1000;

impl<R: X86Registers> X86Pmu<R> {
    /// Programs a counter, which stands at zero then; with an interrupt or without.
    fn program_with(&mut self, slot: Slot, code: EventCode, filter: EventFilter, interrupts: bool) {
        match slot {
            Slot::General(index) => {
                let raw = if code == EventCode::CYCLES {
                    CYCLES_RAW
                } else {
                    code.0
                };
                let enable = if self.has_global_control() {
                    select::ENABLE
                } else {
                    0
                };
                let interrupt = if interrupts { select::INTERRUPT } else { 0 };
                let modes = modes(filter, select::USER, select::KERNEL);
                let select = u64::from(raw) | modes | interrupt | enable;
                self.registers.write(Msr::EventSelect(index), 0);
                self.registers.write(Msr::Counter(index), 0);
                self.registers.write(Msr::EventSelect(index), select);
            }
            Slot::Fixed(index) => {
                let shift = 4 * u32::from(index);
                let interrupt = if interrupts { FIXED_INTERRUPT } else { 0 };
                let control = modes(filter, 0b10, 0b01) | interrupt;
                self.registers.write(Msr::FixedCounter(index), 0);
                self.change(Msr::FixedControl, 0xF << shift, control << shift);
            }
        }
    }
}

impl<R: X86Registers> SamplingPmu for X86Pmu<R> {
    fn program_sampling(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        self.program_with(slot, code, filter, true);
    }

    /// A write to a general counter takes 32 bits and extends their sign (SDM vol. 3 §20.2.8); one to a
    /// fixed counter takes all. Half of the width keeps a late interrupt's count apart from an early one's.
    fn most_until_overflow(&mut self, slot: Slot) -> u64 {
        let half = 1 << (Model::X86(self.model).bits(slot).clamp(1, 63) - 1);
        match slot {
            Slot::General(_) => half.min(1 << 31),
            Slot::Fixed(_) => half,
        }
    }

    fn arm(&mut self, slot: Slot, events: u64) -> u64 {
        let value = events.wrapping_neg() & self.mask(slot);
        let msr = match slot {
            Slot::General(index) => Msr::Counter(index),
            Slot::Fixed(index) => Msr::FixedCounter(index),
        };
        self.registers.write(msr, value);
        value
    }

    /// Before version 2 nothing tells; what a counter counted does.
    fn overflowed(&mut self, slots: SlotSet) -> SlotSet {
        if !self.has_global_control() {
            return slots;
        }
        let status = self.registers.read(Msr::GlobalStatus);
        SlotSet {
            general: slots.general & status & 0xFFFF_FFFF,
            fixed: slots.fixed & (status >> 32) as u32,
        }
    }

    fn acknowledge(&mut self, slots: SlotSet) {
        if self.has_global_control() && !slots.is_empty() {
            self.registers
                .write(Msr::GlobalOverflowControl, global_bits(slots));
        }
    }
}

impl<R: X86Registers> Pmu for X86Pmu<R> {
    fn busy(&mut self) -> SlotSet {
        let mut busy = SlotSet::EMPTY;
        if self.model.fixed_counters > 0 {
            let control = self.registers.read(Msr::FixedControl);
            (0..self.model.fixed_counters.min(16))
                .filter(|&index| control >> (4 * index) & 0b11 != 0)
                .for_each(|index| busy.insert(Slot::Fixed(index)));
        }
        busy
    }

    fn begin(&mut self) {}

    fn end(&mut self) {}

    fn program(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        self.program_with(slot, code, filter, false);
    }

    fn clear(&mut self, slot: Slot) {
        match slot {
            Slot::General(index) => {
                self.registers.write(Msr::EventSelect(index), 0);
                self.registers.write(Msr::Counter(index), 0);
            }
            Slot::Fixed(index) => {
                self.change(Msr::FixedControl, 0xF << (4 * u32::from(index)), 0);
                self.registers.write(Msr::FixedCounter(index), 0);
            }
        }
    }

    fn enable(&mut self, slots: SlotSet) {
        if self.has_global_control() {
            self.registers
                .write(Msr::GlobalOverflowControl, global_bits(slots));
            self.change(Msr::GlobalControl, 0, global_bits(slots));
        } else {
            self.gate_each(slots, select::ENABLE);
        }
    }

    fn disable(&mut self, slots: SlotSet) {
        if self.has_global_control() {
            self.change(Msr::GlobalControl, global_bits(slots), 0);
        } else {
            self.gate_each(slots, 0);
        }
    }

    fn read(&mut self, slot: Slot) -> u64 {
        self.registers.read_counter(slot)
    }

    fn mask(&self, slot: Slot) -> u64 {
        low_bits(Model::X86(self.model).bits(slot))
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
