use super::fake::FakeArm;
use super::*;

const MODEL: ArmModel = ArmModel {
    version: 4,
    counters: 6,
    announced: [u64::MAX; 2],
};

fn slots(general: u64, fixed: u32) -> SlotSet {
    SlotSet { general, fixed }
}

#[test]
fn a_programmed_counter_counts_its_event_in_its_modes() {
    let mut fake = FakeArm::new(MODEL);
    let mut before = ArmBefore::default();
    let mut pmu = ArmPmu::new(MODEL, &mut fake, &mut before);
    pmu.begin();
    pmu.program(
        Slot::General(5),
        EventCode(0x08),
        EventFilter::EXCLUDE_KERNEL,
    );
    pmu.program(
        Slot::General(0),
        EventCode::CYCLES,
        EventFilter::EXCLUDE_USER,
    );
    pmu.enable(slots(0b10_0001, 0));
    pmu.registers
        .advance(|event, filter| u64::from(event) * 10 + filter);
    pmu.disable(slots(0b10_0001, 0));
    pmu.registers.advance(|_, _| 1);
    assert_eq!(pmu.read(Slot::General(5)), 0x08 * 10 + 2);
    assert_eq!(pmu.read(Slot::General(0)), 0x11 * 10 + 1);
}

#[test]
fn the_cycle_counter_is_lent_and_given_back_as_it_was() {
    for was_running in [false, true] {
        let mut fake = FakeArm::new(MODEL);
        fake.cycle_filter = 0x4000_0000;
        fake.enabled = if was_running { CYCLE_BIT } else { 0 };
        let enabled_before = fake.enabled;
        let mut before = ArmBefore::default();
        let mut pmu = ArmPmu::new(MODEL, &mut fake, &mut before);
        pmu.begin();
        pmu.program(
            Slot::Fixed(0),
            EventCode::CYCLES,
            EventFilter::EXCLUDE_KERNEL,
        );
        pmu.enable(slots(0, 1));
        let before = pmu.read(Slot::Fixed(0));
        pmu.registers.advance(|_, filter| 100 + filter);
        assert_eq!(pmu.read(Slot::Fixed(0)).wrapping_sub(before), 102);
        pmu.disable(slots(0, 1));
        pmu.clear(Slot::Fixed(0));
        pmu.end();
        assert_eq!(
            (fake.cycle_filter, fake.enabled),
            (0x4000_0000, enabled_before)
        );
    }
}

#[test]
fn control_keeps_the_bits_of_the_operating_system() {
    const LONG_CYCLES: u64 = 1 << 6;
    for before in [0, CONTROL_ENABLE] {
        let mut fake = FakeArm::new(MODEL);
        fake.control |= LONG_CYCLES | before;
        let control = fake.control;
        let mut before = ArmBefore::default();
        let mut pmu = ArmPmu::new(MODEL, &mut fake, &mut before);
        pmu.begin();
        assert_eq!(pmu.registers.control, control | CONTROL_ENABLE);
        pmu.end();
        assert_eq!(fake.control, control);
    }
}

#[test]
fn a_neighbours_counter_goes_on_undisturbed() {
    let mut fake = FakeArm::new(MODEL);
    fake.foreign = 1;
    fake.enabled = 1;
    let mut before = ArmBefore::default();
    let mut pmu = ArmPmu::new(MODEL, &mut fake, &mut before);
    pmu.begin();
    pmu.program(Slot::General(1), EventCode(8), EventFilter::NONE);
    pmu.enable(slots(0b10, 0));
    pmu.disable(slots(0b10, 0));
    pmu.clear(Slot::General(1));
    pmu.end();
    assert_eq!(fake.enabled, 1);
}
