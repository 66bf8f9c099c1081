use proptest::prelude::*;

use super::*;
use crate::model::Model;

fn pmu() -> VirtualPmu<Model> {
    VirtualPmu::new(2, 4, Model::default())
}

const BOTH: u64 = SELECT_USER | SELECT_KERNEL | SELECT_ENABLE;

#[test]
fn a_counter_counts_exactly_between_its_enabling_and_its_disabling() {
    let pmu = pmu();
    assert!(pmu.wrmsr(0, EVENT_SELECT, BOTH | 0x00C0, 100));
    assert_eq!(pmu.rdmsr(0, PMC, 500), Some(0), "not enabled globally yet");
    assert!(pmu.wrmsr(0, GLOBAL_CONTROL, 1, 1000));
    assert_eq!(pmu.rdpmc(0, 0, 2000), Some(6000));
    assert!(pmu.wrmsr(0, GLOBAL_CONTROL, 0, 3000));
    assert_eq!(pmu.rdmsr(0, PMC, 9000), Some(12_000));
    assert_eq!(
        pmu.rdmsr(1, PMC, 9000),
        Some(0),
        "the other processor counts nothing"
    );
}

#[test]
fn fixed_counters_and_filters_work() {
    let pmu = pmu();
    assert!(pmu.wrmsr(1, FIXED_CONTROL, 0b0010_0011, 0));
    assert!(pmu.wrmsr(1, GLOBAL_CONTROL, 0b11 << 32, 0));
    assert_eq!(pmu.rdpmc(1, 1 << 30, 1_000_000), Some(6_060_000));
    assert_eq!(
        pmu.rdpmc(1, 1 << 30 | 1, 1_000_000),
        Some(3_030_000 * 75 / 100)
    );
}

#[test]
fn writing_a_counter_while_it_runs_counts_from_there_and_overflow_shows() {
    let pmu = pmu();
    pmu.wrmsr(0, EVENT_SELECT + 1, BOTH | 0x003C, 0);
    pmu.wrmsr(0, GLOBAL_CONTROL, 0b10, 0);
    // Sign-extended from 32 bits: ten below the wrap.
    assert!(pmu.wrmsr(0, PMC + 1, 0xFFFF_FFF6, 1000));
    assert_eq!(pmu.rdmsr(0, PMC + 1, 1003), Some(MASK));
    assert_eq!(pmu.rdmsr(0, GLOBAL_STATUS, 1003), Some(0));
    assert_eq!(pmu.rdmsr(0, PMC + 1, 1004), Some(2));
    assert_eq!(pmu.rdmsr(0, GLOBAL_STATUS, 1004), Some(0b10));
}

#[test]
fn what_is_not_there_faults() {
    let pmu = pmu();
    for register in [PMC + 4, EVENT_SELECT + 4, FIXED_COUNTER + 3, 0, 0xFFFF_FFFF] {
        assert_eq!(pmu.rdmsr(0, register, 0), None, "{register:#x}");
        assert!(!pmu.wrmsr(0, register, 0, 0), "{register:#x}");
    }
    assert_eq!(pmu.rdpmc(0, 4, 0), None);
    assert_eq!(pmu.rdpmc(0, 1 << 30 | 3, 0), None);
    assert!(!pmu.wrmsr(0, GLOBAL_CONTROL, 1 << 4, 0));
    assert!(!pmu.wrmsr(0, FIXED_CONTROL, 1 << 12, 0));
    assert!(!pmu.wrmsr(0, EVENT_SELECT, 1 << 32, 0));
    assert!(!pmu.wrmsr(9, GLOBAL_CONTROL, 0, 0));
}

#[test]
fn cpuid_describes_what_is_there() {
    let pmu = pmu();
    let [eax, ebx, _, edx] = pmu.cpuid(0, 0xA, 0, [0; 4]);
    assert_eq!(
        (eax & 0xFF, eax >> 8 & 0xFF, eax >> 16 & 0xFF, ebx),
        (2, 4, 48, 0)
    );
    assert_eq!((edx & 0x1F, edx >> 5 & 0xFF), (3, 48));
}

proptest! {
    #[test]
    fn no_access_panics_and_counters_stay_in_their_width(
        accesses in proptest::collection::vec((0usize..3, prop_oneof![0xC0u32..0xC6, 0x185u32..0x18C, 0x308u32..0x30D, 0x38Cu32..0x392, any::<u32>()], any::<u64>()), 1..60)
    ) {
        let pmu = pmu();
        for (step, (cpu, register, value)) in accesses.into_iter().enumerate() {
            let now = step as u64 * 1000;
            pmu.wrmsr(cpu, register, value, now);
            pmu.wrmsr(cpu, register, value & 0xFF, now);
            if let Some(slot) = pmu.counter(register) {
                prop_assert!(pmu.value(cpu, slot, now).is_none_or(|value| value <= MASK));
            }
            pmu.rdmsr(cpu, register, now);
        }
    }
}

const INTERRUPTS: u64 = BOTH | SELECT_INTERRUPT;
/// Instructions: six per nanosecond on processor 0.
const INSTRUCTIONS: u64 = 0x00C0;

fn overflowed(pmu: &VirtualPmu<Model>, now_ns: u64) -> Vec<usize> {
    let found = pmu.overflows(now_ns).now;
    found.into_iter().map(|overflow| overflow.cpu).collect()
}

#[test]
fn an_overflow_interrupts_once_when_it_is_due_and_again_when_it_was_acknowledged() {
    let pmu = pmu();
    assert!(pmu.wrmsr(0, PMC, MASK - 599, 0));
    assert!(pmu.wrmsr(0, EVENT_SELECT, INTERRUPTS | INSTRUCTIONS, 0));
    assert!(pmu.wrmsr(0, GLOBAL_CONTROL, 1, 1000));
    assert_eq!(pmu.overflows(1099).next_ns, Some(1100));
    assert_eq!(overflowed(&pmu, 1099), [0; 0]);
    let found = pmu.overflows(1100);
    assert_eq!(found.next_ns, None, "nothing until it is acknowledged");
    let event = Event {
        code: 0x00C0,
        user: true,
        kernel: true,
    };
    let at = Model::place(0, event, 1100);
    assert_eq!(found.now, [Overflow { cpu: 0, at }]);
    assert_eq!(overflowed(&pmu, 1200), [0; 0]);
    assert_eq!(pmu.rdmsr(0, GLOBAL_STATUS, 1200), Some(1));
    assert!(pmu.wrmsr(0, OVERFLOW_CONTROL, 1, 1200));
    assert_eq!(pmu.rdmsr(0, GLOBAL_STATUS, 1200), Some(0));
    assert_eq!(pmu.rdpmc(0, 0, 1200), Some(600), "it counts on");
    assert!(pmu.wrmsr(0, PMC, MASK, 1300));
    assert_eq!(overflowed(&pmu, 1301), [0]);
}

#[test]
fn a_counter_without_its_interrupt_or_standing_still_raises_none() {
    let pmu = pmu();
    assert!(pmu.wrmsr(0, PMC, MASK, 0));
    assert!(pmu.wrmsr(0, EVENT_SELECT, BOTH | INSTRUCTIONS, 0));
    assert!(pmu.wrmsr(1, PMC, MASK, 0));
    assert!(pmu.wrmsr(1, EVENT_SELECT, INTERRUPTS | INSTRUCTIONS, 0));
    assert!(pmu.wrmsr(0, GLOBAL_CONTROL, 1, 0));
    assert_eq!(pmu.overflows(1_000_000), Overflows::default());
    assert_eq!(pmu.rdmsr(0, GLOBAL_STATUS, 1_000_000), Some(1));
    // A fixed counter, by the fourth of its bits.
    assert!(pmu.wrmsr(1, FIXED_COUNTER, MASK - 6059, 0));
    assert!(pmu.wrmsr(1, FIXED_CONTROL, 0b1011, 0));
    assert!(pmu.wrmsr(1, GLOBAL_CONTROL, 1 << 32, 0));
    assert_eq!(pmu.overflows(0).next_ns, Some(1000));
    assert_eq!(overflowed(&pmu, 1000), [1]);
}

#[test]
fn a_fixed_counter_can_be_somebody_elses() {
    let pmu = pmu();
    assert!(pmu.take_fixed_counter(1) && !pmu.take_fixed_counter(3));
    for cpu in 0..2 {
        assert_eq!(pmu.rdmsr(cpu, FIXED_CONTROL, 0), Some(0b11_0000));
        assert!(
            pmu.rdpmc(cpu, 1 << 30 | 1, 1000)
                .is_some_and(|count| count > 0)
        );
    }
}

proptest! {
    #[test]
    fn the_time_of_a_count_is_the_first_at_which_it_is_reached(
        cpu in 0..64usize, which in 0..8usize, total in 1..1u64 << 40, user: bool, kernel: bool,
    ) {
        let event = Event { code: Architectural::ALL[which].code(), user, kernel };
        match Model::time_of(cpu, event, total) {
            Some(ns) => {
                prop_assert!(Model::total(cpu, event, ns) >= total);
                prop_assert!(Model::total(cpu, event, ns - 1) < total);
            }
            None => prop_assert!(!user && !kernel),
        }
    }
}
