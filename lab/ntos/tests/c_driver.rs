//! A driver in C, built with mingw-w64 and its ddk headers, uses the exports
//! as drivers do: other people's declarations and inline functions against
//! the lab's implementations.

mod common;

use lab_ntos::{Config, DriverFile, Loaded, Machine};

/// The driver, under the name of the service that it looks up.
fn build(options: &[&str]) -> DriverFile {
    common::build("exports.c", "exports", options)
}

#[test]
fn a_driver_in_c_finds_the_exports_as_its_headers_declare_them() {
    let file = build(&[]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let mut before = None;
    for _ in 0..2 {
        let driver = common::load(&machine, &file);
        let leaks = machine.unload(driver).expect("no rule is broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        // From the second load on, nothing grows.
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}

#[test]
fn whichever_call_fails_the_driver_is_told_and_the_lab_lives_on() {
    let file = build(&[]);
    let machine = Machine::new(Config::default()).expect("a machine");
    assert!(matches!(machine.load(&file), Ok(Loaded::Running(_))));
    let calls = machine.fallible_calls();
    assert!(calls > 20, "{calls} calls may fail");
    let mut failed = 0;
    for n in 0..calls {
        let machine = Machine::new(Config::default()).expect("a machine");
        machine.fail_nth(n);
        match machine.load(&file) {
            Ok(Loaded::Failed(..)) => failed += 1,
            other => panic!("call {n} failed and the driver did not: {other:?}"),
        }
    }
    assert_eq!(failed, calls);
}

#[test]
fn what_a_driver_leaves_registered_is_told_by_name() {
    let file = build(&["-DLEAVE"]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let mut before = None;
    for _ in 0..2 {
        let driver = common::load(&machine, &file);
        let leaks = machine.unload(driver).expect("no rule is broken");
        let mut left: Vec<String> = leaks
            .iter()
            .map(|leak| format!("{}: {}", leak.rule, leak.what))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "handle-left: handle to a registry key",
                "lookaside-left: lookaside list",
                "reference-left: reference to a callback object",
                "registration-left: entry of the error log",
                "registration-left: process notify routine",
                "registration-left: registration with a callback object",
                "resource-left: executive resource",
            ]
        );
        assert!(leaks.iter().all(|leak| leak.taken_at.is_some()));
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}
