//! Nothing of an older generation is read after a stop, a reset, an assignment or a change of owner.

use std::collections::HashMap;

use e2e::wperf::{
    CLOCK_NS, Handle, OWNER, STRANGER, Totals, assert_exact, assigned, count, dock, event,
    expected, perf, unload_cleanly,
};
use lab_devices::Architectural::{Branches, Cycles};
use lab_dock::Options;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use wperf_abi::State;
use wperf_abi::record::{AcquireMode, AssignEvent};

const MS: u64 = 1_000_000;

/// A step that one of two clients takes on a core.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Force,
    Release,
    Assign,
    Start,
    Stop,
    Reset,
    Read,
    Reopen,
}

/// Steps that lead on are more likely than those that end something.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Acquire),
        1 => Just(Step::Force),
        1 => Just(Step::Release),
        3 => Just(Step::Assign),
        4 => Just(Step::Start),
        2 => Just(Step::Stop),
        2 => Just(Step::Reset),
        4 => Just(Step::Read),
        1 => Just(Step::Reopen),
    ]
}

/// When each core's counts began to belong to what they belong to now, and its generation.
#[derive(Default)]
struct Era {
    since_ns: HashMap<u32, u64>,
    generation: HashMap<u32, u64>,
}

impl Era {
    fn begin(&mut self, core: u32, now_ns: u64) {
        self.since_ns.insert(core, now_ns);
    }

    /// Nothing is older than the last assignment, reset or change of owner.
    fn check(&mut self, core: u32, event: &AssignEvent, now_ns: u64, totals: &Totals) {
        let (head, counts) = totals;
        let since_ns = self.since_ns[&core];
        assert!(head.enabled_ns <= now_ns - since_ns, "{head:?} is older");
        let most = expected(core, event, since_ns, now_ns);
        let right = expected(core, event, 0, counts[0].running_ns);
        // Rounding, once per harvest.
        let slack = 64;
        assert!(counts[0].value <= most, "{counts:?}: at most {most}");
        assert!(counts[0].value.abs_diff(right) <= slack, "{counts:?}");
        let last = self.generation.insert(core, head.generation).unwrap_or(0);
        assert!(head.generation >= last, "generations never go back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn nothing_of_an_older_generation_is_ever_read(
        steps in vec((step(), 0..2usize, 0..2u32, 0..20_000u64), 1..120),
        seed in 0..4u64,
    ) {
        let dock = dock(Options { seed, cpus: 2, ..Options::default() });
        let machine = dock.machine();
        let event = event(Branches, 0);
        let mut handles = [OWNER, STRANGER].map(|process| Handle::open(machine, process));
        let mut era = Era::default();
        for (step, who, core, ticks) in steps {
            machine.sleep_ns(ticks * CLOCK_NS).expect("no rule broken");
            let mut client = handles[who].client();
            let before = machine.now_ns();
            let cores = [core];
            match step {
                Step::Acquire => drop(client.acquire(AcquireMode::NORMAL, &cores)),
                Step::Force => drop(client.acquire(AcquireMode::FORCE, &cores)),
                Step::Release => drop(client.release(&cores)),
                Step::Assign => if client.assign(&cores, &[event], 10).is_ok() { era.begin(core, before) },
                Step::Start => drop(client.start(&cores)),
                Step::Stop => drop(client.stop(&cores)),
                Step::Reset => if client.reset(&cores).is_ok() { era.begin(core, before) },
                Step::Read => if let Ok(totals) = client.read(core) {
                    era.check(core, &event, machine.now_ns(), &totals);
                },
                Step::Reopen => {
                    handles[who].close();
                    handles[who] = Handle::open(machine, [OWNER, STRANGER][who]);
                }
            }
        }
        unload_cleanly(dock);
    }
}

#[test]
fn a_stopped_core_stands_still_and_a_reset_one_begins_again() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let events = [event(Cycles, 0), event(Branches, 1)];
    let mut perf = assigned(machine, &[0], &events);
    let first = count(&mut perf, machine, &[0], 30 * MS).remove(0);
    machine.sleep_ns(500 * MS).expect("no rule broken");
    assert_eq!(perf.read(0).expect("assigned"), first, "it stands still");
    perf.reset(&[0]).expect("assigned");
    let (head, counts) = perf.read(0).expect("assigned");
    assert!(head.generation > first.0.generation);
    assert!(head.enabled_ns == 0 && counts.iter().all(|count| count.value == 0));
    perf.start(&[0]).expect("assigned");
    machine.sleep_ns(30 * MS).expect("no rule broken");
    perf.reset(&[0]).expect("counting");
    let from = machine.now_ns();
    machine.sleep_ns(7 * MS).expect("no rule broken");
    let (head, counts) = perf.read(0).expect("counting");
    assert_eq!(head.state, State::Counting as u32);
    assert_eq!(head.enabled_ns, machine.now_ns() - from);
    let right = expected(0, &events[1], 0, head.enabled_ns);
    assert!(
        counts[1].value.abs_diff(right) <= 1,
        "{counts:?}, not {right}"
    );
    unload_cleanly(dock);
}

#[test]
fn a_new_owner_sees_nothing_of_the_old_ones_counts() {
    for code in [Cycles, Branches] {
        let dock = dock(Options::default());
        let machine = dock.machine();
        let events = [event(code, 0)];
        let mut first = assigned(machine, &[0], &events);
        first.start(&[0]).expect("assigned");
        machine.sleep_ns(900 * MS).expect("no rule broken");
        let old = first.read(0).expect("counting").0.generation;
        let mut second = perf(machine, STRANGER);
        second.acquire(AcquireMode::FORCE, &[0]).expect("by force");
        assert!(second.read(0).is_err(), "nothing is assigned");
        second.assign(&[0], &events, 10).expect("fits");
        let (head, counts) = second.read(0).expect("assigned");
        assert!(head.generation > old);
        assert_eq!((head.enabled_ns, counts[0].value), (0, 0));
        let totals = count(&mut second, machine, &[0], 5 * MS).remove(0);
        assert!(totals.0.enabled_ns.abs_diff(5 * MS) < 1000);
        assert_exact(0, &events, &totals);
        unload_cleanly(dock);
    }
}
