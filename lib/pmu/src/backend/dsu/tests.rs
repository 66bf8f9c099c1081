//! A DSU that panics on what would disturb others, and counting on it.

use super::*;
use crate::schedule::ScheduledEvent;
use crate::uncore::tests::assigned;
use crate::{Core, UnitModel};
use proptest::prelude::*;
use std::vec::Vec;

struct FakeDsu {
    control: u64,
    enabled: u64,
    select: u64,
    types: [u64; 31],
    counters: [u64; 31],
    cycles: u64,
    is_synchronized: bool,
    is_selected: bool,
}

const COUNTERS: u64 = 6;

impl FakeDsu {
    fn new() -> Self {
        Self {
            control: COUNTERS << 11,
            enabled: 0,
            select: 30,
            types: [0; 31],
            counters: [0xFFFF_FFF0; 31],
            cycles: u64::MAX - 5,
            is_synchronized: true,
            is_selected: false,
        }
    }

    /// Lets what runs count: each event counts its number, `times` times; cycles once a time.
    fn advance(&mut self, times: u64) {
        assert!(self.is_synchronized, "written, and not synchronized");
        if self.control & 1 == 0 {
            return;
        }
        for counter in (0..31).filter(|n| self.enabled >> n & 1 != 0) {
            let moved = self.types[counter] * times;
            self.counters[counter] = self.counters[counter].wrapping_add(moved) & 0xFFFF_FFFF;
        }
        if self.enabled & CYCLE_BIT != 0 {
            self.cycles = self.cycles.wrapping_add(times);
        }
    }

    fn selected(&self) -> usize {
        assert!(self.is_selected, "selected, and not synchronized");
        assert!(self.select < COUNTERS, "counter {}", self.select);
        usize::try_from(self.select).unwrap()
    }
}

impl DsuRegisters for &mut FakeDsu {
    fn read(&mut self, register: DsuRegister) -> u64 {
        match register {
            DsuRegister::Control => self.control,
            DsuRegister::EnableSet | DsuRegister::EnableClear => self.enabled,
            DsuRegister::SelectedType => self.types[self.selected()],
            DsuRegister::SelectedCounter => self.counters[self.selected()],
            DsuRegister::CycleCounter => self.cycles,
            DsuRegister::Announced0 => 1 << 0x11 | 1 << 0x19,
            DsuRegister::Announced1 => 1 << (0x2B - 0x20),
            other => panic!("{other:?} is not read"),
        }
    }

    fn write(&mut self, register: DsuRegister, value: u64) {
        match register {
            DsuRegister::Control => {
                assert_eq!(value & !1, COUNTERS << 11, "resets counters of others");
                self.control = value;
            }
            DsuRegister::EnableSet => self.enabled |= value,
            DsuRegister::EnableClear => self.enabled &= !value,
            DsuRegister::Select => self.select = value,
            DsuRegister::SelectedType | DsuRegister::SelectedCounter => {
                let counter = self.selected();
                assert_eq!(self.enabled >> counter & 1, 0, "written while it runs");
                match register {
                    DsuRegister::SelectedType => self.types[counter] = value,
                    _ => self.counters[counter] = value,
                }
            }
            DsuRegister::OverflowClear | DsuRegister::InterruptClear => {}
            other => panic!("{other:?} is not written"),
        }
        self.is_selected &= register != DsuRegister::Select;
        self.is_synchronized = false;
    }

    fn synchronize(&mut self) {
        self.is_selected = true;
        self.is_synchronized = true;
    }
}

fn act(
    fake: &mut FakeDsu,
    before: &mut DsuBefore,
    act: impl FnOnce(&mut DsuPmu<'_, &mut FakeDsu>),
) {
    let model = detect(&mut &mut *fake);
    act(&mut DsuPmu::new(model, fake, before));
}

fn model() -> UnitModel {
    UnitModel::Dsu(detect(&mut &mut FakeDsu::new()))
}

fn values(core: &Core<Vec<ScheduledEvent>>) -> Vec<u64> {
    let (_, counts) = core.totals().unwrap();
    counts.map(|count| count.value).collect()
}

#[test]
fn it_announces_its_events_and_has_a_cycle_counter() {
    let supported: Vec<_> = model().supported().map(|code| code.0).collect();
    assert_eq!(supported, [EventCode::CYCLES.0, 0x11, 0x19, 0x2B]);
    assert_eq!(model().takers(EventCode(0x1A)), SlotSet::EMPTY);
    assert!(model().is_fixed(EventCode(0x11)) && !model().is_fixed(EventCode(0x19)));
}

#[test]
fn counters_of_others_are_seen_and_left_alone() {
    let mut fake = FakeDsu::new();
    fake.enabled = 0b100 | CYCLE_BIT;
    fake.control |= 1;
    let mut before = DsuBefore::default();
    let mut busy = SlotSet::EMPTY;
    act(&mut fake, &mut before, |pmu| busy = pmu.busy());
    assert_eq!((busy.general, busy.fixed), (0b100, 0));
    let free = model().counters().without(busy);
    let mut core = Core::default();
    drop(assigned(
        &mut core,
        &model(),
        free,
        &[0x11, 0x19, 0x19, 0x2B],
    ));
    act(&mut fake, &mut before, |pmu| core.start(pmu, 0));
    fake.advance(10);
    act(&mut fake, &mut before, |pmu| core.stop(pmu, 10));
    assert_eq!(values(&core), [10, 0x19 * 10, 0x19 * 10, 0x2B * 10]);
    assert_eq!(
        (fake.enabled, fake.control & 1),
        (0b100 | CYCLE_BIT, 1),
        "as before"
    );
}

proptest! {
    #[test]
    fn runs_of_any_length_count_what_happened(
        runs in prop::collection::vec(0u64..60_000_000, 1..20),
    ) {
        let mut fake = FakeDsu::new();
        let mut before = DsuBefore::default();
        let mut core = Core::default();
        drop(assigned(&mut core, &model(), model().counters(), &[0x2B, EventCode::CYCLES.0]));
        for (ns, times) in (0u64..).zip(&runs) {
            act(&mut fake, &mut before, |pmu| core.start(pmu, ns));
            fake.advance(*times);
            act(&mut fake, &mut before, |pmu| core.tick(pmu, ns));
            fake.advance(*times / 2);
            act(&mut fake, &mut before, |pmu| core.stop(pmu, ns));
            prop_assert_eq!((fake.enabled, fake.control & 1), (0, 0));
            fake.advance(5);
        }
        let all: u64 = runs.iter().map(|times| times + times / 2).sum();
        prop_assert_eq!(values(&core), [0x2B * all, all]);
    }
}
