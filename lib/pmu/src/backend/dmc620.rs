//! DMC-620 memory controller.
//!
//! ```text
//!  0x008  overflow of counters 0–7        0x010 + n × 0x28:  +0x00 mask, +0x08 match (64 bits each)
//!  0x00C  overflow of counters 8–9                           +0x10 control: enable 0, event 6:2
//!                                                            +0x20 value
//! ```
//! Counters 0 to 7 are of the halved clock, 8 and 9 of the full one. There is no common enable, so the
//! counters of a unit start and stop one after the other. Source: DMC-620 TRM 100568, PMU registers.

use super::{MappedRegisters, Pmu, low_bits};
use crate::{Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

/// Bytes of registers.
pub const BYTES: u64 = 0x1A0;

const OVERFLOW_HALVED: u32 = 0x8;
const OVERFLOW_FULL: u32 = 0xC;
const COUNTERS: u32 = 0x10;
const STRIDE: u32 = 0x28;
/// Mask and match of 64 bits each, at the start of a counter's block: an event counts if they agree.
const MASK_AND_MATCH: [u32; 4] = [0x0, 0x4, 0x8, 0xC];
const CONTROL: u32 = 0x10;
const VALUE: u32 = 0x20;

const ENABLE: u32 = 1;
const EVENT_SHIFT: u32 = 2;
const EVENT_BITS: u32 = 0x1F;
/// Counters of the halved clock.
const HALVED: u8 = 8;
const ALL: u8 = 10;
const COUNTER_BITS: u8 = 32;

/// [`Pmu`] over a page of registers.
#[derive(Debug)]
pub struct Dmc620Pmu<R>(pub R);

const fn at(counter: u8, register: u32) -> u32 {
    COUNTERS + counter as u32 * STRIDE + register
}

impl<R: MappedRegisters> Dmc620Pmu<R> {
    fn set_enabled(&mut self, slots: SlotSet, enable: u32) {
        for counter in (0..ALL).filter(|&n| slots.contains(Slot::General(n))) {
            let control = self.0.read(at(counter, CONTROL));
            self.0
                .write(at(counter, CONTROL), control & !ENABLE | enable);
        }
    }
}

impl<R: MappedRegisters> Pmu for Dmc620Pmu<R> {
    fn busy(&mut self) -> SlotSet {
        let mut busy = SlotSet::EMPTY;
        for counter in 0..ALL {
            if self.0.read(at(counter, CONTROL)) & ENABLE != 0 {
                busy.insert(Slot::General(counter));
            }
        }
        busy
    }

    fn begin(&mut self) {}

    fn end(&mut self) {}

    fn program(&mut self, slot: Slot, code: EventCode, _: EventFilter) {
        let Slot::General(counter) = slot else { return };
        for register in MASK_AND_MATCH {
            self.0.write(at(counter, register), 0);
        }
        let event = (code.0 & EVENT_BITS) << EVENT_SHIFT;
        self.0.write(at(counter, CONTROL), event);
        self.0.write(at(counter, VALUE), 0);
    }

    fn clear(&mut self, slot: Slot) {
        let Slot::General(counter) = slot else { return };
        self.0.write(at(counter, CONTROL), 0);
        self.0.write(at(counter, VALUE), 0);
        // Bits are cleared by writing 0; those of others stay as they are.
        let (register, bit) = match counter.checked_sub(HALVED) {
            None => (OVERFLOW_HALVED, 1 << counter),
            Some(index) => (OVERFLOW_FULL, 1 << index),
        };
        let status = self.0.read(register);
        self.0.write(register, status & !bit);
    }

    fn enable(&mut self, slots: SlotSet) {
        self.set_enabled(slots, ENABLE);
    }

    fn disable(&mut self, slots: SlotSet) {
        self.set_enabled(slots, 0);
    }

    fn read(&mut self, slot: Slot) -> u64 {
        match slot {
            Slot::General(counter) => self.0.read(at(counter, VALUE)).into(),
            Slot::Fixed(_) => 0,
        }
    }

    fn mask(&self, _: Slot) -> u64 {
        low_bits(COUNTER_BITS)
    }
}

#[cfg(test)]
mod tests;
