//! Devices with registers in memory, as a driver in C finds and accesses them.

mod common;

use lab_devices::Platform;
use lab_devices::platform::{Devices, Kind};
use lab_ntos::{Config, LoadError, Machine};

fn machine() -> Box<Machine> {
    let devices = Devices::NONE.with(Kind::Dmc620).with(Kind::CsPmu);
    let config = Config {
        platform: Platform::new(devices),
        ..Config::default()
    };
    Machine::new(config).expect("a machine")
}

fn rules(machine: &Machine) -> Vec<(&'static str, String)> {
    let findings = machine.take_findings();
    findings
        .into_iter()
        .map(|finding| (finding.rule, finding.what))
        .collect()
}

#[test]
fn a_driver_finds_a_device_by_its_description_and_counts_with_it() {
    let file = common::build("devices.c", "devices", &[]);
    let machine = machine();
    for _ in 0..2 {
        let driver = common::load(&machine, &file);
        let leaks = machine.unload(driver).expect("no rule is broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        assert_eq!(rules(&machine), []);
    }
}

#[test]
fn an_access_that_the_device_has_no_register_for_is_a_finding_and_the_driver_goes_on() {
    let file = common::build("devices.c", "devices-wrong", &["-DWRONG"]);
    let machine = machine();
    let driver = common::load(&machine, &file);
    assert!(machine.unload(driver).expect("soft rules").is_empty());
    let found = rules(&machine);
    assert!(found.iter().all(|(rule, _)| *rule == "device-register"));
    let words: Vec<_> = found.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(
        words,
        [
            "read of 1 bytes at offset 0x30 of dmc620-0: the device has a register of another width there",
            "read of 4 bytes at offset 0x1a0 of dmc620-0: the device has no register there",
            "write of 8 bytes at offset 0x10 of dmc620-0: the device has a register of another width there",
            "write of 4 bytes at offset 0x4 of dmc620-0: the device has a register there that can only be read",
        ]
    );
}

#[test]
fn a_mapping_that_is_left_is_told_with_the_device() {
    let file = common::build("devices.c", "devices-leave", &["-DLEAVE"]);
    let machine = machine();
    let driver = common::load(&machine, &file);
    let leaks = machine.unload(driver).expect("no rule is broken");
    let left: Vec<_> = leaks.iter().map(|leak| leak.rule).collect();
    assert_eq!(left, ["mapping-left"]);
    assert!(
        leaks[0]
            .what
            .starts_with("1536 bytes of dmc620-0 mapped at")
    );
    assert!(leaks[0].taken_at.is_some());
}

#[test]
fn a_mapping_is_unmapped_as_it_was_mapped() {
    let file = common::build("devices.c", "devices-unmap", &["-DUNMAP"]);
    let machine = machine();
    let driver = common::load(&machine, &file);
    machine.unload(driver).expect("a soft rule");
    assert_eq!(rules(&machine)[0].0, "mapping-invalid");
}

#[test]
fn an_instruction_that_the_lab_cannot_carry_out_is_said_to_be_its_own_failing() {
    let file = common::build("devices.c", "devices-odd", &["-DODD"]);
    let machine = machine();
    let Err(LoadError::Stopped(stop)) = machine.load(&file) else {
        panic!("it goes on");
    };
    assert_eq!(stop.0.rule, "lab-internal");
    assert!(
        stop.0.what.contains("`lock inc dword ptr"),
        "{}",
        stop.0.what
    );
}
