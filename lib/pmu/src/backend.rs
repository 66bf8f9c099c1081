//! Registers of a PMU, behind small traits.
//!
//! [`Pmu`] is what the run of a core, or of an uncore unit, needs; [`x86`], [`arm`] and [`software`],
//! and [`dsu`], [`dmc620`] and [`coresight`], give it over a trait of registers each. Whoever implements those (the driver's kernel, a fake) sees only registers of
//! the PMU: nothing else can be named.

pub mod arm;
pub mod coresight;
pub mod dmc620;
pub mod dsu;
pub mod software;
pub mod x86;

use crate::{Slot, SlotSet};
use wperf_abi::{EventCode, EventFilter};

/// The counters of the core that the caller runs on.
///
/// All calls between [`begin`](Self::begin) and [`end`](Self::end) come from the same core.
pub trait Pmu {
    /// Counters that somebody else has running; they must be left alone. Of cores only the fixed ones:
    /// the system lends the others.
    fn busy(&mut self) -> SlotSet;

    /// Lets own counters count at all, and remembers how things were.
    fn begin(&mut self);

    /// Undoes [`begin`](Self::begin).
    fn end(&mut self);

    /// Programs a counter that stands still.
    fn program(&mut self, slot: Slot, code: EventCode, filter: EventFilter);

    /// Takes an event off a counter that stands still.
    fn clear(&mut self, slot: Slot);

    /// Starts counters, all in one go where the hardware can.
    fn enable(&mut self, slots: SlotSet);

    /// Stops counters; they keep their values.
    fn disable(&mut self, slots: SlotSet);

    /// The value, running or not.
    fn read(&mut self, slot: Slot) -> u64;

    /// Bits of the value that count.
    fn mask(&self, slot: Slot) -> u64;
}

/// A page of 32-bit registers in memory.
pub trait MappedRegisters {
    /// Reads the register at an offset. Units: bytes.
    fn read(&mut self, offset: u32) -> u32;
    /// Writes the register at an offset. Units: bytes.
    fn write(&mut self, offset: u32, value: u32);
}

/// A [`Pmu`] whose counters can interrupt when they overflow.
pub trait SamplingPmu: Pmu {
    /// Programs a counter that stands still, with its interrupt; [`arm`](Self::arm) must follow.
    fn program_sampling(&mut self, slot: Slot, code: EventCode, filter: EventFilter);

    /// Most events after which a counter can be made to overflow.
    fn most_until_overflow(&mut self, slot: Slot) -> u64;

    /// Sets a counter that stands still to overflow after so many events; gives its value.
    fn arm(&mut self, slot: Slot, events: u64) -> u64;

    /// Which of these counters, which stand still, have overflowed; all, if that cannot be told.
    fn overflowed(&mut self, slots: SlotSet) -> SlotSet;

    /// Forgets that counters have overflowed.
    fn acknowledge(&mut self, slots: SlotSet);
}

/// Low `bits` bits.
const fn low_bits(bits: u8) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}
