//! From the rings to a session of ETW: every event once, and what was lost as an event of its own.
//!
//! ```text
//!  ring ──▶ follower: next position, what was lost before it ─┐
//!  ring ──▶ follower ─────────────────────────────────────────┴─▶ the earliest ─▶ session
//! ```
//! A follower moves on when the session has taken the event. What a session cannot take stays in the
//! ring and is tried again, until it is overwritten.

use crate::payload::Payload;
use crate::recorder::Ring;
use crate::ring::View;
use core::sync::atomic::AtomicU64;
use trace_format::Kind;
use trace_format::site::CUT;
use trace_format::slot::{MOST_WORDS, NEXT_WORDS, slots_of};
use trace_format::view::{DescriptionView, SectionView};
use trace_format::wpp::{CLOCKS, FIRST_NUMBER, LOST, MOST_EVENTS};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The session has it.
    Taken,
    /// There was no room: later, perhaps.
    Full,
    /// This message is never taken.
    Refused,
    /// There is no such session any more.
    Gone,
}

/// Who gets the events.
pub trait Session {
    /// Whether it wants events of this level, with this bit of flags.
    fn wants(&self, level: u8, flag: u8) -> bool;
    /// Sends a message.
    fn send(&mut self, number: u16, payload: &[u8]) -> Sent;
}

/// How far a ring has been relayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follower {
    /// Position that comes next.
    next: u64,
    /// Position up to which this round goes.
    end: u64,
    /// Time of the last event.
    ticks: u64,
    /// Position of the first slot that was lost and not yet told.
    lost_from: u64,
    /// Slots that were lost and not yet told.
    lost: u64,
    /// Time of the event at `next`, if one is there that is wanted.
    head: Option<u64>,
}

/// What a round did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Events that the session has taken.
    pub events: u64,
    /// How the last message was answered: [`Sent::Taken`] if all is relayed that is there.
    pub ended: Sent,
    /// Whether half of a ring was waiting, and some was taken: the next round should follow at once.
    pub hurries: bool,
}

/// Follows all rings.
#[derive(Debug)]
pub struct Relay<'a> {
    rings: &'a [Ring],
    section: SectionView<'a>,
    followers: &'a mut [Follower],
    payload: Payload<'a>,
}

/// Most slots of an event.
const MOST_SLOTS: u64 = slots_of(MOST_WORDS) as u64;

/// The words of an event, and what its last slot has besides.
type Words = [u64; MOST_WORDS + NEXT_WORDS];
const NO_WORDS: Words = [0; MOST_WORDS + NEXT_WORDS];

/// What is at a position.
enum Found<'a> {
    Event {
        index: usize,
        site: DescriptionView<'a>,
        time: u64,
        slots: u64,
    },
    /// Not the beginning of an event.
    Rest,
    /// Nothing, or not all of it.
    Nothing,
}

impl Follower {
    /// Everything before `position` is lost.
    fn lose(&mut self, position: u64) {
        let slots = position.saturating_sub(self.next);
        if self.lost == 0 {
            self.lost_from = self.next;
        }
        self.lost += slots;
        self.next += slots;
    }
}

impl<'a> Relay<'a> {
    /// Follows rings, the n-th with the n-th follower; `payload` is where messages are put together.
    #[must_use]
    pub fn new(
        rings: &'a [Ring],
        section: SectionView<'a>,
        followers: &'a mut [Follower],
        payload: &'a mut [u8],
    ) -> Self {
        Self {
            rings,
            section,
            followers,
            payload: Payload::new(payload),
        }
    }

    /// Begins with what the rings still have and no session has had.
    pub fn begin(&mut self) {
        for (ring, follower) in self.rings.iter().zip(&mut *self.followers) {
            let view = ring.view();
            let window = view.window(view.slots.len() as u64);
            follower.next = follower.next.max(window.start);
            follower.lost = 0;
            // The rest of an event whose beginning was overwritten.
            let is_rest = |position| view.read(position).is_some_and(|slot| slot.id() == 0);
            while follower.next < window.end && is_rest(follower.next) {
                follower.next += 1;
            }
        }
    }

    /// Puts the two clocks side by side.
    pub fn clocks(&mut self, ticks: u64, system_time: u64, session: &mut impl Session) -> Sent {
        self.payload.clear();
        self.payload.push(&ticks.to_le_bytes());
        self.payload.push(&system_time.to_le_bytes());
        session.send(CLOCKS, self.payload.as_bytes().unwrap_or_default())
    }

    /// Relays what is there now; if it is the `last` round, what is still being written is lost.
    pub fn round(&mut self, session: &mut impl Session, last: bool) -> Round {
        let mut round = Round {
            events: 0,
            ended: Sent::Taken,
            hurries: false,
        };
        for (ring, follower) in self.rings.iter().zip(&mut *self.followers) {
            let view = ring.view();
            follower.end = ring.position();
            let waiting = follower.end.saturating_sub(follower.next);
            round.hurries |= waiting > view.slots.len() as u64 / 2;
        }
        for index in 0..self.followers.len() {
            self.look(index, session, last);
        }
        while let Some(index) = self.earliest() {
            match self.relay(index, session) {
                Sent::Taken => round.events += 1,
                Sent::Refused => {}
                ended @ (Sent::Full | Sent::Gone) => {
                    round.ended = ended;
                    round.hurries = false;
                    return round;
                }
            }
            self.look(index, session, last);
        }
        round.hurries &= round.events > 0;
        for index in 0..self.followers.len() {
            let ended = self.tell_loss(index, session);
            if ended != Sent::Taken {
                round.ended = ended;
            }
        }
        round
    }

    /// The ring whose next event is the earliest.
    fn earliest(&self) -> Option<usize> {
        let heads = self.followers.iter().enumerate();
        let heads = heads.filter_map(|(index, follower)| Some((follower.head?, index)));
        heads.min().map(|(_, index)| index)
    }

    /// Goes to the next event of a ring that is wanted.
    fn look(&mut self, index: usize, session: &impl Session, last: bool) {
        let (Some(ring), Some(follower)) = (self.rings.get(index), self.followers.get_mut(index))
        else {
            return;
        };
        let view = ring.view();
        let mut words = NO_WORDS;
        follower.head = None;
        loop {
            follower.lose(view.window(0).start);
            if follower.next >= follower.end {
                return;
            }
            match find(&self.section, &view, follower.next, &mut words) {
                Found::Event {
                    site, time, slots, ..
                } => {
                    if time != 0 {
                        follower.ticks = time;
                    }
                    if session.wants(site.fixed.level, site.fixed.flag) {
                        follower.head = Some(follower.ticks);
                        return;
                    }
                    follower.next += slots;
                }
                Found::Rest => follower.lose(follower.next + 1),
                Found::Nothing if last || is_beyond(ring, follower) => {
                    follower.lose(follower.next + 1);
                }
                Found::Nothing => return,
            }
        }
    }

    /// Sends the event that is next in a ring, and before it what was lost there.
    fn relay(&mut self, index: usize, session: &mut impl Session) -> Sent {
        let told = self.tell_loss(index, session);
        if told != Sent::Taken {
            return told;
        }
        let (Some(ring), Some(follower)) = (self.rings.get(index), self.followers.get_mut(index))
        else {
            return Sent::Refused;
        };
        let mut words = NO_WORDS;
        let found = find(&self.section, &ring.view(), follower.next, &mut words);
        let Found::Event {
            index: event,
            site,
            slots,
            ..
        } = found
        else {
            // Overwritten since it was looked at.
            follower.lose(follower.next + 1);
            return Sent::Refused;
        };
        self.payload.clear();
        self.payload.push(&number_of(index / 2).to_le_bytes());
        self.payload.push(&follower.ticks.to_le_bytes());
        self.payload.push_arguments(&site, &words);
        let payload = self.payload.as_bytes().filter(|_| event < MOST_EVENTS);
        let sent = payload.map_or(Sent::Refused, |payload| {
            session.send(FIRST_NUMBER + number_of(event), payload)
        });
        match sent {
            Sent::Taken => follower.next += slots,
            Sent::Refused => follower.lose(follower.next + slots),
            Sent::Full | Sent::Gone => {}
        }
        sent
    }

    /// Says what was lost in a ring, if anything.
    fn tell_loss(&mut self, index: usize, session: &mut impl Session) -> Sent {
        let Some(follower) = self.followers.get_mut(index).filter(|ring| ring.lost > 0) else {
            return Sent::Taken;
        };
        self.payload.clear();
        self.payload.push(&number_of(index).to_le_bytes());
        self.payload.push(&follower.lost_from.to_le_bytes());
        self.payload.push(&follower.lost.to_le_bytes());
        let sent = session.send(LOST, self.payload.as_bytes().unwrap_or_default());
        if sent == Sent::Taken {
            follower.lost = 0;
        }
        sent
    }
}

/// A number of a message.
fn number_of(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Whether a ring that keeps what it has will never have what is next.
fn is_beyond(ring: &Ring, follower: &Follower) -> bool {
    let limit = ring.limit();
    follower.end > limit && follower.next + MOST_SLOTS > limit
}

/// Number of words of an event, as far as it can be known from those that are there.
fn wanted(site: &DescriptionView<'_>, words: &[u64]) -> usize {
    let mut count = 0usize;
    for field in site.fields.clone() {
        count += match field.kind {
            Kind::Guid => 2,
            Kind::Text | Kind::Bytes => {
                let bytes = words.get(count).map_or(0, |word| word & !CUT);
                1 + usize::try_from(bytes.div_ceil(8))
                    .unwrap_or(MOST_WORDS)
                    .min(MOST_WORDS)
            }
            _ => 1,
        };
    }
    count.min(MOST_WORDS)
}

/// What is at a position of a ring; the words of an event go into `words`.
fn find<'a>(
    section: &SectionView<'a>,
    view: &View<'_, AtomicU64>,
    position: u64,
    words: &mut Words,
) -> Found<'a> {
    let Some(first) = view.read(position) else {
        return Found::Nothing;
    };
    let Some((index, site)) = section.event(first.id()) else {
        return Found::Rest;
    };
    let [time, head @ ..] = first.words();
    let mut known = 0;
    let mut slots = 0;
    put(words, &mut known, &head);
    // Words that are not read yet count as none.
    while slots_of(wanted(&site, words.get(..known).unwrap_or_default())) > slots + 1 {
        slots += 1;
        match view.read(position + slots as u64) {
            Some(more) if more.id() == 0 => put(words, &mut known, &more.words()),
            _ => return Found::Nothing,
        }
    }
    Found::Event {
        index,
        site,
        time,
        slots: slots as u64 + 1,
    }
}

fn put(words: &mut Words, known: &mut usize, more: &[u64]) {
    for (place, word) in words.iter_mut().skip(*known).zip(more) {
        *place = *word;
        *known += 1;
    }
}

#[cfg(test)]
mod tests;
