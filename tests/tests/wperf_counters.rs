//! With whatever counters a core has left, the driver counts what can be counted and says what cannot.

use e2e::wperf::{OWNER, assert_exact, assigned, count, dock, event, perf, unload_cleanly};
use lab_devices::Architectural::{BranchMisses, Branches, CacheMisses, CacheReferences, Cycles};
use lab_dock::{Options, PmuSource};
use wperf_abi::client::CallError;
use wperf_abi::record::{AcquireMode, AssignEvent, PmuKind, count_flags};
use wperf_abi::{EventCode, EventFilter, Refusal};

const MS: u64 = 1_000_000;

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
        matches!(refused, Err(CallError::Refused(_, Refusal::GroupTooLarge))),
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

#[test]
fn the_more_counters_a_core_has_the_fewer_windows_take_turns() {
    let general = [Branches, BranchMisses, CacheMisses, CacheReferences];
    let events: Vec<_> = general
        .into_iter()
        .cycle()
        .take(24)
        .zip(0..)
        .map(|(code, group)| event(code, group))
        .collect();
    for counters in 1..=8 {
        let dock = dock(Options {
            counters,
            ..Options::default()
        });
        let machine = dock.machine();
        let mut perf = assigned(machine, &[0], &events);
        let totals = count(&mut perf, machine, &[0], 500 * MS);
        assert_eq!(totals[0].0.windows, 24u32.div_ceil(counters));
        assert_exact(0, &events, &totals[0]);
        unload_cleanly(dock);
    }
}
