//! The command lines as scripts use them: exit codes, shapes of the output, messages.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::served::{Served, json, stderr, stdout, wait_until, wperf};
use e2e::{driver_path, program, target_folder};
use lab_client::Client;
use lab_client::socket::SocketPath;
use serde_json::Value;

const FAILED: Option<i32> = Some(1);
const MALFORMED: Option<i32> = Some(3);
/// What drivers are linked with.
const FILE_ALIGNMENT: usize = 512;

fn drydock(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(program("drydock"));
    command.arg(words[0]).arg(file).args(&words[1..]);
    command.output().expect("drydock runs")
}

/// A message says in one line which file, and what is wrong with it.
fn assert_message(output: &Output, file: &Path, what: &str) {
    let text = stderr(output);
    assert!(text.contains(&file.display().to_string()), "{text}");
    assert!(text.contains(what), "no `{what}` in: {text}");
    assert!(!text.contains("panicked"), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert_eq!(stdout(output), "");
}

#[test]
fn what_is_no_driver_is_refused_with_what_and_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = std::fs::read(driver_path("wperf-driver")).expect("a driver");
    let mut bad_signature = driver.clone();
    bad_signature[0x80..0x100].fill(0xFF);
    let files: [(&str, &[u8]); 4] = [
        ("empty.sys", b""),
        (
            "text.sys",
            b"This is not a driver, but it is longer than a header.\n",
        ),
        ("mz.sys", b"MZ"),
        ("damaged.sys", &bad_signature),
    ];
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        for command in ["inspect", "run", "serve"] {
            let socket = folder.path().join("sock").display().to_string();
            let more: &[&str] = if command == "serve" {
                &["--socket", &socket]
            } else {
                &[]
            };
            let output = drydock(&[&[command], more].concat(), &path);
            assert_eq!(
                output.status.code(),
                MALFORMED,
                "{command} {name}: {}",
                stderr(&output)
            );
            assert_message(&output, &path, "");
        }
    }
}

#[test]
fn a_file_that_ends_anywhere_is_told_from_a_whole_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.sys");
    let whole = std::fs::read(driver_path("wperf-driver")).expect("a driver");
    // The last section is filled up to the alignment of the file: nothing of it is lost there.
    let end = whole.len() - FILE_ALIGNMENT;
    let in_headers = (0..1024).step_by(31);
    let in_sections = (1024..end).step_by(end / 40);
    for len in in_headers.chain(in_sections).chain([end]) {
        std::fs::write(&path, &whole[..len]).expect("a file");
        for command in ["inspect", "run"] {
            let output = drydock(&[command], &path);
            let text = stderr(&output);
            assert_eq!(
                output.status.code(),
                MALFORMED,
                "{command}, {len} bytes: {text}"
            );
            assert_message(&output, &path, "");
        }
    }
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("a file");
    let output = drydock(&["inspect"], &path);
    assert!(
        stdout(&output).contains("wrong"),
        "the checksum tells: {}",
        stdout(&output)
    );
}

#[test]
fn a_driver_for_another_processor_can_be_inspected_but_not_run() {
    let path = target_folder().join("drivers/aarch64/wperf-driver.sys");
    let inspected = drydock(&["inspect", "--json"], &path);
    assert_eq!(inspected.status.code(), Some(0), "{}", stderr(&inspected));
    let run = drydock(&["run"], &path);
    let text = stderr(&run);
    assert_eq!(run.status.code(), FAILED, "{text}");
    assert!(
        text.contains("Arm64") && !text.contains("panicked"),
        "{text}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let path = Path::new("/no/such/driver.sys");
    for command in ["inspect", "run", "serve"] {
        let output = drydock(&[command], path);
        assert_eq!(output.status.code(), FAILED);
        assert_message(&output, path, "No such file");
    }
}

#[test]
fn a_clean_driver_is_exit_code_0_with_a_verdict() {
    let output = drydock(&["run", "--json"], &driver_path("wperf-driver"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    for key in [
        "driver",
        "cycles",
        "completed",
        "seconds",
        "entry_status",
        "clean",
    ] {
        assert!(!report[key].is_null(), "{key}: {report}");
    }
    let findings = &report["verdict"]["findings"];
    assert_eq!(findings.as_array().map(Vec::len), Some(0));
    let table = drydock(&["run", "--cycles", "3"], &driver_path("wperf-driver"));
    assert!(
        stdout(&table).contains("3 of 3 load/unload cycles"),
        "{}",
        stdout(&table)
    );
}

#[test]
fn stat_prints_a_table_per_core_and_their_sum() {
    let served = Served::start(&["--pmu", "model"]);
    let output = served.run("stat -e instructions,branches -c 0,2 --timeout 50ms");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "Performance counter stats for core 0, no multiplexing, kernel mode excluded, on GenuineIntel",
        "Performance counter stats for core 2, no multiplexing, kernel mode excluded, on GenuineIntel",
        "counter value  event name",
        "event idx",
        "event note",
        "instructions",
        "0xc4",
        "System-wide Overall:",
        "seconds time elapsed",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    served.end();
}

#[test]
fn stat_prints_the_documented_json_with_the_models_counts() {
    let served = Served::start(&["--pmu", "model"]);
    let output = served.run("stat -e instructions,branches -m ipc -c 1 --timeout 200ms --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = json(&output);
    let core = &document["core"];
    assert_eq!(
        (&core["Multiplexing"], &core["Kernel_mode"]),
        (&Value::from(false), &Value::from(false))
    );
    assert_eq!(core["cores"][0]["core_number"], 1);
    let rows = core["cores"][0]["Performance_counter"]
        .as_array()
        .expect("rows");
    let keys: Vec<&str> = ["counter_value", "event_name", "event_idx", "event_note"].into();
    for row in rows {
        let row = row.as_object().expect("an object");
        assert_eq!(row.keys().map(String::as_str).collect::<Vec<_>>(), keys);
    }
    let value = |name: &str| {
        let row = rows.iter().find(|row| row["event_name"] == name);
        let value = row.and_then(|row| row["counter_value"].as_f64());
        value.unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    // Six instructions per nanosecond, three quarters of them in user mode, one per cent faster.
    let elapsed = document["Time_elapsed"].as_f64().expect("seconds");
    assert!((0.2..1.0).contains(&elapsed), "{elapsed} s");
    let right = elapsed * 1e9 * 6.0 * 0.75 * 1.01;
    assert!(
        (value("instructions") / right - 1.0).abs() < 0.05,
        "{document}"
    );
    assert!(
        (value("instructions") / value("branches") - 5.0).abs() < 0.01,
        "{document}"
    );
    let metric = &core["ts_metric"]["Telemetry_Solution_Metrics"][0];
    assert_eq!(
        (&metric["metric_name"], &metric["value"]),
        (&"ipc".into(), &"2.000".into())
    );
    for key in ["dsu", "dmc", "Time_elapsed"] {
        assert!(!document[key].is_null(), "{key}");
    }
    served.end();
}

#[test]
fn a_multiplexed_count_says_so_and_scales() {
    let served = Served::start(&["--pmu", "model"]);
    let line = "stat -e branches,branch-misses,llc-misses,llc-references,r1a4,rc4,rc5 -c 0 --timeout 600ms --json";
    let output = served.run(line);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(document["core"]["Multiplexing"], true);
    let rows = document["core"]["cores"][0]["Performance_counter"]
        .as_array()
        .expect("rows")
        .clone();
    let of = |name: &str| {
        rows.iter()
            .find(|row| row["event_name"] == name)
            .expect("a row")
            .clone()
    };
    assert!(
        of("branches")["multiplexed"]
            .as_str()
            .is_some_and(|text| text.contains('/'))
    );
    let scaled = |row: &Value| row["scaled_value"].as_f64().expect("a number");
    let elapsed = document["Time_elapsed"].as_f64().expect("seconds");
    let right = elapsed * 1e9 * 1.2 * 0.75;
    assert!(
        (scaled(&of("branches")) / right - 1.0).abs() < 0.1,
        "{document}"
    );
    served.end();
}

#[test]
fn a_timeline_is_written_row_by_row_as_csv() {
    let served = Served::start(&["--pmu", "model"]);
    let output = served.run(
        "stat -e instructions -c 0,1 -t -i 1ms -n 3 --timeout 10ms --output-csv t_{class}.csv",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(served.folder().join("t_core.csv")).expect("the file");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..2], ["Multiplexing,FALSE", "Kernel mode,FALSE"]);
    assert!(
        lines[3].starts_with("Vendor,") && lines[4] == "Event class,core",
        "{text}"
    );
    assert_eq!(lines[6], "core 0,core 0,core 1,core 1,");
    assert_eq!(lines[7], "cycle,instructions,cycle,instructions,");
    let rows: Vec<Vec<u64>> = lines[8..]
        .iter()
        .map(|row| {
            row.split_terminator(',')
                .map(|cell| cell.parse().expect("a number"))
                .collect()
        })
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
    for row in &rows {
        assert_eq!(row.len(), 4);
        // Each count begins from zero: ten milliseconds and what starting and stopping takes.
        assert!((40_000_000..2_000_000_000).contains(&row[1]), "{text}");
    }
    served.end();
}

#[test]
fn wperf_docks_the_driver_by_itself_and_the_dock_goes_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = SocketPath::Given(folder.path().join("dock.sock"));
    for driver in [
        vec![],
        vec![
            "--driver".into(),
            driver_path("wperf-driver").into_os_string(),
        ],
    ] {
        let mut command = wperf(folder.path(), ["status", "--json"]);
        let output = command.args(driver).output().expect("wperf runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(json(&output)["Ownership"][0]["state"], "idle");
        wait_until("the dock has ended", || Client::connect(&socket).is_err());
        let log = std::fs::read_to_string(folder.path().join("dock.log")).expect("the dock's log");
        wait_until("the dock is judged", || {
            std::fs::read_to_string(folder.path().join("dock.log"))
                .is_ok_and(|log| log.contains("requests;"))
        });
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[test]
fn processes_that_start_at_the_same_time_share_one_dock() {
    let folder = tempfile::tempdir().expect("a folder");
    let spawn = || {
        let mut command = wperf(folder.path(), ["status", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("wperf runs")
    };
    let all: Vec<_> = (0..6).map(|_| spawn()).collect();
    for child in all {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn how_the_program_ended_is_printed_and_not_returned() {
    let served = Served::start(&["--pmu", "auto"]);
    for (script, ended) in [
        ("exit 7", "program ended with exit code 7"),
        ("kill -9 $$", "program ended by signal: 9"),
    ] {
        let words = ["stat", "-e", "cycle", "--", "sh", "-c", script];
        let output = served.wperf(words).output().expect("wperf runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(ended), "{}", stdout(&output));
    }
    served.end();
}

/// User and system time of the shell's children and itself, as `times` of POSIX prints it.
fn cpu_seconds(times: &str) -> f64 {
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    times.split_whitespace().filter_map(seconds).sum()
}

#[test]
fn stat_measures_a_real_process_through_the_driver() {
    let served = Served::start(&["--pmu", "auto"]);
    let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; times";
    let counts_processes = lab_dock::host_can_count();
    let event = if counts_processes {
        "task-clock-ns"
    } else {
        "elapsed-ns"
    };
    let mut command = served.wperf(["stat", "-e", event, "-k", "--json", "--", "sh", "-c", work]);
    let output = command.output().expect("wperf runs");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let document = json(&output);
    let rows = document["core"]["cores"][0]["Performance_counter"]
        .as_array()
        .expect("rows");
    let row = rows
        .iter()
        .find(|row| row["event_name"] == event)
        .expect("a row");
    #[expect(clippy::cast_precision_loss, reason = "a second at most")]
    let counted = row["counter_value"].as_u64().expect("a count") as f64 / 1e9;
    let used = cpu_seconds(&text);
    assert!(used > 0.05, "the program had something to do: {text}");
    let elapsed = document["Time_elapsed"].as_f64().expect("seconds");
    let (least, most) = if counts_processes {
        // What `times` does not see: the start and the end of the process.
        (used * 0.9 - 0.02, used * 1.1 + 0.05)
    } else {
        (elapsed * 0.9, elapsed * 1.1)
    };
    assert!(
        (least..most).contains(&counted),
        "{counted} s of {used} s, {elapsed} s elapsed"
    );
    served.end();
}
