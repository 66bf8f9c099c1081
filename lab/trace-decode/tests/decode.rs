//! What was recorded is what is decoded, whatever was lost; and whatever the bytes are, nothing panics.

mod made;

use made::{BUILD, site};
use proptest::prelude::*;
use trace_decode::catalogue::{Build, Catalogue};
use trace_decode::stream::{Batch, File, Header, Stream, TraceError};
use trace_decode::text::Printer;
use trace_decode::value::{Value, values};
use trace_decode::{Filter, json, perfetto, statistics::Statistics};
use trace_format::Slot;
use trace_format::request::{Clocks, FILE_MAGIC, Information, ReadReply};
use trace_format::site::Kind;
use trace_format::slot::slots_of;
use zerocopy::IntoBytes;

const SLOTS: u64 = 16;

fn catalogue() -> Catalogue {
    use Kind::{Bool, Bytes, Guid, Signed, Text, Unsigned};
    let kinds: [&[Kind]; 6] = [
        &[],
        &[Unsigned],
        &[Signed, Bool],
        &[Unsigned, Guid, Signed],
        &[Text, Unsigned],
        &[Unsigned, Bytes, Text],
    ];
    let sites = (1..).zip(kinds).map(|(id, kinds)| site(id, kinds));
    Catalogue::of(sites.collect(), BUILD)
}

fn information() -> Information {
    made::information(1, u32::try_from(SLOTS).unwrap())
}

/// An event as it is recorded.
#[derive(Clone, Debug)]
struct Recorded {
    id: u32,
    words: Vec<u64>,
}

fn push_bytes(words: &mut Vec<u64>, bytes: &[u8]) {
    words.push(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_le_bytes(word));
    }
}

fn recorded() -> impl Strategy<Value = Recorded> {
    let words = (
        1u32..7,
        any::<[u64; 4]>(),
        proptest::collection::vec(any::<u8>(), 0..20),
    );
    words.prop_map(|(id, numbers, bytes)| {
        let [a, b, c, d] = numbers;
        let mut words = Vec::new();
        match id {
            1 => {}
            2 => words.push(a),
            3 => words.extend([a, b & 1]),
            4 => words.extend([a, b, c, d]),
            5 => {
                push_bytes(&mut words, &bytes);
                words.push(a);
            }
            _ => {
                words.push(a);
                push_bytes(&mut words, &bytes);
                push_bytes(&mut words, &bytes);
            }
        }
        Recorded { id, words }
    })
}

/// The slots of an event at a position.
fn slots(event: &Recorded, position: u64, time: u64) -> Vec<Slot> {
    let word = |index: usize| event.words.get(index).copied().unwrap_or(0);
    let mut slots = vec![Slot::new(position, event.id, [time, word(0), word(1)])];
    for (at, chunk) in (position + 1..).zip(event.words.get(2..).unwrap_or_default().chunks(3)) {
        let next = |index: usize| chunk.get(index).copied().unwrap_or(0);
        slots.push(Slot::new(at, 0, [next(0), next(1), next(2)]));
    }
    slots
}

/// A ring, and a reader that looks now and then.
fn traced(events: &[Recorded], looks: &[bool]) -> (Vec<u8>, u64) {
    let mut ring = vec![Slot([0; 4]); usize::try_from(SLOTS).unwrap()];
    let (mut position, mut next) = (SLOTS, SLOTS);
    let mut file = [FILE_MAGIC.as_slice(), information().as_bytes()].concat();
    let looks = looks.iter().copied().chain(std::iter::repeat(false));
    let last = events.len().saturating_sub(1);
    for (index, (event, look)) in events.iter().zip(looks).enumerate() {
        for slot in slots(event, position, 2000 + index as u64) {
            ring[usize::try_from(position % SLOTS).unwrap()] = slot;
            position += 1;
        }
        if look || index == last {
            let first = next.max(position.saturating_sub(SLOTS));
            let reply = ReadReply {
                ring: 1,
                slots: u32::try_from(position - first).unwrap(),
                first,
                position,
                start: SLOTS,
                clocks: Clocks {
                    ticks: 1_000_000,
                    system_time: 1_000_000,
                },
            };
            file.extend_from_slice(reply.as_bytes());
            for at in first..position {
                file.extend(ring[usize::try_from(at % SLOTS).unwrap()].to_bytes());
            }
            next = position;
        }
    }
    (file, position - SLOTS)
}

/// Everything that events can become.
fn show(catalogue: &Catalogue, bytes: &[u8]) -> Result<(u64, u64), TraceError> {
    let file = File::open(bytes)?;
    let mut stream = Stream::new(catalogue, file.header);
    let batch = file.decode(&mut stream)?;
    let (time, mut sink) = (stream.time(), Vec::new());
    let printer = Printer {
        colours: true,
        places: true,
    };
    let filter = Filter {
        conditions: vec!["Unsigned>=0".parse().unwrap()],
        ..Filter::default()
    };
    let (mut statistics, mut trace) = (Statistics::default(), perfetto::Trace::default());
    for event in &batch.events {
        if filter.wants(event, &time) {
            sink.push(b' ');
        }
        printer.event(&mut sink, event, &time).unwrap();
        sink.extend(json::event(event, &time).to_string().bytes());
        statistics.add(event);
        trace.event(event, &time);
    }
    for loss in &batch.losses {
        printer.loss(&mut sink, loss).unwrap();
        sink.extend(json::loss(loss).to_string().bytes());
        trace.loss(loss);
    }
    statistics.write(&mut sink, &time).unwrap();
    sink.extend(trace.into_bytes());
    Ok(stream.counts())
}

proptest! {
    #[test]
    fn what_was_recorded_is_decoded_or_counted(
        events in proptest::collection::vec(recorded(), 0..60),
        looks in proptest::collection::vec(any::<bool>(), 0..60),
    ) {
        let (bytes, reserved) = traced(&events, &looks);
        let catalogue = catalogue();
        let file = File::open(&bytes).unwrap();
        let mut stream = Stream::new(&catalogue, file.header);
        let batch = file.decode(&mut stream).unwrap();
        let (decoded, lost) = stream.counts();
        prop_assert_eq!(decoded + lost, reserved);
        prop_assert_eq!(batch.losses.iter().map(|loss| loss.slots).sum::<u64>(), lost);
        // Each event that came out is the one that went in at its time.
        for event in &batch.events {
            let original = &events[usize::try_from(event.ticks - 2000).unwrap()];
            prop_assert_eq!(event.id, original.id);
            let used = original.words.len();
            prop_assert_eq!(&event.words.as_slice()[..used], &original.words[..]);
        }
        if lost == 0 {
            prop_assert_eq!(batch.events.len(), events.len());
        }
        let most: usize = events.iter().map(|event| slots_of(event.words.len())).sum();
        prop_assert_eq!(most as u64, reserved);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), begins: bool) {
        let mut file = Vec::new();
        if begins {
            file.extend_from_slice(&FILE_MAGIC);
            file.extend_from_slice(information().as_bytes());
        }
        file.extend(bytes);
        let _ = show(&catalogue(), &file);
    }

    #[test]
    fn no_changed_trace_makes_it_panic(
        events in proptest::collection::vec(recorded(), 1..40),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        end in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, _) = traced(&events, &[true; 40]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        let _ = show(&catalogue(), &bytes);
    }
}

#[test]
fn what_is_wrong_with_a_trace_is_said() {
    let (bytes, _) = traced(
        &[Recorded {
            id: 2,
            words: vec![7],
        }],
        &[],
    );
    let error = |bytes: &[u8]| show(&catalogue(), bytes).unwrap_err();
    assert_eq!(error(b"something else"), TraceError::NoTrace);
    assert_eq!(error(&bytes[..20]), TraceError::CutOff(20));
    assert_eq!(error(&bytes[..bytes.len() - 1]), TraceError::CutOff(56));
    assert_eq!(show(&catalogue(), &bytes), Ok((1, 0)));
    let other = Catalogue::of(
        Vec::new(),
        Build {
            identity: [9, 2, 3],
        },
    );
    let header = Header::new(information()).unwrap();
    assert_eq!(
        header.check(&other).unwrap_err().to_string(),
        "the trace is of another build of the driver: it says time stamp 00000001, 2 bytes, \
         checksum 00000003, the file is time stamp 00000009, 2 bytes, checksum 00000003"
    );
}

#[test]
fn an_event_that_is_not_complete_is_waited_for_and_then_lost() {
    let catalogue = catalogue();
    let mut stream = Stream::new(&catalogue, Header::new(information()).unwrap());
    let mut reply = ReadReply {
        ring: 0,
        slots: 2,
        first: SLOTS,
        position: SLOTS + 2,
        start: SLOTS,
        clocks: Clocks::default(),
    };
    let late = Slot::new(SLOTS, 2, [5, 6, 0]);
    let early = Slot::new(SLOTS + 1, 2, [4, 7, 0]);
    let bytes = |slots: [Slot; 2]| slots.map(Slot::to_bytes).concat();
    let mut batch = Batch::default();
    stream
        .push(&reply, &bytes([Slot([0; 4]), early]), &mut batch)
        .unwrap();
    assert!(batch.events.is_empty() && stream.next(0) == SLOTS);
    stream
        .push(&reply, &bytes([late, early]), &mut batch)
        .unwrap();
    assert_eq!(batch.events.len(), 2);
    batch.sort();
    assert_eq!(
        batch
            .events
            .iter()
            .map(|event| event.words.as_slice()[0])
            .collect::<Vec<_>>(),
        [7, 6]
    );
    // Four positions later nothing of it is in the ring any more.
    (reply.first, reply.position, reply.slots) = (SLOTS + 6, SLOTS + 6, 0);
    stream.push(&reply, &[], &mut batch).unwrap();
    assert_eq!(stream.counts(), (2, 4));
}

#[test]
fn arguments_are_shown_as_what_they_are() {
    use Kind::{Bool, Bytes, ControlCode, Guid, Hex, NtStatus, ScsiStatus, Signed, Text};
    let site = site(
        1,
        &[
            Signed,
            Bool,
            Hex,
            NtStatus,
            ScsiStatus,
            ControlCode,
            Guid,
            Text,
            Bytes,
        ],
    );
    let words = [
        (-5i64).cast_unsigned(),
        1,
        0xAB,
        0xC000_0001,
        2,
        0x22_2000,
        0x4444_3333_1111_2222,
        0x0807_0605_0403_0201,
        3,
        0x63_62_61,
        1 << 63 | 1,
        0xFF,
    ];
    let shown: Vec<_> = values(&site, &words)
        .map(|(_, value)| value.to_string())
        .collect();
    assert_eq!(
        shown,
        [
            "-5",
            "true",
            "0xab",
            "STATUS_UNSUCCESSFUL",
            "CHECK CONDITION",
            "0x222000",
            "{11112222-3333-4444-0102-030405060708}",
            "\"abc\"",
            "ff…",
        ]
    );
    assert!(values(&site, &[]).all(|(_, value)| value == Value::Missing));
}

/// How fast events are decoded, a ring of 4096 slots at a time. A floor that any build must reach; the
/// figure of an optimized one is printed.
#[test]
fn half_a_million_events_are_decoded_in_less_than_a_second() {
    const SLOTS: u64 = 4096;
    const ROUNDS: u64 = 128;
    let catalogue = catalogue();
    let slots = u32::try_from(SLOTS).unwrap();
    let information = Information {
        slots,
        ..information()
    };
    let mut stream = Stream::new(&catalogue, Header::new(information).unwrap());
    let replies: Vec<_> = (1..=ROUNDS)
        .map(|round| {
            let first = round * SLOTS;
            let slot = |position| Slot::new(position, 3, [position, position, 1]).to_bytes();
            let bytes: Vec<u8> = (first..first + SLOTS).flat_map(slot).collect();
            let reply = ReadReply {
                ring: 0,
                slots,
                first,
                position: first + SLOTS,
                start: SLOTS,
                clocks: Clocks::default(),
            };
            (reply, bytes)
        })
        .collect();
    let mut batch = Batch::default();
    let started = std::time::Instant::now();
    for (reply, bytes) in &replies {
        batch.events.clear();
        stream.push(reply, bytes, &mut batch).unwrap();
        batch.sort();
    }
    let took = started.elapsed();
    assert_eq!(stream.counts(), (SLOTS * ROUNDS, 0));
    println!(
        "{} ns for an event",
        took.as_nanos() / u128::from(SLOTS * ROUNDS)
    );
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
}
