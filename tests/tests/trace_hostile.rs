//! Whatever is in a driver file or in a trace, the decoder ends, soon, with events or an error.
//!
//! All memory of the process is limited: who asks for more is ended by the kernel, and the test with it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use e2e::flavours::flavoured;
use lab_image::{Image, Symbols};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trace_decode::statistics::Statistics;
use trace_decode::stream::{Event, File, Words};
use trace_decode::text::Printer;
use trace_decode::{Catalogue, CatalogueError, Filter, Stream, json, perfetto, tmf};
use trace_format::request::{Clocks, FILE_MAGIC, Information, ReadReply};
use trace_format::{Form, Slot, site};
use zerocopy::IntoBytes;

/// What one input may take, on a machine that has other things to do.
const MOST_TIME: Duration = Duration::from_secs(10);
/// What the process may ask for, with its code, stacks and other tests.
const MOST_MEMORY: u64 = 2 << 30;
const PROCESSORS: u32 = 2;
const SLOTS: u64 = 64;

/// The driver with all sites, its PDB, and where its section of sites is in the file.
struct Driver {
    file: Vec<u8>,
    pdb: Vec<u8>,
    section: std::ops::Range<usize>,
}

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let limit = getrlimit(Resource::As);
        let limit = Rlimit {
            current: Some(MOST_MEMORY),
            ..limit
        };
        let path = flavoured("all");
        setrlimit(Resource::As, limit).expect("a process may limit itself");
        let file = std::fs::read(&path).expect("it is there");
        let image = Image::parse(&file).expect("a driver");
        let pdb = Symbols::pdb_beside(&image, &path).expect("its PDB");
        let section = image
            .sections()
            .iter()
            .find(|section| section.name == site::SECTION)
            .expect("sites");
        let begin = section.file_offset as usize;
        let section = begin..begin + section.virtual_size as usize;
        Driver { file, pdb, section }
    })
}

/// A change of bytes.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Word(Index, u32),
    Copy(Index, Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let word = prop_oneof![
        any::<u32>(),
        0..0x2_0000u32,
        Just(0),
        Just(u32::MAX),
        Just(0x8000_0000),
        Just(0xFFFF),
        Just(u32::from_le_bytes(site::SITE_MAGIC)),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
        (any::<Index>(), word).prop_map(|(at, value)| Change::Word(at, value)),
        (any::<Index>(), any::<Index>(), 1..200usize)
            .prop_map(|(from, to, bytes)| Change::Copy(from, to, bytes)),
    ]
}

fn apply(changes: &[Change], bytes: &mut [u8]) {
    let length = bytes.len();
    for change in changes {
        match change {
            Change::Byte(at, value) => bytes[at.index(length)] = *value,
            Change::Word(at, value) => {
                let at = at.index(length / 4) * 4;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            Change::Copy(from, to, count) => {
                let (from, to) = (from.index(length), to.index(length));
                let count = (*count).min(length - from).min(length - to);
                bytes.copy_within(from..from + count, to);
            }
        }
    }
}

/// A trace of events of all sites, some of which have more words than there are.
fn trace(catalogue: &Catalogue, numbers: &[u64]) -> Vec<u8> {
    let [time_date_stamp, image_bytes, checksum] = catalogue.build().identity;
    let information = Information {
        version: site::VERSION,
        time_date_stamp,
        image_bytes,
        checksum,
        processors: PROCESSORS,
        slots: u32::try_from(SLOTS).expect("few"),
        switches: 0,
        mode: 0,
        clocks: Clocks {
            ticks: 1,
            system_time: 2,
        },
    };
    let mut bytes = [FILE_MAGIC.as_slice(), information.as_bytes()].concat();
    let sites = catalogue.sites();
    let mut sites = sites.iter().cycle();
    let mut numbers = numbers.iter().cycle().copied();
    let mut number = || numbers.next().unwrap_or(7);
    for ring in 0..PROCESSORS * 2 {
        let reply = ReadReply {
            ring,
            slots: u32::try_from(SLOTS).expect("few"),
            first: SLOTS,
            position: SLOTS * 2,
            start: SLOTS,
            clocks: Clocks {
                ticks: 1_000_000,
                system_time: 1_000_000,
            },
        };
        bytes.extend_from_slice(reply.as_bytes());
        for position in SLOTS..SLOTS * 2 {
            // Each third slot goes on with the event before.
            let id = sites.next().map_or(1, |site| site.id);
            let id = if position % 3 == 2 { 0 } else { id };
            let slot = Slot::new(position, id, [number(), number() % 80, number()]);
            bytes.extend(slot.to_bytes());
        }
    }
    bytes
}

/// Decodes a trace, and makes of it all that there is.
fn show(catalogue: &Catalogue, bytes: &[u8]) {
    let Ok(file) = File::open(bytes) else {
        return;
    };
    let mut stream = Stream::new(catalogue, file.header);
    let Ok(batch) = file.decode(&mut stream) else {
        return;
    };
    let (time, mut sink) = (stream.time(), std::io::sink());
    let printer = Printer {
        colours: true,
        places: true,
    };
    let filter = Filter {
        conditions: vec!["core>=0".parse().expect("a condition")],
        ..Filter::default()
    };
    let (mut statistics, mut packets) = (Statistics::default(), perfetto::Trace::default());
    for event in &batch.events {
        let _ = filter.wants(event, &time);
        printer.event(&mut sink, event, &time).expect("a sink");
        let _ = json::event(event, &time).to_string();
        statistics.add(event);
        packets.event(event, &time);
    }
    for loss in &batch.losses {
        printer.loss(&mut sink, loss).expect("a sink");
        packets.loss(loss);
    }
    statistics.write(&mut sink, &time).expect("a sink");
    assert!(batch.events.len() <= bytes.len() / 32);
}

/// Takes a driver file as far as it goes; whether it had sites.
fn read(file: &[u8], pdb: Option<Vec<u8>>, numbers: &[u64]) -> bool {
    let begun = Instant::now();
    let catalogue = Image::parse(file)
        .ok()
        .and_then(|image| Catalogue::read(&image, pdb).ok());
    if let Some(catalogue) = &catalogue {
        show(catalogue, &trace(catalogue, numbers));
        let _ = tmf::tmf(catalogue, "driver");
        let _ = catalogue.flags(["LIFE", "none"]);
    }
    assert!(begun.elapsed() < MOST_TIME, "{:?}", begun.elapsed());
    catalogue.is_some()
}

#[test]
fn the_driver_as_it_is_has_sites() {
    let driver = driver();
    assert!(read(&driver.file, Some(driver.pdb.clone()), &[1, 2, 3]));
    assert!(!read(&driver.file[..driver.section.start], None, &[]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_section_of_sites_is_read_or_refused(
        changes in vec(change(), 1..6), numbers in vec(any::<u64>(), 1..8),
    ) {
        let driver = driver();
        let mut file = driver.file.clone();
        apply(&changes, &mut file[driver.section.clone()]);
        read(&file, None, &numbers);
    }

    #[test]
    fn a_changed_driver_file_is_read_or_refused(
        changes in vec(change(), 1..6), header in any::<bool>(), numbers in vec(any::<u64>(), 1..8),
    ) {
        let mut file = driver().file.clone();
        let bytes = if header { 0x400 } else { file.len() };
        apply(&changes, &mut file[..bytes]);
        read(&file, None, &numbers);
    }

    #[test]
    fn a_changed_trace_is_read_or_refused(
        changes in vec(change(), 1..12), numbers in vec(any::<u64>(), 1..8), end in any::<Index>(), cut in any::<bool>(),
    ) {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        let catalogue = CATALOGUE.get_or_init(|| {
            let image = Image::parse(&driver().file).expect("a driver");
            Catalogue::read(&image, None).expect("its sites")
        });
        let mut bytes = trace(catalogue, &numbers);
        apply(&changes, &mut bytes);
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        let begun = Instant::now();
        show(catalogue, &bytes);
        prop_assert!(begun.elapsed() < MOST_TIME);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_pdb_is_read_or_refused(changes in vec(change(), 1..12)) {
        let driver = driver();
        let mut pdb = driver.pdb.clone();
        apply(&changes, &mut pdb);
        read(&driver.file, Some(pdb), &[1]);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: usize) {
    let value = u32::try_from(value).expect("a small file");
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The driver with another section of sites, made by a function of its rva: in the place of the last
/// section, which may be of any length.
fn with_sites(section: impl FnOnce(u32) -> Vec<u8>) -> Vec<u8> {
    const SECTION_HEADER: usize = 40;
    let mut file = driver().file.clone();
    let pe = u32_at(&file, 0x3C) as usize;
    let optional = pe + 24;
    let count = usize::from(file[pe + 6]);
    let headers = optional + usize::from(file[pe + 20]);
    for header in 0..count {
        let name = headers + header * SECTION_HEADER;
        if file[name..].starts_with(site::SECTION.as_bytes()) {
            file[name..name + 8].copy_from_slice(b"PAGEOLD\0");
        }
    }
    let last = headers + (count - 1) * SECTION_HEADER;
    let rva = u32_at(&file, last + 12);
    let bytes = section(rva);
    let stored = bytes.len().next_multiple_of(0x200);
    file[last..last + 8].copy_from_slice(b"PAGETRC\0");
    put(&mut file, last + 8, bytes.len());
    put(&mut file, last + 16, stored);
    let begin = file.len().next_multiple_of(0x200);
    put(&mut file, last + 20, begin);
    // Not to be freed after DriverEntry, and no base relocations.
    put(&mut file, last + 36, 0x4000_0040);
    put(&mut file, optional + 112 + 5 * 8, 0);
    put(&mut file, optional + 112 + 5 * 8 + 4, 0);
    let end = rva as usize + bytes.len();
    put(&mut file, optional + 56, end.next_multiple_of(0x1000));
    file.resize(begin, 0);
    file.extend(&bytes);
    file.resize(begin + stored, 0);
    file
}

/// A description with an argument that has names, as many as there may be.
fn large_description() -> Vec<u8> {
    let text = |text: &str| {
        let length = u16::try_from(text.len()).expect("short");
        [length.to_le_bytes().as_slice(), text.as_bytes()].concat()
    };
    let mut rest = Vec::new();
    for part in ["FLAG", "module", "file.rs", "text", "field"] {
        rest.extend(text(part));
    }
    rest.extend([11, 64]);
    rest.extend(u16::MAX.to_le_bytes());
    for value in 0..u64::from(u16::MAX) {
        rest.extend(value.to_le_bytes());
        rest.extend(text(""));
    }
    let length = u32::try_from(20 + rest.len()).expect("short");
    let mut bytes = site::SITE_MAGIC.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([4, 0, 0, 0]);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(rest);
    bytes
}

/// A section with so many copies of one site.
fn copies(rva: u32, count: usize) -> Vec<u8> {
    const DIRECTORY: usize = 36;
    let description = large_description();
    let events = (DIRECTORY + description.len()).next_multiple_of(4);
    let end = events + count * 8;
    let place = |offset: usize| rva + u32::try_from(offset).expect("short");
    let mut section = site::DIRECTORY_MAGIC.to_vec();
    let rvas = [events, end, end, end, end, end].map(place);
    for number in [site::VERSION].into_iter().chain(rvas) {
        section.extend(number.to_le_bytes());
    }
    section.extend(description);
    section.resize(events, 0);
    for _ in 0..count {
        section.extend(place(DIRECTORY).to_le_bytes());
        section.extend(0x1000u32.to_le_bytes());
    }
    section
}

#[test]
fn records_that_all_name_one_large_description_do_not_fill_the_memory() {
    let begun = Instant::now();
    assert!(read(&with_sites(|rva| copies(rva, 4)), None, &[1]));
    let file = with_sites(|rva| copies(rva, 100_000));
    let image = Image::parse(&file).expect("a driver");
    let error = Catalogue::read(&image, None).expect_err("too much");
    assert!(
        matches!(
            error,
            CatalogueError::Malformed {
                what: "more described than a driver can have",
                ..
            }
        ),
        "{error}"
    );
    assert!(begun.elapsed() < MOST_TIME, "{:?}", begun.elapsed());
}

#[test]
fn functions_that_never_end_do_not_make_statistics_slow() {
    const EVENTS: u64 = 400_000;
    let image = Image::parse(&driver().file).expect("a driver");
    let catalogue = Catalogue::read(&image, None).expect("its sites");
    let sites = catalogue.sites();
    let of = |form| sites.iter().find(|site| site.form == form).expect("one");
    let (enter, exit) = (of(Form::Enter), of(Form::ScopeExit));
    assert_ne!(enter.function, exit.function);
    let begun = Instant::now();
    let mut statistics = Statistics::default();
    for position in 0..EVENTS {
        let site = if position < EVENTS / 2 { enter } else { exit };
        statistics.add(&Event {
            processor: 0,
            at_dispatch: false,
            position,
            ticks: position,
            site: Some(Arc::clone(site)),
            id: site.id,
            words: Words::Short([0; 2]),
        });
    }
    assert!(statistics.rows().iter().all(|row| row.count == EVENTS / 2));
    assert!(begun.elapsed() < MOST_TIME, "{:?}", begun.elapsed());
}
