//! The PMU of a memory controller DMC-620.
//!
//! Ten counters of 32 bits: 0 to 7 count events of half the clock, 8 and 9 of the full one. All registers
//! have 32 bits. Source: DMC-620 TRM 100568, PMU registers: snapshot request 0x0 and acknowledge 0x4,
//! overflow status of the two clocks 0x8 and 0xC; from 0x10 on, 0x28 bytes per counter: mask 0x0 and match
//! 0x8 of 64 bits each, control 0x10 (enable 0, invert 1, event 6:2, increment 8:7), snapshot 0x18, value
//! 0x20. Interrupts are not connected.

use std::cell::RefCell;

use super::counter::{Counter, Total, at_rate};
use super::{Device, Wrong};

/// Counters of half the clock, and all.
const HALVED: usize = 8;
const COUNTERS: usize = 10;
const COUNTER_MASK: u64 = 0xFFFF_FFFF;
/// Events of half the clock, and of the full one.
const EVENTS: [u64; 2] = [26, 3];

const ENABLE: u32 = 1;
const INVERT: u32 = 1 << 1;
/// Bits of the control register.
const CONTROL: u32 = 0x1FF;

#[derive(Clone)]
struct Unit {
    /// Mask and match, 32 bits at a time.
    filter: [u32; 4],
    control: u32,
    snapshot: u32,
    counter: Counter,
}

/// One controller.
pub struct Dmc620 {
    number: u8,
    units: RefCell<Vec<Unit>>,
}

enum Register {
    SnapshotRequest,
    SnapshotAcknowledge,
    Overflow(usize),
    Filter(usize, usize),
    Control(usize),
    Snapshot(usize),
    Value(usize),
}

impl Register {
    fn at(offset: u64, bytes: u8) -> Result<Self, Wrong> {
        let register = match offset & !3 {
            0x0 => Self::SnapshotRequest,
            0x4 => Self::SnapshotAcknowledge,
            0x8 => Self::Overflow(0),
            0xC => Self::Overflow(1),
            _ => {
                let inside = (offset & !3) - 0x10;
                let counter = usize::try_from(inside / 0x28).unwrap_or(COUNTERS);
                if counter >= COUNTERS {
                    return Err(Wrong::Offset);
                }
                match inside % 0x28 {
                    0x10 => Self::Control(counter),
                    0x18 => Self::Snapshot(counter),
                    0x20 => Self::Value(counter),
                    part @ (0x0 | 0x4 | 0x8 | 0xC) => {
                        Self::Filter(counter, usize::try_from(part / 4).unwrap_or(0))
                    }
                    _ => return Err(Wrong::Offset),
                }
            }
        };
        if bytes == 4 && offset.is_multiple_of(4) {
            Ok(register)
        } else {
            Err(Wrong::Width)
        }
    }
}

impl Dmc620 {
    pub(super) fn new(number: u8) -> Self {
        let unit = |index| Unit {
            filter: [u32::MAX; 4],
            control: 0,
            snapshot: 0,
            // Near the end, as nobody has set it: what takes the value for the count is soon far off.
            counter: Counter::new(COUNTER_MASK - 1000 * index),
        };
        Self {
            number,
            units: RefCell::new((0..COUNTERS as u64).map(unit).collect()),
        }
    }

    /// What controller `number` comes to by a time: of an event of half the clock (`full` false) or of the
    /// full one. Units: ns.
    ///
    /// Half the clock is 0.8 GHz, the full one 1.6 GHz (event 0 of each). Every other event of half the
    /// clock comes 20 times its own number, of the full one 40 times, each µs, and once more for the
    /// number of the controller. Events that there are not never come.
    #[must_use]
    pub fn total(number: u8, full: bool, event: u64, now_ns: u64) -> u64 {
        let rate = match (full, event) {
            (false, 0) => 800,
            (true, 0) => 1600,
            (_, event) if event >= EVENTS[usize::from(full)] => 0,
            (false, event) => 20 * event + u64::from(number),
            (true, event) => 40 * event + u64::from(number),
        };
        at_rate(rate, now_ns)
    }
}

/// What a counter counts with its present settings. All addresses and data of the model are zeros: an
/// event that is filtered by them counts if the match asks for no ones.
fn counted(number: u8, index: usize, unit: &Unit) -> impl Fn(u64) -> u64 + 'static {
    let event = u64::from(unit.control >> 2 & 0x1F);
    let [mask_low, mask_high, match_low, match_high] = unit.filter;
    let matches = mask_low & match_low == 0 && mask_high & match_high == 0;
    let inverts = unit.control & INVERT != 0;
    let counts = matches != inverts;
    move |now_ns| {
        if counts {
            Dmc620::total(number, index >= HALVED, event, now_ns)
        } else {
            0
        }
    }
}

impl Unit {
    /// Changes settings: what was counted until now was counted with the former ones.
    fn change(&mut self, number: u8, index: usize, now_ns: u64, change: impl FnOnce(&mut Self)) {
        let before: Box<Total> = Box::new(counted(number, index, self));
        self.counter.settle(now_ns, COUNTER_MASK, &before);
        change(self);
        let runs = self.control & ENABLE != 0;
        self.counter.run(runs, now_ns, COUNTER_MASK, &before);
    }
}

impl Device for Dmc620 {
    fn read(&self, _: usize, offset: u64, bytes: u8, now_ns: u64) -> Result<u64, Wrong> {
        let register = Register::at(offset, bytes)?;
        let mut units = self.units.borrow_mut();
        for (index, unit) in units.iter_mut().enumerate() {
            unit.change(self.number, index, now_ns, |_| {});
        }
        Ok(match register {
            Register::SnapshotRequest => return Err(Wrong::WriteOnly),
            Register::SnapshotAcknowledge => 1,
            Register::Overflow(0) => overflow(&units[..HALVED]),
            Register::Overflow(_) => overflow(&units[HALVED..]),
            Register::Filter(index, part) => units[index].filter[part].into(),
            Register::Control(index) => units[index].control.into(),
            Register::Snapshot(index) => units[index].snapshot.into(),
            Register::Value(index) => units[index].counter.value(),
        })
    }

    fn write(
        &self,
        _: usize,
        offset: u64,
        bytes: u8,
        value: u64,
        now_ns: u64,
    ) -> Result<(), Wrong> {
        let register = Register::at(offset, bytes)?;
        let word = u32::try_from(value & 0xFFFF_FFFF).unwrap_or(0);
        let mut units = self.units.borrow_mut();
        let number = self.number;
        let mut change = |index: usize, change: &dyn Fn(&mut Unit)| {
            units[index].change(number, index, now_ns, change);
        };
        match register {
            Register::SnapshotRequest => {
                for index in 0..COUNTERS {
                    change(index, &|unit| {
                        unit.snapshot = u32::try_from(unit.counter.value()).unwrap_or(0);
                    });
                }
            }
            Register::Overflow(clock) => {
                let (first, count) = [(0, HALVED), (HALVED, COUNTERS - HALVED)][clock];
                for bit in 0..count {
                    change(first + bit, &|unit| {
                        unit.counter.overflowed &= word >> bit & 1 != 0;
                    });
                }
            }
            Register::Filter(index, part) => change(index, &|unit| unit.filter[part] = word),
            Register::Control(index) => change(index, &|unit| unit.control = word & CONTROL),
            Register::Value(index) => change(index, &|unit| unit.counter.set(word.into(), now_ns)),
            Register::SnapshotAcknowledge | Register::Snapshot(_) => return Err(Wrong::ReadOnly),
        }
        Ok(())
    }
}

fn overflow(units: &[Unit]) -> u64 {
    let bits = units.iter().enumerate();
    bits.filter(|(_, unit)| unit.counter.overflowed)
        .map(|(bit, _)| 1 << bit)
        .sum()
}
