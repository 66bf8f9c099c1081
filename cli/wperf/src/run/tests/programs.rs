//! `stat -- PROGRAM`.
#![cfg(unix)]

use super::{Ran, run_in};
use crate::{
    device::{DriverOptions, fake::FakeDriver},
    exit::Outcome,
    session::{Session, Take},
};
use std::path::{Path, PathBuf};

/// Does what this program's executable does when it is its own launcher.
fn launcher(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("launcher");
    std::fs::write(&path, "#!/bin/sh\nshift 2\nkill -STOP $$\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

pub(super) fn run_program(driver: &FakeDriver, line: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let open = |_: &DriverOptions| Ok(driver.open(7));
    run_in(&open, &|| Ok(None), launcher(folder.path()), line)
}

#[test]
fn a_program_is_counted_on_one_idle_core_from_its_start_to_its_end() {
    let driver = FakeDriver::arm(4, 6);
    let mut other = driver.open(1);
    let _held = Session::acquire(&mut other.client, &[0], Take::Free).unwrap();
    let ran = run_program(&driver, "stat -e inst_spec -- sh -c exit");
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert!(
        ran.out.contains("the program runs on core 1\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("program ended with exit code 0\n"));
    assert!(ran.out.contains("Performance counter stats for core 1,"));
    assert!(driver.attached().is_empty());
    assert_eq!(
        ran.err,
        "warning: the PMU is a model, its counts are not the program's\n"
    );
}

#[test]
fn a_program_that_outlives_the_count_is_ended() {
    let driver = FakeDriver::arm(1, 6);
    let start = std::time::Instant::now();
    let ran = run_program(
        &driver,
        "stat -e inst_spec -c 0 --timeout 50ms -- sleep 100",
    );
    assert_eq!(ran.outcome, Outcome::Success, "{}", ran.err);
    assert!(start.elapsed().as_secs() < 10);
    assert!(
        ran.out.contains("program ended by signal: 9"),
        "{}",
        ran.out
    );
}

#[test]
fn a_program_on_several_cores_is_refused_as_windowsperf_does() {
    let ran = run_program(&FakeDriver::arm(4, 6), "stat -e inst_spec -c 0-1 -- true");
    assert_eq!(ran.outcome, Outcome::Failure);
    assert_eq!(
        ran.err.trim_end(),
        "you can specify only one core for process spawn"
    );
}
