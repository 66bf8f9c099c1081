//! Workers of `drydock check`: lost, silent, confined; and control codes found in drivers.

use std::time::Duration;

use e2e::{driver_path, program, read};
use lab_check::case::{Call, Case};
use lab_check::worker::{Command, End, Probe, Worker};
use lab_check::{Interface, codes};

const LIMIT: Duration = Duration::from_secs(60);

fn worker(driver: &str, options: &[&str]) -> Worker {
    let words = [&["worker"], options].concat();
    let arguments = words
        .into_iter()
        .map(Into::into)
        .chain([driver_path(driver).into()]);
    let command = Command {
        program: program("drydock"),
        arguments: arguments.collect(),
    };
    Worker::start(&command, LIMIT).unwrap_or_else(|error| panic!("{error}"))
}

fn self_test(point: u64) -> Case {
    Case {
        point: Some(point),
        ..Case::of("self-test")
    }
}

#[test]
fn a_worker_that_dies_or_falls_silent_is_lost_and_says_how() {
    let lost = worker("wperf-driver", &[])
        .run(&self_test(1), LIMIT)
        .expect_err("it aborts");
    assert_eq!(lost.end, End::Signal(6));
    let limit = Duration::from_secs(1);
    let lost = worker("wperf-driver", &[])
        .run(&self_test(2), limit)
        .expect_err("it sleeps");
    assert_eq!(lost.end, End::Silent(limit));
    // What does neither runs.
    assert!(
        worker("wperf-driver", &[])
            .run(&self_test(0), LIMIT)
            .is_ok()
    );
}

#[test]
fn a_worker_goes_on_after_a_machine_that_stopped_and_repeats_itself() {
    let mut worker = worker("faulty-driver", &[]);
    let bad = Case {
        calls: vec![Call::typical(0x22_2004)],
        ..Case::of("ioctl-smoke")
    };
    let good = Case {
        calls: vec![Call::typical(0x22_2000)],
        iterations: 10,
        ..Case::of("ioctl-smoke")
    };
    let keys = |outcome: &lab_check::Outcome| -> Vec<_> {
        outcome
            .findings
            .iter()
            .map(|found| (found.rule.clone(), found.key()))
            .collect()
    };
    let first = worker.run(&bad, LIMIT).expect("alive");
    assert!(
        first.stopped && first.findings[0].rule == "null-pointer",
        "{first:#?}"
    );
    let clean = worker.run(&good, LIMIT).expect("alive");
    assert!(
        !clean.stopped && clean.findings.is_empty() && clean.accepted == 10,
        "{clean:#?}"
    );
    let second = worker.run(&bad, LIMIT).expect("alive");
    assert_eq!(keys(&first), keys(&second));
}

#[test]
fn a_cancelled_request_has_to_complete() {
    let cancelled = |fault: faulty_driver::Fault| {
        let case = Case {
            calls: vec![Call::typical(fault.code())],
            iterations: 3,
            ..Case::of("cancel")
        };
        let outcome = worker("faulty-driver", &[]).run(&case, LIMIT);
        let findings = outcome.expect("alive").findings;
        let rules: Vec<_> = findings.iter().map(|found| found.rule.clone()).collect();
        (rules, findings.first().and_then(|found| found.code))
    };
    let code = faulty_driver::Fault::PendsForever.code();
    assert_eq!(
        cancelled(faulty_driver::Fault::PendsForever),
        (vec!["cancel-ignored".to_owned()], Some(code))
    );
    assert_eq!(
        cancelled(faulty_driver::Fault::PendsUntilCancelled),
        (Vec::new(), None)
    );
}

#[test]
fn a_confined_worker_reaches_nothing_and_still_runs_drivers() {
    let mut confined = worker("wperf-driver", &[]);
    assert!(confined.ready.confinement.confined);
    for probe in Probe::ALL {
        let (refused, how) = confined.probe(probe, LIMIT).expect("alive");
        assert!(refused, "{probe:?}: {how}");
    }
    let outcome = confined
        .run(&Case::of("load-unload"), LIMIT)
        .expect("alive");
    assert!(
        outcome.findings.is_empty() && outcome.could_not_run.is_none(),
        "{outcome:#?}"
    );
    // It is the confinement that refuses.
    let mut free = worker("wperf-driver", &["--unconfined"]);
    assert!(!free.ready.confinement.confined);
    for probe in [Probe::OpenFile, Probe::Connect, Probe::Execute] {
        let (refused, how) = free.probe(probe, LIMIT).expect("alive");
        assert!(!refused, "{probe:?}: {how}");
    }
}

fn codes_of(driver: &str) -> Vec<u32> {
    let read = read(driver);
    let machine = lab_dock::Options::default()
        .machine(|_| {})
        .expect("a machine");
    let lab_ntos::Loaded::Running(running) = machine.load(&read.driver).expect("loads") else {
        panic!("DriverEntry failed")
    };
    let image = read.driver.loader.image();
    let interface = Interface::of(&machine.survey(running), image);
    let dispatch = interface.control.expect("it handles control codes");
    assert_eq!(codes::find(image, dispatch), interface.codes);
    interface.codes
}

#[test]
fn codes_are_found_in_a_table_and_in_a_range() {
    e2e::check_codes_of_wperf(&codes_of("wperf-driver"));
    // A range of consecutive codes, from the first to the last.
    let faulty = codes_of("faulty-driver");
    for fault in faulty_driver::Fault::ALL {
        assert!(
            faulty.contains(&fault.code()),
            "{fault:?} is not among {faulty:x?}"
        );
    }
    let kernel = codes_of("kernel-test-driver");
    // Its calls, those of its recorder, and a number that the compiler divides them by.
    assert_eq!(kernel.len(), 21 + 4 + 1, "{kernel:x?}");
    assert!(kernel.contains(&kernel_test_driver::protocol::SPIN_LOCK));
}
