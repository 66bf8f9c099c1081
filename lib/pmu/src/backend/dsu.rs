//! DynamIQ Shared Unit.
//!
//! Its registers are system registers of every core of the cluster; they are touched from one of them
//! only. A counter is reached by selecting it first, so nobody else may come between: whoever has these
//! registers is at `DISPATCH_LEVEL` under the lock of the unit. Source: DSU TRM 100453, B2.

use super::{Pmu, low_bits};
use crate::{DsuModel, Slot, SlotSet, UnitModel};
use wperf_abi::{EventCode, EventFilter};

/// A system register of the cluster's PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsuRegister {
    /// CLUSTERPMCR_EL1.
    Control,
    /// CLUSTERPMCNTENSET_EL1: write 1 to enable; reads as what is enabled.
    EnableSet,
    /// CLUSTERPMCNTENCLR_EL1: write 1 to disable.
    EnableClear,
    /// CLUSTERPMOVSCLR_EL1: write 1 to clear.
    OverflowClear,
    /// CLUSTERPMINTENCLR_EL1: write 1 to disable.
    InterruptClear,
    /// CLUSTERPMSELR_EL1: the counter that the selected registers are of.
    Select,
    /// CLUSTERPMXEVTYPER_EL1.
    SelectedType,
    /// CLUSTERPMXEVCNTR_EL1.
    SelectedCounter,
    /// CLUSTERPMCCNTR_EL1.
    CycleCounter,
    /// CLUSTERPMCEID0_EL1.
    Announced0,
    /// CLUSTERPMCEID1_EL1.
    Announced1,
}

/// Registers of the cluster that the caller's core is of.
pub trait DsuRegisters {
    /// `MRS`.
    fn read(&mut self, register: DsuRegister) -> u64;
    /// `MSR`.
    fn write(&mut self, register: DsuRegister, value: u64);
    /// `ISB`: what was written takes effect.
    fn synchronize(&mut self);
}

const CONTROL_ENABLE: u64 = 1;
/// Bit of the cycle counter in the enable, overflow and interrupt registers.
const CYCLE_BIT: u64 = 1 << 31;

/// How the unit was before it was borrowed; kept from start to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct DsuBefore {
    was_enabled: bool,
    cycles_ran: bool,
}

/// [`Pmu`] over the registers of a cluster.
#[derive(Debug)]
pub struct DsuPmu<'s, R> {
    model: DsuModel,
    registers: R,
    before: &'s mut DsuBefore,
}

/// What the unit says of itself.
pub fn detect(registers: &mut impl DsuRegisters) -> DsuModel {
    let announced =
        [DsuRegister::Announced0, DsuRegister::Announced1].map(|half| registers.read(half));
    DsuModel::from_registers(registers.read(DsuRegister::Control), announced)
}

const fn bits(slots: SlotSet) -> u64 {
    slots.general & (CYCLE_BIT - 1) | if slots.fixed & 1 != 0 { CYCLE_BIT } else { 0 }
}

impl<'s, R: DsuRegisters> DsuPmu<'s, R> {
    /// For a unit of this model.
    pub const fn new(model: DsuModel, registers: R, before: &'s mut DsuBefore) -> Self {
        Self {
            model,
            registers,
            before,
        }
    }

    fn select(&mut self, counter: u8) {
        self.registers.write(DsuRegister::Select, counter.into());
        self.registers.synchronize();
    }
}

impl<R: DsuRegisters> Pmu for DsuPmu<'_, R> {
    /// The cycle counter is shared by reading it, so it is never busy.
    fn busy(&mut self) -> SlotSet {
        SlotSet {
            general: self.registers.read(DsuRegister::EnableSet) & (CYCLE_BIT - 1),
            fixed: 0,
        }
    }

    fn begin(&mut self) {
        let control = self.registers.read(DsuRegister::Control);
        let enabled = self.registers.read(DsuRegister::EnableSet);
        self.before.was_enabled = control & CONTROL_ENABLE != 0;
        self.before.cycles_ran = enabled & CYCLE_BIT != 0;
        self.registers
            .write(DsuRegister::Control, control | CONTROL_ENABLE);
        self.registers.synchronize();
    }

    fn end(&mut self) {
        if !self.before.was_enabled {
            let control = self.registers.read(DsuRegister::Control);
            self.registers
                .write(DsuRegister::Control, control & !CONTROL_ENABLE);
        }
        self.registers.synchronize();
    }

    fn program(&mut self, slot: Slot, code: EventCode, _: EventFilter) {
        if let Slot::General(counter) = slot {
            self.registers
                .write(DsuRegister::InterruptClear, 1 << counter);
            self.select(counter);
            self.registers
                .write(DsuRegister::SelectedType, (code.0 & 0xFFFF).into());
            self.registers.write(DsuRegister::SelectedCounter, 0);
            self.registers.synchronize();
        }
    }

    fn clear(&mut self, slot: Slot) {
        if let Slot::General(counter) = slot {
            self.select(counter);
            self.registers.write(DsuRegister::SelectedType, 0);
            self.registers.write(DsuRegister::SelectedCounter, 0);
            self.registers
                .write(DsuRegister::OverflowClear, 1 << counter);
            self.registers.synchronize();
        }
    }

    fn enable(&mut self, slots: SlotSet) {
        let own = SlotSet { fixed: 0, ..slots };
        self.registers.write(DsuRegister::OverflowClear, bits(own));
        self.registers.write(DsuRegister::EnableSet, bits(slots));
        self.registers.synchronize();
    }

    fn disable(&mut self, slots: SlotSet) {
        // A cycle counter that ran before must run on: somebody reads it.
        let kept = if self.before.cycles_ran { CYCLE_BIT } else { 0 };
        self.registers
            .write(DsuRegister::EnableClear, bits(slots) & !kept);
        self.registers.synchronize();
    }

    fn read(&mut self, slot: Slot) -> u64 {
        match slot {
            Slot::General(counter) => {
                self.select(counter);
                self.registers.read(DsuRegister::SelectedCounter)
            }
            Slot::Fixed(_) => self.registers.read(DsuRegister::CycleCounter),
        }
    }

    fn mask(&self, slot: Slot) -> u64 {
        low_bits(UnitModel::Dsu(self.model).bits(slot))
    }
}

#[cfg(test)]
mod tests;
