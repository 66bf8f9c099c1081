//! A driver stops the machine on purpose: the crash dump shows what it did before.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use e2e::served::Served;
use e2e::{driver_path, program};
use kdmp_parser::{Gva, KernelDumpParser};
use kernel_test_driver::protocol;
use lab_client::protocol::Access;
use serde_json::Value;

/// What a broken rule ends `drydock` with.
const BROKE_A_RULE: i32 = 4;

/// Lets the driver work, and then panic; gives the dump.
fn crash(folder: &Path, words: &[&str]) -> (PathBuf, Output) {
    let dump = folder.join("memory.dmp");
    let mut command = Command::new(program("drydock"));
    command.arg("ioctl").arg(driver_path("kernel-test-driver"));
    command.arg("--dump").arg(&dump).args(words);
    let (work, panic) = (
        format!("{:#x}", protocol::WORK),
        format!("{:#x}", protocol::PANIC),
    );
    command.args([&work, "--in", "03000000", "--out", "8"]);
    let output = command.arg(&panic).output().expect("drydock runs");
    (dump, output)
}

/// `drydock trace` of a dump.
fn trace(dump: &Path, driver: &str) -> Output {
    let mut command = Command::new(program("drydock"));
    command.arg("trace").arg(dump).arg("--driver");
    command.arg(driver_path(driver)).args(["--as", "json"]);
    command.output().expect("drydock runs")
}

fn events(output: &Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    events.collect()
}

fn texts(events: &[Value]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| event["text"].as_str());
    texts.collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_last_events_before_a_panic_are_in_the_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dump, crashed) = crash(folder.path(), &[]);
    assert_eq!(
        crashed.status.code(),
        Some(BROKE_A_RULE),
        "{}",
        errors(&crashed)
    );
    assert!(
        errors(&crashed).contains("crash dump: "),
        "{}",
        errors(&crashed)
    );
    let shown = trace(&dump, "kernel-test-driver");
    let all = events(&shown);
    assert_eq!(texts(&all), ["opened", "worked", "about to panic"]);
    let last = all.last().expect("there are some");
    assert_eq!(
        (&last["level"], &last["function"]),
        (
            &"error".into(),
            &"kernel_test_driver::driver::calls::panic".into()
        )
    );
    assert_eq!(last["arguments"]["opened"], 1);
    assert_eq!(all[1]["arguments"]["runs"], 3);
    assert!(
        errors(&shown).contains("stopped with 0xe0000d0c"),
        "{}",
        errors(&shown)
    );
    assert!(errors(&shown).contains(" 0 lost"), "{}", errors(&shown));

    // Without what the driver added, its memory in the dump says the same.
    let parser = KernelDumpParser::new(&dump).expect("a dump");
    let space = parser.headers().required_dump_space;
    let bytes = std::fs::read(&dump).expect("it was written");
    let space = usize::try_from(space).expect("small");
    assert!(bytes[space..].starts_with(b"DumpBlob"));
    std::fs::write(&dump, &bytes[..space]).expect("written");
    let in_memory = trace(&dump, "kernel-test-driver");
    assert_eq!(
        texts(&events(&in_memory)),
        ["opened", "worked", "about to panic"]
    );
    assert!(
        errors(&in_memory).contains("in the dumped memory"),
        "{}",
        errors(&in_memory)
    );

    // Another driver's trace is refused, and so is half a header.
    let refused = trace(&dump, "wperf-driver");
    assert!(!refused.status.success());
    assert!(
        errors(&refused).contains("another build"),
        "{}",
        errors(&refused)
    );
    std::fs::write(&dump, &bytes[..5000]).expect("written");
    let cut = trace(&dump, "kernel-test-driver");
    assert!(!cut.status.success());
    assert!(
        errors(&cut).contains("cut off at byte 5000"),
        "{}",
        errors(&cut)
    );
}

#[test]
fn another_reader_finds_the_panic_in_the_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dump, _) = crash(folder.path(), &["--cpus", "2"]);
    let parser = KernelDumpParser::new(&dump).expect("a dump");
    let header = parser.headers();
    assert_eq!(
        (header.bug_check_code, header.number_processors),
        (0xE000_0D0C, 2)
    );
    // The panic's file, as its parameters say.
    let [file, length, line, _] = header.bug_check_code_parameters;
    let mut name = vec![0; usize::try_from(length).expect("a path")];
    parser
        .virt_read_exact(Gva::new(file), &mut name)
        .expect("a text of the driver");
    assert_eq!(name, b"tests/kernel-driver/src/driver/calls.rs");
    assert!(line > 0);
    let mut modules = parser.kernel_modules();
    let (range, name) = modules.next().expect("the driver");
    assert_eq!(name, "kernel-test-driver.sys");
    assert!(range.contains(&Gva::new(parser.context_record().rip)));
}

#[test]
fn a_machine_that_goes_on_leaves_an_empty_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("memory.dmp");
    let mut command = Command::new(program("drydock"));
    command.arg("run").arg(driver_path("kernel-test-driver"));
    let output = command
        .arg("--dump")
        .arg(&dump)
        .output()
        .expect("drydock runs");
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(std::fs::metadata(&dump).expect("a file").len(), 0);
    let refused = trace(&dump, "kernel-test-driver");
    assert!(
        errors(&refused).contains("not a trace"),
        "{}",
        errors(&refused)
    );
}

#[test]
fn a_docked_driver_leaves_a_dump_with_the_last_events_and_their_times() {
    const CALLS: usize = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("memory.dmp");
    let path = dump.to_str().expect("a path");
    let mut served = Served::dock("kernel-test-driver", &["--cpus", "1", "--dump", path]);
    let client = served.client().expect("it accepts");
    let file = client
        .open(protocol::DEVICE, Access::READ_WRITE)
        .expect("it opens");
    for _ in 0..CALLS {
        let worked = client.ioctl(file, protocol::WORK, &1u32.to_le_bytes(), 8);
        assert!(worked.expect("it answers").status.is_success());
    }
    std::thread::sleep(Duration::from_millis(20));
    let error = client
        .ioctl(file, protocol::PANIC, &[], 0)
        .expect_err("it panics");
    assert!(error.to_string().contains("driver-bugcheck"), "{error}");
    let (code, log) = served.ended();
    assert_eq!(code, Some(BROKE_A_RULE), "{log}");
    assert!(log.contains("crash dump: "), "{log}");
    let shown = trace(&dump, "kernel-test-driver");
    let all = events(&shown);
    let lost: u64 = all
        .iter()
        .filter_map(|event| event["lost_slots"].as_u64())
        .sum();
    let texts = texts(&all);
    // One event for the opening, one for each call, one for the panic; a ring has 64 slots.
    assert_eq!(texts.len(), 64);
    assert_eq!(lost, CALLS as u64 + 2 - 64);
    assert_eq!(texts.last(), Some(&"about to panic"));
    let times: Vec<f64> = all
        .iter()
        .filter_map(|event| event["time_ns"].as_f64())
        .collect();
    assert_eq!(times.len(), 64, "{}", all[1]);
    let before = times[63] - times[62];
    assert!(
        before > 15e6,
        "the panic came {before} ns after the last call"
    );
}
