//! Each way of exercising a driver finds a fault that no other finds, and none in a driver without it.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::program;
use e2e::served::{json, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const ONE_FAULT: &str = "tests/data/one-fault.c";
const FUNCTION: &str = "../lab/ntos/tests/data/function.c";

/// Builds a driver in C into a folder.
fn build(folder: &Path, source: &str, defines: &[&str]) -> PathBuf {
    let output = folder.join("driver.sys");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let run = Command::new(COMPILER)
        .args(["-O1", "-w", "-ffreestanding", "-fno-builtin"])
        .args(["-fshort-wchar", "-D_WIN32_WINNT=0x0A00"])
        .arg("-DNTDDI_VERSION=0x0A000000")
        .args(defines)
        .args(["-I", "/usr/share/mingw-w64/include/ddk"])
        .args(["-nostdlib", "-shared", "-Wl,--subsystem,native"])
        .args(["-Wl,--entry,DriverEntry", "-o"])
        .args([&output, &source])
        .arg("-lntoskrnl")
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("cannot run {COMPILER}: {error}; it is in Debian's gcc-mingw-w64-x86-64")
    });
    assert!(run.status.success(), "{}", stderr(&run));
    output
}

/// What a check says of a driver, and the folder that it left its files in.
fn check(source: &str, defines: &[&str], options: &[&str]) -> (Value, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    build(folder.path(), source, defines);
    let words = [&["check", "driver.sys", "--json"], options].concat();
    let mut command = Command::new(program("drydock"));
    let output = command.args(words).current_dir(folder.path()).output();
    let output = output.expect("drydock runs");
    assert!(output.status.code() < Some(2), "{}", stderr(&output));
    (json(&output), folder)
}

/// Rule and scenario of each finding.
fn found(report: &Value) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().expect("findings");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| {
            let rule = text(&finding["found"]["rule"]);
            (rule, text(&finding["case"]["scenario"]))
        })
        .collect()
}

fn replays(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder.join("drydock-findings")).expect("it was made");
    files.into_iter().all(|file| {
        let path = file.expect("an entry").path();
        let mut command = Command::new(program("drydock"));
        command.args(["check", "driver.sys", "--replay"]).arg(path);
        let output = command.current_dir(folder).output().expect("it runs");
        stdout(&output).contains("reproduced: ") && output.status.code() == Some(1)
    })
}

#[test]
fn a_sweep_alone_finds_an_exchange_without_a_lock_and_replays_it() {
    let (report, folder) = check(ONE_FAULT, &["-DSWAP"], &[]);
    let found = found(&report);
    assert!(!found.is_empty());
    for (rule, scenario) in &found {
        assert!(
            ["pool-leak", "pool-double-free"].contains(&rule.as_str()),
            "{rule}"
        );
        assert!(
            ["sweep", "parallel"].contains(&scenario.as_str()),
            "{scenario}"
        );
    }
    assert!(found.iter().any(|(_, scenario)| scenario == "sweep"));
    let exact = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["case"]["scenario"] == "sweep");
    for finding in exact {
        assert!(finding["case"]["point"].is_u64() && finding["confirmation"] == "confirmed");
    }
    assert!(replays(folder.path()));
    let (report, _) = check(ONE_FAULT, &["-DSWAP", "-DLOCKED"], &[]);
    assert_eq!(report["findings"], serde_json::json!([]));
}

#[test]
fn several_host_threads_alone_find_what_needs_two_processors_at_once() {
    let (report, _) = check(ONE_FAULT, &["-DOVERLAP"], &[]);
    let only = [("null-pointer".to_owned(), "parallel".to_owned())];
    assert_eq!(found(&report), only);
    let confirmation = &report["findings"][0]["confirmation"];
    assert!(
        confirmation == "confirmed" || confirmation == "unrepeatable",
        "{confirmation}"
    );
    assert_eq!(report["verdict"], "findings");
}

#[test]
fn guard_pages_in_front_find_a_look_before_a_block() {
    let (report, folder) = check(ONE_FAULT, &["-DBEFORE"], &["--quick"]);
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["case"]["guard_front"], true);
    assert!(replays(folder.path()));
}

#[test]
fn a_loop_that_keeps_calling_the_kernel_hangs_with_a_stack_and_loses_no_worker() {
    let (report, _) = check(ONE_FAULT, &["-DLOOP"], &["--quick"]);
    assert_eq!(report["workers_lost"], 0);
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let found = &findings[0]["found"];
    assert_eq!(found["rule"], "hang");
    assert!(
        found["stack"]
            .as_array()
            .is_some_and(|stack| !stack.is_empty())
    );
    assert_eq!(findings[0]["confirmation"], "confirmed");
}

#[test]
fn a_driver_for_enumerated_devices_is_given_them_and_its_removal_is_tried_in_every_way() {
    let (report, _) = check(FUNCTION, &[], &[]);
    assert_eq!(report["findings"], serde_json::json!([]));
    let scenarios = report["scenarios"].as_array().expect("scenarios");
    let cases = |name: &str| {
        let scenario = scenarios.iter().find(|scenario| scenario["name"] == name);
        scenario.map_or(0, |scenario| scenario["cases"].as_u64().unwrap_or(0))
    };
    for name in ["open-close", "ioctl-smoke", "plug-and-play"] {
        assert!(cases(name) > 0, "{name}");
    }
    let (report, folder) = check(FUNCTION, &["-DTWICE"], &["--quick"]);
    let found = found(&report);
    assert!(!found.is_empty());
    assert!(
        found
            .iter()
            .all(|(_, scenario)| scenario == "plug-and-play"),
        "{found:?}"
    );
    assert!(replays(folder.path()));
}
