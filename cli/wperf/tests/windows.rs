//! What `wperf` does with processes on Windows; also runs under Wine.
#![cfg(windows)]

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};
use wperf::{
    process,
    program::{self, ProgramOutput},
};

#[test]
fn a_program_is_suspended_until_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran.txt");
    let script = format!("echo x> {} & exit 3", witness.display());
    let words = ["cmd", "/c", &script].map(Into::into);
    let mut program = program::spawn(Path::new(""), &words, &[0], ProgramOutput::Shared).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert!(program.child().try_wait().unwrap().is_none());
    assert!(!witness.exists());
    program.resume().unwrap();
    assert_eq!(program.child().wait().unwrap().code(), Some(3));
    assert!(witness.exists());
}

#[test]
fn a_program_that_is_given_up_does_not_stay_behind() {
    let words = ["cmd", "/c", "pause"].map(Into::into);
    let program = program::spawn(Path::new(""), &words, &[0], ProgramOutput::Shared).unwrap();
    let pid = program.pid();
    assert!(process::name(pid).is_some());
    drop(program);
    // The process object lives until the system's last handle is closed.
    let start = Instant::now();
    while process::name(pid).is_some() && start.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(process::name(pid), None);
}

#[test]
fn a_process_is_named_by_its_executable() {
    let name = process::name(std::process::id()).unwrap();
    assert!(
        name.starts_with("windows-") && name.ends_with(".exe"),
        "{name}"
    );
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let words = ["no-such-program"].map(Into::into);
    assert!(program::spawn(Path::new(""), &words, &[0], ProgramOutput::Shared).is_err());
}

#[test]
fn a_process_shows_its_modules_its_parent_and_that_it_runs() {
    let pid = std::process::id();
    let own = std::env::current_exe().unwrap();
    let mappings = process::mappings(pid).unwrap();
    let address = (a_process_is_named_by_its_executable as fn() as *const ()).addr() as u64;
    let holds = mappings
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address));
    assert_eq!(holds.unwrap().path, own);
    assert_eq!(process::executable(pid), Some(own));
    assert!(process::is_running(pid));
    let mut child = std::process::Command::new("cmd")
        .args(["/c", "pause"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert!(process::descends(child.id(), pid));
    assert!(process::running("CMD.EXE").is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!process::is_running(child.id()));
}
