//! A function driver in C gets devices from the lab's bus, and loses them in every way there is.

mod support;

use lab_ntos::{Client, Config, DeviceNode, Driver, Machine, Privilege, SystemPower};
use nt::NTSTATUS;
use nt::status::{STATUS_SUCCESS, STATUS_UNSUCCESSFUL};

/// The interface of the first device.
const LINK: &str = r"\\?\DRYDOCK#Device#00000001#{11112222-3333-4444-5555-666677778888}";
const CLIENT: Client = Client {
    process: 4444,
    privilege: Privilege::Administrator,
};

fn machine() -> Box<Machine> {
    Machine::new(Config::default()).expect("a machine")
}

fn added(machine: &Machine, driver: Driver) -> DeviceNode<'_> {
    let node = machine.add_device(driver).expect("no rule is broken");
    node.expect("AddDevice succeeds")
}

fn ok<E: std::fmt::Display>(outcome: Result<NTSTATUS, E>) {
    match outcome {
        Ok(status) => assert_eq!(status, STATUS_SUCCESS),
        Err(stopped) => panic!("{stopped}"),
    }
}

#[test]
fn a_device_starts_works_stops_and_goes_and_nothing_is_left() {
    let file = support::build("function", &[]);
    let machine = machine();
    let mut before = None;
    for _ in 0..3 {
        let driver = support::load(&machine, &file);
        assert!(machine.has_add_device(driver));
        let node = added(&machine, driver);
        assert!(
            machine.open(LINK, 1, CLIENT).expect("runs").is_err(),
            "not started"
        );
        ok(node.start());
        let opened = machine
            .open(LINK, 1, CLIENT)
            .expect("runs")
            .expect("the interface leads to it");
        let mut data = [0; 4];
        let read = machine.read(opened, 0, &mut data).expect("runs");
        assert_eq!(
            (read.status, read.information, data[0]),
            (STATUS_SUCCESS, 1, 0x42)
        );
        machine.close(opened).expect("runs");
        ok(node.set_system_power(SystemPower::Sleeping));
        ok(node.set_system_power(SystemPower::Working));
        ok(node.cancel_stop());
        ok(node.stop());
        ok(node.start());
        ok(node.cancel_remove());
        ok(node.query_remove());
        ok(node.remove());
        let node = added(&machine, driver);
        ok(node.start());
        ok(node.surprise_remove());
        let leaks = machine.unload(driver).expect("no rule is broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        assert!(machine.take_findings().is_empty());
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}

#[test]
fn a_driver_may_refuse_to_stop_but_not_to_go() {
    let file = support::build("refuse", &["-DREFUSE"]);
    let machine = machine();
    let driver = support::load(&machine, &file);
    let node = added(&machine, driver);
    ok(node.start());
    assert_eq!(node.stop().expect("runs"), STATUS_UNSUCCESSFUL);
    assert_eq!(node.query_remove().expect("runs"), STATUS_UNSUCCESSFUL);
    ok(node.remove());
    assert!(machine.unload(driver).expect("runs").is_empty());
}

#[test]
fn a_device_that_stays_attached_to_a_removed_one_is_found() {
    let file = support::build("stay", &["-DSTAY"]);
    let machine = machine();
    let driver = support::load(&machine, &file);
    let node = added(&machine, driver);
    ok(node.start());
    ok(node.remove());
    let findings = machine.take_findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].to_string().contains("still attached"),
        "{}",
        findings[0]
    );
    let leaks = machine.unload(driver).expect("runs");
    assert!(
        leaks.iter().any(|leak| leak.rule == "device-left"),
        "{leaks:?}"
    );
}
