//! A PMU of Arm's CoreSight architecture.
//!
//! Source: Arm CoreSight PMU architecture IHI 0091. All registers are accessed 32 bits at a time:
//! `PMEVCNTR<n>` at 0x000 (4 bytes each, or 8 where counters are wider than 32 bits), `PMEVTYPER<n>` 0x400,
//! PMCCFILTR 0x47C, `PMEVFILTR<n>` 0xA00, PMCNTENSET 0xC00, PMCNTENCLR 0xC20, PMINTENSET 0xC40, PMINTENCLR
//! 0xC60, PMOVSCLR 0xC80, PMOVSSET 0xCC0, PMCFGR 0xE00, PMCR 0xE04, PMIIDR 0xE08. With two pages, counters
//! and overflow are in the second. The cycle counter has index 31. Interrupts are not connected.

use std::cell::RefCell;

use super::counter::{Counter, Total, at_rate};
use super::{Device, Wrong};

/// Index of the cycle counter.
const CYCLES: usize = 31;
/// PMCR.E; and P and C, which reset the event counters, and the cycle counter.
const ENABLE: u32 = 1;
const RESET_EVENTS: u32 = 1 << 1;
const RESET_CYCLES: u32 = 1 << 2;
/// Arm's JEP106 code, as PMIIDR has it.
const IDENTIFICATION: u32 = 0x0CA_0043B;

struct State {
    control: u32,
    enabled: u32,
    interrupts: u32,
    types: [u32; 32],
    filters: [u32; 32],
    cycle_filter: u32,
    counters: Vec<Counter>,
}

/// One PMU.
pub struct CoreSight {
    number: u8,
    events: usize,
    bits: u32,
    has_cycles: bool,
    is_dual: bool,
    state: RefCell<State>,
}

#[derive(Clone, Copy)]
enum Register {
    /// A half of a counter: which, and how far it is shifted.
    Counter(usize, u32),
    Type(usize),
    Filter(usize),
    CycleFilter,
    EnableSet,
    EnableClear,
    InterruptSet,
    InterruptClear,
    OverflowClear,
    OverflowSet,
    Configuration,
    Control,
    Identification,
}

impl CoreSight {
    /// Six counters of 32 bits in one page.
    pub(super) fn narrow(number: u8) -> Self {
        Self::new(number, 6, 32, false, false)
    }

    /// Four counters and a cycle counter of 64 bits, in two pages.
    pub(super) fn wide(number: u8) -> Self {
        Self::new(number, 4, 64, true, true)
    }

    fn new(number: u8, events: usize, bits: u32, has_cycles: bool, is_dual: bool) -> Self {
        // What nobody has set yet is anything: filters that let nothing through, counters near their end.
        let mask = u64::MAX >> (64 - bits);
        let state = State {
            control: 0,
            enabled: 0,
            interrupts: 0,
            types: [0xFFFF; 32],
            filters: [u32::MAX; 32],
            cycle_filter: u32::MAX,
            counters: vec![Counter::new(mask - 5000); 32],
        };
        Self {
            number,
            events,
            bits,
            has_cycles,
            is_dual,
            state: RefCell::new(state),
        }
    }

    /// What PMU `number` comes to by a time. Units: ns.
    ///
    /// Cycles (`None`) come at 2 GHz; event e comes e + 1 times each µs, and once more for the number of
    /// the PMU, of which only the low 12 bits count.
    #[must_use]
    pub fn total(number: u8, event: Option<u32>, now_ns: u64) -> u64 {
        let rate = match event {
            None => 2000,
            Some(event) => u64::from(event & 0xFFF) + 1 + u64::from(number),
        };
        at_rate(rate, now_ns)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Bits of the counters there are.
    fn present(&self) -> u32 {
        let events = (1 << self.events) - 1;
        events | if self.has_cycles { 1 << CYCLES } else { 0 }
    }

    fn is_counter(&self, index: usize) -> bool {
        index < self.events || self.has_cycles && index == CYCLES
    }

    fn register(&self, page: usize, offset: u64, bytes: u8) -> Result<Register, Wrong> {
        let register = self.register_at(page, offset & !3).ok_or(Wrong::Offset)?;
        if bytes == 4 && offset.is_multiple_of(4) {
            Ok(register)
        } else {
            Err(Wrong::Width)
        }
    }

    fn register_at(&self, page: usize, offset: u64) -> Option<Register> {
        let index = |from: u64, size: u64| usize::try_from((offset - from) / size).ok();
        let of_counters = page == usize::from(self.is_dual);
        let register = match offset {
            0x000..0x400 if of_counters && self.bits > 32 => {
                let shift = if offset.is_multiple_of(8) { 0 } else { 32 };
                Register::Counter(index(0, 8)?, shift)
            }
            0x000..0x400 if of_counters => Register::Counter(index(0, 4)?, 0),
            0xC80 if of_counters => Register::OverflowClear,
            0xCC0 if of_counters => Register::OverflowSet,
            _ if page != 0 => return None,
            0x47C if self.has_cycles => Register::CycleFilter,
            0x400..0x800 => Register::Type(index(0x400, 4)?),
            0xA00..0xC00 => Register::Filter(index(0xA00, 4)?),
            0xC00 => Register::EnableSet,
            0xC20 => Register::EnableClear,
            0xC40 => Register::InterruptSet,
            0xC60 => Register::InterruptClear,
            0xE00 => Register::Configuration,
            0xE04 => Register::Control,
            0xE08 => Register::Identification,
            _ => return None,
        };
        match register {
            Register::Counter(index, _) if !self.is_counter(index) => None,
            Register::Type(index) | Register::Filter(index) if index >= self.events => None,
            register => Some(register),
        }
    }

    /// What a counter counts with the present settings.
    fn counted(&self, state: &State, index: usize) -> Box<Total> {
        let number = self.number;
        let (event, filter) = match index {
            CYCLES if self.has_cycles => (None, state.cycle_filter),
            index => (Some(state.types[index]), state.filters[index]),
        };
        Box::new(move |now_ns| match filter {
            0 => Self::total(number, event, now_ns),
            _ => 0,
        })
    }

    /// Changes settings: what was counted until now was counted with the former ones.
    fn change<R>(&self, now_ns: u64, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let totals: Vec<_> = (0..32).map(|index| self.counted(state, index)).collect();
        let mask = self.mask();
        for (counter, total) in state.counters.iter_mut().zip(&totals) {
            counter.settle(now_ns, mask, total);
        }
        let result = change(state);
        for (index, (counter, total)) in state.counters.iter_mut().zip(&totals).enumerate() {
            let runs = state.control & ENABLE != 0 && state.enabled >> index & 1 != 0;
            counter.run(runs, now_ns, mask, total);
        }
        result
    }

    fn configuration(&self) -> u32 {
        let counters = self.events + usize::from(self.has_cycles);
        let n = u32::try_from(counters - 1).unwrap_or(0);
        n | (self.bits - 1) << 8 | u32::from(self.has_cycles) << 14
    }
}

fn low(value: u64) -> u32 {
    u32::try_from(value & 0xFFFF_FFFF).unwrap_or(0)
}

impl State {
    fn overflow(&self) -> u32 {
        let bits = self.counters.iter().enumerate();
        bits.filter(|(_, counter)| counter.overflowed)
            .fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    fn set_overflow(&mut self, bits: u32, overflowed: bool) {
        for (bit, counter) in self.counters.iter_mut().enumerate() {
            if bits >> bit & 1 != 0 {
                counter.overflowed = overflowed;
            }
        }
    }
}

impl Device for CoreSight {
    fn read(&self, page: usize, offset: u64, bytes: u8, now_ns: u64) -> Result<u64, Wrong> {
        let register = self.register(page, offset, bytes)?;
        Ok(self.change(now_ns, |state| match register {
            Register::Counter(index, shift) => low(state.counters[index].value() >> shift).into(),
            Register::Type(index) => state.types[index].into(),
            Register::Filter(index) => state.filters[index].into(),
            Register::CycleFilter => state.cycle_filter.into(),
            Register::EnableSet | Register::EnableClear => state.enabled.into(),
            Register::InterruptSet | Register::InterruptClear => state.interrupts.into(),
            Register::OverflowClear | Register::OverflowSet => state.overflow().into(),
            Register::Configuration => self.configuration().into(),
            Register::Control => state.control.into(),
            Register::Identification => IDENTIFICATION.into(),
        }))
    }

    fn write(
        &self,
        page: usize,
        offset: u64,
        bytes: u8,
        value: u64,
        now_ns: u64,
    ) -> Result<(), Wrong> {
        let register = self.register(page, offset, bytes)?;
        let (word, present) = (low(value), self.present());
        self.change(now_ns, |state| {
            match register {
                Register::Counter(index, shift) => {
                    let kept = state.counters[index].value() & !(0xFFFF_FFFF << shift);
                    let value = (kept | u64::from(word) << shift) & self.mask();
                    state.counters[index].set(value, now_ns);
                }
                Register::Type(index) => state.types[index] = word,
                Register::Filter(index) => state.filters[index] = word,
                Register::CycleFilter => state.cycle_filter = word,
                Register::EnableSet => state.enabled |= word & present,
                Register::EnableClear => state.enabled &= !word,
                Register::InterruptSet => state.interrupts |= word & present,
                Register::InterruptClear => state.interrupts &= !word,
                Register::OverflowClear => state.set_overflow(word, false),
                Register::OverflowSet => state.set_overflow(word & present, true),
                Register::Control => {
                    state.control = word & !(RESET_EVENTS | RESET_CYCLES);
                    for (index, counter) in state.counters.iter_mut().enumerate() {
                        let resets = if index == CYCLES {
                            RESET_CYCLES
                        } else {
                            RESET_EVENTS
                        };
                        if word & resets != 0 {
                            counter.set(0, now_ns);
                        }
                    }
                }
                Register::Configuration | Register::Identification => return Err(Wrong::ReadOnly),
            }
            Ok(())
        })
    }
}
