//! The `wperf` executable, run as a process.
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};
use wperf::{
    options,
    program::{self, ProgramOutput},
};

fn wperf(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wperf"));
    command
        .current_dir(folder)
        .env_remove("WPERF_COMPAT")
        .env_remove("WPERF_DRIVER")
        .env_remove("DRYDOCK")
        .env("DRYDOCK_SOCKET", folder.join("dock.sock"));
    command
}

fn run(folder: &Path, line: &str) -> Output {
    wperf(folder)
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

#[test]
fn exit_codes_are_those_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    for (line, code) in [
        ("", 0),
        ("--help", 0),
        ("list --json", 0),
        ("--version", 0),
        ("stat -e instructions --driver none.sys", 1),
        ("man nonsense", 1),
        ("stat --frobnicate", 2),
        ("stat", 2),
        ("record -e arm_spe_0// -- true", 5),
    ] {
        let output = run(folder.path(), line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            stderr(&output)
        );
    }
    let help = run(folder.path(), "-h").stdout;
    assert_eq!(String::from_utf8(help).unwrap(), options::help());
}

#[test]
fn the_environment_turns_compatibility_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = wperf(folder.path());
    let output = command
        .args(["list", "--frobnicate"])
        .env("WPERF_COMPAT", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(
        stderr(&output),
        "warning: unexpected arg '--frobnicate' ignored\n"
    );
}

#[test]
fn a_driver_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "status --driver none.sys");
    assert!(stderr(&output).contains("There is no driver file none.sys."));
}

#[test]
fn a_dock_that_does_not_start_is_reported_with_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let driver = script(folder.path(), "some.sys", "");
    let dock = script(
        folder.path(),
        "dock",
        "echo \"asked to $1 $3 $4\" >&2; exit 9",
    );
    let mut command = wperf(folder.path());
    command
        .args(["status", "--driver"])
        .arg(driver)
        .env("DRYDOCK", &dock);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("exit status: 9"), "{text}");
    assert!(
        text.contains("asked to serve --until-idle --socket"),
        "{text}"
    );
}

/// State letter of a process: `T` is stopped.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn a_program_is_stopped_and_pinned_until_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran");
    let launcher = Path::new(env!("CARGO_BIN_EXE_wperf"));
    let words = ["sh", "-c", "echo x > \"$0\"; exit 3"].map(Into::into);
    let words = [words.as_slice(), &[witness.clone().into()]].concat();
    let mut program = program::spawn(launcher, &words, &[1], ProgramOutput::Shared).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(state(program.pid()), Some('T'));
    assert!(!witness.exists());
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let allowed = status
        .lines()
        .find(|l| l.starts_with("Cpus_allowed_list:"))
        .unwrap();
    assert!(
        !allowed.contains(['-', ',']),
        "{allowed}: one processor only"
    );
    program.resume().unwrap();
    let status = program.child().wait().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(witness.exists());
}

#[test]
fn a_program_that_is_given_up_does_not_stay_behind() {
    let launcher = Path::new(env!("CARGO_BIN_EXE_wperf"));
    let words = ["sleep", "1000"].map(Into::into);
    let program = program::spawn(launcher, &words, &[0], ProgramOutput::Shared).unwrap();
    let pid = program.pid();
    drop(program);
    let start = Instant::now();
    while state(pid).is_some() && start.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(state(pid), None);
}

#[test]
fn a_program_does_not_outlive_a_killed_wperf() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    // The shell stands for a `wperf` that starts the program and is then killed.
    let text = format!(
        "{} --exec-stopped $$ sleep 1000 & echo $! > {}; kill -9 $$",
        env!("CARGO_BIN_EXE_wperf"),
        pid_file.display()
    );
    let status = Command::new("sh").args(["-c", &text]).status().unwrap();
    assert!(!status.success());
    let pid = fs::read_to_string(pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let start = Instant::now();
    let lives = || state(pid).is_some_and(|state| state != 'Z');
    while lives() && start.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!lives());
}
