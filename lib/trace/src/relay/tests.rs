//! Rings as they are, sections and sessions made up.

use super::*;
use crate::recorder::Place;
use crate::{Argument, Flag, Words as Arguments};
use core::ptr::NonNull;
use proptest::prelude::*;
use trace_format::request::Mode;
use trace_format::site::{DIRECTORY_MAGIC, VERSION};
use trace_format::wpp::{MOST_PAYLOAD, PREFIX_BYTES};

const FLAG: Flag = Flag::new(3, "F");
const NUMBER: crate::Site =
    crate::__site!(Cold Message Warning, FLAG, "number", value: u64, other: u8);
const TEXT: crate::Site =
    crate::__site!(Cold Message Verbose, FLAG, "text", before: u32, text: &str, after: u16);
/// Ids of the two, in a section that begins at 0x1000.
const EVENTS: u32 = 0x1000 + 36;
const IDS: [u32; 2] = [EVENTS, EVENTS + 8];
const SLOTS: usize = 16;

/// A section with both.
fn section() -> Vec<u8> {
    let end = EVENTS + 16;
    let number: [u8; NUMBER.bytes()] = NUMBER.describe();
    let text: [u8; TEXT.bytes()] = TEXT.describe();
    let second = end + u32::try_from(number.len()).unwrap();
    let mut all = DIRECTORY_MAGIC.to_vec();
    for word in [VERSION, EVENTS, end, end, end, 0, 0, end, 0, second, 0] {
        all.extend(word.to_le_bytes());
    }
    all.extend(number);
    all.extend(text);
    all
}

struct Rings {
    rings: Vec<Ring>,
    _places: Vec<Vec<Place>>,
}

impl Rings {
    #[expect(unsafe_code, reason = "lends memory to rings")]
    fn new() -> Self {
        let mut places: Vec<Vec<Place>> = (0..2)
            .map(|_| {
                (0..SLOTS)
                    .map(|_| [const { AtomicU64::new(0) }; 4])
                    .collect()
            })
            .collect();
        let rings = places.iter_mut().map(|places| {
            // SAFETY: the places are kept as long as the ring.
            unsafe { Ring::new(NonNull::from(places.as_mut_slice()).cast(), SLOTS) }.unwrap()
        });
        Self {
            rings: rings.collect(),
            _places: places,
        }
    }

    /// Writes an event; `length`: of the text, if it is one with a text.
    fn write(&self, ring: usize, ticks: u64, length: Option<usize>) {
        let mut words: Arguments = Arguments::new();
        match length {
            Some(length) => {
                7u32.push(&mut words);
                "x".repeat(length).as_str().push(&mut words);
                9u16.push(&mut words);
            }
            None => {
                ticks.push(&mut words);
                1u8.push(&mut words);
            }
        }
        let id = IDS[usize::from(length.is_some())];
        self.rings[ring].view().write(id, ticks, words.as_slice());
    }
}

/// A session that has room for so many more messages, and wants up to a level.
struct Collected {
    messages: Vec<(u16, Vec<u8>)>,
    room: usize,
    level: u8,
}

impl Session for Collected {
    fn wants(&self, level: u8, flag: u8) -> bool {
        level <= self.level && flag == FLAG.bit
    }
    fn send(&mut self, number: u16, payload: &[u8]) -> Sent {
        if self.room == 0 {
            return Sent::Full;
        }
        self.room -= 1;
        self.messages.push((number, payload.to_vec()));
        Sent::Taken
    }
}

impl Collected {
    fn new(level: u8) -> Self {
        Self {
            messages: Vec::new(),
            room: usize::MAX,
            level,
        }
    }

    fn word(payload: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(payload[at..at + 8].try_into().unwrap())
    }

    /// Times of the events.
    fn ticks(&self) -> Vec<u64> {
        let events = self.messages.iter().filter(|(number, _)| *number < CLOCKS);
        events.map(|(_, payload)| Self::word(payload, 2)).collect()
    }

    /// Slots that were lost.
    fn lost(&self) -> u64 {
        let losses = self.messages.iter().filter(|(number, _)| *number == LOST);
        losses.map(|(_, payload)| Self::word(payload, 10)).sum()
    }
}

/// Slots of an event.
fn slots(length: Option<usize>) -> u64 {
    slots_of(length.map_or(2, |length| 3 + length.div_ceil(8))) as u64
}

struct Lab {
    rings: Rings,
    section: Vec<u8>,
    followers: Vec<Follower>,
}

impl Lab {
    fn new() -> Self {
        Self {
            rings: Rings::new(),
            section: section(),
            followers: vec![Follower::default(); 2],
        }
    }

    fn relay<R>(&mut self, work: impl FnOnce(&mut Relay<'_>) -> R) -> R {
        let view = SectionView::read(&self.section, 0x1000).unwrap();
        let mut room = [0; MOST_PAYLOAD];
        work(&mut Relay::new(
            &self.rings.rings,
            view,
            &mut self.followers,
            &mut room,
        ))
    }
}

#[test]
fn a_new_ring_has_nothing_and_does_not_hurry() {
    let mut lab = Lab::new();
    let mut session = Collected::new(5);
    let round = lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, false)
    });
    assert_eq!(
        (round.events, round.hurries, round.ended),
        (0, false, Sent::Taken)
    );
    assert!(session.messages.is_empty());
}

#[test]
fn events_of_all_rings_come_in_the_order_of_time_as_their_items_say() {
    let mut lab = Lab::new();
    for (ring, ticks) in [(0, 10), (1, 11), (1, 12), (0, 13)] {
        lab.rings.write(ring, ticks, None);
    }
    lab.rings.write(0, 14, Some(20));
    // The time of the event before.
    lab.rings.write(0, 0, None);
    let mut session = Collected::new(5);
    lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, false)
    });
    assert_eq!(session.ticks(), [10, 11, 12, 13, 14, 14]);
    let lengths: Vec<_> = session
        .messages
        .iter()
        .map(|(number, payload)| (*number, payload.len() - PREFIX_BYTES))
        .collect();
    assert_eq!(lengths[0], (FIRST_NUMBER, 9));
    assert_eq!(lengths[4], (FIRST_NUMBER + 1, 4 + 2 + 40 + 2));
}

#[test]
fn what_a_session_does_not_want_is_not_sent_nor_lost() {
    let mut lab = Lab::new();
    lab.rings.write(0, 1, Some(1));
    lab.rings.write(0, 2, None);
    let mut session = Collected::new(3);
    lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, true)
    });
    assert_eq!((session.ticks(), session.lost()), (vec![2], 0));
}

#[test]
fn a_ring_that_is_full_and_keeps_what_it_has_loses_the_rest_at_once() {
    let mut lab = Lab::new();
    lab.rings.rings[0].set_mode(Mode::StopWhenFull);
    for ticks in 1..=20 {
        lab.rings.write(0, ticks, None);
    }
    let mut session = Collected::new(5);
    lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, false)
    });
    assert_eq!(session.ticks(), (1..=16).collect::<Vec<_>>());
    assert_eq!(session.lost(), 4);
}

#[test]
fn what_a_full_session_did_not_take_comes_later_once() {
    let mut lab = Lab::new();
    for ticks in 1..=5 {
        lab.rings.write(0, ticks, None);
    }
    let mut session = Collected::new(5);
    session.room = 2;
    let round = lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, false)
    });
    assert_eq!((round.events, round.ended), (2, Sent::Full));
    session.room = 100;
    let round = lab.relay(|relay| relay.round(&mut session, false));
    assert_eq!((round.events, round.ended), (3, Sent::Taken));
    // A second session gets only what is new.
    lab.rings.write(0, 6, None);
    lab.relay(|relay| {
        relay.begin();
        relay.round(&mut session, false)
    });
    assert_eq!(session.ticks(), [1, 2, 3, 4, 5, 6]);
}

proptest! {
    #[test]
    fn every_event_comes_once_or_is_counted(
        steps in proptest::collection::vec((0usize..2, proptest::option::of(0usize..60), 0u8..4, 0usize..6), 1..80),
    ) {
        let mut lab = Lab::new();
        let mut session = Collected::new(5);
        lab.relay(|relay| relay.begin());
        let mut written = Vec::new();
        for (index, (ring, length, then, room)) in steps.iter().enumerate() {
            let ticks = index as u64 + 1;
            lab.rings.write(*ring, ticks, *length);
            written.push((ticks, slots(*length)));
            if *then == 0 {
                session.room = *room;
                lab.relay(|relay| relay.round(&mut session, false));
            }
        }
        session.room = usize::MAX;
        lab.relay(|relay| relay.round(&mut session, true));
        let mut seen = session.ticks();
        seen.sort_unstable();
        let unique = seen.len();
        seen.dedup();
        prop_assert_eq!(seen.len(), unique, "an event came twice");
        let reserved: u64 = written.iter().map(|(_, slots)| slots).sum();
        let came: u64 = written
            .iter()
            .filter(|(ticks, _)| seen.binary_search(ticks).is_ok())
            .map(|(_, slots)| slots)
            .sum();
        prop_assert_eq!(came + session.lost(), reserved);
    }
}
