//! Events go out through ETW in WPP's form, and are read again by what knows only the formats.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use e2e::served::Served;
use e2e::tmf::{self, Formats};
use e2e::{driver_path, open, program};
use kernel_test_driver::protocol;
use lab_dock::{Dock, Options, read_driver};
use lab_image::{Image, Symbols};
use lab_ntos::{FileId, Machine, Message, TraceSession, Traced};
use nt::status::STATUS_SUCCESS;
use trace_decode::stream::Batch;
use trace_decode::text::headline;
use trace_decode::tmf::plain_guid;
use trace_decode::value::values;
use trace_decode::{Catalogue, Header, Stream};
use trace_format::request::{Call, Information, ReadReply, ReadRequest, Selection};
use zerocopy::{FromBytes, IntoBytes};

const LOST: u16 = 0xFFFF;
const CLOCKS: u16 = 0xFFFE;

/// What a session got.
#[derive(Clone, Default)]
struct Collected {
    records: Rc<RefCell<Vec<Vec<u8>>>>,
    /// Messages that it still has room for.
    room: Rc<Cell<usize>>,
}

impl Collected {
    fn new() -> Self {
        let collected = Self::default();
        collected.room.set(usize::MAX);
        collected
    }

    fn session(&self, provider: [u8; 16], level: u8, flags: u32) -> TraceSession {
        let (records, room) = (self.records.clone(), self.room.clone());
        let sink = Box::new(move |message: Message<'_>| {
            let left = room.get();
            room.set(left.saturating_sub(1));
            if left > 0 {
                records.borrow_mut().push(message.record.to_vec());
            }
            left > 0
        });
        TraceSession {
            provider,
            level,
            flags,
            sink,
        }
    }

    /// The events in words, and how many slots were lost.
    fn shown(&self, formats: &Formats) -> (Vec<String>, u64) {
        let mut lost = 0;
        let mut events = Vec::new();
        for record in &*self.records.borrow() {
            let (key, data) = tmf::message(record);
            let format = formats
                .get(&key)
                .unwrap_or_else(|| panic!("no format of {key:?}"));
            let text = tmf::show(format, data);
            match key.1 {
                LOST => lost += u64::from_le_bytes(data[10..18].try_into().expect("8 bytes")),
                CLOCKS => {}
                _ => events.push(text),
            }
        }
        (events, lost)
    }
}

/// What the file of a driver says.
struct About {
    catalogue: Catalogue,
    formats: Formats,
    provider: [u8; 16],
}

fn about(path: &Path) -> About {
    let bytes = std::fs::read(path).expect("it is there");
    let image = Image::parse(&bytes).expect("a driver");
    let pdb = Symbols::pdb_beside(&image, path).expect("its PDB");
    let catalogue = Catalogue::read(&image, Some(pdb)).expect("its sites");
    let written = trace_decode::tmf::tmf(&catalogue, "driver").expect("formats");
    let provider = catalogue.provider().expect("it names itself").control;
    About {
        formats: tmf::parse(&written.text),
        catalogue,
        provider,
    }
}

fn call(machine: &Machine, file: FileId, code: u32, input: &[u8], room: usize) -> Vec<u8> {
    let mut output = vec![0; room];
    let completion = machine
        .ioctl(file, code, input, &mut output)
        .expect("no rule is broken");
    assert_eq!(completion.status, STATUS_SUCCESS);
    output.truncate(completion.information);
    output
}

/// What the recorder has, in our own decoder's words, as the formats show it; and slots that are lost.
fn decoded(machine: &Machine, file: FileId, catalogue: &Catalogue) -> (Vec<String>, u64) {
    let information = call(machine, file, Call::Query.code(), &[], 48);
    let information = Information::read_from_bytes(&information).expect("48 bytes");
    let mut stream = Stream::new(catalogue, Header::new(information).expect("a header"));
    let mut batch = Batch::default();
    for ring in 0..stream.header().rings() {
        let request = ReadRequest {
            ring,
            reserved: 0,
            from: 0,
        };
        let room = 64 << 10;
        let answer = call(machine, file, Call::Read.code(), request.as_bytes(), room);
        let (reply, slots) = ReadReply::read_from_prefix(&answer).expect("an answer");
        stream.push(&reply, slots, &mut batch).expect("a ring");
    }
    batch.sort();
    let lines = batch.events.iter().map(|event| {
        let site = event.site.as_ref().expect("it is in the file");
        let mut line = format!("{} [{}] {}", event.ticks, event.processor, headline(site));
        for (name, value) in values(site, event.words.as_slice()) {
            line += &format!(" {name}={value}");
        }
        line
    });
    (lines.collect(), stream.counts().1)
}

/// As [`decoded`], of rings that have lost nothing.
fn recorded(machine: &Machine, file: FileId, catalogue: &Catalogue) -> Vec<String> {
    let (lines, lost) = decoded(machine, file, catalogue);
    assert_eq!(lost, 0);
    lines
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// The driver with a recorder, and a handle of it.
fn kernel_test(options: Options) -> (Dock, FileId, About) {
    let path = driver_path("kernel-test-driver");
    let read = read_driver(&path).expect("a driver");
    let dock = Dock::new(&read.driver, options, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let file = open(dock.machine(), protocol::DEVICE);
    call(dock.machine(), file, protocol::RECORD, &[], 0);
    (dock, file, about(&path))
}

fn kinds(machine: &Machine, file: FileId, number: u64, bytes: &[u8]) {
    let input = [&number.to_le_bytes(), bytes].concat();
    call(machine, file, protocol::TRACE_KINDS, &input, 0);
}

/// Numbers and bytes that find the edges.
const INPUTS: [(u64, &[u8]); 5] = [
    (0, b""),
    (
        u64::MAX,
        b"a text that is longer than the sixty-four bytes that are kept of any text",
    ),
    (0x8000_0000_C000_0001, "läuft → 文".as_bytes()),
    (0x0000_0000_0000_1003, &[0xFF, 0, 1, 2, 3]),
    (0x7FFF_8081_FFFE_8002, b"seven b"),
];

#[test]
fn every_kind_of_argument_is_shown_as_our_own_decoder_does() {
    let (dock, file, about) = kernel_test(Options::default());
    let machine = dock.machine();
    let collected = Collected::new();
    machine
        .start_trace(collected.session(about.provider, 5, u32::MAX))
        .expect("it takes it");
    for (number, bytes) in INPUTS {
        kinds(machine, file, number, bytes);
        machine.sleep_ns(50_000_000).expect("it goes on");
    }
    let expected = recorded(machine, file, &about.catalogue);
    let counted = machine.stop_trace(about.provider).expect("it takes it");
    let (events, lost) = collected.shown(&about.formats);
    assert_eq!((counted.lost, lost), (0, 0));
    assert_eq!(
        usize::try_from(counted.messages),
        Ok(collected.records.borrow().len())
    );
    // 11 events for each input.
    assert_eq!(expected.len(), 11 * INPUTS.len());
    assert_eq!(sorted(events), sorted(expected));
    assert!(dock.finish().is_clean());
}

#[test]
fn a_session_gets_what_it_wants_of_what_was_recorded_before_and_nothing_twice() {
    let (dock, file, about) = kernel_test(Options::default());
    let machine = dock.machine();
    let (number, bytes) = INPUTS[3];
    kinds(machine, file, number, bytes);
    // Flag OTHER has bit 7: of its events, one is an error, one verbose.
    let errors = Collected::new();
    machine
        .start_trace(errors.session(about.provider, 2, 1 << 7))
        .expect("it takes it");
    machine.sleep_ns(20_000_000).expect("it goes on");
    kinds(machine, file, number, bytes);
    machine.stop_trace(about.provider).expect("it takes it");
    let (events, lost) = errors.shown(&about.formats);
    assert_eq!((events.len(), lost), (2, 0), "{events:#?}");
    assert!(
        events
            .iter()
            .all(|event| event.contains("statuses known=STATUS_INVALID_PARAMETER"))
    );
    // A later session gets what is new. 0: everything.
    let all = Collected::new();
    machine
        .start_trace(all.session(about.provider, 0, 0))
        .expect("it takes it");
    machine.sleep_ns(20_000_000).expect("it goes on");
    kinds(machine, file, number, bytes);
    machine.stop_trace(about.provider).expect("it takes it");
    let (events, lost) = all.shown(&about.formats);
    assert_eq!((events.len(), lost), (11, 0), "{events:#?}");
    assert!(dock.finish().is_clean());
}

#[test]
fn a_session_switches_on_what_nobody_records_and_off_again() {
    let (dock, file, about) = kernel_test(Options::default());
    let machine = dock.machine();
    let nothing = Selection {
        level: 0,
        flags: 0,
        mode: 0,
        anew: 0,
    };
    call(machine, file, Call::Select.code(), nothing.as_bytes(), 0);
    kinds(machine, file, 1, b"unseen");
    let collected = Collected::new();
    machine
        .start_trace(collected.session(about.provider, 1, u32::MAX))
        .expect("it takes it");
    kinds(machine, file, 1, b"seen");
    machine.stop_trace(about.provider).expect("it takes it");
    kinds(machine, file, 1, b"unseen");
    let (events, _) = collected.shown(&about.formats);
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(events[0].contains("names listed=one"));
    assert_eq!(recorded(machine, file, &about.catalogue).len(), 1);
    assert!(dock.finish().is_clean());
}

#[test]
fn what_a_session_has_no_room_for_is_tried_again_and_what_is_overwritten_is_counted() {
    let (dock, file, about) = kernel_test(Options {
        cpus: 1,
        ..Options::default()
    });
    let machine = dock.machine();
    let collected = Collected::new();
    machine
        .start_trace(collected.session(about.provider, 5, u32::MAX))
        .expect("it takes it");
    machine.sleep_ns(50_000_000).expect("it goes on");
    collected.room.set(5);
    for (number, bytes) in INPUTS {
        kinds(machine, file, number, bytes);
    }
    machine.sleep_ns(50_000_000).expect("it goes on");
    assert!(collected.shown(&about.formats).0.len() <= 5);
    collected.room.set(usize::MAX);
    machine.sleep_ns(50_000_000).expect("it goes on");
    let (events, lost) = collected.shown(&about.formats);
    assert_eq!((events.len(), lost), (11 * INPUTS.len(), 0));
    // Now more than a ring holds: 128 slots.
    collected.room.set(0);
    for _ in 0..10 {
        for (number, bytes) in INPUTS {
            kinds(machine, file, number, bytes);
        }
    }
    machine.sleep_ns(50_000_000).expect("it goes on");
    collected.room.set(usize::MAX);
    machine.sleep_ns(50_000_000).expect("it goes on");
    let (all, lost) = collected.shown(&about.formats);
    let new = all[events.len()..].to_vec();
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), all.len(), "an event came twice");
    // What the ring has now is what came last.
    let (kept, _) = decoded(machine, file, &about.catalogue);
    assert!(lost > 0 && new.ends_with(&kept[kept.len() - 10..]));
    let counted: Traced = machine.stop_trace(about.provider).expect("it takes it");
    assert!(counted.lost > 0);
    assert!(dock.finish().is_clean());
}

#[test]
fn wperf_driver_is_traced_from_its_beginning_to_its_end() {
    let path = driver_path("wperf-driver");
    let about = about(&path);
    assert_eq!(
        plain_guid(about.provider),
        "6f0d8f5e-3f0c-4b57-9d3a-5c1c0b9a7e21"
    );
    let read = read_driver(&path).expect("a driver");
    let machine = Options::default().machine(|_| {}).expect("a machine");
    let collected = Collected::new();
    // The session is there before the driver: its provider is told while it registers.
    machine
        .start_trace(collected.session(about.provider, 4, u32::MAX))
        .expect("nobody to tell");
    let driver = match machine.load(&read.driver) {
        Ok(lab_ntos::Loaded::Running(driver)) => driver,
        other => panic!("{other:?}"),
    };
    let file = open(&machine, r"\\.\WperfDriver");
    machine.close(file).expect("it closes");
    // It ends while the session goes on: what was recorded last is sent at its unloading.
    let leaks = machine.unload(driver).expect("no rule is broken");
    assert!(leaks.is_empty(), "{leaks:?}");
    let (events, lost) = collected.shown(&about.formats);
    assert_eq!(lost, 0);
    let texts: Vec<&str> = events
        .iter()
        .map(|event| event.split("] ").nth(1).expect("a text"))
        .collect();
    assert!(
        texts[0].contains("looked for uncore units") && texts[1].contains(": started cores=4"),
        "{texts:#?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("opened session=")),
        "{texts:#?}"
    );
    assert!(
        texts.last().is_some_and(|text| text.starts_with("< ")),
        "{texts:#?}"
    );
}

#[test]
fn formats_name_functions_and_those_they_were_inlined_into() {
    let about = about(&driver_path("wperf-driver"));
    let cleanup = about
        .formats
        .values()
        .find(|format| format.pairs["FUNC"].starts_with("wperf_driver::control::cleanup<"))
        .expect("it was inlined");
    assert!(cleanup.pairs["FUNC"].contains("::cleanup"));
    assert!(cleanup.name.starts_with("control_rs"), "{}", cleanup.name);
    assert_eq!(cleanup.pairs["LEVEL"], "TRACE_LEVEL_INFORMATION");
    // One for each copy of a site, and the relay's own two.
    assert_eq!(about.formats.len(), about.catalogue.sites().len() + 2);
}

#[test]
fn a_session_without_threads_or_memory_gets_nothing_and_the_driver_goes_on() {
    let path = driver_path("kernel-test-driver");
    let about = about(&path);
    let read = read_driver(&path).expect("a driver");
    for n in 0..24 {
        let dock = Dock::new(&read.driver, Options::default(), |_| {});
        let dock = dock.unwrap_or_else(|error| panic!("{error}"));
        let machine = dock.machine();
        let file = open(machine, protocol::DEVICE);
        machine.fail_nth(n);
        let recording = machine
            .ioctl(file, protocol::RECORD, &[], &mut [])
            .expect("no rule is broken");
        let collected = Collected::new();
        machine
            .start_trace(collected.session(about.provider, 5, u32::MAX))
            .expect("it takes it");
        kinds(machine, file, 7, b"bytes");
        machine.stop_trace(about.provider).expect("it takes it");
        let (events, lost) = collected.shown(&about.formats);
        if recording.status != STATUS_SUCCESS {
            assert!(events.is_empty());
        }
        assert_eq!(lost, 0);
        let verdict = dock.finish();
        assert!(verdict.is_clean(), "call {n}: {verdict}");
    }
}

#[test]
fn a_user_sees_the_messages_of_a_docked_driver() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let served = Served::start(&["--etw", &path("log.etl"), "--etw-level", "4"]);
    assert!(served.run("status").status.success());
    served.end();
    let driver = driver_path("wperf-driver").display().to_string();
    let drydock = |words: &[&str]| {
        let mut command = Command::new(program("drydock"));
        let output = command.arg("trace").args(words).output();
        let output = output.expect("drydock runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
    };
    let (shown, counted) = drydock(&["--driver", &driver, "--etw", &path("log.etl")]);
    assert!(counted.contains(" 0 without a format"), "{counted}");
    let starts = shown
        .lines()
        .find(|line| line.contains(": started cores=4"));
    let prefix = starts.and_then(|line| line.split_once(" [wperf-driver] "));
    let (prefix, _) = prefix.expect("it began");
    assert!(
        prefix.starts_with('[') && prefix.contains("::20"),
        "{prefix}"
    );
    assert!(shown.contains("opened session="), "{shown}");
    // From the formats alone, it is the same.
    drydock(&[
        "--driver",
        &driver,
        "--as",
        "tmf",
        "-o",
        &path("formats.tmf"),
    ]);
    let (again, _) = drydock(&["--etw", &path("log.etl"), "--tmf", &path("formats.tmf")]);
    assert_eq!(again.lines().count(), shown.lines().count());
    drydock(&[
        "--driver",
        &driver,
        "--as",
        "guids",
        "-o",
        &path("driver.ctl"),
    ]);
    let guids = std::fs::read_to_string(path("driver.ctl")).expect("it was written");
    assert_eq!(
        guids,
        "6f0d8f5e-3f0c-4b57-9d3a-5c1c0b9a7e21 WperfDriver\r\n"
    );
}
