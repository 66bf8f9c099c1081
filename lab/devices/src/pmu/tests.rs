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
