//! Uncore units: found by the driver, held one by one, counted exactly, as the devices of the lab know how much that is.

use std::process::Stdio;

use e2e::served::{Served, json, stderr, stdout, wait_until};
use e2e::wperf::{CLOCK_NS, OWNER, Perf, STRANGER, dock, perf, unload_cleanly};
use lab_devices::Devices;
use lab_devices::platform::{CoreSight, Dmc620, Kind};
use lab_dock::{Dock, Options};
use lab_ntos::Machine;
use wperf_abi::client::CallError;
use wperf_abi::record::{
    AcquireMode, AcquireOutcome, AssignEvent, EventCount, Holding, ReadHeader, UnitConfig,
    UnitKind, UnitOf,
};
use wperf_abi::{EventCode, EventFilter, Refusal, State};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const CLK: u32 = EventCode::DMC_CLK;

fn docked(kinds: &[Kind]) -> Dock {
    let devices: Devices = kinds.iter().copied().collect();
    dock(Options {
        devices,
        ..Options::default()
    })
}

fn events(codes: &[u32]) -> Vec<AssignEvent> {
    let numbered = (0..).zip(codes);
    numbered
        .map(|(group, &code)| AssignEvent {
            code: EventCode(code),
            group,
            filter: EventFilter::NONE,
        })
        .collect()
}

fn assigned(perf: &mut Perf<'_>, units: &[u32], codes: &[u32]) {
    perf.acquire_units(AcquireMode::NORMAL, units)
        .expect("the units are free");
    perf.assign_units(units, &events(codes), 100)
        .expect("the events can be counted");
}

/// Counts for so long, in steps; gives the totals after the stop.
fn count(
    perf: &mut Perf<'_>,
    machine: &Machine,
    unit: u32,
    steps: &[u64],
) -> (ReadHeader, Vec<EventCount>) {
    perf.start_units(&[unit]).expect("assigned");
    for ns in steps {
        machine.sleep_ns(*ns).expect("no rule broken");
        perf.read_unit(unit).expect("counting");
    }
    perf.stop_units(&[unit]).expect("counting");
    perf.read_unit(unit).expect("assigned")
}

fn refusal<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, CallError<E>>) -> Refusal {
    match result {
        Err(CallError::Refused(_, refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn name(unit: &UnitConfig) -> String {
    let text = String::from_utf8_lossy(&unit.name);
    text.trim_end_matches('\0').to_owned()
}

#[test]
fn a_machine_without_units_says_so_and_has_none_to_take() {
    let dock = docked(&[]);
    let mut perf = perf(dock.machine(), OWNER);
    assert!(perf.query_units().expect("always legal").is_empty());
    let owners = perf.query_unit_ownership().expect("always legal");
    assert!(owners.is_empty());
    let taken = perf.acquire_units(AcquireMode::NORMAL, &[0]);
    assert_eq!(refusal(taken), Refusal::BadRequest);
    unload_cleanly(dock);
}

#[test]
fn the_driver_finds_what_firmware_describes_and_says_what_it_is() {
    let dock = docked(&[Kind::CsPmu64, Kind::Dmc620, Kind::CsPmu, Kind::Dmc620]);
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    let units = perf.query_units().expect("always legal");
    let names: Vec<_> = units.iter().map(name).collect();
    assert_eq!(names, ["dmc_0", "dmc_1", "cspmu_0", "cspmu_1"]);
    let shape = |unit: &UnitConfig| {
        let counters = (unit.counters_total, unit.counter_bits, unit.fixed_counters);
        (unit.kind, unit.of, counters)
    };
    let shapes: Vec<_> = units.iter().map(shape).collect();
    let controller = (
        UnitKind::DMC_620,
        UnitOf::MEMORY_CONTROLLER,
        ([8, 2], 32, 0),
    );
    assert_eq!(shapes[..2], [controller, controller]);
    assert_eq!(
        shapes[2..],
        [
            (UnitKind::CORESIGHT, UnitOf::PCIE_ROOT, ([6, 0], 32, 0)),
            (
                UnitKind::CORESIGHT,
                UnitOf::MEMORY_CONTROLLER,
                ([4, 0], 64, 1)
            ),
        ]
    );
    assert!(units[2].identification != 0 && units[2].cores.iter().all(|word| *word == 0));
    let known = [0, 2, 3].map(|unit| perf.query_unit_events(unit).expect("a unit").len());
    assert_eq!(known, [29, 0, 1]);
    let mapped = machine.footprint().mappings;
    assert_eq!(mapped, 0, "nothing stays mapped for a question");
    unload_cleanly(dock);
}

#[test]
fn a_memory_controller_counts_both_clocks_exactly_across_many_wraps() {
    let dock = docked(&[Kind::Dmc620, Kind::Dmc620]);
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    // The full clock wraps every 2.7 s.
    assigned(&mut perf, &[1], &[0x12, CLK, 0x00, CLK | 2, 0x19]);
    for steps in [
        &[30 * S][..],
        &[CLOCK_NS],
        &[7 * MS, 3_333_333 * CLOCK_NS, 12 * S],
    ] {
        perf.reset_units(&[1]).expect("assigned");
        let (head, counts) = count(&mut perf, machine, 1, steps);
        assert!(head.enabled_ns >= steps.iter().sum());
        assert_eq!((head.windows, head.state), (1, State::Assigned as u32));
        for count in counts {
            let is_full = count.code.0 & CLK != 0;
            let event = u64::from(count.code.0 & !CLK);
            let right = Dmc620::total(1, is_full, event, head.enabled_ns);
            // The model rounds at start and stop.
            assert!(count.value.abs_diff(right) <= 1, "{count:?}, not {right}");
            assert_eq!((count.running_ns, count.flags), (head.enabled_ns, 0));
        }
    }
    let times = perf.query_unit_times(1).expect("a unit");
    assert!(times.count > 300, "ticks come while it counts: {times:?}");
    drop(perf);
    unload_cleanly(dock);
}

#[test]
fn coresight_pmus_of_either_width_count_exactly() {
    let dock = docked(&[Kind::CsPmu, Kind::CsPmu64]);
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    assigned(&mut perf, &[0], &[7, 0xFFF, 7, 1, 2, 3]);
    assigned(&mut perf, &[1], &[7, EventCode::CYCLES.0, 0xFFF]);
    for unit in [0, 1] {
        // Counters of 32 bits wrap each second.
        let (head, counts) = count(&mut perf, machine, unit, &[9 * S, 3 * CLOCK_NS]);
        for count in counts {
            let is_cycles = count.code == EventCode::CYCLES;
            let event = Some(count.code.0).filter(|_| !is_cycles);
            let right = CoreSight::total(0, event, head.enabled_ns);
            assert!(count.value.abs_diff(right) <= 1, "{count:?}, not {right}");
        }
    }
    let too_many = perf.assign_units(&[0], &events(&[1; 7]), 0);
    assert_eq!(refusal(too_many), Refusal::GroupTooLarge);
    let no_cycles = perf.assign_units(&[0], &events(&[EventCode::CYCLES.0]), 0);
    assert_eq!(refusal(no_cycles), Refusal::UnsupportedEvent);
    drop(perf);
    unload_cleanly(dock);
}

#[test]
fn each_unit_has_a_holder_of_its_own() {
    let dock = docked(&[Kind::Dmc620, Kind::CsPmu]);
    let machine = dock.machine();
    let (mut a, mut b) = (perf(machine, OWNER), perf(machine, STRANGER));
    let [owner, stranger] = [OWNER, STRANGER].map(|id| u32::try_from(id).expect("small"));
    // Cores are somebody else's business.
    b.acquire(AcquireMode::NORMAL, &[0, 1, 2, 3]).expect("free");
    assigned(&mut a, &[0], &[0x12]);
    assigned(&mut b, &[1], &[5]);
    assert_eq!(machine.footprint().mappings, 2);
    let owners = a.query_unit_ownership().expect("always legal");
    let states: Vec<_> = owners.iter().map(|one| (one.holding, one.pid)).collect();
    assert_eq!(states, [(Holding::YOURS, owner), (Holding::BUSY, stranger)]);
    let busy = a.acquire_units(AcquireMode::NORMAL, &[0, 1]);
    let busy = busy.expect("an answer");
    assert_eq!(
        (busy.outcome, busy.core, busy.holder_pid),
        (AcquireOutcome::BUSY, 1, stranger)
    );
    assert_eq!(refusal(a.start_units(&[0, 1])), Refusal::NotOwner);
    a.start_units(&[0]).expect("assigned");
    b.start_units(&[1]).expect("assigned");
    machine.sleep_ns(10 * MS).expect("no rule broken");
    let (_, of_a) = a.read_unit(0).expect("counting");
    let (_, of_b) = b.read_unit(1).expect("counting");
    assert!(of_a[0].value >= 3_600_000 && of_b[0].value >= 60_000);
    // By force, in the middle of counting: the former holder is told once, and sees nothing.
    let forced = a.acquire_units(AcquireMode::FORCE, &[1]).expect("by force");
    assert_eq!(
        (forced.outcome, forced.holder_pid),
        (AcquireOutcome::FORCED, stranger)
    );
    assert_eq!(refusal(b.read_unit(1)), Refusal::ForcedOut);
    assert_eq!(refusal(b.read_unit(1)), Refusal::NotOwner);
    a.assign_units(&[1], &events(&[5]), 0).expect("held");
    let (_, counts) = a.read_unit(1).expect("assigned");
    assert_eq!(counts[0].value, 0, "nothing of the former run");
    assert_eq!(machine.footprint().mappings, 2);
    machine.close_all().expect("no rule broken");
    let mapped = machine.footprint().mappings;
    assert_eq!(mapped, 0, "handles that close give units back");
    unload_cleanly(dock);
}

#[test]
fn what_counted_before_a_reset_an_assignment_or_a_release_is_never_seen_again() {
    let dock = docked(&[Kind::CsPmu64, Kind::Dmc620]);
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    let mut generations = [Vec::new(), Vec::new()];
    for round in 0..4u64 {
        for (unit, generations) in (0u32..).zip(&mut generations) {
            assigned(&mut perf, &[unit], &[3]);
            let (head, counts) = count(&mut perf, machine, unit, &[(round + 1) * MS]);
            let right = match unit {
                0 => Dmc620::total(0, false, 3, head.enabled_ns),
                _ => CoreSight::total(0, Some(3), head.enabled_ns),
            };
            assert!(head.enabled_ns < (round + 2) * MS);
            let value = counts[0].value;
            assert!(value.abs_diff(right) <= 1, "{round}: {value}, not {right}");
            generations.push(head.generation);
            if round % 2 == 1 {
                perf.start_units(&[unit]).expect("assigned");
                machine.sleep_ns(S).expect("no rule broken");
            }
            perf.release_units(&[unit]).expect("held");
            assert_eq!(machine.footprint().mappings, 0);
        }
    }
    for own in generations {
        assert!(own.is_sorted_by(|a, b| a < b), "{own:?}");
    }
    drop(perf);
    unload_cleanly(dock);
}

#[test]
fn reading_in_the_middle_does_not_disturb_the_totals() {
    let dock = docked(&[Kind::Dmc620]);
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    assigned(&mut perf, &[0], &[0x12, CLK]);
    let steps = [1, 2, 3, 12_345, 10_000, 770_000, 30_000_000, 2].map(|ticks| ticks * CLOCK_NS);
    let (head, counts) = count(&mut perf, machine, 0, &steps);
    for (count, (is_full, event)) in counts.iter().zip([(false, 0x12), (true, 0)]) {
        let right = Dmc620::total(0, is_full, event, head.enabled_ns);
        assert!(count.value.abs_diff(right) <= 1, "{count:?}, not {right}");
    }
    drop(perf);
    unload_cleanly(dock);
}

const DEVICES: [&str; 6] = [
    "--pmu", "model", "--device", "dmc620", "--device", "cspmu64",
];

#[test]
fn wperf_counts_units_in_the_hosts_time() {
    let served = Served::start(&DEVICES);
    let ran = served.run(
        "stat -e /dmc_clkdiv2/rdwr,/dmc_clk/cycle_count,/cspmu_0/r7,/cspmu_0/cycle --timeout 300ms --json",
    );
    assert!(ran.status.success(), "{}", stderr(&ran));
    let document = json(&ran);
    assert_eq!(document["core"]["cores"], serde_json::json!([]));
    let rows = &document["dmc"]["pmu"]["PMU_Performance_Counters"];
    let value = |row: &serde_json::Value| row["counter_value"].as_f64().expect("a count");
    assert_eq!(rows[0]["pmu_id"], "0");
    assert_eq!(rows[0]["event_name"], "rdwr");
    // 360 and 1600 events each microsecond.
    let rate = value(&rows[1]) / value(&rows[0]);
    assert!((rate - 1600.0 / 360.0).abs() < 0.1, "{rate}");
    let elapsed_us = document["Time_elapsed"].as_f64().expect("a time") * 1e6;
    let counted_us = value(&rows[0]) / 360.0;
    assert!(
        (0.5..1.1).contains(&(counted_us / elapsed_us)),
        "{counted_us} of {elapsed_us} µs"
    );
    let rows = &document["cspmu"]["0"]["Performance_counter"];
    let rate = value(&rows[1]) / value(&rows[0]);
    assert!((rate - 2000.0 / 8.0).abs() < 0.5, "{rate}");
    served.end();
}

#[test]
fn a_timeline_without_gaps_adds_up_to_the_whole_run() {
    let served = Served::start(&DEVICES);
    let ran = served.run(&format!(
        "stat -e /dmc_clkdiv2/rdwr,/cspmu_0/cycle,cycle -c 1 --timeout 100ms -t --gapless -n 4 --json --cwd {}",
        served.folder().display()
    ));
    assert!(ran.status.success(), "{}", stderr(&ran));
    let document = json(&ran);
    let counts = document["timeline"].as_array().expect("counts");
    assert_eq!(counts.len(), 4);
    let mut sums = [0.0; 3];
    for count in counts {
        let rdwr = &count["dmc"]["pmu"]["PMU_Performance_Counters"][0]["counter_value"];
        let cycle = &count["cspmu"]["0"]["Performance_counter"][0]["counter_value"];
        let counted = [rdwr, cycle, &count["Time_elapsed"]];
        for (sum, value) in sums.iter_mut().zip(counted) {
            let value = value.as_f64().expect("a number");
            assert!(value > 0.0, "{count}");
            *sum += value;
        }
    }
    let [rdwr, cycle, elapsed_s] = sums;
    // 360 and 2000 events each microsecond: a part that is lost or counted twice would be a quarter.
    for counted_us in [rdwr / 360.0, cycle / 2000.0] {
        let share = counted_us / (elapsed_s * 1e6);
        assert!((0.85..1.1).contains(&share), "{share}: {document}");
    }
    served.end();
}

#[test]
fn two_programs_hold_different_units_at_once_and_the_holder_is_named() {
    let served = Served::start(&DEVICES);
    let mut command = served.wperf(["stat", "-e", "/dmc_clk/request", "--timeout", "60s"]);
    let mut other = command.stdout(Stdio::null()).spawn().expect("wperf runs");
    wait_until("it holds the controller", || {
        stdout(&served.run("status")).contains("busy")
    });
    let free = served.run("stat -e /cspmu_0/r1,cycle --timeout 10ms --json");
    assert!(free.status.success(), "{}", stderr(&free));
    let busy = served.run("stat -e /dmc_clkdiv2/rdwr --timeout 10ms");
    let said = stderr(&busy);
    assert_eq!(busy.status.code(), Some(3), "{said}");
    assert!(
        said.contains("other WindowsPerf process acquired")
            && said.contains("dmc_0 held by process"),
        "{said}"
    );
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    wait_until("it is given back", || {
        !stdout(&served.run("status")).contains("busy")
    });
    served.end();
}

#[test]
fn wperf_says_what_there_is_not_and_how_many_would_fit() {
    let served = Served::start(&["--pmu", "model", "--device", "dmc620"]);
    for (line, words) in [
        (
            "stat -e /dsu/l3d_cache --timeout 1ms",
            "the driver found no dsu device",
        ),
        (
            "stat -e /cspmu_0/r1 --timeout 1ms",
            "the driver found no cspmu_0 device",
        ),
        (
            "stat -e /dmc_clk/request --dmc 1 --timeout 1ms",
            "--dmc 1: the driver found 1 memory controller",
        ),
        (
            "stat -e /dmc_clk/0,/dmc_clk/1,/dmc_clk/2 --timeout 1ms",
            "/dmc_clk/: 3 events are more than the 2 that fit on dmc_0",
        ),
        (
            "stat -e /dmc_clk/nothing --timeout 1ms",
            "unknown event name: nothing",
        ),
    ] {
        let ran = served.run(line);
        let said = stderr(&ran);
        assert!(
            !ran.status.success() && said.contains(words),
            "{line}: {said}"
        );
    }
    served.end();
}
