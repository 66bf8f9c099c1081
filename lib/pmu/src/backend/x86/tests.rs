use super::fake::FakeX86;
use super::*;

fn model() -> X86Model {
    X86Model::from_cpuid(0x0830_0404, 0, 0x0000_0603).unwrap()
}

fn slots(general: u64, fixed: u32) -> SlotSet {
    SlotSet { general, fixed }
}

#[test]
fn a_programmed_counter_counts_its_event_in_its_modes() {
    let mut fake = FakeX86::new(model());
    let mut pmu = X86Pmu::new(model(), &mut fake);
    pmu.program(
        Slot::General(1),
        EventCode(0x4F2E),
        EventFilter::EXCLUDE_KERNEL,
    );
    pmu.program(Slot::Fixed(0), EventCode(0xC0), EventFilter::NONE);
    pmu.enable(slots(0b10, 1));
    pmu.registers
        .advance(|code, modes| u64::from(code) * 10 + modes);
    pmu.disable(slots(0b10, 1));
    pmu.registers.advance(|_, _| 1);
    assert_eq!(pmu.read(Slot::General(1)), 0x4F2E * 10 + 2);
    assert_eq!(pmu.read(Slot::Fixed(0)), 0xC0 * 10 + 3);
}

#[test]
fn clearing_leaves_nothing_behind() {
    let mut fake = FakeX86::new(model());
    let mut pmu = X86Pmu::new(model(), &mut fake);
    for slot in [Slot::General(3), Slot::Fixed(1)] {
        pmu.program(slot, EventCode::CYCLES, EventFilter::NONE);
    }
    pmu.enable(slots(0b1000, 0b10));
    pmu.disable(slots(0b1000, 0b10));
    for slot in [Slot::General(3), Slot::Fixed(1)] {
        pmu.clear(slot);
    }
    assert_eq!(
        (fake.selects[3], fake.counters[3], fake.fixed[1]),
        (0, 0, 0)
    );
    assert_eq!((fake.fixed_control, fake.global_control), (0, 0));
}

#[test]
fn a_neighbours_counters_go_on_undisturbed() {
    let mut fake = FakeX86::new(model());
    fake.foreign = 1 | 1 << 32;
    fake.fixed_control = 0b11;
    fake.global_control = 1 | 1 << 32;
    let mut pmu = X86Pmu::new(model(), &mut fake);
    assert_eq!(pmu.busy(), slots(0, 1));
    for slot in [Slot::General(1), Slot::Fixed(1)] {
        pmu.program(slot, EventCode::CYCLES, EventFilter::NONE);
    }
    pmu.enable(slots(0b10, 0b10));
    pmu.disable(slots(0b10, 0b10));
    pmu.clear(Slot::General(1));
    pmu.clear(Slot::Fixed(1));
    assert_eq!(
        (fake.fixed_control, fake.global_control),
        (0b11, 1 | 1 << 32)
    );
}

#[test]
fn version_1_is_gated_counter_by_counter() {
    let model = X86Model::from_cpuid(0x0828_0201, 0, 0).unwrap();
    let mut fake = FakeX86::new(model);
    let mut pmu = X86Pmu::new(model, &mut fake);
    pmu.program(Slot::General(0), EventCode(0xC4), EventFilter::NONE);
    pmu.registers.advance(|_, _| 100);
    pmu.enable(slots(1, 0));
    pmu.registers.advance(|_, _| 10);
    pmu.disable(slots(1, 0));
    pmu.registers.advance(|_, _| 1);
    assert_eq!(pmu.read(Slot::General(0)), 10);
}
