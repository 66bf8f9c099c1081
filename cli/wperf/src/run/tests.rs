//! Whole runs against the fake driver.

mod programs;
#[cfg(unix)]
mod sampling;
mod uncore;

use crate::{
    command::World,
    device::{
        DeviceError, DriverOptions, Opened,
        fake::{FakeDriver, SINCE},
    },
    exit::Outcome,
    options::Compat,
    ownership::since_text,
    session::{Session, Take},
    wait::Interrupt,
};
use jiff::tz::TimeZone;
use serde_json::Value;
use std::{ffi::OsString, path::PathBuf, sync::mpsc};
use wperf_abi::State;

/// What a run left behind.
struct Ran {
    outcome: Outcome,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        assert_eq!(self.outcome, Outcome::Success, "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

/// Runs a line as process 7.
fn run_on(driver: &FakeDriver, line: &str) -> Ran {
    let open = |_: &DriverOptions| Ok(driver.open(7));
    let open_running = || Ok(Some(driver.open(7)));
    run_in(&open, &open_running, PathBuf::new(), line)
}

fn run_without_driver(line: &str) -> Ran {
    let open = |_: &DriverOptions| Err(DeviceError::NoDriver("None.".into()));
    run_in(&open, &|| Ok(None), PathBuf::new(), line)
}

fn run_in(
    open: &dyn Fn(&DriverOptions) -> Result<Opened, DeviceError>,
    open_running: &dyn Fn() -> Result<Option<Opened>, DeviceError>,
    launcher: PathBuf,
    line: &str,
) -> Ran {
    let (_keep, interrupts) = mpsc::channel::<Interrupt>();
    let world = World {
        open,
        open_running,
        interrupts,
        launcher,
    };
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = super::run(&words, Compat::Off, &world, &mut out, &mut err);
    Ran {
        outcome,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// The output without the measured time, which differs from run to run.
fn timeless(out: &str) -> String {
    out.lines()
        .filter(|line| !line.contains("seconds time elapsed"))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn stat_prints_a_table_and_gives_the_cores_back() {
    let driver = FakeDriver::arm(4, 6);
    let ran = run_on(
        &driver,
        "stat -e inst_spec,{ld_spec,st_spec} -c 1 --timeout 10ms",
    );
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    insta::assert_snapshot!(timeless(&ran.out));
    assert!(ran.out.contains(" seconds time elapsed\n"));
    assert_eq!(driver.state(1), State::Free);
}

#[test]
fn every_row_is_a_number_two_blanks_and_the_name() {
    let ran = run_on(
        &FakeDriver::arm(2, 6),
        "stat -e inst_spec,vfp_spec sleep 1ms",
    );
    for name in ["cycle", "inst_spec", "vfp_spec"] {
        let has_row = ran.out.lines().any(|line| {
            let Some((number, rest)) = line.trim_start().split_once("  ") else {
                return false;
            };
            let is_number = number.chars().all(|c| c.is_ascii_digit() || c == ',');
            is_number && !number.is_empty() && rest.starts_with(&format!("{name} "))
        });
        assert!(has_row, "{name}:\n{}", ran.out);
    }
}

#[test]
fn stat_json_has_the_documents_form() {
    let line = "stat -e inst_spec -m branch_mpki -c 0,2 --timeout 1ms --json";
    let mut document = run_on(&FakeDriver::arm(4, 2), line).json();
    assert!(document["Time_elapsed"].is_f64());
    document["Time_elapsed"] = 0.into();
    insta::assert_json_snapshot!(document);
}

#[test]
fn more_events_than_counters_are_multiplexed_and_scaled() {
    let line = "stat -e ld_spec,st_spec,vfp_spec,ase_spec -c 0 --timeout 1ms --json";
    let document = run_on(&FakeDriver::arm(1, 2), line).json();
    assert_eq!(document["core"]["Multiplexing"], true);
    let row = &document["core"]["cores"][0]["Performance_counter"][1];
    assert_eq!(row["multiplexed"], "500/1000");
    assert_eq!(row["counter_value"], 0x70 * 500_000);
    assert_eq!(row["scaled_value"], 0x70 * 1_000_000);
}

#[test]
fn a_busy_pmu_names_its_holder_and_has_an_exit_code_of_its_own() {
    let driver = FakeDriver::arm(4, 6);
    let mut other = driver.open(std::process::id());
    let held = Session::acquire(&mut other.client, &[1, 2], Take::Free).unwrap();
    for line in ["stat -e inst_spec --timeout 1ms", "lock --timeout 1ms"] {
        let ran = run_on(&driver, line);
        assert_eq!(ran.outcome, Outcome::Busy);
        let lines: Vec<&str> = ran.err.lines().collect();
        assert_eq!(
            lines[0],
            "warning: other WindowsPerf process acquired the wperf-driver."
        );
        let holder = format!("cores 1-2 held by process {}", std::process::id());
        let since = since_text(SINCE, &TimeZone::system());
        assert!(lines[1].starts_with(&holder), "{}", lines[1]);
        assert!(lines[1].ends_with(&since), "{}", lines[1]);
        assert_eq!(lines[2], "Operation cancelled!");
        assert!(ran.out.is_empty());
    }
    let ran = run_on(&driver, "stat -e inst_spec -c 0,3 --timeout 1ms");
    assert_eq!(ran.outcome, Outcome::Success, "other cores are free");
    drop(held);
}

#[test]
fn a_forced_take_over_tells_the_former_owner() {
    let driver = FakeDriver::arm(1, 6);
    let mut other = driver.open(1);
    let mut former = Session::acquire(&mut other.client, &[0], Take::Free).unwrap();
    let ran = run_on(&driver, "stat -e inst_spec --timeout 1ms --force-lock");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    let failure = former.check_still_ours().unwrap_err();
    assert_eq!(failure.outcome, Outcome::ForcedOut);
    let failure = former.start().unwrap_err();
    assert_eq!(failure.outcome, Outcome::ForcedOut);
    assert!(failure.message.starts_with(
        "warning: other WindowsPerf process hijacked (forced lock) the wperf-driver, see --force-lock."
    ));
}

#[test]
fn what_cannot_be_planned_takes_nothing() {
    let driver = FakeDriver::arm(1, 5);
    for (line, message) in [
        ("stat -e nonsense", "unknown event name: nonsense"),
        ("stat -m nonsense", "unknown metric name: nonsense"),
        (
            "stat -m imix --force-lock",
            "metric imix needs 6 counters at the same time, but only 5 of the PMU's 6 are free now",
        ),
        (
            "stat -e ld_spec -c 3",
            "core index 3 not allowed. Use 0-0, see option -c <n>",
        ),
        (
            "stat -e /dsu/l3d_cache",
            "event 'l3d_cache': the driver found no dsu device",
        ),
        (
            "stat -e ld_spec --dmc 0",
            "--dmc 0: the driver found no memory controller",
        ),
        (
            "stat -e ld_spec --config count.period=5",
            "--config count.period=5: the period is 10 to 100 ms",
        ),
        (
            "stat -e ld_spec -c 0 -- /no/such/program",
            "there is no program /no/such/program",
        ),
    ] {
        let ran = run_on(&driver, line);
        assert_eq!(
            (ran.outcome, ran.err.trim_end()),
            (Outcome::Failure, message),
            "{line}"
        );
        assert_eq!(driver.state(0), State::Free, "{line}");
    }
    let ran = run_on(&driver, "stat");
    assert_eq!(
        (ran.outcome, ran.err.trim_end()),
        (Outcome::Usage, "no event specified")
    );
}

#[test]
fn an_event_the_pmu_does_not_have_is_named() {
    let ran = run_on(
        &FakeDriver::x86(1, 4),
        "stat -e instructions,rDEAD --timeout 1ms",
    );
    assert_eq!(ran.outcome, Outcome::Failure);
    insta::assert_snapshot!(ran.err.trim_end(), @"the PMU of a core does not have all of these events: rdead");
}

#[test]
fn without_free_counters_fixed_events_are_counted_and_the_rest_is_named() {
    let line = "stat -e instructions,llc-misses --timeout 1ms";
    let ran = run_on(&FakeDriver::x86(1, 0), line);
    assert_eq!(ran.outcome, Outcome::Success);
    insta::assert_snapshot!(ran.err.trim_end(), @"warning: core 0 has no free counter for: llc-misses");
    assert!(ran.out.contains("  instructions"));
    assert!(!ran.out.contains("  llc-misses"));
}

#[test]
fn a_timeline_writes_a_csv_file_and_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "stat -e inst_spec -c 0 --timeout 1ms -t -i 0 -n 3 --json --output-csv t.csv --cwd {}",
        folder.path().display()
    );
    let document = run_on(&FakeDriver::arm(1, 6), &line).json();
    assert_eq!(document["count_timeline"], 3);
    assert_eq!(document["timeline"].as_array().unwrap().len(), 3);
    assert_eq!(
        document["timeline"][2]["core"]["cores"][0]["core_number"],
        0
    );
    let csv = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
    insta::assert_snapshot!(csv);
}

#[test]
fn a_timeline_without_gaps_reads_counters_that_run_on() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "stat -e inst_spec -c 0 --timeout 5ms -t --gapless -n 3 --json --output-csv t.csv --cwd {}",
        folder.path().display()
    );
    let driver = FakeDriver::arm(1, 6);
    let document = run_on(&driver, &line).json();
    assert_eq!(document["count_interval"], 0.0);
    let counts = document["timeline"].as_array().unwrap();
    let values: Vec<&Value> = counts
        .iter()
        .map(|count| &count["core"]["cores"][0]["Performance_counter"][1]["counter_value"])
        .collect();
    assert_eq!(
        values,
        [0x1B * 1_000_000; 3],
        "each its own part, of one run"
    );
    assert_eq!(driver.starts(), 1);
    for (line, message) in [
        ("stat -e a --gapless", "--gapless needs -t and --timeout"),
        (
            "stat -e a --gapless -t --timeout 1 -i 1",
            "--gapless and -i contradict each other: there is no pause",
        ),
    ] {
        let ran = run_on(&driver, line);
        assert_eq!((ran.outcome, ran.err.trim_end()), (Outcome::Usage, message));
    }
}

#[test]
fn settings_named_without_a_value_are_printed() {
    let line = "test --config count.period_min --config count.period=20 --config count.period";
    let ran = run_on(&FakeDriver::arm(1, 6), line);
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert!(
        ran.out
            .starts_with("count.period_min = 10\ncount.period = 20\n"),
        "{}",
        ran.out
    );
    let ran = run_on(&FakeDriver::arm(1, 6), "test --config nonsense");
    assert_eq!(ran.outcome, Outcome::Usage);
}

#[test]
fn json_goes_to_a_file_beside_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "stat -e inst_spec -c 0 --timeout 1ms -o o.json --output-prefix {}",
        folder.path().display()
    );
    let ran = run_on(&FakeDriver::arm(1, 6), &line);
    assert!(ran.out.contains("Performance counter stats for core 0"));
    let text = std::fs::read_to_string(folder.path().join("o.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(document["core"].is_object());
}

#[test]
fn lock_holds_and_gives_back_and_status_shows_it() {
    let driver = FakeDriver::arm(2, 6);
    let ran = run_on(&driver, "lock -c 1 --timeout 1ms");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert_eq!(
        ran.out,
        "core 1 acquired, held for 0.001 s\ncore 1 released\n"
    );
    let mut other = driver.open(1);
    let _held = Session::acquire(&mut other.client, &[1], Take::Free).unwrap();
    for line in ["status --json", "lock --status --json"] {
        let document = run_on(&driver, line).json();
        assert_eq!(document["Ownership"][0]["state"], "idle");
        assert_eq!(document["Ownership"][1]["state"], "busy");
        let holder = document["Ownership"][1]["holder"].as_str().unwrap();
        assert!(holder.starts_with("process 1"));
    }
}

#[test]
fn test_shows_the_configuration_and_the_schedule() {
    let ran = run_on(&FakeDriver::arm(2, 3), "test -e {crypto_spec,vfp_spec}");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    insta::assert_snapshot!(ran.out);
    let document = run_on(&FakeDriver::x86(1, 4), "test --json").json();
    for row in document["Test_Results"].as_array().unwrap() {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["Test_Name", "Result"]);
        assert!(row["Result"].is_string());
    }
}

#[test]
fn version_and_detect_name_the_driver() {
    let driver = FakeDriver::arm(2, 3);
    let document = run_on(&driver, "--version --json").json();
    let rows = document["Version"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["Component"], "wperf-driver");
    assert_eq!(rows[1]["GitVer"], "fake");
    let document = run_on(&driver, "detect --json").json();
    assert_eq!(
        document["Devices"][0]["Device_Instance_ID"],
        r"\\.\WperfDriver (fake driver)"
    );
}

#[test]
fn questions_that_need_no_driver_are_answered_without() {
    for line in [
        "",
        "--help",
        "list",
        "-l",
        "man armv8-a/ld_spec",
        "--version",
    ] {
        let ran = run_without_driver(line);
        assert_eq!(ran.outcome, Outcome::Success, "{line}: {}", ran.err);
        assert!(!ran.out.is_empty());
    }
    for line in ["stat -e cycle", "test", "detect", "lock", "status"] {
        let ran = run_without_driver(line);
        assert_eq!(ran.outcome, Outcome::Failure, "{line}");
        assert!(
            ran.err
                .starts_with("No active device interfaces found. Is the driver loaded?")
        );
    }
}

#[test]
fn list_json_has_closed_rows_unless_verbose() {
    let keys = |value: &Value| {
        let object = value.as_object().unwrap();
        object.keys().cloned().collect::<Vec<String>>().join(" ")
    };
    let list = run_on(&FakeDriver::arm(1, 6), "list --json -E mine:1234").json();
    assert_eq!(
        keys(&list),
        "Predefined_Events Predefined_Metrics Predefined_Groups_of_Metrics"
    );
    assert_eq!(list["Predefined_Events"][0]["Alias_Name"], "mine");
    assert_eq!(
        list["Predefined_Events"][0]["Event_Type"],
        "[core PMU event*]"
    );
    assert_eq!(
        keys(&list["Predefined_Events"][1]),
        "Alias_Name Raw_Index Event_Type"
    );
    assert_eq!(keys(&list["Predefined_Metrics"][0]), "Metric Events");
    assert_eq!(
        keys(&list["Predefined_Groups_of_Metrics"][0]),
        "Group Metrics"
    );
    let list = run_on(&FakeDriver::arm(1, 6), "list --json -v").json();
    assert_eq!(
        keys(&list["Predefined_Metrics"][0]),
        "Metric Events Formula Unit"
    );
}

#[test]
fn man_describes_events_metrics_and_groups() {
    let man = |line: &str| run_without_driver(line);
    insta::assert_snapshot!("man_ld_spec", man("man neoverse-n1/ld_spec").out);
    insta::assert_snapshot!("man_branch_mpki", man("man neoverse-n1/branch_mpki").out);
    insta::assert_snapshot!(
        "man_operation_mix",
        man("man neoverse-n1/Operation_Mix").out
    );
    let failed = man("man neoverse-n1/nonsense");
    assert_eq!(failed.outcome, Outcome::Failure);
    assert!(
        failed
            .err
            .starts_with("warning: \"nonsense\" not found! Ensure it is compatible")
    );
    assert!(
        man("man z80/x")
            .err
            .starts_with("warning: CPU name: \"z80\" not found, use ")
    );
    assert!(
        man("man")
            .err
            .starts_with("warning: no argument(s) specified, specify an")
    );
    for line in man("man neoverse-v3/Operation_Mix").out.lines() {
        assert!(line.chars().count() <= 81, "{line}");
    }
}
