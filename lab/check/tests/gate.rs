//! A system call that no analysis of the file finds is caught by the filter, with its place.

use std::path::{Path, PathBuf};
use std::process::Command;

use lab_check::case::Case;
use lab_check::interface::Interface;
use lab_check::{sandbox, worker};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";

fn build() -> PathBuf {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gate.sys");
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gate.c");
    let run = Command::new(COMPILER)
        .args(["-O1", "-w", "-ffreestanding", "-nostdlib", "-shared"])
        .args(["-I", "/usr/share/mingw-w64/include/ddk"])
        .args(["-Wl,--subsystem,native", "-Wl,--entry,DriverEntry", "-o"])
        .args([&output, &input])
        .arg("-lntoskrnl")
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("cannot run {COMPILER}: {error}; it is in Debian's package gcc-mingw-w64-x86-64")
    });
    let messages = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{COMPILER} refuses:\n{messages}");
    output
}

// Confines this process: the only test of its file, and the last thing it does.
#[test]
fn a_hidden_system_call_of_a_driver_is_a_finding() {
    let read = lab_dock::read_driver(&build()).expect("a driver");
    let run = || worker::run(&read, &Interface::default(), &Case::of("load-unload"));
    // Without the filter the call is made, and nobody notices: it is the filter that finds it.
    let outcome = run();
    assert!(outcome.findings.is_empty(), "{outcome:#?}");
    let confinement = sandbox::confine();
    assert!(
        confinement.lacking.is_empty(),
        "this host can't show it: {confinement:?}"
    );
    let outcome = run();
    let rules: Vec<_> = outcome
        .findings
        .iter()
        .map(|found| found.rule.as_str())
        .collect();
    assert_eq!(rules, ["system-call"], "{outcome:#?}");
    assert_eq!(outcome.findings[0].at.module.as_deref(), Some("gate"));
}
