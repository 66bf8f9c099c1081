//! Loading and unloading, ten thousand times and at the worst moments, leaves nothing.

use std::process::Command;

use e2e::scene::{CORES, EVENTS};
use e2e::wperf::{OWNER, STRANGER, assigned, dock, perf, unload_cleanly};
use e2e::{driver_path, program};
use lab_dock::Options;
use lab_ntos::{Driver, Loaded};
use wperf_abi::record::AcquireMode;

#[test]
fn ten_thousand_cycles_leave_nothing() {
    let run = |cycles: u32| {
        let output = Command::new(program("drydock"))
            .arg("run")
            .arg(driver_path("wperf-driver"))
            .args(["--json", "--cycles", &cycles.to_string()])
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(report["completed"], cycles);
        assert_eq!(report["clean"], true);
        let number = |key: &str| report[key].as_i64().unwrap_or_else(|| panic!("{key}"));
        let held = number("held_after") - number("held_before");
        (held, number("resident_growth_kib"))
    };
    let (held, resident_kib) = run(10_000);
    assert_eq!(held, 0, "what the machine holds does not grow");
    assert!(
        resident_kib < 1024,
        "resident memory grew by {resident_kib} KiB"
    );
}

#[test]
fn a_driver_that_counts_while_its_clients_die_unloads_cleanly() {
    for other_owner in [false, true] {
        let mut dock = dock(Options::default());
        let machine = dock.machine();
        let mut counting = assigned(machine, &CORES, &EVENTS);
        counting.start(&CORES).expect("assigned");
        if other_owner {
            let mut other = perf(machine, STRANGER);
            other.acquire(AcquireMode::NORMAL, &[1]).expect("free");
            other.assign(&[1], &EVENTS, 10).expect("fits");
            other.start(&[1]).expect("assigned");
        }
        machine.sleep_ns(25_000_000).expect("no rule broken");
        let leaks = dock.unload().expect("no rule broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        let left = dock.machine().sleep_ns(1_000_000_000);
        left.expect("nothing of the driver runs any more");
        unload_cleanly(dock);
    }
}

#[test]
fn handles_that_stay_open_do_not_hinder_the_unload() {
    let mut dock = dock(Options::default());
    let open: Vec<_> = (0..100).map(|n| perf(dock.machine(), OWNER + n)).collect();
    assert_eq!(dock.machine().open_files(), 100);
    drop(open);
    let leaks = dock.unload().expect("no rule broken");
    assert!(leaks.is_empty(), "{leaks:?}");
    assert_eq!(dock.machine().open_files(), 0);
}

#[test]
fn a_driver_loads_again_on_the_machine_it_left() {
    let read = e2e::read("wperf-driver");
    let machine = Options::default().machine(|_| {}).expect("a machine");
    let load = || -> Driver {
        match machine.load(&read.driver) {
            Ok(Loaded::Running(driver)) => driver,
            Ok(Loaded::Failed(status, _)) => panic!("{status}"),
            Err(error) => panic!("{error}"),
        }
    };
    let mut generations = Vec::new();
    for _ in 0..20 {
        let driver = load();
        let mut client = assigned(&machine, &CORES, &EVENTS);
        client.start(&CORES).expect("assigned");
        machine.sleep_ns(12_000_000).expect("no rule broken");
        let (head, counts) = client.read(CORES[0]).expect("counting");
        assert!(counts[0].value > 0);
        generations.push(head.generation);
        machine.close_all().expect("no rule broken");
        assert!(machine.unload(driver).expect("no rule broken").is_empty());
    }
    assert!(
        generations
            .iter()
            .all(|&generation| generation == generations[0]),
        "each load begins from the same state: {generations:?}"
    );
}
