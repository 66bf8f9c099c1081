//! Sessions of event tracing, and a driver in C that sends messages as the code that WPP makes does.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use lab_ntos::{Config, Machine, Message, TraceSession, Traced};

const CONTROL: [u8; 16] = [
    0x44, 0x33, 0x22, 0x11, 0x66, 0x55, 0x88, 0x77, 1, 2, 3, 4, 5, 6, 7, 8,
];
const MESSAGES: [u8; 16] = [
    0xDD, 0xCC, 0xBB, 0xAA, 0x22, 0x11, 0x44, 0x33, 9, 8, 7, 6, 5, 4, 3, 2,
];

type Records = Rc<RefCell<Vec<Vec<u8>>>>;

fn session(records: &Records) -> TraceSession {
    let records = records.clone();
    let sink = Box::new(move |message: Message<'_>| {
        assert!(message.time > 0);
        records.borrow_mut().push(message.record.to_vec());
        true
    });
    TraceSession {
        provider: CONTROL,
        level: 4,
        flags: 0x30,
        sink,
    }
}

/// Number and arguments of messages with all that WPP asks for.
fn parts(record: &[u8]) -> (u16, &[u8]) {
    let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    assert_eq!((usize::from(half(0)), record[3]), (record.len(), 0x90));
    match half(6) {
        43 => {
            assert_eq!(record[12..28], MESSAGES);
            (half(4), &record[44..])
        }
        2 => {
            assert_eq!(record[8..24], MESSAGES);
            (half(4), &record[24..])
        }
        other => panic!("options {other}"),
    }
}

#[test]
fn a_session_that_waits_for_a_driver_gets_its_messages() {
    let file = common::build("etw.c", "etw", &[]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let records = Records::default();
    machine
        .start_trace(session(&records))
        .expect("nobody to tell");
    let driver = common::load(&machine, &file);
    let counted = machine.stop_trace(CONTROL).expect("the driver is told");
    assert_eq!(
        counted,
        Traced {
            messages: 4,
            lost: 0
        }
    );
    let sent = records.borrow();
    let sent: Vec<_> = sent.iter().map(|record| parts(record)).collect();
    assert_eq!(sent[0], (10, &b"\x04\x03\x02\x01text\0"[..]));
    assert_eq!(sent[1], (11, &[4, 0x30, 0, 0, 0][..]));
    assert_eq!(sent[2], (12, &[][..]));
    // Told twice, with the context 3.
    assert_eq!(sent[3], (13, &[6, 0, 0, 0][..]));
    assert!(
        machine
            .unload(driver)
            .expect("no rule is broken")
            .is_empty()
    );
}

#[test]
fn a_session_begins_and_ends_while_the_driver_runs() {
    let file = common::build("etw.c", "etw", &[]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let driver = common::load(&machine, &file);
    let records = Records::default();
    for round in 1..=2 {
        machine.start_trace(session(&records)).expect("it is told");
        assert_eq!(machine.trace_counts(CONTROL).messages, 3);
        machine.stop_trace(CONTROL).expect("it is told");
        assert_eq!(records.borrow().len(), 4 * round);
    }
    assert!(
        machine
            .unload(driver)
            .expect("no rule is broken")
            .is_empty()
    );
    // Nobody is left to tell.
    machine
        .start_trace(session(&records))
        .expect("nobody to tell");
    let counted = machine.stop_trace(CONTROL).expect("nobody to tell");
    assert_eq!(counted, Traced::default());
}

#[test]
fn a_message_that_is_too_long_is_lost_and_the_driver_told() {
    let file = common::build("etw.c", "etw", &["-DTOO_LONG"]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let records = Records::default();
    machine
        .start_trace(session(&records))
        .expect("nobody to tell");
    let driver = common::load(&machine, &file);
    assert_eq!(machine.trace_counts(CONTROL).lost, 1);
    assert!(
        machine
            .unload(driver)
            .expect("no rule is broken")
            .is_empty()
    );
}

#[test]
fn a_provider_that_is_left_registered_is_told() {
    let file = common::build("etw.c", "etw", &["-DLEAVE"]);
    let machine = Machine::new(Config::default()).expect("a machine");
    let driver = common::load(&machine, &file);
    let leaks = machine.unload(driver).expect("no rule is broken");
    let left: Vec<_> = leaks.iter().map(|leak| leak.rule.to_string()).collect();
    assert_eq!(left, ["etw-left"]);
}
