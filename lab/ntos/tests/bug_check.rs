//! What happens when a driver has stopped the machine: its routines for that are called, and there is a dump.

#[expect(dead_code, reason = "this driver does not load")]
mod common;

use std::cell::RefCell;
use std::io::Cursor;
use std::rc::Rc;
use std::time::Duration;

use common::build;
use kdmp_parser::{Gva, KernelDumpParser};
use lab_ntos::{Config, DumpError, LoadError, Machine, Stopped};

const SMALL: [u8; 16] = [1, 0, 0, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11];
const LARGE: [u8; 16] = [2, 0, 0, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11];

struct Stop {
    machine: Box<Machine>,
    stopped: Stopped,
    /// What the driver printed.
    printed: String,
}

/// Loads the driver, which stops the machine.
fn stop(bad: u32) -> Stop {
    let file = build("bugcheck.c", "bugcheck", &[&format!("-DBAD={bad}")]);
    let printed = Rc::new(RefCell::new(String::new()));
    let sink = Rc::clone(&printed);
    let machine = Machine::new(Config {
        hang_limit: Duration::from_millis(200),
        debug_print: Box::new(move |text| sink.borrow_mut().push_str(text)),
        ..Config::default()
    });
    let machine = machine.expect("a machine");
    let early = machine.write_dump(&mut Vec::new());
    assert!(matches!(early, Err(DumpError::Running)), "{early:?}");
    let stopped = match machine.load(&file) {
        Err(LoadError::Stopped(stopped)) => stopped,
        other => panic!("{other:?}"),
    };
    let printed = printed.borrow().clone();
    Stop {
        machine,
        stopped,
        printed,
    }
}

impl Stop {
    fn dump(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.machine.write_dump(&mut bytes);
        written.unwrap_or_else(|error| panic!("{error}"));
        bytes
    }

    /// The rules broken besides the one it stopped at, and words.
    fn others(&self) -> (Vec<&'static str>, String) {
        let findings = self.machine.take_findings();
        let words: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let rules = findings.iter().map(|finding| finding.rule).collect();
        (rules, words.join("\n"))
    }
}

/// The data with a tag.
fn given(bytes: &[u8], tag: [u8; 16]) -> Vec<Vec<u8>> {
    let dump = lab_dump::Dump::open(bytes).expect("a dump");
    let blobs = dump.blobs(|other| *other == tag).expect("readable");
    let data = blobs.iter().map(|blob| {
        let mut data = vec![0; usize::try_from(blob.bytes).expect("small")];
        dump.read_blob(blob, 0, &mut data).expect("it is there");
        data
    });
    data.collect()
}

fn large() -> Vec<u8> {
    let byte = |index: u32| ((index * 7) >> 3).to_le_bytes()[0];
    (0..0x30000).map(byte).collect()
}

#[test]
fn routines_are_called_once_and_what_they_give_is_in_the_dump() {
    let stop = stop(0);
    assert_eq!(stop.stopped.0.rule, "driver-bugcheck");
    assert_eq!(stop.printed, "size data told ");
    let bytes = stop.dump();
    assert_eq!(given(&bytes, SMALL), [vec![0x5A; 8]]);
    assert_eq!(given(&bytes, LARGE), [large()]);
    assert_eq!(stop.others().0, [""; 0]);
    // Again: the same but for the times.
    assert_eq!(given(&stop.dump(), LARGE), [large()]);
}

#[test]
fn another_reader_finds_the_stop_and_the_driver_in_the_dump() {
    let stop = stop(0);
    let parser = KernelDumpParser::with_reader(Cursor::new(stop.dump())).expect("a dump");
    let header = parser.headers();
    assert_eq!(header.bug_check_code, 0xBEEF);
    assert_eq!(header.bug_check_code_parameters, [1, 2, 3, 4]);
    assert_eq!((header.number_processors, header.minor_version), (4, 26100));
    let modules: Vec<_> = parser.kernel_modules().collect();
    let [(range, name)] = modules[..] else {
        panic!("{modules:?}")
    };
    assert_eq!(name, "bugcheck.sys");
    assert!(range.contains(&Gva::new(parser.context_record().rip)));
    let mut magic = [0; 2];
    parser
        .virt_read_exact(range.start, &mut magic)
        .expect("the image");
    assert_eq!(&magic, b"MZ");
    // The stack goes on where it called: the return address is the register's.
    let mut word = [0; 8];
    let below = Gva::new(parser.context_record().rsp - 8);
    parser.virt_read_exact(below, &mut word).expect("the stack");
    assert_eq!(u64::from_le_bytes(word), parser.context_record().rip);
    // KUSER_SHARED_DATA: NtBuildNumber.
    let mut build = [0; 4];
    let shared = Gva::new(0xFFFF_F780_0000_0260);
    parser
        .virt_read_exact(shared, &mut build)
        .expect("the page");
    assert_eq!(u32::from_le_bytes(build), 26100);
}

#[test]
fn a_routine_that_fails_is_a_finding_beside_the_stop() {
    let failed = "bug-check-callback-failed";
    let cases = [
        (1, failed, "near null"),
        (2, failed, "it was allowed"),
        (3, failed, "not all in nonpaged memory"),
        (4, failed, "without giving control back"),
        (5, "irql-contract", "KeWaitForSingleObject"),
        (6, failed, "calls"),
        (7, failed, "memory that is gone"),
    ];
    for (bad, rule, words) in cases {
        let stop = stop(bad);
        assert_eq!(stop.stopped.0.rule, "driver-bugcheck", "{bad}");
        let (rules, text) = stop.others();
        assert!(
            rules.contains(&rule) && text.contains(words),
            "{bad}: {rules:?} {text}"
        );
        assert!(rules.contains(&failed), "{bad}: {rules:?} {text}");
        // The others are called all the same.
        let bytes = stop.dump();
        assert_eq!(given(&bytes, LARGE), [large()], "{bad}");
        assert_eq!(given(&bytes, SMALL), [vec![0x5A; 8]], "{bad}");
        assert!(stop.printed.contains("told"), "{bad}");
    }
}
