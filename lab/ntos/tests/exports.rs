//! The behaviour of exports, group by group, as drivers in C see them.

mod support;

use lab_ntos::{Config, Machine};

/// Loads and unloads a driver twice: it finds everything as expected, leaves nothing, and nothing grows.
fn passes(name: &str, arguments: &[&str]) {
    let file = support::build(name, arguments);
    let machine = Machine::new(Config::default()).expect("a machine");
    let mut before = None;
    for _ in 0..2 {
        let driver = support::load(&machine, &file);
        let leaks = machine.unload(driver).expect("no rule is broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        let findings = machine.take_findings();
        assert!(findings.is_empty(), "{findings:?}");
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}

#[test]
fn the_run_time_library_converts_compares_and_counts() {
    passes("library", &[]);
}

#[test]
fn services_lock_stack_devices_give_memory_and_know_processes() {
    passes("services", &["-Wl,--forceinteg"]);
}

#[test]
fn the_system_answers_names_are_found_queues_keep_order_and_rights_are_checked() {
    passes("system", &["-Wl,--forceinteg"]);
}
