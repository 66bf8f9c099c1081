//! What a driver records, by the code that drivers run, is what the decoder shows.

use std::sync::atomic::AtomicU64;

use nt::status::NTSTATUS;
use proptest::collection::vec;
use proptest::prelude::*;
use trace::ring::{STEP, View};
use trace::{Argument, ControlCode, Guid, Hex, Irp, Pointer, ScsiStatus, Srb, Words, names};
use trace_decode::catalogue::{self, Build};
use trace_decode::stream::Batch;
use trace_decode::value::values;
use trace_decode::{Catalogue, Site, Stream, Value, stream::Header};
use trace_format::request::{Clocks, Information, ReadReply};
use trace_format::site::{Form, Heat, Level, MOST_BYTES};
use trace_format::slot::{MOST_WORDS, slots_of};
use zerocopy::FromZeros;

const SLOTS: usize = 256;
const ID: u32 = 0x1234;

names! {
    /// A queue's state.
    State { 1 => "idle", 7 => "full" }
}

/// An argument of each type that there is.
#[derive(Clone, Debug)]
enum Given {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    Usize(usize),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Bool(bool),
    Hex(u64),
    Pointer(usize),
    Irp(usize),
    Srb(usize),
    ScsiStatus(u8),
    ControlCode(u32),
    Status(u32),
    State(u64),
    Guid([u8; 16]),
    Text(String),
    Bytes(Vec<u8>),
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![
        any::<u8>().prop_map(Given::U8),
        any::<u16>().prop_map(Given::U16),
        any::<u32>().prop_map(Given::U32),
        any::<u64>().prop_map(Given::U64),
        any::<usize>().prop_map(Given::Usize),
        any::<i8>().prop_map(Given::I8),
        any::<i16>().prop_map(Given::I16),
        any::<i32>().prop_map(Given::I32),
        any::<i64>().prop_map(Given::I64),
        any::<bool>().prop_map(Given::Bool),
        any::<u64>().prop_map(Given::Hex),
        any::<usize>().prop_map(Given::Pointer),
        any::<usize>().prop_map(Given::Irp),
        any::<usize>().prop_map(Given::Srb),
        (0x80..u8::MAX).prop_map(Given::ScsiStatus),
        any::<u32>().prop_map(Given::ControlCode),
        Just(Given::Status(0xC000_0001)),
        prop_oneof![Just(1), Just(7), 8..u64::MAX].prop_map(Given::State),
        any::<[u8; 16]>().prop_map(Given::Guid),
        ".{0,90}".prop_map(Given::Text),
        vec(any::<u8>(), 0..90).prop_map(Given::Bytes),
    ]
}

fn at(address: usize) -> *const u8 {
    std::ptr::without_provenance(address)
}

/// A field as the driver file describes it, and as the catalogue has it.
fn field<T: Argument>() -> (catalogue::Field, Option<usize>) {
    let names = T::NAMES
        .iter()
        .map(|(value, name)| (*value, (*name).to_owned()));
    let field = catalogue::Field {
        name: "field".into(),
        kind: T::KIND,
        bits: T::BITS,
        names: names.collect(),
    };
    (field, T::WORDS)
}

/// Puts an argument into words as a site does; its field, and what is to come out.
fn record<T: Argument + Copy>(
    value: T,
    shown: Value,
    words: &mut Words,
) -> (catalogue::Field, Value) {
    let before = words.as_slice().len();
    value.push(words);
    let (field, count) = field::<T>();
    let taken = words.as_slice().len() - before;
    assert!(count.is_none_or(|count| count == taken), "{field:?}");
    (field, shown)
}

/// What a hidden address is shown as: the same number each time.
fn hidden<T: Argument + Copy>(value: T, words: &mut Words) -> (catalogue::Field, Value) {
    let mut own: Words = Words::new();
    value.push(&mut own);
    record(value, Value::Hex(own.as_slice()[0], 64), words)
}

fn push(given: &Given, words: &mut Words) -> (catalogue::Field, Value) {
    let cut = |length: usize| length > MOST_BYTES;
    match given {
        Given::U8(value) => record(*value, Value::Unsigned((*value).into()), words),
        Given::U16(value) => record(*value, Value::Unsigned((*value).into()), words),
        Given::U32(value) => record(*value, Value::Unsigned((*value).into()), words),
        Given::U64(value) => record(*value, Value::Unsigned(*value), words),
        Given::Usize(value) => record(*value, Value::Unsigned(*value as u64), words),
        Given::I8(value) => record(*value, Value::Signed((*value).into()), words),
        Given::I16(value) => record(*value, Value::Signed((*value).into()), words),
        Given::I32(value) => record(*value, Value::Signed((*value).into()), words),
        Given::I64(value) => record(*value, Value::Signed(*value), words),
        Given::Bool(value) => record(*value, Value::Bool(*value), words),
        Given::Hex(value) => record(Hex(*value), Value::Hex(*value, 64), words),
        Given::Pointer(address) => hidden(Pointer::from(at(*address)), words),
        Given::Irp(address) => hidden(Irp::from(at(*address)), words),
        Given::Srb(address) => hidden(Srb::from(at(*address)), words),
        Given::ScsiStatus(value) => {
            record(ScsiStatus(*value), Value::Hex((*value).into(), 8), words)
        }
        Given::ControlCode(value) => {
            record(ControlCode(*value), Value::Hex((*value).into(), 32), words)
        }
        Given::Status(value) => {
            let name = "STATUS_UNSUCCESSFUL".to_owned();
            let shown = Value::Named((*value).into(), name);
            record(NTSTATUS::from_u32(*value), shown, words)
        }
        Given::State(value) => {
            let shown = match value {
                1 => Value::Named(1, "idle".into()),
                7 => Value::Named(7, "full".into()),
                other => Value::Unsigned(*other),
            };
            record(State(*value), shown, words)
        }
        Given::Guid(bytes) => record(Guid(*bytes), Value::Guid(*bytes), words),
        Given::Text(text) => {
            let kept = &text.as_bytes()[..text.len().min(MOST_BYTES)];
            let kept = String::from_utf8_lossy(kept).into_owned();
            record(text.as_str(), Value::Text(kept, cut(text.len())), words)
        }
        Given::Bytes(bytes) => {
            let kept = bytes[..bytes.len().min(MOST_BYTES)].to_vec();
            record(
                bytes.as_slice(),
                Value::Bytes(kept, cut(bytes.len())),
                words,
            )
        }
    }
}

fn site(fields: Vec<catalogue::Field>) -> Site {
    Site {
        id: ID,
        code: 0,
        level: Level::Verbose,
        flag: 0,
        flag_name: "FLAG".into(),
        form: Form::Message,
        heat: Heat::Hot,
        module: "m".into(),
        file: "m.rs".into(),
        line: 1,
        text: "text".into(),
        fields,
        function: "m::f".into(),
        callers: Vec::new(),
    }
}

/// Records events in a ring of the driver's, and decodes what is in it.
fn decoded(catalogue: &Catalogue, events: u64, words: &[u64]) -> Batch {
    let position = AtomicU64::new(SLOTS as u64 * STEP);
    let limit = AtomicU64::new(u64::MAX);
    let slots: Vec<[AtomicU64; 4]> = (0..SLOTS).map(|_| Default::default()).collect();
    let ring = View {
        position: &position,
        limit: &limit,
        slots: &slots,
    };
    for time in 1..=events {
        ring.write(ID, time, words);
    }
    let window = ring.window(SLOTS as u64);
    let read: Vec<u8> = window
        .clone()
        .flat_map(|position| ring.read(position).expect("nobody writes").to_bytes())
        .collect();
    let information = Information {
        version: 1,
        processors: 1,
        slots: u32::try_from(SLOTS).expect("few"),
        ..Information::new_zeroed()
    };
    let mut stream = Stream::new(catalogue, Header::new(information).expect("a header"));
    let reply = ReadReply {
        ring: 0,
        slots: u32::try_from(window.end - window.start).expect("few"),
        first: window.start,
        position: window.end,
        start: SLOTS as u64,
        clocks: Clocks::default(),
    };
    let mut batch = Batch::default();
    stream
        .push(&reply, &read, &mut batch)
        .expect("a good trace");
    assert_eq!(stream.counts().1, 0);
    batch
}

proptest! {
    #[test]
    fn arguments_come_out_as_they_went_in(arguments in vec(given(), 0..12), events in 1..5u64) {
        let mut words: Words = Words::new();
        let (mut fields, mut expected) = (Vec::new(), Vec::new());
        for argument in &arguments {
            let before = words;
            let (field, value) = push(argument, &mut words);
            if words.as_slice().len() == MOST_WORDS {
                // It may not have fitted: what is too much is left out.
                words = before;
                break;
            }
            fields.push(field);
            expected.push(value);
        }
        let build = Build { identity: [0; 3] };
        let catalogue = Catalogue::of(vec![site(fields)], build);
        let batch = decoded(&catalogue, events, words.as_slice());
        prop_assert!(batch.losses.is_empty());
        prop_assert_eq!(batch.events.len() as u64, events);
        prop_assert!(slots_of(words.as_slice().len()) * 4 < SLOTS);
        for (event, time) in batch.events.iter().zip(1..) {
            let site = event.site.as_deref().expect("it is known");
            let shown: Vec<_> = values(site, event.words.as_slice()).map(|(_, value)| value).collect();
            prop_assert_eq!(&shown, &expected);
            prop_assert_eq!((event.ticks, event.id), (time, ID));
        }
    }
}
