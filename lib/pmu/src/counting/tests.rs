use super::*;
use crate::backend::arm::{ArmBefore, ArmPmu, fake::FakeArm};
use crate::backend::software::{SoftwarePmu, fake::FakeClock};
use crate::backend::x86::{X86Pmu, fake::FakeX86};
use crate::{ArmModel, Model, X86Model, schedule};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use wperf_abi::record::AssignEvent;
use wperf_abi::{EventCode, EventFilter};

type Events = Vec<ScheduledEvent>;

fn event(code: u32, group: u16) -> AssignEvent {
    AssignEvent {
        code: EventCode(code),
        group,
        filter: EventFilter::NONE,
    }
}

fn scheduled(model: &Model, free: SlotSet, events: &[AssignEvent]) -> (Events, Schedule) {
    let mut storage = vec![ScheduledEvent::UNUSED; events.len()];
    let schedule = schedule(model, free, events.iter().copied(), &mut storage).unwrap();
    (storage, schedule)
}

fn x86(counter_bits: u8) -> X86Model {
    let bits = u32::from(counter_bits);
    X86Model::from_cpuid(0x0800_0204 | bits << 16, 0, bits << 5 | 3).unwrap()
}

fn values(core: &Core<Events>) -> Vec<u64> {
    core.totals().unwrap().1.map(|count| count.value).collect()
}

const ALL_X86: SlotSet = SlotSet {
    general: 0b11,
    fixed: 0b111,
};

#[test]
fn a_run_shorter_than_a_tick_is_counted_whole() {
    let (model, mut fake, mut core) = (x86(48), FakeX86::new(x86(48)), Core::<Events>::default());
    let (events, plan) = scheduled(
        &Model::X86(model),
        ALL_X86,
        &[event(0xC0, 0), event(0x4F2E, 1)],
    );
    assert!(core.assign(events, plan).is_none());
    core.start(&mut X86Pmu::new(model, &mut fake), 1000);
    fake.advance(|code, _| u64::from(code));
    core.stop(&mut X86Pmu::new(model, &mut fake), 1700);
    fake.advance(|_, _| 1_000_000);
    assert_eq!(values(&core), [0xC0, 0x4F2E]);
    let (totals, events) = core.totals().unwrap();
    assert_eq!((totals.generation, totals.enabled_ns), (1, 700));
    assert!(events.into_iter().all(|event| event.running_ns == 700));
}

#[test]
fn totals_continue_over_stops_and_pass_the_width_of_the_counter() {
    let (model, mut fake, mut core) = (x86(8), FakeX86::new(x86(8)), Core::<Events>::default());
    let (events, plan) = scheduled(&Model::X86(model), ALL_X86, &[event(0xC4, 0)]);
    let _ = core.assign(events, plan);
    for now in 0..10 {
        core.start(&mut X86Pmu::new(model, &mut fake), now * 10);
        fake.advance(|_, _| 200);
        core.tick(&mut X86Pmu::new(model, &mut fake), now * 10 + 1);
        fake.advance(|_, _| 200);
        core.stop(&mut X86Pmu::new(model, &mut fake), now * 10 + 2);
    }
    assert_eq!(values(&core), [4000]);
}

#[test]
fn windows_take_turns_and_scaling_by_time_recovers_the_rate() {
    let (model, mut fake, mut core) = (x86(48), FakeX86::new(x86(48)), Core::<Events>::default());
    let assigned: Vec<_> = (0..4).map(|i| event(0x100 + u32::from(i), i)).collect();
    let (events, plan) = scheduled(&Model::X86(model), ALL_X86, &assigned);
    assert_eq!(plan.windows, 2);
    let _ = core.assign(events, plan);
    core.start(&mut X86Pmu::new(model, &mut fake), 0);
    for tick in 1..=20 {
        fake.advance(|code, _| u64::from(code));
        core.tick(&mut X86Pmu::new(model, &mut fake), tick * 100);
    }
    core.stop(&mut X86Pmu::new(model, &mut fake), 2000);
    let (totals, counts) = core.totals().unwrap();
    assert_eq!((totals.rotations, totals.enabled_ns), (20, 2000));
    for count in counts {
        assert_eq!(count.running_ns, 1000);
        let scaled = count.value * count.enabled_ns / count.running_ns;
        assert_eq!(scaled, u64::from(count.code.0) * 20);
    }
}

#[test]
fn a_tick_that_comes_after_the_stop_does_nothing() {
    let (model, mut fake, mut core) = (x86(48), FakeX86::new(x86(48)), Core::<Events>::default());
    let (events, plan) = scheduled(&Model::X86(model), ALL_X86, &[event(0xC0, 0)]);
    let _ = core.assign(events, plan);
    core.tick(&mut X86Pmu::new(model, &mut fake), 5);
    core.start(&mut X86Pmu::new(model, &mut fake), 10);
    core.stop(&mut X86Pmu::new(model, &mut fake), 20);
    core.tick(&mut X86Pmu::new(model, &mut fake), 30);
    assert_eq!((fake.global_control, fake.fixed_control), (0, 0));
    assert_eq!(core.totals().unwrap().0.enabled_ns, 10);
}

#[test]
fn the_arm_cycle_counter_is_read_by_difference_across_its_wrap() {
    let model = ArmModel {
        version: 4,
        counters: 2,
        announced: [u64::MAX; 2],
    };
    let (mut fake, mut core) = (FakeArm::new(model), Core::<Events>::default());
    let mut before = ArmBefore::default();
    let free = SlotSet {
        general: 0b11,
        fixed: 1,
    };
    let assigned = [event(EventCode::CYCLES.0, 0), event(8, 1)];
    let (events, plan) = scheduled(&Model::Arm(model), free, &assigned);
    let _ = core.assign(events, plan);
    core.start(&mut ArmPmu::new(model, &mut fake, &mut before), 0);
    fake.advance(|event, _| u64::from(event) * 100);
    core.stop(&mut ArmPmu::new(model, &mut fake, &mut before), 1);
    assert_eq!(values(&core), [0x11 * 100, 800]);
    assert_eq!((fake.control & 1, fake.enabled), (0, 0));
}

#[test]
fn software_events_say_what_they_are() {
    let (mut clock, mut core) = (FakeClock::default(), Core::<Events>::default());
    let filtered = AssignEvent {
        filter: EventFilter::EXCLUDE_KERNEL,
        ..event(EventCode::CYCLES.0, 1)
    };
    let free = SlotSet {
        general: 0,
        fixed: 0b11,
    };
    let (events, plan) = scheduled(
        &Model::Software,
        free,
        &[event(EventCode::ELAPSED_NS.0, 0), filtered],
    );
    let _ = core.assign(events, plan);
    core.start(&mut SoftwarePmu(&mut clock), 0);
    clock.set(500);
    core.stop(&mut SoftwarePmu(&mut clock), 500);
    let counts: Vec<_> = core
        .totals()
        .unwrap()
        .1
        .map(|count| (count.value, count.flags))
        .collect();
    let time = count_flags::FIXED | count_flags::TIME_BASED;
    assert_eq!(
        counts,
        [(500, time), (1500, time | count_flags::UNFILTERED)]
    );
    assert!(!core.needs_ticks(&Model::Software));
}

/// What may happen to a core, in any order.
#[derive(Clone, Debug)]
enum Step {
    Assign(u8),
    Start,
    Stop,
    Reset,
    Tick,
    Read,
    ChangeOwner,
    /// So many events of everything.
    Run(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..7u8).prop_map(Step::Assign),
        Just(Step::Start),
        Just(Step::Start),
        Just(Step::Stop),
        Just(Step::Reset),
        Just(Step::Tick),
        Just(Step::Tick),
        Just(Step::Read),
        Just(Step::ChangeOwner),
        (1..120u16).prop_map(Step::Run),
        (1..120u16).prop_map(Step::Run),
    ]
}

/// The core beside a plain account of what each event must show in the present generation.
struct Bench {
    model: X86Model,
    fake: FakeX86,
    core: Core<Events>,
    now_ns: u64,
    /// Per event: where it is, what it counted, for how long.
    expected: Vec<(Place, u64, u64)>,
    windows: u16,
    window: u16,
    is_counting: bool,
    generation: u64,
    /// Events since the last harvest: what only the counters know yet.
    unharvested: u64,
}

impl Bench {
    fn new() -> Self {
        let model = x86(16);
        Self {
            model,
            fake: FakeX86::new(model),
            core: Core::default(),
            now_ns: 0,
            expected: Vec::new(),
            windows: 1,
            window: 0,
            is_counting: false,
            generation: 0,
            unharvested: 0,
        }
    }

    fn apply(&mut self, step: &Step) {
        let now_ns = self.now_ns;
        let mut pmu = X86Pmu::new(self.model, &mut self.fake);
        match *step {
            Step::Assign(_) | Step::ChangeOwner if self.is_counting => {}
            Step::Assign(count) => {
                let assigned: Vec<_> = (0..count)
                    .map(|i| event(0x1C0 + u32::from(i), i.into()))
                    .collect();
                let (events, plan) = scheduled(&Model::X86(self.model), ALL_X86, &assigned);
                self.expected = events.iter().map(|event| (event.place, 0, 0)).collect();
                (self.windows, self.window) = (plan.windows, 0);
                let _ = self.core.assign(events, plan);
                self.generation += 1;
            }
            Step::ChangeOwner => {
                let _ = self.core.clear();
                self.expected.clear();
                self.generation += 1;
            }
            Step::Start => {
                self.core.start(&mut pmu, now_ns);
                self.is_counting = !self.expected.is_empty();
            }
            Step::Stop => {
                self.core.stop(&mut pmu, now_ns);
                self.is_counting = false;
            }
            Step::Reset => {
                self.core.reset(&mut pmu, now_ns);
                self.expected
                    .iter_mut()
                    .for_each(|event| (event.1, event.2) = (0, 0));
                self.generation += 1;
            }
            Step::Tick => {
                self.core.tick(&mut pmu, now_ns);
                if self.is_counting {
                    self.window = (self.window + 1) % self.windows;
                }
            }
            Step::Read => self.core.harvest(&mut pmu, now_ns),
            Step::Run(amount) => return self.run(amount.into()),
        }
        if !matches!(step, Step::Start | Step::Assign(_) | Step::ChangeOwner) {
            self.unharvested = 0;
        }
    }

    fn run(&mut self, amount: u64) {
        // Sixteen bits hold two steps: beyond that, harvest as the timer would.
        if self.unharvested + amount > 240 {
            self.apply(&Step::Read);
        }
        self.fake.advance(|code, _| amount * u64::from(code & 0xFF));
        self.now_ns += amount;
        if !self.is_counting {
            return;
        }
        self.unharvested += amount;
        for (index, (place, value, running_ns)) in self.expected.iter_mut().enumerate() {
            let counts = match *place {
                Place::Always(_) => true,
                Place::Window(window, _) => window == self.window,
                Place::Nowhere => false,
            };
            if counts {
                *value += amount * (0xC0 + index as u64);
                *running_ns += amount;
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let Some((totals, counts)) = self.core.totals() else {
            prop_assert!(self.expected.is_empty());
            return Ok(());
        };
        prop_assert_eq!(totals.generation, self.generation);
        prop_assert_eq!(self.core.state() == State::Counting, self.is_counting);
        if self.unharvested > 0 {
            return Ok(());
        }
        for (count, &(_, value, running_ns)) in counts.zip(&self.expected) {
            prop_assert_eq!((count.value, count.running_ns), (value, running_ns));
        }
        if !self.is_counting {
            prop_assert_eq!(self.fake.global_control, 0);
            prop_assert!(self.fake.selects.iter().all(|&select| select == 0));
        }
        Ok(())
    }
}

/// Miri takes a second for a step.
const STEPS: usize = if cfg!(miri) { 6 } else { 80 };

fn cases() -> ProptestConfig {
    let cases = if cfg!(miri) { 1 } else { 1024 };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_value_of_an_older_generation_is_ever_read(
        steps in prop::collection::vec(step(), 1..STEPS),
    ) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.apply(step);
            bench.check()?;
        }
    }
}
