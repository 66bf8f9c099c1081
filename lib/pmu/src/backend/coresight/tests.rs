//! A CoreSight PMU that panics on registers it lacks and on what would disturb others, and counting on it.

use super::*;
use crate::schedule::ScheduledEvent;
use crate::uncore::tests::assigned;
use crate::{Core, UnitModel};
use proptest::prelude::*;
use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

#[derive(Debug)]
struct FakeUnit {
    /// Registers the unit has, by hardware index: the cycle counter is 31.
    indices: Vec<u32>,
    bits: u32,
    configuration: u32,
    control: u32,
    enabled: u64,
    types: Vec<u32>,
    values: Vec<u64>,
    is_dual: bool,
    /// Added to every counter between the halves of a read.
    jitter: u64,
}

#[derive(Debug)]
struct Page<'a>(&'a RefCell<FakeUnit>, u8);

impl FakeUnit {
    fn new(counters: u32, bits: u32, has_cycles: bool, is_dual: bool) -> Self {
        let mut indices: Vec<u32> = (0..)
            .filter(|n| !has_cycles || *n != 31)
            .take(counters as usize)
            .collect();
        indices.extend(has_cycles.then_some(31));
        let n = counters + u32::from(has_cycles) - 1;
        Self {
            indices,
            bits,
            configuration: n | (bits - 1) << 8 | u32::from(has_cycles) << 14,
            control: 0,
            enabled: 0,
            types: vec![0; 256],
            values: vec![low_bits(u8::try_from(bits).unwrap()) - 3; 256],
            is_dual,
            jitter: 0,
        }
    }

    fn mask(&self) -> u64 {
        low_bits(u8::try_from(self.bits).unwrap())
    }

    fn advance(&mut self, times: u64) {
        if self.control & 1 == 0 {
            return;
        }
        for index in self.indices.clone() {
            let at = index as usize;
            if self.enabled >> index & 1 != 0 {
                let event = if index == 31 {
                    1
                } else {
                    u64::from(self.types[at])
                };
                self.values[at] = self.values[at].wrapping_add(event * times) & self.mask();
            }
        }
    }

    fn check(&self, index: u32) -> usize {
        assert!(self.indices.contains(&index), "no counter {index}");
        index as usize
    }
}

impl MappedRegisters for Page<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let mut unit = self.0.borrow_mut();
        assert!(offset.is_multiple_of(4), "{offset:#x}");
        match (self.1, offset) {
            (page, 0..0x400) => {
                assert_eq!(page == 1, unit.is_dual, "counters are in the other page");
                let wide = unit.bits > 32;
                let (index, half) = if wide {
                    (offset / 8, offset % 8)
                } else {
                    (offset / 4, 0)
                };
                let at = unit.check(index);
                let value = unit.values[at];
                if half != 0 || !wide {
                    let (jitter, mask) = (unit.jitter, unit.mask());
                    unit.values[at] = value.wrapping_add(jitter) & mask;
                    unit.jitter = 0;
                }
                u32::try_from(value >> (8 * half) & 0xFFFF_FFFF).unwrap()
            }
            (0, ENABLE_SET) => u32::try_from(unit.enabled & 0xFFFF_FFFF).unwrap(),
            (0, 0xC04) => u32::try_from(unit.enabled >> 32).unwrap(),
            (0, CYCLE_FILTER) => 0x55,
            (0, CONFIGURATION) => unit.configuration,
            (0, CONTROL) => unit.control,
            (0, IDENTIFICATION) => 0x1234_043B,
            other => panic!("{other:x?} is not read"),
        }
    }

    fn write(&mut self, offset: u32, value: u32) {
        let mut unit = self.0.borrow_mut();
        match (self.1, offset) {
            (0, CYCLE_FILTER) => assert!(value == 0 || value == 0x55),
            (0, EVENT_TYPE..0x800) => {
                let index = unit.check((offset - EVENT_TYPE) / 4);
                assert_eq!(unit.enabled >> index & 1, 0, "written while it runs");
                unit.types[index] = value;
            }
            (0, EVENT_FILTER..0xC00) => assert_eq!(value, 0),
            (0, ENABLE_SET) => unit.enabled |= u64::from(value),
            (0, 0xC04) => unit.enabled |= u64::from(value) << 32,
            (0, ENABLE_CLEAR) => unit.enabled &= !u64::from(value),
            (0, 0xC24) => unit.enabled &= !(u64::from(value) << 32),
            (0, INTERRUPT_CLEAR | 0xC64) => {}
            (page, OVERFLOW_CLEAR | 0xC84) => assert_eq!(page == 1, unit.is_dual),
            (0, CONTROL) => {
                assert_eq!(value & CONTROL_RESETS, 0, "resets counters of others");
                unit.control = value;
            }
            other => panic!("{other:x?} is not written"),
        }
    }
}

fn on<R>(
    unit: &RefCell<FakeUnit>,
    before: &mut CoreSightBefore,
    act: impl FnOnce(&mut CoreSightPmu<'_, Page<'_>>) -> R,
) -> R {
    let model = detect(&mut Page(unit, 0)).model;
    let page_1 = unit.borrow().is_dual.then_some(Page(unit, 1));
    act(&mut CoreSightPmu::new(model, Page(unit, 0), page_1, before))
}

fn values(core: &Core<Vec<ScheduledEvent>>) -> Vec<u64> {
    let (_, counts) = core.totals().unwrap();
    counts.map(|count| count.value).collect()
}

fn model_of(unit: &RefCell<FakeUnit>) -> UnitModel {
    UnitModel::CoreSight(detect(&mut Page(unit, 0)).model)
}

#[test]
fn the_configuration_says_how_many_counters_of_what_width() {
    let of = |pmcfgr| {
        let model = CoreSightModel::from_configuration(pmcfgr);
        (model.counters, model.bits, model.has_cycles)
    };
    assert_eq!(of(0x1F05), (6, 32, false));
    assert_eq!(of(0x7F06), (6, 64, true));
    assert_eq!(of(0x7F00), (0, 64, true), "cycles and nothing else");
    assert_eq!(of(0x3FFF), (63, 64, false), "more than can be used");
}

#[test]
fn the_cycle_counter_stands_among_the_others_and_is_passed_over() {
    let unit = RefCell::new(FakeUnit::new(40, 64, true, true));
    let model = model_of(&unit);
    assert_eq!(model.general_counters(), [40, 0]);
    let mut events = vec![EventCode::CYCLES.0];
    events.extend(1..=40);
    let mut core = Core::default();
    drop(assigned(&mut core, &model, model.counters(), &events));
    assert!(!core.needs_ticks_with(|slot| model.bits(slot)));
    let mut before = CoreSightBefore::default();
    on(&unit, &mut before, |pmu| core.start(pmu, 0));
    unit.borrow_mut().advance(100);
    on(&unit, &mut before, |pmu| core.stop(pmu, 1));
    let mut right = vec![100];
    right.extend((1..=40).map(|event| event * 100));
    assert_eq!(values(&core), right);
    assert_eq!((unit.borrow().enabled, unit.borrow().control), (0, 0));
}

#[test]
fn a_wide_counter_that_carries_while_it_is_read_is_read_again() {
    let unit = RefCell::new(FakeUnit::new(1, 64, false, false));
    unit.borrow_mut().values[0] = 0xFFFF_FFFF;
    unit.borrow_mut().jitter = 1;
    let mut before = CoreSightBefore::default();
    let read = on(&unit, &mut before, |pmu| pmu.read(Slot::General(0)));
    assert_eq!(read, 0x1_0000_0000);
}

#[test]
fn what_others_run_goes_on_and_is_not_used() {
    let unit = RefCell::new(FakeUnit::new(4, 32, true, false));
    unit.borrow_mut().enabled = 0b10 | 1 << 31;
    unit.borrow_mut().control = 1;
    let mut before = CoreSightBefore::default();
    let busy = on(&unit, &mut before, |pmu| pmu.busy());
    assert_eq!((busy.general, busy.fixed), (0b10, 0));
    let model = model_of(&unit);
    let free = model.counters().without(busy);
    let mut core = Core::default();
    drop(assigned(
        &mut core,
        &model,
        free,
        &[7, 8, 9, EventCode::CYCLES.0],
    ));
    on(&unit, &mut before, |pmu| core.start(pmu, 0));
    unit.borrow_mut().advance(10);
    on(&unit, &mut before, |pmu| core.stop(pmu, 1));
    assert_eq!(values(&core), [70, 80, 90, 10]);
    assert_eq!(
        (unit.borrow().enabled, unit.borrow().control),
        (0b10 | 1 << 31, 1)
    );
}

proptest! {
    #[test]
    fn totals_are_exact_for_every_width_and_layout(
        bits in prop::sample::select(vec![32u32, 40, 48, 64]),
        has_cycles in any::<bool>(),
        is_dual in any::<bool>(),
        steps in prop::collection::vec(0u64..1_000_000_000, 1..40),
    ) {
        let unit = RefCell::new(FakeUnit::new(3, bits, has_cycles, is_dual));
        let model = model_of(&unit);
        let mut core = Core::default();
        drop(assigned(&mut core, &model, model.counters(), &[1, 4]));
        prop_assert_eq!(core.needs_ticks_with(|slot| model.bits(slot)), bits < 64);
        let mut before = CoreSightBefore::default();
        on(&unit, &mut before, |pmu| core.start(pmu, 0));
        for step in &steps {
            unit.borrow_mut().advance(*step);
            on(&unit, &mut before, |pmu| core.tick(pmu, 1));
        }
        on(&unit, &mut before, |pmu| core.stop(pmu, 2));
        let all: u64 = steps.iter().sum();
        prop_assert_eq!(values(&core), [all, 4 * all]);
    }
}
