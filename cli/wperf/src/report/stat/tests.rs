use super::*;
use crate::{
    catalog::{Catalog, Product},
    grammar::events,
    plan::{self, Counters},
    report::csv,
};
use wperf_abi::record::{ReadHeader, SupportedEvent};

fn a_plan(list: &str, metrics: &str) -> Plan {
    let catalog = Catalog::new(&Product::by_name("x86-64").unwrap(), &[], Vec::new());
    let cycle = SupportedEvent {
        code: EventCode::CYCLES,
        flags: count_flags::FIXED.into(),
    };
    let counters = Counters::new(Some(4), 4, &[cycle]);
    let metrics = catalog.expand_metrics(metrics).unwrap();
    plan::plan(&events::parse(list).unwrap(), &metrics, &catalog, &counters).unwrap()
}

/// Counts 1000, 2000, 3000 … × (core + 1), each running `share` of ten parts of a second.
fn reading(core: u32, plan: &Plan, share: u64) -> Reading {
    let events: Vec<EventCount> = (1..)
        .zip(plan.events())
        .map(|(n, (_, event))| EventCount {
            code: EventCode(event.code),
            group: 0,
            flags: 0,
            value: n * 1_000_000 * u64::from(core + 1),
            enabled_ns: 1_000_000_000,
            running_ns: share * 100_000_000,
        })
        .collect();
    Reading {
        head: ReadHeader {
            core,
            event_count: u32::try_from(events.len()).unwrap(),
            generation: 1,
            state: 4,
            windows: 1,
            enabled_ns: 1_000_000_000,
            rotations: 0,
        },
        events,
    }
}

fn setup(multiplexed: bool) -> Setup {
    Setup {
        multiplexed,
        kernel: false,
        vendor: "Intel".into(),
        product: "x86-64".into(),
    }
}

fn report(share: u64) -> StatReport {
    let plan = a_plan("instructions,{branches,branch-misses}", "ipc");
    let readings = [reading(0, &plan, share), reading(2, &plan, share)];
    StatReport::new(
        setup(share < 10),
        &plan,
        &readings,
        Duration::from_millis(1005),
    )
}

#[test]
fn tables_of_several_cores_end_with_the_sum_and_the_metrics() {
    insta::assert_snapshot!(report(10).to_text());
}

#[test]
fn a_multiplexed_count_is_scaled_by_its_share_of_time() {
    insta::assert_snapshot!(report(5).to_text());
}

#[test]
fn the_document_has_the_keys_that_scripts_read() {
    insta::assert_json_snapshot!(report(5).to_json());
}

#[test]
fn the_timeline_has_a_column_per_core_and_event_and_the_metrics_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    for share in [10, 5] {
        let interval = Duration::from_millis(1500);
        let mut timeline =
            csv::Timeline::create(path.clone(), setup(share < 10), interval).unwrap();
        timeline.push(&report(share)).unwrap();
        timeline.push(&report(share)).unwrap();
        insta::assert_snapshot!(
            format!("timeline_{share}"),
            std::fs::read_to_string(&path).unwrap()
        );
    }
}

#[test]
fn an_event_without_a_counter_is_named_and_has_no_row() {
    let plan = a_plan("instructions", "ipc");
    let mut reading = reading(0, &plan, 10);
    reading.events[1].flags = count_flags::NO_COUNTER;
    reading.events[3].flags = count_flags::NO_COUNTER;
    let report = StatReport::new(setup(false), &plan, &[reading], Duration::ZERO);
    assert_eq!(report.cores()[0].1.len(), 2);
    assert!(report.metrics().is_empty());
    insta::assert_snapshot!(report.warnings.join("\n"));
}

#[test]
fn counts_that_include_the_kernel_against_the_heading_are_named_once() {
    let plan = a_plan("branches", "ipc");
    let mut readings = [reading(0, &plan, 10), reading(1, &plan, 10)];
    for reading in &mut readings {
        reading.events[1].flags = count_flags::UNFILTERED;
    }
    let warnings = |kernel| {
        let setup = Setup {
            kernel,
            ..setup(false)
        };
        StatReport::new(setup, &plan, &readings, Duration::ZERO).warnings
    };
    assert_eq!(
        warnings(false),
        ["warning: the kernel's share could not be left out of: branches"]
    );
    assert!(warnings(true).is_empty());
}

#[test]
fn an_event_asked_for_twice_is_summed_by_its_place() {
    let plan = a_plan("branches,branches", "ipc");
    let readings = [reading(0, &plan, 10), reading(1, &plan, 10)];
    let report = StatReport::new(setup(false), &plan, &readings, Duration::ZERO);
    let values: Vec<u64> = report
        .overall
        .iter()
        .map(|row| row.value / 1_000_000)
        .collect();
    assert_eq!(values, [3, 6, 9, 12, 15]);
}

#[test]
fn scaling_does_not_overflow() {
    let count = EventCount {
        code: EventCode(0),
        group: 0,
        flags: 0,
        value: u64::MAX,
        enabled_ns: u64::MAX,
        running_ns: 1,
    };
    assert_eq!(scaled(&count), u64::MAX);
    assert_eq!(
        scaled(&EventCount {
            running_ns: 0,
            ..count
        }),
        0
    );
}
