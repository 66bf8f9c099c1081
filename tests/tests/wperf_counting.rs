//! What the driver counts is what happened: the model PMU knows exactly how much that is.

use e2e::wperf::{OWNER, STRANGER};
use e2e::wperf::{
    Perf, Totals, assigned, count, dock, event, expected, filtered, perf, unload_cleanly,
};
use lab_devices::Architectural::{
    self, BranchMisses, Branches, CacheMisses, CacheReferences, Cycles, Instructions, Slots,
};
use lab_dock::{Options, PmuSource};
use proptest::prelude::{ProptestConfig, proptest};
use proptest::sample::select;
use std::collections::HashMap;
use wperf_abi::record::{AcquireMode, AssignEvent, PmuKind, count_flags};
use wperf_abi::{EventCode, EventFilter, Refusal, State};

const MS: u64 = 1_000_000;
/// Resolution of the system's clock.
const CLOCK_NS: u64 = 100;
/// Rounding of the model's rates, once per harvest.
const ROUNDING: u64 = 1;

/// Each count is what the model counts in the time that the event was on a counter.
fn assert_exact(core: u32, events: &[AssignEvent], (head, counts): &Totals) {
    assert_eq!(counts.len(), events.len());
    for (count, event) in counts.iter().zip(events) {
        let right = expected(core, event, 0, count.running_ns);
        let slack = ROUNDING * (head.rotations + 1);
        assert!(
            count.value.abs_diff(right) <= slack,
            "core {core}: {count:?}, not {right}"
        );
        assert_eq!((count.code, count.group), (event.code, event.group));
        assert_eq!(count.enabled_ns, head.enabled_ns);
    }
}

#[test]
fn fixed_and_general_counters_count_exactly_what_happened() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let events = [
        event(Instructions, 0),
        event(Cycles, 1),
        event(Branches, 2),
        event(BranchMisses, 3),
        event(CacheMisses, 4),
        event(CacheReferences, 5),
    ];
    let mut perf = assigned(machine, &[1], &events);
    perf.start(&[1]).expect("assigned");
    let from = machine.now_ns();
    machine.sleep_ns(250 * MS).expect("no rule broken");
    perf.stop(&[1]).expect("counting");
    let to = machine.now_ns();
    let totals = perf.read(1).expect("assigned");
    assert_eq!(
        totals.0.enabled_ns,
        to - from,
        "the clock stood still between"
    );
    assert_exact(1, &events, &totals);
    for (count, event) in totals.1.iter().zip(&events) {
        assert_eq!(count.value, expected(1, event, from, to), "{count:?}");
        let is_fixed = count.flags & count_flags::FIXED != 0;
        let has_fixed = [Instructions.code(), Cycles.code()].map(u32::from);
        assert_eq!(is_fixed, has_fixed.contains(&count.code.0));
        assert_eq!(count.running_ns, count.enabled_ns);
    }
    drop(perf);
    unload_cleanly(dock);
}

#[test]
fn the_shortest_runs_are_exact_and_add_up() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let events = [event(Cycles, 0), event(Branches, 1), event(Slots, 2)];
    let mut perf = assigned(machine, &[0], &events);
    let mut sums = [0; 3];
    let mut enabled = 0;
    for ticks in [0, 1, 2, 10, 123, 30_000] {
        perf.start(&[0]).expect("assigned");
        let from = machine.now_ns();
        machine.sleep_ns(ticks * CLOCK_NS).expect("no rule broken");
        perf.stop(&[0]).expect("counting");
        let to = machine.now_ns();
        enabled += to - from;
        for (sum, event) in sums.iter_mut().zip(&events) {
            *sum += expected(0, event, from, to);
        }
        let (head, counts) = perf.read(0).expect("assigned");
        let values: Vec<u64> = counts.iter().map(|count| count.value).collect();
        assert_eq!((values.as_slice(), head.enabled_ns), (&sums[..], enabled));
    }
    unload_cleanly(dock);
}

#[test]
fn groups_share_a_window_and_windows_take_equal_turns() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    // Four general counters: three and three do not fit together.
    let general = [
        Branches,
        BranchMisses,
        CacheMisses,
        CacheReferences,
        Slots,
        Branches,
    ];
    let events: Vec<_> = [0, 0, 0, 1, 1, 1]
        .into_iter()
        .zip(general)
        .map(|(group, code)| event(code, group))
        .collect();
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, &[0]).expect("free");
    let reply = perf.assign(&[0], &events, 10).expect("fits in two windows");
    assert_eq!((reply.windows, reply.period_ms), (2, 10));
    let [totals] = count(&mut perf, machine, &[0], 1000 * MS)
        .try_into()
        .expect("one core");
    assert_exact(0, &events, &totals);
    let (head, counts) = totals;
    assert!(head.rotations >= 98 && head.windows == 2, "{head:?}");
    for group in counts.chunks(3) {
        assert!(
            group
                .iter()
                .all(|count| count.running_ns == group[0].running_ns),
            "a group is on its counters as one: {group:?}"
        );
        let share = group[0].running_ns * 100 / head.enabled_ns;
        assert!((48..=52).contains(&share), "{share} % of the time");
    }
    assert_eq!(
        counts[0].running_ns + counts[3].running_ns,
        head.enabled_ns,
        "one window or the other counts all the time"
    );
    unload_cleanly(dock);
}

#[test]
fn scaled_counts_of_many_events_are_within_a_tenth_of_a_per_cent() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let general = [Branches, BranchMisses, CacheMisses, CacheReferences, Slots];
    for events in [5, 7, 16, 33, 128] {
        let events: Vec<_> = (0..events)
            .map(|group| event(general[usize::from(group) % general.len()], group))
            .collect();
        let mut perf = assigned(machine, &[0], &events);
        let totals = count(&mut perf, machine, &[0], 3000 * MS);
        let (head, counts) = &totals[0];
        assert_eq!(usize::from(head.windows as u16), events.len().div_ceil(4));
        for (count, event) in counts.iter().zip(&events) {
            let scaled = u128::from(count.value) * u128::from(count.enabled_ns)
                / u128::from(count.running_ns);
            let right = expected(0, event, 0, head.enabled_ns);
            let off = u64::try_from(scaled).expect("a count").abs_diff(right);
            assert!(off <= right / 1000, "{count:?}: {scaled}, not {right}");
        }
        perf.release(&[0]).expect("held");
    }
    unload_cleanly(dock);
}

#[test]
fn user_and_kernel_are_told_apart_and_add_up() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let filters = [
        EventFilter::NONE,
        EventFilter::EXCLUDE_KERNEL,
        EventFilter::EXCLUDE_USER,
    ];
    for code in [Branches, CacheReferences] {
        let events: Vec<_> = filters
            .into_iter()
            .zip(0..)
            .map(|(filter, group)| filtered(code, group, filter))
            .collect();
        let mut perf = assigned(machine, &[3], &events);
        let totals = count(&mut perf, machine, &[3], 40 * MS);
        assert_exact(3, &events, &totals[0]);
        let values: Vec<u64> = totals[0].1.iter().map(|count| count.value).collect();
        assert!(values[0].abs_diff(values[1] + values[2]) <= 2, "{values:?}");
        assert!(values[1] > values[2] && values[2] > 0, "{values:?}");
        perf.release(&[3]).expect("held");
    }
    // The fixed counters filter too.
    let events = [
        filtered(Instructions, 0, EventFilter::EXCLUDE_KERNEL),
        filtered(Cycles, 1, EventFilter::EXCLUDE_USER),
    ];
    let mut perf = assigned(machine, &[3], &events);
    let totals = count(&mut perf, machine, &[3], 40 * MS);
    assert_exact(3, &events, &totals[0]);
    assert!(
        totals[0]
            .1
            .iter()
            .all(|count| count.flags & count_flags::FIXED != 0)
    );
    unload_cleanly(dock);
}

#[test]
fn every_core_counts_its_own() {
    let options = Options {
        cpus: 70,
        ..Options::default()
    };
    let dock = dock(options);
    let machine = dock.machine();
    let cores: Vec<u32> = (0..70).collect();
    let events = [event(Instructions, 0), event(Branches, 1)];
    let mut perf = assigned(machine, &cores, &events);
    let totals = count(&mut perf, machine, &cores, 20 * MS);
    for (&core, totals) in cores.iter().zip(&totals) {
        assert_eq!(totals.0.core, core);
        assert!(totals.0.enabled_ns.abs_diff(20 * MS) < MS / 10);
        assert_exact(core, &events, totals);
    }
    assert!(totals[69].1[0].value > totals[0].1[0].value, "69 % faster");
    unload_cleanly(dock);
}

#[test]
fn totals_are_64_bit_past_the_width_of_the_counters() {
    const HOUR: u64 = 3_600_000 * MS;
    // 29 slots per nanosecond on the last core: 48 bits wrap after 2.7 hours.
    const LAST: u32 = 63;
    let options = Options {
        cpus: 64,
        ..Options::default()
    };
    let dock = dock(options);
    let machine = dock.machine();
    let events = [event(Slots, 0)];
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, &[LAST]).expect("free");
    perf.assign(&[LAST], &events, 100).expect("fits");
    let totals = count(&mut perf, machine, &[LAST], 3 * HOUR);
    let (_, counts) = &totals[0];
    assert!(counts.iter().all(|count| count.value > 1 << 48));
    for (count, event) in counts.iter().zip(&events) {
        let right = expected(LAST, event, 0, count.running_ns);
        assert!(count.value.abs_diff(right) <= 1, "{count:?}, not {right}");
    }
    unload_cleanly(dock);
}

#[test]
fn any_counters_that_others_hold_are_done_without() {
    let events = [
        event(Cycles, 0),
        event(Branches, 1),
        event(BranchMisses, 2),
        event(CacheMisses, 3),
        event(CacheReferences, 4),
    ];
    for taken in 0u32..1 << 4 {
        let dock = dock(Options::default());
        let machine = dock.machine();
        let gone = (0..4).filter(|counter| taken >> counter & 1 != 0);
        gone.for_each(|counter| assert!(machine.take_counter(counter)));
        let mut perf = assigned(machine, &[0], &events);
        let free = 4 - taken.count_ones();
        let (_, config) = perf.query_config().expect("always legal");
        assert_eq!(u32::from(config[0].counters_free), free);
        assert_eq!(config[0].counter_map, u64::from(!taken & 0xF));
        let totals = count(&mut perf, machine, &[0], 1000 * MS);
        assert_exact(0, &events, &totals[0]);
        let counted = totals[0].1.iter().map(|count| {
            let never = count.flags & count_flags::NO_COUNTER != 0;
            assert_eq!(never, count.running_ns == 0, "{count:?}");
            !never
        });
        let counted = counted.filter(|&counted| counted).count();
        assert_eq!(
            counted,
            if free == 0 { 1 } else { 5 },
            "{free} counters free"
        );
        drop(perf);
        unload_cleanly(dock);
    }
}

#[test]
fn a_group_larger_than_what_is_left_is_refused_not_split() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    assert!(machine.take_counter(2));
    let four = [Branches, BranchMisses, CacheMisses, CacheReferences].map(|code| event(code, 0));
    let mut perf = perf(machine, OWNER);
    let reply = perf.acquire(AcquireMode::NORMAL, &[0]).expect("free");
    assert_eq!(reply.counters_free_min, 3);
    let refused = perf.assign(&[0], &four, 10);
    assert!(
        matches!(
            refused,
            Err(wperf_abi::client::CallError::Refused(
                _,
                Refusal::GroupTooLarge
            ))
        ),
        "{refused:?}"
    );
    perf.assign(&[0], &four[1..], 10).expect("three fit");
    unload_cleanly(dock);
}

#[test]
fn without_a_pmu_time_is_counted() {
    let options = Options {
        pmu: PmuSource::None,
        ..Options::default()
    };
    let dock = dock(options);
    let machine = dock.machine();
    let events = [
        EventCode::CYCLES,
        EventCode::ELAPSED_NS,
        EventCode::TIMESTAMP_TICKS,
    ]
    .map(|code| AssignEvent {
        code,
        filter: EventFilter::NONE,
        group: 0,
    });
    let mut perf = assigned(machine, &[0], &events);
    let (_, config) = perf.query_config().expect("always legal");
    assert!(config.iter().all(|core| core.pmu == PmuKind::SOFTWARE));
    let totals = count(&mut perf, machine, &[0], 5 * MS);
    let (head, counts) = &totals[0];
    assert!(
        counts
            .iter()
            .all(|count| count.flags & count_flags::TIME_BASED != 0)
    );
    // Reading the virtual clock takes a little time.
    assert!(
        counts[1].value.abs_diff(head.enabled_ns) < 1000,
        "{counts:?}"
    );
    assert!(head.enabled_ns.abs_diff(5 * MS) < 1000);
    assert!(counts[2].value > 0);
    unload_cleanly(dock);
}

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

const STEPS: [Step; 9] = [
    Step::Acquire,
    Step::Force,
    Step::Release,
    Step::Assign,
    Step::Start,
    Step::Stop,
    Step::Reset,
    Step::Read,
    Step::Reopen,
];

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
        steps in proptest::collection::vec((select(STEPS.to_vec()), 0..2usize, 0..2u32, 0..20_000u64), 1..60),
        seed in 0..4u64,
    ) {
        let dock = dock(Options { seed, cpus: 2, ..Options::default() });
        let machine = dock.machine();
        let event = event(Branches, 0);
        let processes = [OWNER, STRANGER];
        let mut clients: Vec<Option<Perf<'_>>> = processes.map(|id| Some(perf(machine, id))).into();
        let mut handles = Vec::new();
        let mut era = Era::default();
        for (step, who, core, ticks) in steps {
            machine.sleep_ns(ticks * CLOCK_NS).expect("no rule broken");
            let Some(client) = &mut clients[who] else { continue };
            let before = machine.now_ns();
            let cores = [core];
            match step {
                Step::Acquire | Step::Force => {
                    let mode = if matches!(step, Step::Force) { AcquireMode::FORCE } else { AcquireMode::NORMAL };
                    drop(client.acquire(mode, &cores));
                }
                Step::Release => drop(client.release(&cores)),
                Step::Assign => if client.assign(&cores, &[event], 10).is_ok() { era.begin(core, before) },
                Step::Start => drop(client.start(&cores)),
                Step::Stop => drop(client.stop(&cores)),
                Step::Reset => if client.reset(&cores).is_ok() { era.begin(core, before) },
                Step::Read => if let Ok(totals) = client.read(core) {
                    era.check(core, &event, machine.now_ns(), &totals);
                },
                Step::Reopen => {
                    // The old handle stays open: what it holds stays held, until the end.
                    handles.push(clients[who].replace(perf(machine, processes[who])));
                }
            }
        }
        drop(handles);
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
    for code in [Cycles, Branches] as [Architectural; 2] {
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
