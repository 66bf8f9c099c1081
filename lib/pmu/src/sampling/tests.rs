use super::*;
use crate::backend::arm::{ArmBefore, ArmPmu, fake::FakeArm};
use crate::backend::x86::{X86Pmu, fake::FakeX86};
use crate::ring::RingCounts;
use crate::{ArmModel, X86Model};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

type TestRing = Ring<Vec<RingPlace>>;

const HERE: Interrupted = Interrupted {
    time_ns: 77,
    pc: 0x1234,
    pid: 40,
    tid: 44,
    user: true,
};
const INSTRUCTIONS: u32 = 0xC0;
const BRANCHES: u32 = 0xC4;

fn ring(places: usize) -> TestRing {
    Ring::new((0..places).map(|_| RingPlace::new()).collect()).unwrap()
}

fn source(code: u32, interval: u64) -> SampleSource {
    SampleSource {
        code: EventCode(code),
        filter: EventFilter::NONE,
        reserved: 0,
        interval,
        pid: 0,
        reserved2: 0,
    }
}

fn x86(version: u32, bits: u32) -> X86Model {
    X86Model::from_cpuid(0x0800_0200 | bits << 16 | version, 0, bits << 5 | 3).unwrap()
}

const ALL_X86: SlotSet = SlotSet {
    general: 0b11,
    fixed: 0b111,
};

fn placed(model: &Model, free: SlotSet, sources: &[SampleSource]) -> Vec<Source> {
    let mut storage = vec![Source::UNUSED; sources.len()];
    place_sources(model, free, sources.iter().copied(), &mut storage).unwrap();
    storage
}

fn sampler(model: X86Model, sources: &[SampleSource]) -> Sampler<Vec<Source>> {
    let mut sampler = Sampler::default();
    let free = SlotSet {
        fixed: (1 << model.fixed_counters) - 1,
        ..ALL_X86
    };
    let sources = placed(&Model::X86(model), free, sources);
    assert!(sampler.assign(sources, 9).is_none());
    sampler
}

#[test]
fn each_source_has_a_counter_of_its_own_and_no_more_than_there_are() {
    let model = Model::X86(x86(2, 48));
    let slots: Vec<_> = placed(
        &model,
        ALL_X86,
        &[
            source(INSTRUCTIONS, 5),
            source(BRANCHES, 5),
            source(INSTRUCTIONS, 7),
        ],
    )
    .iter()
    .map(|source| source.slot)
    .collect();
    assert_eq!(slots, [Slot::Fixed(0), Slot::General(0), Slot::General(1)]);
    let four = [source(BRANCHES, 5); 4];
    let mut storage = [Source::UNUSED; 4];
    let refused = place_sources(&model, ALL_X86, four.into_iter(), &mut storage);
    assert_eq!(refused, Err(ScheduleError::GroupTooLarge { group: 0 }));
}

#[test]
fn the_arm_cycle_counter_is_the_systems_and_time_does_not_interrupt() {
    let arm = ArmModel {
        version: 4,
        counters: 2,
        announced: [u64::MAX; 2],
    };
    let free = SlotSet {
        general: 0b10,
        fixed: 1,
    };
    let cycles = [source(EventCode::CYCLES.0, 5)];
    let sources = placed(&Model::Arm(arm), free, &cycles);
    assert_eq!(sources[0].slot, Slot::General(1));
    let mut storage = [Source::UNUSED];
    let none = SlotSet { general: 0, ..free };
    let refused = place_sources(&Model::Arm(arm), none, cycles.into_iter(), &mut storage);
    assert_eq!(refused, Err(ScheduleError::GroupTooLarge { group: 0 }));
    let time = SlotSet {
        general: 0,
        fixed: 3,
    };
    let refused = place_sources(&Model::Software, time, cycles.into_iter(), &mut storage);
    assert_eq!(refused, Err(ScheduleError::NoInterrupt));
}

#[test]
fn a_sample_says_what_was_interrupted_and_the_counter_goes_on_where_it_was() {
    let model = x86(2, 48);
    let (mut fake, ring) = (FakeX86::new(model), ring(8));
    let mut sampler = sampler(model, &[source(BRANCHES, 1000)]);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    fake.advance(|_, _| 999);
    assert_eq!(fake.interrupts, 0);
    fake.advance(|_, _| 31);
    assert_eq!(fake.interrupts, 1);
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!((served.overflowed, served.samples), (1, 1));
    let sample = ring.take().unwrap();
    assert_eq!((sample.pc, sample.pid, sample.tid), (0x1234, 40, 44));
    assert_eq!((sample.time_ns, sample.user), (77, true));
    assert_eq!((sample.generation, sample.source), (9, 0));
    // 30 of the next 1000 have happened already.
    fake.advance(|_, _| 969);
    assert_eq!(fake.interrupts, 1);
    fake.advance(|_, _| 1);
    assert_eq!(fake.interrupts, 2);
    assert_eq!(fake.global_status, 1, "acknowledged, and overflowed again");
}

#[test]
fn a_full_ring_keeps_counting_and_sampling_goes_on_when_it_is_read() {
    let model = x86(2, 48);
    let (mut fake, ring) = (FakeX86::new(model), ring(4));
    let mut sampler = sampler(model, &[source(BRANCHES, 1000)]);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    for _ in 0..10 {
        fake.advance(|_, _| 1000);
        sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    }
    let counts = ring.counts();
    assert_eq!(
        (counts.waiting, counts.full, counts.generated()),
        (4, 6, 10)
    );
    while ring.take().is_some() {}
    fake.advance(|_, _| 1000);
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!(served.samples, 1, "it never stopped");
}

#[test]
fn several_events_at_once_are_a_sample_each_and_an_interrupt_of_another_is_none() {
    let model = x86(2, 48);
    let (mut fake, ring) = (FakeX86::new(model), ring(8));
    let sources = [source(INSTRUCTIONS, 1000), source(BRANCHES, 500)];
    let mut sampler = sampler(model, &sources);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    fake.global_status |= 1 << 33;
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!(served, Served::default());
    assert_eq!(fake.global_status, 1 << 33, "theirs to acknowledge");
    fake.global_status = 0;
    fake.advance(|_, _| 1100);
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!((served.overflowed, served.samples), (2, 2));
    let counts = ring.counts();
    assert_eq!(
        (counts.waiting, counts.late),
        (2, 1),
        "branches were due twice"
    );
    let sources: Vec<_> = core::iter::from_fn(|| ring.take())
        .map(|sample| sample.source)
        .collect();
    assert_eq!(sources, [0, 1]);
}

#[test]
fn what_was_due_at_the_stop_is_late_and_a_late_interrupt_leaves_no_trace() {
    let model = x86(2, 48);
    let (mut fake, ring) = (FakeX86::new(model), ring(8));
    let mut sampler = sampler(model, &[source(BRANCHES, 1000)]);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    fake.advance(|_, _| 1500);
    sampler.stop(&mut X86Pmu::new(model, &mut fake), &ring);
    assert_eq!((fake.global_status, fake.global_control), (0, 0));
    let counts = ring.counts();
    assert_eq!((counts.late, counts.generated()), (1, 1));
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!((served, ring.counts()), (Served::default(), counts));
    // It goes on where it was: 500 are left.
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    fake.advance(|_, _| 499);
    sampler.stop(&mut X86Pmu::new(model, &mut fake), &ring);
    assert_eq!(ring.counts().generated(), 1);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    fake.advance(|_, _| 1);
    let served = sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
    assert_eq!(served.samples, 1);
}

#[test]
fn only_the_process_that_was_asked_for_is_sampled() {
    let model = x86(2, 48);
    let (mut fake, ring) = (FakeX86::new(model), ring(8));
    let wanted = SampleSource {
        pid: 40,
        ..source(BRANCHES, 1000)
    };
    let mut sampler = sampler(model, &[wanted]);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    for pid in [40, 41, 40] {
        fake.advance(|_, _| 1000);
        let at = Interrupted { pid, ..HERE };
        sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &at);
    }
    assert_eq!((ring.counts().waiting, ring.counts().generated()), (2, 2));
}

#[test]
fn an_interval_longer_than_the_counter_takes_several_overflows() {
    let model = x86(2, 16);
    let (mut fake, ring) = (FakeX86::new(model), ring(8));
    let mut sampler = sampler(model, &[source(BRANCHES, 100_000)]);
    sampler.start(&mut X86Pmu::new(model, &mut fake));
    for _ in 0..1000 {
        fake.advance(|_, _| 1000);
        if fake.global_status != 0 {
            sampler.interrupt(&mut X86Pmu::new(model, &mut fake), &ring, &HERE);
            while ring.take().is_some() {}
        }
    }
    assert!(fake.interrupts > 20, "{}", fake.interrupts);
    assert_eq!(ring.counts().generated(), 10);
}

#[test]
fn arm_counters_overflow_at_32_bits_or_at_64_as_the_system_has_it() {
    for (version, control) in [(4, 0), (6, 0), (6, 0x80)] {
        let model = ArmModel {
            version,
            counters: 2,
            announced: [u64::MAX; 2],
        };
        let (mut fake, ring) = (FakeArm::new(model), ring(64));
        fake.control |= control;
        let mut before = ArmBefore::default();
        let mut sampler = Sampler::default();
        let sources = [source(EventCode::CYCLES.0, 1000), source(8, 3000)];
        let free = SlotSet {
            general: 0b11,
            fixed: 1,
        };
        let storage = placed(&Model::Arm(model), free, &sources);
        assert!(sampler.assign(storage, 1).is_none());
        sampler.start(&mut ArmPmu::new(model, &mut fake, &mut before));
        for _ in 0..30 {
            fake.advance(|_, _| 300);
            if fake.overflowed & fake.interrupting != 0 {
                let mut pmu = ArmPmu::new(model, &mut fake, &mut before);
                sampler.interrupt(&mut pmu, &ring, &HERE);
            }
        }
        sampler.stop(&mut ArmPmu::new(model, &mut fake, &mut before), &ring);
        assert_eq!(ring.counts().generated(), 9 + 3);
        assert_eq!(
            (fake.enabled, fake.interrupting, fake.overflowed),
            (0, 0, 0)
        );
        assert_eq!(fake.control & 1, 0);
    }
}

/// What may happen to a core, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Events(u64),
    Interrupt,
    Start,
    Stop,
    Reset,
    Assign,
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4000u64).prop_map(Step::Events),
        5 => Just(Step::Interrupt),
        2 => Just(Step::Start),
        1 => Just(Step::Stop),
        1 => Just(Step::Reset),
        1 => Just(Step::Assign),
        3 => Just(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Interrupts come whenever they like, also late and for nothing; whatever is done to the core, no
    /// sample of an older generation is read, and what was counted and sampled agree exactly.
    #[test]
    fn nothing_spills_over_and_every_sample_that_was_due_is_accounted_for(
        steps in prop::collection::vec(step(), 1..200),
        intervals in prop::collection::vec(1000..5000u64, 1..4),
        (version, bits) in prop_oneof![Just((1u32, 40u32)), Just((2, 48)), Just((2, 16))],
    ) {
        let model = x86(version, bits);
        let intervals: Vec<u64> = if version == 1 { intervals.into_iter().take(2).collect() } else { intervals };
        let sources: Vec<_> = [INSTRUCTIONS, BRANCHES, BRANCHES]
            .into_iter().zip(&intervals).map(|(code, &interval)| source(code, interval)).collect();
        let (mut fake, ring) = (FakeX86::new(model), ring(8));
        let mut sampler = sampler(model, &sources);
        let (mut generation, mut counted) = (9, 0);
        let due = |counted: u64| intervals.iter().map(|interval| counted / interval).sum::<u64>();
        let mut at = HERE;
        for step in steps {
            let pmu = &mut X86Pmu::new(model, &mut fake);
            match step {
                Step::Events(events) => {
                    fake.advance(|_, _| events);
                    counted += if sampler.is_running() { events } else { 0 };
                }
                Step::Interrupt => {
                    at.time_ns += 1;
                    at.pc = generation;
                    sampler.interrupt(pmu, &ring, &at);
                }
                Step::Start => sampler.start(pmu),
                Step::Stop => {
                    sampler.stop(pmu, &ring);
                    prop_assert_eq!(ring.counts().generated(), due(counted));
                }
                Step::Reset => {
                    generation += 1;
                    sampler.reset(pmu, &ring, generation);
                    counted = 0;
                    prop_assert_eq!(ring.counts(), RingCounts::default());
                }
                Step::Assign => {
                    sampler.stop(pmu, &ring);
                    generation += 1;
                    let free = SlotSet { fixed: (1 << model.fixed_counters) - 1, ..ALL_X86 };
                    drop(sampler.assign(placed(&Model::X86(model), free, &sources), generation));
                    ring.clear();
                    counted = 0;
                }
                Step::Read => while let Some(sample) = ring.take() {
                    prop_assert_eq!((sample.generation, sample.pc), (generation, generation));
                },
            }
            prop_assert!(ring.counts().generated() <= due(counted));
        }
        sampler.stop(&mut X86Pmu::new(model, &mut fake), &ring);
        prop_assert_eq!(ring.counts().generated(), due(counted));
        prop_assert_eq!((fake.global_control, fake.global_status), (0, 0));
        prop_assert!(fake.selects.iter().all(|&select| select == 0));
    }
}
