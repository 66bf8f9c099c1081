//! A PMU that panics where hardware raises #GP, and where a neighbour would be disturbed.

use super::{Msr, X86Registers, select};
use crate::{Slot, X86Model};

/// Registers of one core; counters move only when [`advance`](Self::advance) says so.
#[derive(Debug)]
pub(crate) struct FakeX86 {
    pub(crate) model: X86Model,
    pub(crate) counters: [u64; 32],
    pub(crate) selects: [u64; 32],
    pub(crate) fixed: [u64; 16],
    pub(crate) fixed_control: u64,
    pub(crate) global_control: u64,
    pub(crate) global_status: u64,
    /// Times that a counter with its interrupt on has overflowed.
    pub(crate) interrupts: u64,
    /// Counters of somebody else: nobody may touch them. General in the low half, fixed in the high.
    pub(crate) foreign: u64,
}

impl FakeX86 {
    pub(crate) fn new(model: X86Model) -> Self {
        Self {
            model,
            counters: [0xDEAD; 32],
            selects: [0; 32],
            fixed: [0xBEEF; 16],
            fixed_control: 0,
            global_control: 0,
            global_status: 0,
            interrupts: 0,
            foreign: 0,
        }
    }

    /// Lets every running counter count: `rate(event select, mode bits)` events happen, mode bits
    /// being 1 for the kernel and 2 for user mode.
    pub(crate) fn advance(&mut self, rate: impl Fn(u32, u64) -> u64) {
        for index in 0..usize::from(self.model.counters) {
            let select = self.selects[index];
            let is_global = self.model.version >= 2;
            let gate = !is_global || self.global_control >> index & 1 != 0;
            if gate && select & select::ENABLE != 0 {
                let code = u32::try_from(select & 0xFF84_FFFF).unwrap();
                let count = rate(code, select >> 17 & 1 | select >> 15 & 2);
                let mask = super::low_bits(self.model.counter_bits);
                let sum = u128::from(self.counters[index]) + u128::from(count);
                let interrupts = select & select::INTERRUPT != 0;
                self.note_overflow(index, sum > u128::from(mask), interrupts);
                self.counters[index] = self.counters[index].wrapping_add(count) & mask;
            }
        }
        for (index, code) in [0xC0, 0x3C, 0x0300].into_iter().enumerate() {
            let modes = self.fixed_control >> (4 * index) & 0b11;
            if self.global_control >> (32 + index) & 1 != 0 && modes != 0 {
                let mask = super::low_bits(self.model.fixed_bits);
                let count = rate(code, modes);
                let sum = u128::from(self.fixed[index]) + u128::from(count);
                let interrupts = self.fixed_control >> (4 * index) & 0b1000 != 0;
                self.note_overflow(32 + index, sum > u128::from(mask), interrupts);
                self.fixed[index] = self.fixed[index].wrapping_add(count) & mask;
            }
        }
    }

    fn note_overflow(&mut self, bit: usize, overflows: bool, interrupts: bool) {
        if overflows {
            let has_status = self.model.version >= 2;
            self.global_status |= u64::from(has_status) << bit;
            self.interrupts += u64::from(interrupts);
        }
    }

    fn general(&self, index: u8) -> usize {
        assert!(
            index < self.model.counters,
            "#GP: there is no counter {index}"
        );
        assert!(
            self.foreign >> index & 1 == 0,
            "counter {index} is somebody else's"
        );
        index.into()
    }

    fn fixed(&self, index: u8) -> usize {
        assert!(
            index < self.model.fixed_counters,
            "#GP: there is no fixed counter {index}"
        );
        assert!(
            self.foreign >> (32 + index) & 1 == 0,
            "fixed counter {index} is somebody else's"
        );
        index.into()
    }

    fn is_running(&self, bit: usize) -> bool {
        self.global_control >> bit & 1 != 0
    }

    fn existing(&self) -> u64 {
        ((1 << self.model.counters) - 1) | (((1 << self.model.fixed_counters) - 1) << 32)
    }

    fn foreign_fixed_control(&self) -> u64 {
        (0..16)
            .filter(|i| self.foreign >> (32 + i) & 1 != 0)
            .map(|i| 0xF << (4 * i))
            .sum()
    }
}

impl X86Registers for &mut FakeX86 {
    fn read(&mut self, msr: Msr) -> u64 {
        let global = self.model.version >= 2;
        match msr {
            Msr::Counter(index) => self.counters[self.general(index)],
            Msr::EventSelect(index) => self.selects[self.general(index)],
            Msr::FixedCounter(index) => self.fixed[self.fixed(index)],
            Msr::FixedControl if global => self.fixed_control,
            Msr::GlobalControl if global => self.global_control,
            Msr::GlobalStatus if global => self.global_status,
            _ => panic!("#GP: read of {msr:?}"),
        }
    }

    fn write(&mut self, msr: Msr, value: u64) {
        assert!(
            self.model.version >= 2 || !matches!(msr, Msr::GlobalControl),
            "#GP: {msr:?}"
        );
        match msr {
            Msr::Counter(index) => {
                let index = self.general(index);
                let gate = self.model.version < 2 || self.is_running(index);
                let runs = gate && self.selects[index] & select::ENABLE != 0;
                assert!(!runs, "counter {index} written while running");
                #[expect(clippy::cast_possible_truncation, reason = "what the register takes")]
                let written = i64::from(value as i32).cast_unsigned();
                let written = written & super::low_bits(self.model.counter_bits);
                assert!(written == value, "a legacy write sign-extends bit 31");
                self.counters[index] = value;
            }
            Msr::EventSelect(index) => {
                let index = self.general(index);
                assert!(
                    value >> 32 == 0 && value & (1 << 21) == 0,
                    "#GP: {value:#x}"
                );
                self.selects[index] = value;
            }
            Msr::FixedCounter(index) => {
                let index = self.fixed(index);
                assert!(
                    !self.is_running(32 + index),
                    "fixed {index} written while running"
                );
                self.fixed[index] = value;
            }
            Msr::FixedControl => {
                let changed = self.fixed_control ^ value;
                assert!(
                    value >> (4 * self.model.fixed_counters) == 0,
                    "#GP: {value:#x}"
                );
                assert!(
                    changed & self.foreign_fixed_control() == 0,
                    "a neighbour's bits changed"
                );
                self.fixed_control = value;
            }
            Msr::GlobalStatus => panic!("#GP: read-only"),
            Msr::GlobalControl => {
                assert!(value & !self.existing() == 0, "#GP: {value:#x}");
                let changed = self.global_control ^ value;
                assert!(changed & self.foreign == 0, "a neighbour's bits changed");
                self.global_control = value;
            }
            Msr::GlobalOverflowControl => {
                assert!(value & !self.existing() == 0, "#GP: {value:#x}");
                assert!(
                    value & self.foreign == 0,
                    "a neighbour's overflow was cleared"
                );
                self.global_status &= !value;
            }
        }
    }

    fn read_counter(&mut self, slot: Slot) -> u64 {
        match slot {
            Slot::General(index) => self.counters[self.general(index)],
            Slot::Fixed(index) => self.fixed[self.fixed(index)],
        }
    }
}
