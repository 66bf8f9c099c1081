//! What was in the rings when the system stopped is what a dump shows, added or in memory; and whatever the
//! bytes are, nothing panics.

mod made;

use lab_dump::{Contents, Dump, DumpError, Memory, Page, write};
use made::BUILD;
use proptest::prelude::*;
use trace_decode::catalogue::{Build, Catalogue};
use trace_decode::dump::{DumpTrace, DumpTraceError, Origin};
use trace_decode::stream::{Event, Stream, TraceError};
use trace_format::Slot;
use trace_format::dump::{
    BLOCK_MAGIC, Head, RING_LIMIT, RING_MAGIC, RING_POSITION, RING_START, RingHead, next_piece, tag,
};
use trace_format::request::{Clocks, Information};
use trace_format::site::Kind;
use zerocopy::IntoBytes;

const SLOTS: usize = 16;
const RINGS: usize = 4;
/// Where the block is, across two pages, and the rings' control records.
const BLOCK: u64 = 0x7FFF_1234_5F00;
const CONTROL: u64 = 0x7FFF_2000_0000;
const CONTROL_BYTES: u32 = 128;

fn catalogue(build: Build) -> Catalogue {
    Catalogue::of(vec![made::site(5, &[Kind::Unsigned])], build)
}

fn information() -> Information {
    made::information(2, 16)
}

/// A recorder's memory.
struct Recorder {
    block: Vec<u8>,
    control: Vec<u8>,
}

impl Recorder {
    /// With so many events in each ring; some of the last are half written.
    fn new(events: [u64; RINGS], torn: &[usize]) -> Self {
        let head = Head {
            magic: BLOCK_MAGIC,
            address: BLOCK,
            rings: CONTROL,
            ring_bytes: CONTROL_BYTES,
            reserved: 0,
            information: information(),
            stopped: Clocks {
                ticks: 9_000_000,
                system_time: 9_000_000,
            },
        };
        let mut block = head.as_bytes().to_vec();
        let mut control = Vec::new();
        for (ring, count) in (0..).zip(events) {
            let first = SLOTS as u64;
            let ring_head = RingHead {
                magic: RING_MAGIC,
                ring,
                slots: 16,
                position: first + count,
                limit: u64::MAX,
                start: first,
                reserved: [0; 3],
            };
            block.extend(ring_head.as_bytes());
            let mut slots = [[0; 32]; SLOTS];
            for position in first..first + count {
                let number = position - first;
                let ticks = 2000 + number * RINGS as u64 + u64::from(ring);
                let place = usize::try_from(position).unwrap() % SLOTS;
                slots[place] = Slot::new(position, 5, [ticks, number, 0]).to_bytes();
            }
            for place in torn {
                slots[*place][20] ^= 1;
            }
            block.extend(slots.concat());
            let mut record = [0; CONTROL_BYTES as usize];
            for (at, value) in [
                (RING_POSITION, ring_head.position.saturating_mul(32)),
                (RING_LIMIT, ring_head.limit.saturating_mul(32)),
                (RING_START, ring_head.start),
            ] {
                record[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            control.extend(record);
        }
        Self { block, control }
    }

    /// What the driver gives, `first` ring first.
    fn given(&self, first: usize) -> Vec<u8> {
        let mut given = Vec::new();
        while let Some(piece) = next_piece(given.len(), RINGS, SLOTS, first) {
            given.extend(&self.block[piece]);
        }
        given
    }

    /// A dump with these pieces of data added.
    fn dump(&self, blobs: Vec<([u8; 16], Vec<u8>)>) -> Vec<u8> {
        let mut pages = Pages::default();
        pages.put(BLOCK, &self.block);
        pages.put(CONTROL, &self.control);
        let contents = Contents {
            code: 0xE2,
            parameters: [0; 4],
            context: Vec::new(),
            instruction: 0,
            build: 26100,
            processors: 2,
            system_time: 9_000_000,
            up_time: 0,
            comment: String::new(),
            modules: Vec::new(),
            blobs,
        };
        let mut bytes = Vec::new();
        write(&contents, &pages, &mut bytes).expect("memory takes everything");
        bytes
    }
}

#[derive(Default)]
struct Pages {
    pages: Vec<Page>,
    bytes: Vec<[u8; 4096]>,
}

impl Pages {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let page = at & !0xFFF;
            if self.pages.last().is_none_or(|last| last.address != page) {
                self.pages.push(Page {
                    address: page,
                    writable: true,
                    executable: false,
                });
                self.bytes.push([0; 4096]);
            }
            self.bytes.last_mut().expect("one was added")[usize::try_from(at & 0xFFF).unwrap()] =
                *byte;
        }
    }
}

impl Memory for Pages {
    fn pages(&self) -> &[Page] {
        &self.pages
    }
    fn read(&self, index: usize, to: &mut [u8; 4096]) {
        *to = self.bytes[index];
    }
}

struct Shown {
    events: Vec<Event>,
    lost: u64,
    missing: u32,
    origin: Origin,
}

fn show(bytes: &[u8], build: Build) -> Result<Shown, DumpTraceError> {
    let catalogue = catalogue(build);
    let dump = Dump::open(bytes)?;
    let trace = DumpTrace::find(&dump, &catalogue)?;
    let mut stream = Stream::new(&catalogue, trace.header());
    let (batch, missing) = trace.decode(&mut stream)?;
    let (decoded, lost) = stream.counts();
    assert_eq!(decoded, batch.events.len() as u64);
    Ok(Shown {
        events: batch.events,
        lost,
        missing,
        origin: trace.origin(),
    })
}

/// Number and processor of each event.
fn numbers(shown: &Shown) -> Vec<(u32, bool, u64)> {
    let events = shown.events.iter();
    events
        .map(|event| {
            (
                event.processor,
                event.at_dispatch,
                event.words.as_slice()[0],
            )
        })
        .collect()
}

#[test]
fn another_builds_trace_is_refused_and_one_that_is_not_there_is_told() {
    let recorder = Recorder::new([3, 0, 2, 1], &[]);
    let other = Build {
        identity: [1, 2, 4],
    };
    let added = recorder.dump(vec![(tag(BUILD.identity), recorder.given(0))]);
    let in_memory = recorder.dump(Vec::new());
    for bytes in [&added, &in_memory] {
        let error = show(bytes, other).err().expect("not ours").to_string();
        assert!(error.contains("another build"), "{error}");
        assert_eq!(numbers(&show(bytes, BUILD).expect("ours")).len(), 6);
    }
    let nothing = Recorder {
        block: vec![0; 64],
        control: vec![0; 64],
    };
    let error = show(&nothing.dump(Vec::new()), BUILD)
        .err()
        .expect("nothing is there");
    assert!(matches!(error, DumpTraceError::NoTrace { .. }), "{error}");
    // A small dump: its memory cannot be read, what was added can.
    let small = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[0xF98] = 4;
        show(&bytes, BUILD)
    };
    assert_eq!(numbers(&small(&added).expect("it was added")).len(), 6);
    let error = small(&in_memory)
        .err()
        .expect("nowhere to look")
        .to_string();
    assert!(error.contains("not laid out in a way"), "{error}");
}

#[test]
fn a_dump_that_is_cut_off_shows_what_is_there_or_says_where() {
    let recorder = Recorder::new([3, 2, 2, 1], &[]);
    let given = recorder.given(1);
    let bytes = recorder.dump(vec![(tag(BUILD.identity), given.clone())]);
    // In the last ring's slots.
    let shown = show(&bytes[..bytes.len() - 15 * 32], BUILD).expect("most is there");
    assert_eq!((shown.missing, shown.origin), (0, Origin::Added));
    // Between two rings.
    let shown = show(&bytes[..bytes.len() - 2 * 576], BUILD).expect("half is there");
    assert_eq!((shown.missing, shown.lost), (2, 0));
    assert_eq!(numbers(&shown).len(), 4);
    // In the head.
    let error = show(&bytes[..bytes.len() - given.len() + 50], BUILD).err();
    let cut = matches!(error, Some(DumpTraceError::Dump(DumpError::CutOff(_))));
    assert!(cut, "{error:?}");
    let error = show(&bytes[..100], BUILD).err();
    let cut = matches!(error, Some(DumpTraceError::Dump(DumpError::CutOff(100))));
    assert!(cut, "{error:?}");
}

#[test]
fn rings_that_are_given_twice_or_are_none_are_malformed() {
    let recorder = Recorder::new([3, 2, 2, 1], &[]);
    let given = recorder.given(0);
    let malformed = |given: Vec<u8>| {
        let error = show(&recorder.dump(vec![(tag(BUILD.identity), given)]), BUILD).err();
        matches!(error, Some(DumpTraceError::Trace(TraceError::Malformed(_))))
    };
    let twice = [given.as_slice(), &given[96..]].concat();
    assert!(malformed(twice));
    assert!(malformed([&given[..96], &given[97..]].concat()));
    assert!(malformed(vec![7; 200]));
}

proptest! {
    #[test]
    fn what_was_in_the_rings_is_shown_in_order_and_what_was_torn_is_not(
        events in proptest::array::uniform4(0u64..40),
        torn in proptest::collection::btree_set(0usize..SLOTS, 0..4),
        first in 0usize..RINGS,
        pieces in 1usize..2000,
        is_added: bool,
    ) {
        let torn: Vec<usize> = torn.into_iter().collect();
        let recorder = Recorder::new(events, &torn);
        let blobs = if is_added {
            let given = recorder.given(first);
            given.chunks(pieces).map(|piece| (tag(BUILD.identity), piece.to_vec())).collect()
        } else {
            Vec::new()
        };
        let shown = show(&recorder.dump(blobs), BUILD).expect("ours");
        prop_assert_eq!(shown.missing, 0);
        prop_assert_eq!(shown.origin, if is_added { Origin::Added } else { Origin::Memory });
        let mut expected = Vec::new();
        let mut lost = 0;
        for (ring, count) in (0u32..).zip(events) {
            for number in 0..count {
                let place = usize::try_from(number).unwrap() % SLOTS;
                if number + SLOTS as u64 >= count && !torn.contains(&place) {
                    expected.push((number * RINGS as u64 + u64::from(ring), (ring / 2, ring % 2 == 1, number)));
                } else {
                    lost += 1;
                }
            }
        }
        expected.sort_unstable();
        let expected: Vec<_> = expected.into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!(numbers(&shown), expected);
        prop_assert_eq!(shown.lost, lost);
    }

    #[test]
    fn a_changed_or_cut_dump_never_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        // Into the driver's data, or the recorder's memory.
        near in proptest::collection::vec((0usize..2600, any::<u8>()), 0..20),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        is_added: bool,
    ) {
        let recorder = Recorder::new([20, 3, 0, 40], &[1]);
        let blobs = if is_added { vec![(tag(BUILD.identity), recorder.given(2))] } else { Vec::new() };
        let mut bytes = recorder.dump(blobs);
        let end = bytes.len();
        for (at, value) in near {
            let place = if is_added { end - 1 - at } else { 0x3F00 + at };
            bytes[place] = value;
        }
        for (at, value) in changes {
            let at = at.index(end);
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(end));
        }
        let _ = show(&bytes, BUILD);
    }
}
