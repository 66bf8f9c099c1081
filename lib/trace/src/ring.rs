//! The ring: how events are written and read, whoever interrupts whom.
//!
//! ```text
//!   position ──▶ reserved by one exchange-add; the slots below it are somebody's
//!  ┌────┬────┬────┬────┬────┬────┐
//!  │ 96 │ 97 │ 98 │ 93 │ 94 │ 95 │   a slot says itself whether it is complete, and which one it is
//!  └────┴────┴────┴────┴────┴────┘
//! ```
//! Writers wait for nobody. What a reader finds incomplete is not there yet, or lost once `position` has
//! gone on by the length of the ring. On x86-64 events of up to two words are written by the routines in
//! `thunk`, which do the same in assembly; the reader is this one.

use core::sync::atomic::{AtomicU64, Ordering};
use trace_format::Slot;
use trace_format::slot::{self, FIRST_WORDS, NEXT_WORDS, SLOT_BYTES};

/// What a word that holds a position counts in: bytes. The next event waits for the address of this one's
/// slot, and that is the position less its upper bits, without a shift.
pub const STEP: u64 = SLOT_BYTES as u64;

/// A word that several processors touch: `AtomicU64`, or a model checker's.
pub trait Word {
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
    /// Adds to it; gives what it was.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }
}

/// A ring, as writers and readers see it. A power of two of slots; positions begin at their number, so
/// that memory of zeros holds no event.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, W> {
    /// Position of the next slot that nobody has reserved. Units: 1/[`STEP`].
    pub position: &'a W,
    /// Position from which on events are counted only. Units: 1/[`STEP`].
    pub limit: &'a W,
    /// The slots.
    pub slots: &'a [[W; 4]],
}

impl<W: Word> View<'_, W> {
    /// Where a position is.
    fn slot(&self, position: u64) -> Option<&[W; 4]> {
        let mask = self.slots.len().checked_sub(1)?;
        // Only bits of the mask count, whatever the width of `usize`.
        #[expect(clippy::cast_possible_truncation, reason = "masked at once")]
        let index = position as usize & mask;
        self.slots.get(index)
    }

    /// Records an event; counts it only if the ring is full and keeps what it has.
    pub fn write(&self, id: u32, time: u64, words: &[u64]) {
        let count = slot::slots_of(words.len()) as u64;
        let reserved = self.position.fetch_add(count * STEP, Ordering::Relaxed);
        if reserved.wrapping_add(count * STEP) > self.limit.load(Ordering::Relaxed) {
            return;
        }
        let first = reserved / STEP;
        let (head, rest) = words.split_at(words.len().min(FIRST_WORDS));
        let [a, b] = padded(head);
        self.store(Slot::new(first, id, [time, a, b]), first);
        for (position, words) in (first.wrapping_add(1)..).zip(rest.chunks(NEXT_WORDS)) {
            self.store(Slot::new(position, 0, padded(words)), position);
        }
    }

    fn store(&self, slot: Slot, position: u64) {
        let Some([head, places @ ..]) = self.slot(position) else {
            return;
        };
        for (place, word) in places.iter().zip(slot.words()) {
            place.store(word, Ordering::Relaxed);
        }
        let [first, ..] = slot.0;
        head.store(first, Ordering::Release);
    }

    /// The slot at a position, if it is there and complete.
    #[must_use]
    pub fn read(&self, position: u64) -> Option<Slot> {
        let [head, first, second, third] = self.slot(position)?;
        let head = head.load(Ordering::Acquire);
        let words = [first, second, third].map(|word| word.load(Ordering::Relaxed));
        let [first, second, third] = words;
        let slot = Slot([head, first, second, third]);
        slot.is_at(position).then_some(slot)
    }

    /// Positions that may still be in the ring, of those from `start` on.
    #[must_use]
    pub fn window(&self, start: u64) -> core::ops::Range<u64> {
        let end = self.position.load(Ordering::Acquire) / STEP;
        let written = end.min(self.limit.load(Ordering::Relaxed) / STEP);
        let oldest = written.saturating_sub(self.slots.len() as u64);
        start.max(oldest).min(end)..end
    }
}

/// The first words, and zeros where there are none.
fn padded<const N: usize>(words: &[u64]) -> [u64; N] {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().zip(words) {
        *to = *from;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Memory {
        position: AtomicU64,
        limit: AtomicU64,
        slots: Vec<[AtomicU64; 4]>,
    }

    impl Memory {
        fn new(slots: usize, limit: u64) -> Self {
            Self {
                position: AtomicU64::new(slots as u64 * STEP),
                limit: AtomicU64::new(limit.saturating_mul(STEP)),
                slots: (0..slots)
                    .map(|_| [const { AtomicU64::new(0) }; 4])
                    .collect(),
            }
        }

        fn view(&self) -> View<'_, AtomicU64> {
            View {
                position: &self.position,
                limit: &self.limit,
                slots: &self.slots,
            }
        }
    }

    #[test]
    fn nothing_is_in_a_new_ring() {
        let memory = Memory::new(8, u64::MAX);
        assert!(memory.view().window(8).is_empty());
        assert!(
            (0..64)
                .skip(1)
                .all(|position| memory.view().read(position).is_none())
        );
    }

    #[test]
    fn a_ring_that_keeps_the_first_counts_the_rest() {
        let memory = Memory::new(4, 8);
        for word in 0..10 {
            memory.view().write(1, 0, &[word]);
        }
        let window = memory.view().window(4);
        assert_eq!(window, 4..14);
        let kept: Vec<_> = window
            .map(|position| memory.view().read(position))
            .collect();
        assert!(
            kept[..4]
                .iter()
                .zip(0..)
                .all(|(slot, word)| slot.unwrap().words()[1] == word)
        );
        assert!(kept[4..].iter().all(Option::is_none));
    }

    /// Miri takes a thousand times as long: it sees few rings, which go round several times all the same.
    const CASES: u32 = if cfg!(miri) { 4 } else { 256 };
    const MOST: (u32, usize) = if cfg!(miri) { (4, 10) } else { (6, 40) };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(CASES))]
        #[test]
        fn what_was_written_last_is_read(
            slots in 2..MOST.0, events in proptest::collection::vec((1u32.., any::<u64>(), proptest::collection::vec(any::<u64>(), 0..9)), 0..MOST.1),
        ) {
            let memory = Memory::new(1 << slots, u64::MAX);
            let mut expected = Vec::new();
            for (id, time, words) in &events {
                memory.view().write(*id, *time, words);
                expected.push((*id, [*time, words.first().copied().unwrap_or(0), words.get(1).copied().unwrap_or(0)]));
                for chunk in words.get(2..).unwrap_or_default().chunks(3) {
                    expected.push((0, padded(chunk)));
                }
            }
            let window = memory.view().window(1 << slots);
            prop_assert_eq!(window.end, (1 << slots) + expected.len() as u64);
            let skipped = expected.len().saturating_sub(1 << slots);
            let read: Vec<_> = window
                .map(|position| memory.view().read(position).map(|slot| (slot.id(), slot.words())))
                .collect();
            let expected: Vec<_> = expected[skipped..].iter().copied().map(Some).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
