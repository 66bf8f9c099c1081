//! What the driver counts is what happened: the model PMU knows exactly how much that is.

use e2e::wperf::{
    CLOCK_NS, OWNER, assert_exact, assigned, count, dock, event, expected, filtered, perf,
    unload_cleanly,
};
use lab_devices::Architectural::{
    self, BranchMisses, Branches, CacheMisses, CacheReferences, Cycles, Instructions, Slots,
};
use lab_dock::Options;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, proptest};
use proptest::sample::select;
use wperf_abi::EventFilter;
use wperf_abi::record::{AcquireMode, AssignEvent, count_flags};

const MS: u64 = 1_000_000;

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
        let right = expected(1, event, from, to);
        assert!(count.value.abs_diff(right) <= 1, "{count:?}, not {right}");
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
        assert_eq!(head.windows as usize, events.len().div_ceil(4));
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
fn the_time_that_its_dpcs_take_is_measured_core_by_core() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let events = [Branches, BranchMisses, CacheMisses, CacheReferences, Slots];
    let events: Vec<_> = events
        .into_iter()
        .zip(0..)
        .map(|(code, group)| event(code, group))
        .collect();
    let mut perf = assigned(machine, &[1], &events);
    let before = perf.query_dpc_times(1).expect("always legal");
    let rotations = count(&mut perf, machine, &[1], 1000 * MS)[0].0.rotations;
    let after = perf.query_dpc_times(1).expect("always legal");
    assert!(
        after.count - before.count >= rotations && rotations > 90,
        "{after:?}"
    );
    for times in [before, after] {
        assert_eq!(times.ranges.iter().sum::<u64>(), times.count, "{times:?}");
        assert!(
            (times.longest_ns..=times.longest_ns * times.count).contains(&times.total_ns),
            "{times:?}"
        );
    }
    let elsewhere = perf.query_dpc_times(3).expect("always legal");
    assert!(
        elsewhere.count < after.count - before.count,
        "{elsewhere:?}"
    );
    unload_cleanly(dock);
}

/// Groups of one to four events of the hardware, each with a filter.
fn groups() -> impl Strategy<Value = Vec<AssignEvent>> {
    let filter = select(vec![
        EventFilter::NONE,
        EventFilter::EXCLUDE_KERNEL,
        EventFilter::EXCLUDE_USER,
    ]);
    let event = (select(Architectural::ALL.to_vec()), filter);
    let group = vec(event, 1..=4);
    vec(group, 1..12).prop_map(|groups| {
        let numbered = groups.into_iter().zip(0u16..);
        let events = numbered.flat_map(|(group, number)| {
            group
                .into_iter()
                .map(move |(code, filter)| filtered(code, number, filter))
        });
        events.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_groups_are_counted_exactly_while_they_are_on_counters(
        events in groups(),
        period_ms in 10..=100u32,
        core in 0..4u32,
        runs in vec(0..5_000_000u64, 1..5),
    ) {
        let dock = dock(Options::default());
        let machine = dock.machine();
        let mut perf = perf(machine, OWNER);
        perf.acquire(AcquireMode::NORMAL, &[core]).expect("free");
        let reply = perf.assign(&[core], &events, period_ms).expect("four counters");
        for ticks in runs {
            let totals = &count(&mut perf, machine, &[core], ticks * CLOCK_NS)[0];
            assert_exact(core, &events, totals);
            let (head, counts) = totals;
            assert_eq!(head.windows, reply.windows);
            for count in counts {
                let of_group = counts.iter().find(|first| first.group == count.group);
                let together = of_group.map(|first| first.running_ns);
                assert_eq!(Some(count.running_ns), together, "a group is never split");
            }
        }
        unload_cleanly(dock);
    }
}
