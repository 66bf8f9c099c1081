//! How fast events are decoded.

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use trace_decode::catalogue::{Build, Catalogue, Field, Site};
use trace_decode::stream::{Batch, Header, Stream};
use trace_format::request::{Information, ReadReply};
use trace_format::site::VERSION;
use trace_format::slot::SLOT_BYTES;
use trace_format::{Form, Heat, Kind, Level, Slot};
use zerocopy::FromZeros;

use super::now;

/// Slots of the ring that is decoded.
const RING: u32 = 4096;

const BUILD: Build = Build { identity: [0; 3] };

/// Sites as a driver has them: most events fit into a slot, some have a text.
fn catalogue() -> Catalogue {
    use Kind::{Hex, Text, Unsigned};
    let kinds: [&[Kind]; 4] = [&[], &[Unsigned], &[Unsigned, Hex], &[Text]];
    let field = |kind: &Kind| Field {
        name: "field".into(),
        kind: *kind,
        bits: 64,
        names: Vec::new(),
    };
    let sites = (1..).zip(kinds).map(|(id, kinds)| Site {
        id,
        code: id,
        level: Level::Verbose,
        flag: 0,
        flag_name: "FLAG".into(),
        form: Form::Message,
        heat: Heat::Hot,
        module: "module".into(),
        file: "file.rs".into(),
        line: 1,
        text: "text".into(),
        fields: kinds.iter().map(field).collect(),
        function: "module::function".into(),
        callers: Vec::new(),
    });
    Catalogue::of(sites.collect(), BUILD)
}

/// A ring of events, and how many they are: each sixteenth has a text of 16 bytes, in two slots.
fn recorded() -> (Vec<u8>, u64) {
    let (mut bytes, mut events, mut position) = (Vec::new(), 0, u64::from(RING));
    while position < u64::from(RING) * 2 - 2 {
        let [id, first] = match events % 16 {
            15 => [4, 16],
            other => [1 + other % 3, other],
        };
        let slot = Slot::new(position, id, [position, first.into(), position]);
        bytes.extend(slot.to_bytes());
        position += 1;
        if id == 4 {
            bytes.extend(Slot::new(position, 0, [position, 0, 0]).to_bytes());
            position += 1;
        }
        events += 1;
    }
    (bytes, events.into())
}

/// From the bytes of a ring to events in the order of time, and the least that takes: a copy of them.
pub(super) fn decoder(criterion: &mut Criterion) {
    let (catalogue, (bytes, events)) = (catalogue(), recorded());
    let slots = u32::try_from(bytes.len() / SLOT_BYTES).expect("less than a ring");
    let reply = ReadReply {
        slots,
        first: RING.into(),
        position: u64::from(RING + slots),
        start: RING.into(),
        ..ReadReply::default()
    };
    let information = Information {
        version: VERSION,
        processors: 1,
        slots: RING,
        ..Information::new_zeroed()
    };
    let header = Header::new(information).expect("a header");
    let mut group = criterion.benchmark_group("trace");
    group.bench_function("decode", |bencher| {
        let mut batch = Batch::default();
        bencher.iter_custom(|times| {
            per_event(times, events, || {
                batch.events.clear();
                let mut stream = Stream::new(&catalogue, header);
                let taken = stream.push(&reply, black_box(&bytes), &mut batch);
                taken.expect("a trace");
                batch.sort();
                assert_eq!(batch.events.len() as u64, events);
            })
        });
    });
    group.bench_function("copy", |bencher| {
        let mut copy = bytes.clone();
        bencher.iter_custom(|times| {
            per_event(times, events, || {
                copy.copy_from_slice(black_box(&bytes));
                black_box(&copy);
            })
        });
    });
    group.finish();
}

/// Time for so many events, of rounds that take more each.
fn per_event(times: u64, events: u64, mut round: impl FnMut()) -> Duration {
    let rounds = times.div_ceil(events);
    let started = now();
    for _ in 0..rounds {
        round();
    }
    let share = times as f64 / (rounds * events) as f64;
    (now() - started).mul_f64(share)
}
