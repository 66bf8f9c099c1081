//! Hardware counters, lent by the system.
#![expect(unsafe_code, reason = "calls the hardware abstraction layer")]

use crate::routine::Routine;
use crate::utf16;
use nt::base::HANDLE;
use nt::hal::{
    HalAllocateHardwareCountersFn, HalFreeHardwareCountersFn, PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR,
    PHYSICAL_COUNTER_RESOURCE_LIST, ResourceTypeSingle,
};

static ALLOCATE: Routine<HalAllocateHardwareCountersFn> =
    // SAFETY: the type is that of ntddk.h, as `nt::hal` declares it.
    unsafe { Routine::new(utf16!("HalAllocateHardwareCounters")) };
static FREE: Routine<HalFreeHardwareCountersFn> =
    // SAFETY: the type is that of ntddk.h, as `nt::hal` declares it.
    unsafe { Routine::new(utf16!("HalFreeHardwareCounters")) };

/// Most counters that are asked for: an x86 or Arm PMU has at most 31 or 32.
const MOST: usize = 32;

/// Whether the system lends hardware counters at all.
///
/// IRQL: `PASSIVE_LEVEL`.
#[must_use]
pub fn are_lent() -> bool {
    ALLOCATE.find().is_some() && FREE.find().is_some()
}

/// Counters reserved on every processor; given back when dropped.
///
/// Each is asked for on its own and kept, so there is no moment between asking and taking in which
/// another could come first.
#[derive(Debug)]
pub struct CounterReservation {
    handles: [Option<HANDLE>; MOST],
}

// SAFETY: the handles are numbers of the system, of no thread.
unsafe impl Send for CounterReservation {}

impl CounterReservation {
    /// Reserves those of the first `count` general-purpose counters that are free.
    ///
    /// `None` if the system does not lend counters. No counter free is a reservation of none.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `HalAllocateHardwareCounters`, ntddk.h.
    #[must_use]
    pub fn reserve(count: u8) -> Option<Self> {
        let allocate = ALLOCATE.find()?;
        FREE.find()?;
        let mut handles = [None; MOST];
        for (index, handle) in (0..u32::from(count)).zip(&mut handles) {
            *handle = reserve_one(allocate, index);
        }
        Some(Self { handles })
    }

    /// Bit n: general-purpose counter n is reserved.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn counters(&self) -> u64 {
        let bits = self.handles.iter().enumerate();
        bits.filter(|(_, handle)| handle.is_some())
            .map(|(index, _)| 1 << index)
            .sum()
    }
}

fn reserve_one(allocate: HalAllocateHardwareCountersFn, index: u32) -> Option<HANDLE> {
    let descriptor = PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR {
        Type: ResourceTypeSingle,
        Flags: 0,
        CounterIndex: index,
        RangeEnd: 0,
        _rest: 0,
    };
    let mut list = PHYSICAL_COUNTER_RESOURCE_LIST {
        Count: 1,
        _pad: 0,
        Descriptors: [descriptor],
    };
    let mut handle = core::ptr::null_mut();
    let everywhere = core::ptr::null_mut();
    // SAFETY: (1) no affinity and a count of 0 mean all processors. (2) `list` has the one
    // descriptor it says. (3) `handle` is a valid place for the answer.
    let status = unsafe { allocate(everywhere, 0, &raw mut list, &raw mut handle) };
    status.is_success().then_some(handle)
}

impl Drop for CounterReservation {
    fn drop(&mut self) {
        let Some(free) = FREE.found() else { return };
        for handle in self.handles.iter_mut().filter_map(Option::take) {
            // SAFETY: reserved by `reserve_one`, and given back once.
            unsafe { free(handle) };
        }
    }
}
