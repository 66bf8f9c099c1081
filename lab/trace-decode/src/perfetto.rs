//! Events as a Perfetto trace: a track for each ring.
//!
//! Source: perfetto/protos/perfetto/trace (`trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `debug_annotation.proto`); field numbers as there.

use std::collections::HashSet;

use trace_format::Form;

use crate::stream::{Event, Loss, Time};
use crate::value::{Value, values};

/// A message in protocol-buffer encoding.
#[derive(Clone, Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let byte = value.to_le_bytes()[0] & 0x7F;
            value >>= 7;
            if value == 0 {
                self.0.push(byte);
                return;
            }
            self.0.push(byte | 0x80);
        }
    }

    fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Fields of `TracePacket`, and of what is in it.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;
    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE: u32 = 10;
    pub(super) const PACKET_EVENT: u32 = 11;
    pub(super) const PACKET_DROPPED: u32 = 42;
    pub(super) const PACKET_TRACK: u32 = 60;
    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_CATEGORY: u32 = 22;
    pub(super) const EVENT_NAME: u32 = 23;
    pub(super) const ANNOTATION_BOOL: u32 = 2;
    pub(super) const ANNOTATION_UINT: u32 = 3;
    pub(super) const ANNOTATION_INT: u32 = 4;
    pub(super) const ANNOTATION_STRING: u32 = 6;
    pub(super) const ANNOTATION_NAME: u32 = 10;
}

/// `TrackEvent.Type`.
mod kind {
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
}

/// Collects a trace.
#[derive(Debug, Default)]
pub struct Trace {
    bytes: Message,
    tracks: HashSet<u32>,
}

impl Trace {
    /// Adds a packet of a ring's sequence.
    fn packet(&mut self, ring: u32, packet: Message) {
        let packet = packet.number(field::PACKET_SEQUENCE, u64::from(ring) + 1);
        let bytes = core::mem::take(&mut self.bytes);
        self.bytes = bytes.message(field::TRACE_PACKET, &packet);
    }

    fn track(&mut self, ring: u32) {
        if !self.tracks.insert(ring) {
            return;
        }
        let level = if ring % 2 == 1 {
            "DISPATCH_LEVEL and above"
        } else {
            "any IRQL"
        };
        let track = Message::default()
            .number(field::TRACK_UUID, u64::from(ring) + 1)
            .text(
                field::TRACK_NAME,
                &format!("processor {}, {level}", ring / 2),
            );
        self.packet(
            ring,
            Message::default().message(field::PACKET_TRACK, &track),
        );
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event, time: &Time) {
        let Some(site) = &event.site else { return };
        let ring = event.processor * 2 + u32::from(event.at_dispatch);
        self.track(ring);
        let (kind, name) = match site.form {
            Form::Message => (kind::INSTANT, site.text.as_str()),
            Form::Enter => (kind::BEGIN, site.function.as_str()),
            Form::Exit | Form::ScopeExit => (kind::END, site.function.as_str()),
        };
        let mut body = Message::default()
            .number(field::EVENT_TYPE, kind)
            .number(field::EVENT_TRACK, u64::from(ring) + 1)
            .text(field::EVENT_CATEGORY, &site.flag_name)
            .text(field::EVENT_NAME, name);
        let place = [
            ("function", site.function.clone()),
            ("inlined into", site.callers.join(" < ")),
        ];
        for (name, text) in place.into_iter().filter(|(_, text)| !text.is_empty()) {
            body = body.message(
                field::EVENT_ANNOTATION,
                &annotation(name, &Value::Text(text, false)),
            );
        }
        for (name, value) in values(site, event.words.as_slice()) {
            body = body.message(field::EVENT_ANNOTATION, &annotation(name, &value));
        }
        let packet = Message::default()
            .number(field::PACKET_TIMESTAMP, timestamp(event, time))
            .message(field::PACKET_EVENT, &body);
        self.packet(ring, packet);
    }

    /// Adds a loss: the ring's next packet comes behind a gap.
    pub fn loss(&mut self, loss: &Loss) {
        self.track(loss.ring);
        self.packet(
            loss.ring,
            Message::default().number(field::PACKET_DROPPED, 1),
        );
    }

    /// The trace.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.0
    }
}

/// Wall time in ns since 1970, so that events before the first clock are not negative.
fn timestamp(event: &Event, time: &Time) -> u64 {
    const UNITS_TO_1970: u64 = 116_444_736_000_000_000;
    let start = time
        .start()
        .saturating_sub(UNITS_TO_1970)
        .saturating_mul(100);
    let Some(ns) = time.ns(event.ticks) else {
        return event.ticks;
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float that is too large becomes the largest number"
    )]
    start.saturating_add_signed(ns as i64)
}

fn annotation(name: &str, value: &Value) -> Message {
    let message = Message::default().text(field::ANNOTATION_NAME, name);
    match value {
        Value::Unsigned(value) => message.number(field::ANNOTATION_UINT, *value),
        Value::Signed(value) => message.number(field::ANNOTATION_INT, value.cast_unsigned()),
        Value::Bool(value) => message.number(field::ANNOTATION_BOOL, u64::from(*value)),
        Value::Text(text, _) => message.text(field::ANNOTATION_STRING, text),
        other => message.text(field::ANNOTATION_STRING, &other.to_string()),
    }
}
