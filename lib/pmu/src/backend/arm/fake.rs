//! A PMUv3 that panics on registers it lacks and on whatever would disturb the operating system.

use super::{ArmRegister, ArmRegisters, CYCLE_BIT};
use crate::ArmModel;

/// Registers of one core; writes take effect at the next `ISB` only for the enables.
#[derive(Debug)]
pub(crate) struct FakeArm {
    pub(crate) model: ArmModel,
    pub(crate) control: u64,
    pub(crate) enabled: u64,
    pending: Option<u64>,
    pub(crate) counters: [u64; 31],
    pub(crate) types: [u64; 31],
    pub(crate) cycles: u64,
    pub(crate) cycle_filter: u64,
    pub(crate) overflowed: u64,
    pub(crate) interrupting: u64,
    /// Times that a counter with its interrupt on has overflowed.
    pub(crate) interrupts: u64,
    /// Event counters of somebody else.
    pub(crate) foreign: u64,
}

impl FakeArm {
    pub(crate) fn new(model: ArmModel) -> Self {
        Self {
            model,
            control: u64::from(model.counters) << 11,
            enabled: 0,
            pending: None,
            counters: [0xDEAD; 31],
            types: [0; 31],
            cycles: 0xFFFF_FFFF_FFFF_FFF0,
            cycle_filter: 0,
            overflowed: 0,
            interrupting: 0,
            interrupts: 0,
            foreign: 0,
        }
    }

    /// Lets every running counter count `rate(event, filter bits)` events.
    pub(crate) fn advance(&mut self, rate: impl Fn(u32, u64) -> u64) {
        assert!(
            self.pending.is_none(),
            "an enable was written and not synchronized"
        );
        if self.control & 1 == 0 {
            return;
        }
        let mask = if self.model.version >= 6 {
            u64::MAX
        } else {
            0xFFFF_FFFF
        };
        for index in 0..usize::from(self.model.counters) {
            if self.enabled >> index & 1 != 0 {
                let event = u32::try_from(self.types[index] & 0xFFFF).unwrap();
                let count = rate(event, self.types[index] >> 30);
                let is_long = mask == u64::MAX && self.control & 0x80 != 0;
                let low = if is_long { u64::MAX } else { 0xFFFF_FFFF };
                let sum = u128::from(self.counters[index] & low) + u128::from(count);
                if sum > u128::from(low) {
                    self.overflowed |= 1 << index;
                    self.interrupts += self.interrupting >> index & 1;
                }
                self.counters[index] = self.counters[index].wrapping_add(count) & mask;
            }
        }
        if self.enabled & CYCLE_BIT != 0 {
            self.cycles = self
                .cycles
                .wrapping_add(rate(0x11, self.cycle_filter >> 30));
        }
    }

    fn index(&self, index: u8) -> usize {
        assert!(
            index < self.model.counters,
            "undefined: there is no counter {index}"
        );
        assert!(
            self.foreign >> index & 1 == 0,
            "counter {index} is somebody else's"
        );
        index.into()
    }

    fn check_bits(&self, bits: u64) {
        let existing = ((1 << self.model.counters) - 1) | CYCLE_BIT;
        assert!(
            bits & !existing == 0,
            "bits of counters that do not exist: {bits:#x}"
        );
        assert!(
            bits & self.foreign == 0,
            "bits of somebody else's counters: {bits:#x}"
        );
    }
}

impl ArmRegisters for &mut FakeArm {
    fn read(&mut self, register: ArmRegister) -> u64 {
        match register {
            ArmRegister::Control => self.control,
            ArmRegister::EnableSet | ArmRegister::EnableClear => self.enabled,
            ArmRegister::Counter(index) => self.counters[self.index(index)],
            ArmRegister::EventType(index) => self.types[self.index(index)],
            ArmRegister::CycleCounter => self.cycles,
            ArmRegister::CycleFilter => self.cycle_filter,
            ArmRegister::OverflowClear => self.overflowed,
            ArmRegister::InterruptSet | ArmRegister::InterruptClear => self.interrupting,
        }
    }

    fn write(&mut self, register: ArmRegister, value: u64) {
        match register {
            ArmRegister::Control => {
                assert!(value & 0b110 == 0, "a reset of everybody's counters");
                assert!(
                    (value ^ self.control) & !1 == 0,
                    "bits of the operating system changed"
                );
                self.control = value;
            }
            ArmRegister::EnableSet => {
                self.check_bits(value);
                self.pending = Some(self.pending.unwrap_or(self.enabled) | value);
            }
            ArmRegister::EnableClear => {
                self.check_bits(value);
                self.pending = Some(self.pending.unwrap_or(self.enabled) & !value);
            }
            ArmRegister::OverflowClear => {
                self.check_bits(value);
                self.overflowed &= !value;
            }
            ArmRegister::InterruptSet => {
                self.check_bits(value);
                self.interrupting |= value;
            }
            ArmRegister::InterruptClear => {
                self.check_bits(value);
                self.interrupting &= !value;
            }
            ArmRegister::Counter(index) => {
                let index = self.index(index);
                assert!(
                    self.enabled >> index & 1 == 0,
                    "counter {index} written while running"
                );
                self.counters[index] = value;
            }
            ArmRegister::EventType(index) => {
                let index = self.index(index);
                assert!(
                    self.enabled >> index & 1 == 0,
                    "counter {index} programmed while running"
                );
                self.types[index] = value;
            }
            ArmRegister::CycleCounter => panic!("the operating system reads the cycle counter"),
            ArmRegister::CycleFilter => self.cycle_filter = value,
        }
    }

    fn synchronize(&mut self) {
        if let Some(enabled) = self.pending.take() {
            self.enabled = enabled;
        }
    }
}
