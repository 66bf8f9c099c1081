//! A DMC-620 that panics on offsets that are none, and counting on it.

use super::*;
use crate::schedule::ScheduledEvent;
use crate::uncore::tests::assigned;
use crate::{Core, UnitModel};
use proptest::prelude::*;
use std::vec::Vec;

struct FakeDmc {
    controls: [u32; 10],
    values: [u32; 10],
    overflow: [u32; 2],
}

impl FakeDmc {
    fn new() -> Self {
        Self {
            controls: [0; 10],
            values: [0xFFFF_FF00; 10],
            overflow: [0; 2],
        }
    }

    /// Lets each counter that runs count `times` its event, plus one for the full clock.
    fn advance(&mut self, times: u64) {
        for counter in (0..10).filter(|n| self.controls[*n] & 1 != 0) {
            let event = u64::from(self.controls[counter] >> 2 & 0x1F) + u64::from(counter >= 8);
            let sum = u64::from(self.values[counter]) + event * times;
            assert!(sum < 1 << 33, "wrapped twice");
            self.values[counter] = u32::try_from(sum & 0xFFFF_FFFF).unwrap();
            if sum >> 32 != 0 {
                self.overflow[counter / 8] |= 1 << (counter % 8);
            }
        }
    }

    fn block(offset: u32) -> (usize, u32) {
        let inside = offset.checked_sub(COUNTERS).expect("a counter");
        let counter = inside / STRIDE;
        assert!(counter < 10 && offset.is_multiple_of(4), "{offset:#x}");
        (usize::try_from(counter).unwrap(), inside % STRIDE)
    }
}

impl MappedRegisters for &mut FakeDmc {
    fn read(&mut self, offset: u32) -> u32 {
        match offset {
            OVERFLOW_HALVED => self.overflow[0],
            OVERFLOW_FULL => self.overflow[1],
            _ => match FakeDmc::block(offset) {
                (counter, CONTROL) => self.controls[counter],
                (counter, VALUE) => self.values[counter],
                other => panic!("{other:?} is not read"),
            },
        }
    }

    fn write(&mut self, offset: u32, value: u32) {
        match offset {
            OVERFLOW_HALVED => self.overflow[0] &= value,
            OVERFLOW_FULL => self.overflow[1] &= value,
            _ => {
                let (counter, register) = FakeDmc::block(offset);
                let runs = self.controls[counter] & 1 != 0;
                match register {
                    CONTROL => {
                        assert!(!runs || value | 1 == self.controls[counter]);
                        self.controls[counter] = value;
                    }
                    VALUE if !runs => self.values[counter] = value,
                    0 | 4 | 8 | 0xC if !runs => assert_eq!(value, 0),
                    other => panic!("{other:#x} is not written now"),
                }
            }
        }
    }
}

fn values(core: &Core<Vec<ScheduledEvent>>) -> Vec<u64> {
    let (_, counts) = core.totals().unwrap();
    counts.map(|count| count.value).collect()
}

const CLK: u32 = EventCode::DMC_CLK;

#[test]
fn both_clocks_count_at_the_same_time() {
    let mut fake = FakeDmc::new();
    let mut core = Core::default();
    let events = [0x12, CLK, 0x01, CLK | 2];
    let all = UnitModel::Dmc620.counters();
    drop(assigned(&mut core, &UnitModel::Dmc620, all, &events));
    core.start(&mut Dmc620Pmu(&mut fake), 0);
    fake.advance(100);
    core.stop(&mut Dmc620Pmu(&mut fake), 1);
    assert_eq!(values(&core), [1800, 100, 100, 300]);
    assert_eq!(fake.controls, [0; 10], "nothing stays programmed");
}

#[test]
fn a_counter_of_another_is_not_used_nor_is_its_overflow_cleared() {
    let mut fake = FakeDmc::new();
    fake.controls[0] = 0x11 << 2 | 1;
    fake.overflow[0] = 1;
    let busy = Dmc620Pmu(&mut fake).busy();
    assert_eq!(busy, SlotSet::first(1, 0));
    let free = UnitModel::Dmc620.counters().without(busy);
    let mut core = Core::default();
    drop(assigned(&mut core, &UnitModel::Dmc620, free, &[0x12]));
    core.start(&mut Dmc620Pmu(&mut fake), 0);
    fake.advance(1);
    core.stop(&mut Dmc620Pmu(&mut fake), 1);
    assert_eq!(values(&core), [0x12]);
    assert_eq!((fake.controls[0], fake.overflow[0]), (0x11 << 2 | 1, 1));
}

#[test]
fn what_was_counted_before_a_reset_or_by_a_former_owner_is_gone() {
    let mut fake = FakeDmc::new();
    let mut core = Core::default();
    let all = UnitModel::Dmc620.counters();
    drop(assigned(&mut core, &UnitModel::Dmc620, all, &[0x12]));
    core.start(&mut Dmc620Pmu(&mut fake), 0);
    fake.advance(1000);
    let generation = core.totals().unwrap().0.generation;
    core.reset(&mut Dmc620Pmu(&mut fake), 1);
    fake.advance(1);
    core.stop(&mut Dmc620Pmu(&mut fake), 2);
    assert_eq!(values(&core), [0x12]);
    assert!(core.totals().unwrap().0.generation > generation);
    drop(core.clear());
    fake.advance(77);
    drop(assigned(&mut core, &UnitModel::Dmc620, all, &[0x12]));
    core.start(&mut Dmc620Pmu(&mut fake), 3);
    core.stop(&mut Dmc620Pmu(&mut fake), 4);
    assert_eq!(values(&core), [0]);
}

proptest! {
    #[test]
    fn totals_are_exact_across_any_number_of_wraps(
        steps in prop::collection::vec(0u64..130_000_000, 1..60),
    ) {
        let mut fake = FakeDmc::new();
        let mut core = Core::default();
        let all = UnitModel::Dmc620.counters();
        drop(assigned(&mut core, &UnitModel::Dmc620, all, &[0x19, CLK]));
        prop_assert!(core.needs_ticks_with(|slot| UnitModel::Dmc620.bits(slot)));
        core.start(&mut Dmc620Pmu(&mut fake), 0);
        for step in &steps {
            fake.advance(*step);
            core.tick(&mut Dmc620Pmu(&mut fake), 1);
        }
        core.stop(&mut Dmc620Pmu(&mut fake), 2);
        let all: u64 = steps.iter().sum();
        prop_assert_eq!(values(&core), [0x19 * all, all]);
    }
}
