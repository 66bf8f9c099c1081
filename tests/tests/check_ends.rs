//! How `drydock check` begins and ends: refused before anything is run, or interrupted.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use e2e::served::{json, stderr, stdout};
use e2e::{driver_path, program};

fn check(folder: &Path, driver: &str, options: &[&str]) -> Command {
    let mut command = Command::new(program("drydock"));
    let driver = driver_path(driver).canonicalize().expect("it is built");
    command.arg("check").arg(driver).args(options);
    command.current_dir(folder);
    command
}

/// Starts a check, sends a signal to all of its process group after a while, and waits.
fn interrupted(folder: &Path, driver: &str, signal: &str, options: &[&str]) -> (Output, Duration) {
    let mut command = check(folder, driver, options);
    command.process_group(0).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(4));
    let group = format!("-{}", child.id());
    let sent = Instant::now();
    let kill = Command::new("kill")
        .args(["-s", signal, "--", &group])
        .status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    (output, sent.elapsed())
}

#[test]
fn an_interrupted_check_says_what_it_has_found_in_every_report() {
    for (driver, signal, code, verdict) in [
        ("faulty-driver", "INT", 1, "findings"),
        ("wperf-driver", "TERM", 0, "clean"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let words = [
            "--stress", "10m", "--json", "--junit", "r.xml", "--sarif", "r.sarif", "--html",
            "r.html",
        ];
        let (output, took) = interrupted(folder.path(), driver, signal, &words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{driver}: {said}");
        assert!(took < Duration::from_secs(20), "{driver}: {took:?}");
        let report = json(&output);
        assert_eq!(report["verdict"], verdict, "{driver}");
        assert!(report["warnings"].to_string().contains("interrupted"));
        assert!(report["cases"].as_u64() > Some(0));
        let findings = report["findings"].to_string();
        assert!(!findings.contains("signal 2") && !findings.contains("was interrupted"));
        for name in ["r.xml", "r.sarif", "r.html"] {
            let file = std::fs::metadata(folder.path().join(name)).expect("it was written");
            assert!(file.len() > 0, "{name}");
        }
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for option in ["--junit", "--sarif", "--html"] {
        for path in ["no/such/folder/r", "."] {
            let words = ["--quick", option, path];
            let output = check(folder.path(), "faulty-driver", &words).output();
            let output = output.expect("drydock runs");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains(&format!("cannot write {path}")), "{said}");
            assert_eq!(stdout(&output), "", "nothing was run");
        }
    }
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0);
}

#[test]
fn durations_of_nothing_are_wrong_usage_and_a_bare_number_is_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    for words in [["--patience", "0s"], ["--stress", "0s"], ["--stress", "0"]] {
        let output = check(folder.path(), "wperf-driver", &words).output();
        let output = output.expect("drydock runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(words[0]), "{}", stderr(&output));
    }
    let words = ["--stress", "3", "--json"];
    let output = check(folder.path(), "wperf-driver", &words).output();
    let report = json(&output.expect("drydock runs"));
    let seconds = report["seconds"].as_f64().expect("a number");
    assert!((3.0..60.0).contains(&seconds), "{seconds}");
}
