//! Structured exceptions, in a driver that clang builds.

mod clang;

use clang::{build, read};
use lab_ntos::{Config, LoadError, Loaded, Machine};
use lab_verifier::Finding;

fn load(defines: &[&str], name: &str) -> Result<Loaded, LoadError> {
    let file = read(&build("seh.c", name, defines));
    let machine = Machine::new(Config::default()).expect("a machine");
    let loaded = machine.load(&file);
    let findings = machine.take_findings();
    assert!(findings.is_empty(), "{findings:?}");
    loaded
}

#[test]
fn exceptions_find_their_handlers() {
    match load(&[], "seh") {
        Ok(Loaded::Running(_)) => {}
        Ok(Loaded::Failed(status, _)) => {
            panic!("DriverEntry: {status} (line {})", status.to_u32() & 0xFFFF)
        }
        Err(error) => panic!("{error}"),
    }
}

/// What the driver of a case is stopped with.
fn stop(case: u32) -> Finding {
    let define = format!("-DCASE={case}");
    match load(&[&define], &format!("seh-{case}")) {
        Err(LoadError::Stopped(stopped)) => (*stopped.0).clone(),
        other => panic!("case {case}: {other:?}"),
    }
}

#[test]
fn what_windows_stops_at_reaches_no_handler() {
    for (case, rule) in [
        (1, "page-fault"),
        (2, "page-fault"),
        (3, "stack-overflow"),
        (4, "page-fault"),
        (5, "page-fault"),
    ] {
        assert_eq!(stop(case).rule, rule, "case {case}");
    }
}

#[test]
fn an_exception_that_nobody_handles_is_a_finding_at_its_place() {
    for (case, rule, text) in [
        (6, "unhandled-exception", "STATUS_DATA_ERROR"),
        (7, "null-pointer", "near null"),
        (8, "unhandled-exception", "can't be continued"),
        (9, "unhandled-exception", "STATUS_ACCESS_VIOLATION"),
    ] {
        let finding = stop(case);
        assert_eq!(finding.rule, rule, "case {case}");
        assert!(finding.what.contains(text), "case {case}: {}", finding.what);
        assert_eq!(finding.at.module.as_deref(), Some("driver"), "case {case}");
    }
}
