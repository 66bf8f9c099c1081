//! Runs that count on uncore units.

use super::*;
use serde_json::json;
use wperf_abi::{
    MAX_CORES,
    record::{AcquireMode, UnitConfig, UnitKind, UnitOf},
};

fn unit(kind: UnitKind, unit: u32, number: u32, counters_total: [u16; 2]) -> UnitConfig {
    let word = match kind {
        UnitKind::DSU => "dsu",
        UnitKind::DMC_620 => "dmc",
        _ => "cspmu",
    };
    let text = format!("{word}_{number}");
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    let mut cores = [0; MAX_CORES / 64];
    if kind == UnitKind::DSU {
        cores[0] = 0b11 << (2 * number);
    }
    UnitConfig {
        unit,
        kind,
        number,
        of: UnitOf::MEMORY_CONTROLLER,
        name,
        counters_total,
        counters_free: counters_total,
        fixed_counters: u16::from(kind != UnitKind::DMC_620),
        counter_bits: 32,
        fixed_bits: 64,
        reserved: 0,
        identification: 0x43B,
        instance: 0,
        cores,
    }
}

/// Two clusters of two cores, two memory controllers, a CoreSight PMU.
fn driver() -> FakeDriver {
    FakeDriver::arm(4, 6).with_units(&[
        unit(UnitKind::DSU, 0, 0, [6, 0]),
        unit(UnitKind::DSU, 1, 1, [6, 0]),
        unit(UnitKind::DMC_620, 2, 0, [8, 2]),
        unit(UnitKind::DMC_620, 3, 1, [8, 2]),
        unit(UnitKind::CORESIGHT, 4, 0, [4, 0]),
    ])
}

#[test]
fn units_are_counted_without_taking_a_core() {
    let driver = driver();
    let mut other = driver.open(std::process::id());
    let cores = [0, 1, 2, 3];
    let _held = Session::acquire(&mut other.client, &cores, Take::Free).unwrap();
    let line = "stat -e /dmc_clkdiv2/rdwr,/dmc_clk/request --timeout 1ms --json";
    let document = run_on(&driver, line).json();
    assert_eq!(document["core"]["cores"], json!([]));
    let row = |id: &str, value: u64, name: &str, index: &str| {
        json!({
            "pmu_id": id, "counter_value": value, "event_name": name, "event_idx": index,
            "event_note": "e",
        })
    };
    // The fake counts a million times the code, and the number of the unit.
    let (rdwr, request) = (0x12_u64 * 1_000_000, 0x101_u64 * 1_000_000);
    assert_eq!(
        document["dmc"]["pmu"]["PMU_Performance_Counters"],
        json!([
            row("0", rdwr + 2, "rdwr", "0x12"),
            row("0", request + 2, "/dmc_clk/request", "0x1"),
            row("1", rdwr + 3, "rdwr", "0x12"),
            row("1", request + 3, "/dmc_clk/request", "0x1"),
            row("overall", 2 * rdwr + 5, "rdwr", "0x12"),
            row("overall", 2 * request + 5, "/dmc_clk/request", "0x1"),
        ])
    );
    let one = run_on(&driver, &format!("{line} --dmc 1")).json();
    let rows = &one["dmc"]["pmu"]["PMU_Performance_Counters"];
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
    assert_eq!(rows[0]["pmu_id"], "1");
}

#[test]
fn metrics_of_units_are_computed() {
    let document = run_on(&driver(), "stat -m l3_cache,ddr_bw --timeout 1ms --json").json();
    let accesses = 0x2B * 1_000_000;
    assert_eq!(
        document["dsu"]["l3metric"]["L3_Cache_Metrics"][0],
        json!({
            "cluster": "0", "cores": "0-1",
            "read_bandwidth": format!("{:.2} MB", f64::from(accesses) * 64.0 / 1_048_576.0),
            "miss_rate": "97.67%",
        })
    );
    assert_eq!(
        document["dmc"]["ddr"]["DDR_Metrics"][0],
        json!({ "channel": "0", "rw_bandwidth": "2304.00 MB" })
    );
    let counters = &document["dsu"]["1"]["Performance_counter"];
    assert_eq!(counters[0]["counter_value"], accesses + 1);
    assert_eq!(counters[0]["event_note"], "e,l3_cache");
}

#[test]
fn units_and_cores_are_counted_together_in_tables() {
    let line = "stat -e inst_spec,/cspmu_0/r7,/cspmu_0/cycle -c 1 --timeout 1ms";
    let ran = run_on(&driver(), line);
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let words = words.join(" ");
    for expected in [
        "Performance counter stats for core 1,",
        "Performance counter stats for cspmu_0, no multiplexing, CoreSight PMU of a memory controller:",
        "7,000,004 r7 0x7 e",
        "cycle fixed e",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_timeline_without_gaps_has_each_units_own_part() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "stat -e inst_spec,/cspmu_0/r7 -c 1 --timeout 5ms -t --gapless -n 3 --json --output-csv t.csv --cwd {}",
        folder.path().display()
    );
    let ran = run_on(&driver(), &line);
    let document = ran.json();
    assert!(ran.err.contains("not in the CSV file"), "{}", ran.err);
    let counts = document["timeline"].as_array().unwrap();
    let values: Vec<_> = counts
        .iter()
        .map(|count| {
            let core = &count["core"]["cores"][0]["Performance_counter"][1];
            let unit = &count["cspmu"]["0"]["Performance_counter"][0];
            [core, unit].map(|row| row["counter_value"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(values, [[27_000_001, 7_000_004]; 3]);
    assert!(folder.path().join("t.csv").exists());
}

#[test]
fn a_timeline_of_units_alone_has_no_csv_file() {
    for more in ["--gapless", "-i 1ms"] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "stat -e /cspmu_0/r7 --timeout 1ms -t -n 2 {more} --json --cwd {}",
            folder.path().display()
        );
        let document = run_on(&driver(), &line).json();
        for count in document["timeline"].as_array().unwrap() {
            let row = &count["cspmu"]["0"]["Performance_counter"][0];
            assert_eq!(row["counter_value"], 7_000_004, "{more}");
        }
        assert_eq!(document["count_timeline"], 2);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{more}");
    }
}

#[test]
fn what_counting_took_is_said_of_what_was_counted() {
    let of_cores = "percent of the cores' time taken by the driver's own routines";
    let of_units = "percent of one processor's time taken by looking at units";
    for (events, says) in [
        ("inst_spec", [true, false]),
        ("/cspmu_0/r7", [false, true]),
        ("inst_spec,/cspmu_0/r7", [true, true]),
    ] {
        let out = run_on(&driver(), &format!("stat -e {events} --timeout 1ms")).out;
        let said = [of_cores, of_units].map(|words| out.contains(words));
        assert_eq!(said, says, "{events}: {out}");
    }
}

#[test]
fn units_do_not_sample() {
    for (line, words) in [
        (
            "sample -e /dsu/l3d_cache:10000 --timeout 1ms",
            "/dsu/l3d_cache: uncore units do not sample",
        ),
        (
            "sample -e ld_spec:10000 --dmc 0 --timeout 1ms",
            "--dmc 0: uncore units do not sample",
        ),
    ] {
        let ran = run_on(&driver(), line);
        assert_ne!(ran.outcome, Outcome::Success);
        assert!(ran.err.contains(words), "{line}: {}", ran.err);
    }
}

#[test]
fn a_unit_of_another_is_named_and_others_can_be_had() {
    let driver = driver();
    let mut other = driver.open(std::process::id());
    let taken = other.client.acquire_units(AcquireMode::NORMAL, &[3]);
    taken.unwrap();
    let ran = run_on(&driver, "stat -e /dmc_clk/request --timeout 1ms");
    assert_eq!(ran.outcome, Outcome::Busy);
    let lines: Vec<&str> = ran.err.lines().collect();
    let holder = format!("dmc_1 held by process {}", std::process::id());
    assert!(lines[1].starts_with(&holder), "{}", lines[1]);
    let ran = run_on(&driver, "stat -e /dmc_clk/request --dmc 0 --timeout 1ms");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    let status = run_on(&driver, "status").out;
    let line = status.lines().find(|line| line.contains("dmc_1")).unwrap();
    assert!(line.contains("busy"), "{line}");
}

#[test]
fn what_does_not_fit_or_is_not_there_is_said() {
    for (line, words) in [
        (
            "stat -e /dsu/1,/dsu/2,/dsu/3,/dsu/4,/dsu/5,/dsu/6,/dsu/7",
            "/dsu/: 7 events are more than the 6 that fit on dsu_0",
        ),
        (
            "stat -e /dmc_clk/0,/dmc_clk/1,/dmc_clk/2",
            "/dmc_clk/: 3 events are more than the 2 that fit on dmc_0",
        ),
        ("stat -e /cspmu_1/r1", "the driver found no cspmu_1 device"),
        ("stat -e /dsu/nothing", "unknown event name: nothing"),
        (
            "stat -e /dmc_clk/0 --dmc 2",
            "--dmc 2: the driver found 2 memory controllers",
        ),
        (
            "stat -e /cspmu_0/cycle,/cspmu_0/cycle",
            "cspmu_0 has 1 cycle counters",
        ),
    ] {
        let ran = run_on(&driver(), &format!("{line} --timeout 1ms"));
        assert_ne!(ran.outcome, Outcome::Success);
        assert!(ran.err.contains(words), "{line}: {}", ran.err);
    }
}

#[test]
fn list_test_and_detect_show_the_units() {
    let driver = driver();
    let list = run_on(&driver, "list").out;
    for words in [
        "/dsu/l3d_cache",
        "[dmc_clkdiv2 PMU event]",
        "/cspmu_0/cycle",
        "ddr_bw",
    ] {
        assert!(list.contains(words), "{words}");
    }
    let without = run_on(&FakeDriver::arm(2, 6), "list").out;
    assert!(!without.contains("/dsu/"));
    let test = run_on(&driver, "test").out;
    for words in [
        "core.stat=core;dsu.stat=dsu;dmc.stat=dmc_clk,dmc_clkdiv2",
        "gpc_nums[EVT_DMC_CLK]",
        "unit[cspmu_0]",
    ] {
        assert!(test.contains(words), "{words}: {test}");
    }
    let none = run_on(&FakeDriver::arm(2, 6), "test").out;
    assert!(none.contains("the driver found no uncore unit"));
    let detect = run_on(&driver, "detect").out;
    assert!(
        detect.contains("DynamIQ Shared Unit of cores 0-1"),
        "{detect}"
    );
}
