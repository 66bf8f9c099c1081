//! Whatever a driver does wrong, the lab says what and where, and lives on.

use std::time::Duration;

use e2e::{dock, open};
use faulty_driver::{DEVICE, Fault};
use lab_dock::Options;
use lab_ntos::Stopped;
use lab_verifier::Finding;

/// Commits a fault on a machine of its own; gives the report.
fn finding(fault: Fault) -> Finding {
    let options = Options {
        hang_limit: Duration::from_secs(1),
        ..Options::default()
    };
    let dock = dock("faulty-driver", options);
    let file = open(dock.machine(), DEVICE);
    let outcome = dock.machine().ioctl(file, fault.code(), &[], &mut []);
    let mut findings = dock.machine().take_findings();
    match outcome {
        _ if !findings.is_empty() => findings.swap_remove(0),
        Err(Stopped(finding)) => (*finding).clone(),
        Ok(completion) => panic!("{fault:?} was not noticed: {completion:?}"),
    }
}

#[test]
fn a_report_says_module_offset_access_address_irql_and_stack() {
    let finding = finding(Fault::NullWrite);
    assert_eq!(finding.at.module.as_deref(), Some("faulty-driver"));
    assert!(
        finding.at.rva > 0x1000 && finding.at.line.is_some(),
        "{finding}"
    );
    let access = finding.access.as_ref().expect("a page fault has an access");
    assert_eq!((access.kind, access.address), ("write", 8));
    assert_eq!((finding.cpu.irql, finding.cpu.process), (0, 1000));
    let functions: Vec<_> = finding
        .stack
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    let position = |name: &str| {
        functions
            .iter()
            .position(|function| function.contains(name))
    };
    assert!(
        position("null_write") < position("commit") && position("commit") <= position("control"),
        "{finding}"
    );
    assert!(
        finding
            .instruction
            .as_deref()
            .is_some_and(|instruction| instruction.starts_with("mov")),
        "{finding}"
    );
}

#[test]
fn pool_reports_name_where_the_block_was_allocated_and_freed() {
    let finding = finding(Fault::PoolUseAfterFree);
    let target = finding
        .access
        .and_then(|access| access.target)
        .expect("a pool block");
    assert!(
        target.contains("64 bytes of nonpaged pool, tag 'Flty'"),
        "{target}"
    );
    assert!(
        target.contains("allocated at faulty-driver+")
            && target.contains("freed at faulty-driver+"),
        "{target}"
    );
}

#[test]
fn a_bad_pointer_given_to_the_kernel_is_the_drivers_fault_not_the_labs() {
    let finding = finding(Fault::BadPointerToKernel);
    assert_eq!(
        (finding.rule, finding.api.as_deref()),
        ("null-pointer", Some("KeSetEvent")),
        "{finding}"
    );
    assert!(
        finding
            .at
            .function
            .as_deref()
            .is_some_and(|name| name.contains("commit")),
        "{finding}"
    );
}

#[test]
fn an_unknown_import_is_named_when_it_is_called() {
    let finding = finding(Fault::UnknownImport);
    assert!(
        finding.what.contains("ntoskrnl.exe!KeFrobnicateProcessor"),
        "{finding}"
    );
}

#[test]
fn a_wait_that_nothing_can_end_is_a_finding() {
    assert_eq!(finding(Fault::WaitForever).rule, "wait-forever");
}

#[test]
fn a_driver_that_never_comes_back_is_stopped() {
    let finding = finding(Fault::Spin);
    assert_eq!(finding.rule, "hang", "{finding}");
    assert!(finding.at.function.is_some(), "{finding}");
}

#[test]
fn what_is_left_behind_is_listed_with_where_it_was_taken() {
    for (fault, rule) in [
        (Fault::LeakPool, "pool-leak"),
        (Fault::LeakTimer, "timer-left"),
    ] {
        let mut dock = dock("faulty-driver", Options::default());
        let file = open(dock.machine(), DEVICE);
        dock.machine()
            .ioctl(file, fault.code(), &[], &mut [])
            .expect("no rule broken yet");
        dock.machine().close(file).expect("no rule broken yet");
        let leaks = dock.unload().expect("no rule broken yet");
        let leak = leaks.iter().find(|leak| leak.rule == rule);
        assert!(leak.is_some(), "{fault:?}: {leaks:?}");
        if fault == Fault::LeakPool {
            let taken_at = leak
                .and_then(|leak| leak.taken_at.as_ref())
                .expect("pool knows");
            assert_eq!(taken_at.module.as_deref(), Some("faulty-driver"));
        }
    }
}

#[test]
fn a_stopped_machine_refuses_and_another_one_works() {
    let broken = dock("faulty-driver", Options::default());
    let file = open(broken.machine(), DEVICE);
    assert!(
        broken
            .machine()
            .ioctl(file, Fault::NullWrite.code(), &[], &mut [])
            .is_err()
    );
    assert!(
        broken
            .machine()
            .ioctl(file, Fault::Echo.code(), &[1], &mut [0])
            .is_err(),
        "it has stopped for good"
    );
    let sound = dock("faulty-driver", Options::default());
    let file = open(sound.machine(), DEVICE);
    let mut output = [0; 3];
    let completion = sound
        .machine()
        .ioctl(file, Fault::Echo.code(), b"abc", &mut output)
        .expect("no rule broken");
    assert_eq!((completion.information, &output), (3, b"abc"));
}

#[test]
fn a_device_that_anybody_may_open_is_a_warning() {
    let verdict = dock("faulty-driver", Options::default()).finish();
    assert!(verdict.is_clean());
    assert!(
        verdict
            .warnings
            .iter()
            .any(|warning| warning.contains(r"\Device\Faulty")),
        "{verdict}"
    );
}
