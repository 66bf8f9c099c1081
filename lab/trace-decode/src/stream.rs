//! From slots to events, and what was lost.
//!
//! Positions of a ring are followed without a gap: each is part of an event, lost, or not there yet.

use std::sync::Arc;

use trace_format::request::{Clocks, Information, Mode, ReadReply};
use trace_format::site::{CUT, Kind};
use trace_format::slot::{FIRST_WORDS, MOST_WORDS, SLOT_BYTES, slots_of};
use trace_format::{Slot, request};

use crate::catalogue::{Build, Catalogue, Site};
use crate::cursor::Cursor;

/// Why there is no trace.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// Something else.
    #[error("not a trace: it does not begin with `DRYTRC01`")]
    NoTrace,
    /// It ends too early.
    #[error("the trace is cut off at byte {0}")]
    CutOff(usize),
    /// What it says of itself cannot be.
    #[error("malformed trace: {0}")]
    Malformed(&'static str),
    /// It is of another driver file.
    #[error(
        "the trace is of another build of the driver: it says {}, the file is {}",
        identity(.theirs), identity(.ours)
    )]
    OtherBuild {
        /// What the trace says.
        theirs: Build,
        /// What the file is.
        ours: Build,
    },
}

fn identity(build: &Build) -> String {
    let [time, bytes, checksum] = build.identity;
    format!("time stamp {time:08x}, {bytes} bytes, checksum {checksum:08x}")
}

/// Whose trace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(Information);

impl Header {
    /// From what a driver, or the beginning of a file, says.
    ///
    /// Errors: [`TraceError::Malformed`].
    pub fn new(information: Information) -> Result<Self, TraceError> {
        if information.version != trace_format::site::VERSION {
            return Err(TraceError::Malformed("another version of the format"));
        }
        if !information.slots.is_power_of_two() {
            return Err(TraceError::Malformed("rings that are no power of two"));
        }
        if information.processors == 0 || information.processors > 1 << 16 {
            return Err(TraceError::Malformed("no number of processors"));
        }
        if Mode::from_number(information.mode).is_none() {
            return Err(TraceError::Malformed("an unknown mode"));
        }
        Ok(Self(information))
    }

    /// Number of rings.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.0.processors * 2
    }

    /// What the driver says of itself.
    #[must_use]
    pub fn information(&self) -> &Information {
        &self.0
    }

    /// Whether the trace is of the catalogue's build.
    ///
    /// Errors: [`TraceError::OtherBuild`].
    pub fn check(&self, catalogue: &Catalogue) -> Result<(), TraceError> {
        let (theirs, ours) = (Build::of(&self.0), catalogue.build());
        if theirs == ours {
            Ok(())
        } else {
            Err(TraceError::OtherBuild { theirs, ours })
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Processor that it was on.
    pub processor: u32,
    /// Whether it was known to be at `DISPATCH_LEVEL` or above.
    pub at_dispatch: bool,
    /// Position in the ring.
    pub position: u64,
    /// When. Units: ticks of the processor's constant-rate counter.
    pub ticks: u64,
    /// What it means; `None` if the driver file has no such site.
    pub site: Option<Arc<Site>>,
    /// Id in the slot.
    pub id: u32,
    /// The words of its arguments.
    pub words: Words,
}

/// Words of an event; most have two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// In one slot.
    Short([u64; FIRST_WORDS]),
    /// In several.
    Long(Vec<u64>),
}

impl Words {
    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        match self {
            Self::Short(words) => words,
            Self::Long(words) => words,
        }
    }
}

/// Slots that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Ring: twice the processor, and one more for `DISPATCH_LEVEL`.
    pub ring: u32,
    /// Position of the first.
    pub position: u64,
    /// How many.
    pub slots: u64,
}

/// What comes out of a stream.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events, in the order of time.
    pub events: Vec<Event>,
    /// Losses.
    pub losses: Vec<Loss>,
}

/// How far a ring has been followed.
#[derive(Clone, Copy, Debug)]
struct Place {
    next: u64,
    /// Time of the last event.
    ticks: u64,
    decoded: u64,
    lost: u64,
    is_known: bool,
}

/// Follows the rings of a driver.
#[derive(Debug)]
pub struct Stream<'c> {
    catalogue: &'c Catalogue,
    header: Header,
    places: Vec<Place>,
    clocks: Clocks,
}

/// Slots of a reply that are behind each other.
struct Slots<'a> {
    first: u64,
    bytes: &'a [[u8; SLOT_BYTES]],
}

impl Slots<'_> {
    /// The slot at a position; `None` if it is not there or not complete.
    fn get(&self, position: u64) -> Option<Slot> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let slot = Slot::from_bytes(self.bytes.get(index)?);
        slot.is_at(position).then_some(slot)
    }
}

/// What is at a position.
enum Found {
    /// An event of so many slots.
    Event {
        id: u32,
        site: Option<Arc<Site>>,
        time: u64,
        words: Words,
        count: u64,
    },
    /// The rest of an event whose beginning is gone.
    Rest,
    /// Nothing, or not all of it.
    Nothing,
}

impl<'c> Stream<'c> {
    /// A stream from the beginning of what the driver has.
    #[must_use]
    pub fn new(catalogue: &'c Catalogue, header: Header) -> Self {
        let place = Place {
            next: 0,
            ticks: 0,
            decoded: 0,
            lost: 0,
            is_known: false,
        };
        let rings = usize::try_from(header.rings()).unwrap_or(0);
        Self {
            catalogue,
            header,
            places: vec![place; rings],
            clocks: header.0.clocks,
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where to go on reading a ring.
    #[must_use]
    pub fn next(&self, ring: u32) -> u64 {
        let place = usize::try_from(ring)
            .ok()
            .and_then(|ring| self.places.get(ring));
        place.map_or(0, |place| place.next)
    }

    /// Takes what was read of one ring; the events come in the order of positions.
    ///
    /// Errors: [`TraceError::Malformed`] for a ring that is not there.
    pub fn push(
        &mut self,
        reply: &ReadReply,
        slots: &[u8],
        batch: &mut Batch,
    ) -> Result<(), TraceError> {
        let (slots, rest) = slots.as_chunks::<SLOT_BYTES>();
        if !rest.is_empty() || slots.len() as u64 != u64::from(reply.slots) {
            return Err(TraceError::Malformed(
                "a reply of another length than it says",
            ));
        }
        let end = reply.first.checked_add(slots.len() as u64);
        if end.is_none_or(|end| end > reply.position) || reply.start > reply.first {
            return Err(TraceError::Malformed("positions that cannot be"));
        }
        self.clocks = reply.clocks;
        let slots = Slots {
            first: reply.first,
            bytes: slots,
        };
        self.follow(reply, &slots, batch)
    }

    fn follow(
        &mut self,
        reply: &ReadReply,
        slots: &Slots<'_>,
        batch: &mut Batch,
    ) -> Result<(), TraceError> {
        let index = usize::try_from(reply.ring).ok();
        let catalogue = self.catalogue;
        // A ring that keeps what it has never gets more than that.
        let full = (self.header.0.mode == Mode::StopWhenFull as u32)
            .then(|| reply.start.saturating_add(self.header.0.slots.into()));
        let place = index.and_then(|index| self.places.get_mut(index));
        let place = place.ok_or(TraceError::Malformed("a ring that is not there"))?;
        if !place.is_known {
            (place.next, place.is_known) = (reply.start, true);
        }
        place.next = place.next.max(reply.start);
        place.lose(reply.ring, reply.first, batch);
        let end = slots.first + slots.bytes.len() as u64;
        while place.next < end {
            match event_at(catalogue, slots, place.next) {
                Found::Event {
                    id,
                    site,
                    time,
                    words,
                    count,
                } => {
                    if time != 0 {
                        place.ticks = time;
                    }
                    batch.events.push(Event {
                        processor: reply.ring / 2,
                        at_dispatch: reply.ring % 2 == 1,
                        position: place.next,
                        ticks: place.ticks,
                        site,
                        id,
                        words,
                    });
                    place.decoded += count;
                    place.next += count;
                }
                Found::Rest => place.lose(reply.ring, place.next + 1, batch),
                Found::Nothing if full.is_some_and(|full| place.next >= full) => {
                    place.lose(reply.ring, reply.position, batch);
                }
                Found::Nothing => break,
            }
        }
        Ok(())
    }

    /// Ends: what is not there yet will not come any more.
    pub fn finish(&mut self, positions: &[u64], batch: &mut Batch) {
        for ((ring, place), position) in (0..).zip(&mut self.places).zip(positions) {
            place.lose(ring, *position, batch);
        }
    }

    /// Slots that became events, and slots that were lost, over all rings.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        // Of a trace that lies, the sum may be more than there is.
        let add = |(decoded, lost): (u64, u64), place: &Place| {
            (
                decoded.saturating_add(place.decoded),
                lost.saturating_add(place.lost),
            )
        };
        self.places.iter().fold((0, 0), add)
    }

    /// Time from the beginning of the trace. Units: ns; `None` while the rate of the counter is not known.
    #[must_use]
    pub fn time(&self) -> Time {
        Time::new(self.header.0.clocks, self.clocks)
    }
}

impl Place {
    /// Everything before `position` that was not seen is lost.
    fn lose(&mut self, ring: u32, position: u64, batch: &mut Batch) {
        let slots = position.saturating_sub(self.next);
        if slots == 0 {
            return;
        }
        match batch.losses.last_mut() {
            Some(last) if last.ring == ring && last.position + last.slots == self.next => {
                last.slots += slots;
            }
            _ => batch.losses.push(Loss {
                ring,
                position: self.next,
                slots,
            }),
        }
        self.lost += slots;
        self.next = position;
    }
}

/// Number of words of an event, as far as it can be known from those that are there.
fn wanted(site: &Site, words: &[u64]) -> usize {
    let mut count = 0;
    for field in &site.fields {
        count += match field.kind {
            Kind::Guid => 2,
            Kind::Text | Kind::Bytes => {
                let length = words.get(count).map_or(0, |word| word & !CUT);
                1 + usize::try_from(length.div_ceil(8))
                    .unwrap_or(usize::MAX)
                    .min(MOST_WORDS)
            }
            _ => 1,
        };
        if count >= MOST_WORDS {
            return MOST_WORDS;
        }
    }
    count
}

fn event_at(catalogue: &Catalogue, slots: &Slots<'_>, position: u64) -> Found {
    let Some(first) = slots.get(position) else {
        return Found::Nothing;
    };
    if first.id() == 0 {
        return Found::Rest;
    }
    let [time, a, b] = first.words();
    let event = |site: Option<&Arc<Site>>, words, count| Found::Event {
        id: first.id(),
        site: site.cloned(),
        time,
        words,
        count,
    };
    let known = catalogue.site(first.id());
    let Some(site) = known.filter(|site| wanted(site, &[a, b]) > FIRST_WORDS) else {
        return event(known, Words::Short([a, b]), 1);
    };
    let mut words = vec![a, b];
    let mut count = 1;
    while slots_of(wanted(site, &words)) > count {
        let Some(more) = slots
            .get(position + count as u64)
            .filter(|slot| slot.id() == 0)
        else {
            return Found::Nothing;
        };
        words.extend(more.words());
        count += 1;
    }
    words.truncate(wanted(site, &words));
    event(known, Words::Long(words), count as u64)
}

/// Converts ticks.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    start: Clocks,
    ns_per_tick: Option<f64>,
}

impl Time {
    fn new(start: Clocks, end: Clocks) -> Self {
        const NS_PER_UNIT: f64 = 100.0;
        const LEAST: u64 = 10_000;
        let ticks = end.ticks.saturating_sub(start.ticks);
        let units = end.system_time.saturating_sub(start.system_time);
        // Less than a millisecond is no measure.
        let known = ticks > 0 && units >= LEAST;
        let ns_per_tick = known.then(|| approximate(units) * NS_PER_UNIT / approximate(ticks));
        Self { start, ns_per_tick }
    }

    /// Time from the beginning of the trace, which events may be before. Units: ns.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> Option<f64> {
        let after = approximate(ticks.saturating_sub(self.start.ticks));
        let before = approximate(self.start.ticks.saturating_sub(ticks));
        self.ns_per_tick.map(|rate| (after - before) * rate)
    }

    /// Wall time of the beginning. Units: 100 ns since 1601, UTC.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start.system_time
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time of less than a century")]
fn approximate(number: u64) -> f64 {
    number as f64
}

/// A file of a trace, read piece by piece.
#[derive(Debug)]
pub struct File<'a> {
    /// Whose it is.
    pub header: Header,
    all: usize,
    rest: Cursor<'a>,
}

impl<'a> File<'a> {
    /// Reads its beginning.
    ///
    /// Errors: [`TraceError`].
    pub fn open(bytes: &'a [u8]) -> Result<Self, TraceError> {
        let mut rest = Cursor(bytes);
        if rest.bytes(request::FILE_MAGIC.len()) != Some(&request::FILE_MAGIC) {
            return Err(TraceError::NoTrace);
        }
        let information = rest.record().ok_or(TraceError::CutOff(bytes.len()))?;
        Ok(Self {
            header: Header::new(information)?,
            all: bytes.len(),
            rest,
        })
    }

    /// The next piece; `None` at the end.
    ///
    /// Errors: [`TraceError::CutOff`].
    pub fn next_piece(&mut self) -> Result<Option<(ReadReply, &'a [u8])>, TraceError> {
        if self.rest.0.is_empty() {
            return Ok(None);
        }
        let at = self.all - self.rest.0.len();
        let cut_off = TraceError::CutOff(at);
        let Some(reply) = self.rest.record::<ReadReply>() else {
            return Err(cut_off);
        };
        let bytes = usize::try_from(reply.slots)
            .ok()
            .and_then(|slots| slots.checked_mul(SLOT_BYTES));
        match bytes.and_then(|bytes| self.rest.bytes(bytes)) {
            Some(slots) => Ok(Some((reply, slots))),
            None => Err(cut_off),
        }
    }

    /// Decodes it all.
    ///
    /// Errors: [`TraceError`].
    pub fn decode(mut self, stream: &mut Stream<'_>) -> Result<Batch, TraceError> {
        let mut batch = Batch::default();
        let mut positions = vec![0; stream.places.len()];
        while let Some((reply, slots)) = self.next_piece()? {
            stream.push(&reply, slots, &mut batch)?;
            let ring = usize::try_from(reply.ring).unwrap_or(usize::MAX);
            if let Some(position) = positions.get_mut(ring) {
                *position = reply.position;
            }
        }
        stream.finish(&positions, &mut batch);
        batch.sort();
        Ok(batch)
    }
}

impl Batch {
    /// Puts events in the order of time; those of one time stay in the order of their ring.
    pub fn sort(&mut self) {
        if !self.events.is_sorted_by_key(|event| event.ticks) {
            self.events.sort_by_key(|event| event.ticks);
        }
    }
}
