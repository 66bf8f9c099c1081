//! Arm64: MRS, MSR, ISB.

use super::PmuRegisters;
use crate::processor::{CoreId, Processor};
use core::arch::asm;
use pmu::backend::arm::{ArmRegister, ArmRegisters};
use pmu::{ArmModel, Model};

/// How many event counters there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    counters: u8,
}

impl Limits {
    pub(super) fn of(processor: &Processor) -> Self {
        let counters = processor.model.map_or(0, |model| model.general_counters());
        Self {
            counters: counters.min(31),
        }
    }
}

macro_rules! mrs {
    ($register:expr) => {{
        let value: u64;
        // SAFETY: an ID or PMU register that may be read at EL1: the PMU is there, as
        // ID_AA64DFR0_EL1 says, and `Limits` bounds the counter. Reading changes nothing.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nomem, nostack)) };
        value
    }};
}

macro_rules! msr {
    ($register:expr, $value:expr) => {
        // SAFETY: a PMU register that may be written at EL1, bounded as for reading. It counts, and
        // reaches no memory.
        unsafe { asm!(concat!("msr ", $register, ", {}"), in(reg) $value, options(nomem, nostack)) }
    };
}

/// Calls `$access!` with the name of register `$index` out of 0 to 30.
macro_rules! numbered {
    ($access:ident, $prefix:literal, $index:expr $(, $value:expr)?) => {
        numbered!(@ $access, $prefix, $index, ($($value)?),
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
    };
    (@ $access:ident, $prefix:literal, $index:expr, (), $($n:literal)*) => {
        match $index { $( $n => $access!(concat!($prefix, $n, "_el0")), )* _ => 0 }
    };
    (@ $access:ident, $prefix:literal, $index:expr, ($value:expr), $($n:literal)*) => {
        match $index { $( $n => $access!(concat!($prefix, $n, "_el0"), $value), )* _ => {} }
    };
}

/// Source: Arm ARM D23.2 (ID registers), D24.5 (PMU registers).
pub(super) fn detect(core: CoreId) -> Processor {
    let midr = mrs!("midr_el1");
    let features = mrs!("id_aa64dfr0_el1");
    let probe = ArmModel::from_registers(features, 0, [0; 2]);
    let model = probe.and_then(|_| {
        let announced = [mrs!("pmceid0_el0"), mrs!("pmceid1_el0")];
        ArmModel::from_registers(features, mrs!("pmcr_el0"), announced)
    });
    let [_, _, _, implementer, ..] = midr.to_le_bytes();
    let mut vendor = [0; 16];
    let digit = |value: u8| {
        if value < 10 {
            b'0' + value
        } else {
            b'a' + value - 10
        }
    };
    let text = [
        b'0',
        b'x',
        digit(implementer >> 4),
        digit(implementer & 0xF),
    ];
    vendor
        .iter_mut()
        .zip(text)
        .for_each(|(to, from)| *to = from);
    Processor {
        core,
        model: model.map(Model::Arm),
        vendor,
        hypervisor: [0; 12],
        identification: midr,
        features,
    }
}

impl PmuRegisters<'_> {
    const fn has(&self, register: ArmRegister) -> bool {
        match register {
            ArmRegister::Counter(index) | ArmRegister::EventType(index) => {
                index < self.limits.counters
            }
            _ => true,
        }
    }
}

impl ArmRegisters for PmuRegisters<'_> {
    fn read(&mut self, register: ArmRegister) -> u64 {
        if !self.has(register) {
            return 0;
        }
        match register {
            ArmRegister::Control => mrs!("pmcr_el0"),
            ArmRegister::EnableSet => mrs!("pmcntenset_el0"),
            ArmRegister::EnableClear => mrs!("pmcntenclr_el0"),
            ArmRegister::OverflowClear => mrs!("pmovsclr_el0"),
            ArmRegister::InterruptSet => mrs!("pmintenset_el1"),
            ArmRegister::InterruptClear => mrs!("pmintenclr_el1"),
            ArmRegister::CycleCounter => mrs!("pmccntr_el0"),
            ArmRegister::CycleFilter => mrs!("pmccfiltr_el0"),
            ArmRegister::Counter(index) => numbered!(mrs, "pmevcntr", index),
            ArmRegister::EventType(index) => numbered!(mrs, "pmevtyper", index),
        }
    }

    fn write(&mut self, register: ArmRegister, value: u64) {
        if !self.has(register) {
            return;
        }
        match register {
            ArmRegister::Control => msr!("pmcr_el0", value),
            ArmRegister::EnableSet => msr!("pmcntenset_el0", value),
            ArmRegister::EnableClear => msr!("pmcntenclr_el0", value),
            ArmRegister::OverflowClear => msr!("pmovsclr_el0", value),
            ArmRegister::InterruptSet => msr!("pmintenset_el1", value),
            ArmRegister::InterruptClear => msr!("pmintenclr_el1", value),
            ArmRegister::CycleCounter => msr!("pmccntr_el0", value),
            ArmRegister::CycleFilter => msr!("pmccfiltr_el0", value),
            ArmRegister::Counter(index) => numbered!(msr, "pmevcntr", index, value),
            ArmRegister::EventType(index) => numbered!(msr, "pmevtyper", index, value),
        }
    }

    fn synchronize(&mut self) {
        // SAFETY: ISB only orders what this processor does.
        unsafe { asm!("isb", options(nomem, nostack)) };
    }
}
