//! Slots: an event is one slot, or one and the continuation slots behind it.
//!
//! ```text
//!  0        4        8                16               24               32
//!  │ id     │ stamp  │ time           │ word 0         │ word 1         │   first slot of an event
//!  │ 0      │ stamp  │ word           │ word           │ word           │   its continuation
//! ```
//! `id` is the rva of the [event](crate::site::Event) in the driver file. `stamp` is the low
//! half of the slot's position in its ring, exclusive-or a [fold](fold()) of the other three words: a slot that is
//! empty, old, half written, or written by two at once has another one. `time` is the processor's
//! constant-rate counter (TSC, CNTVCT_EL0), or 0 for "as the event before on this ring".

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 32;

/// Words of an event's arguments in its first slot.
pub const FIRST_WORDS: usize = 2;

/// Words of an event's arguments in each further slot.
pub const NEXT_WORDS: usize = 3;

/// Most words of arguments that an event may have.
pub const MOST_WORDS: usize = 32;

/// Turns of the second and the third word in a [`fold`].
pub const TURNS: [u32; 2] = [23, 47];

/// Reduces three words to 32 bits, so that a change of any of them shows.
#[must_use]
pub const fn fold(words: [u64; 3]) -> u32 {
    let [first, second, third] = words;
    let [turn, other] = TURNS;
    let mixed = first ^ second.rotate_left(turn) ^ third.rotate_left(other);
    low(mixed) ^ low(mixed >> 32)
}

/// The low half of a word.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
pub const fn low(word: u64) -> u32 {
    word as u32
}

/// Number of slots of an event whose arguments have so many words.
#[must_use]
pub const fn slots_of(words: usize) -> usize {
    1 + words.saturating_sub(FIRST_WORDS).div_ceil(NEXT_WORDS)
}

/// A slot as it lies in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub [u64; 4]);

impl Slot {
    /// The slot at `position`.
    #[must_use]
    pub const fn new(position: u64, id: u32, words: [u64; 3]) -> Self {
        let stamp = low(position) ^ fold(words);
        let [first, second, third] = words;
        Self([(stamp as u64) << 32 | id as u64, first, second, third])
    }

    /// Which site's it is; 0 for a continuation.
    #[must_use]
    pub const fn id(&self) -> u32 {
        let Self([head, ..]) = self;
        low(*head)
    }

    /// What it carries.
    #[must_use]
    pub const fn words(&self) -> [u64; 3] {
        let Self([_, first, second, third]) = *self;
        [first, second, third]
    }

    /// Whether it is complete, and the one of this position.
    #[must_use]
    pub const fn is_at(&self, position: u64) -> bool {
        let Self([head, ..]) = self;
        low(*head >> 32) == low(position) ^ fold(self.words())
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; SLOT_BYTES]) -> Self {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        Self(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_that_was_never_written_is_no_slot_of_any_later_position() {
        assert!(Slot([0; 4]).is_at(0));
        let positions = if cfg!(miri) { 100 } else { 100_000 };
        assert!((1..positions).all(|position| !Slot([0; 4]).is_at(position)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn a_slot_is_at_its_own_position_only(
            position: u64, other: u32, id: u32, words: [u64; 3],
        ) {
            let slot = Slot::new(position, id, words);
            prop_assert!(slot.is_at(position));
            prop_assert_eq!((slot.id(), slot.words()), (id, words));
            prop_assert_eq!(Slot::from_bytes(&slot.to_bytes()), slot);
            let elsewhere = position ^ u64::from(other);
            prop_assert_eq!(slot.is_at(elsewhere), other == 0);
        }

        #[test]
        fn one_changed_bit_shows(position: u64, id: u32, words: [u64; 3], bit in 0..192usize) {
            let mut slot = Slot::new(position, id, words);
            if let Some(word) = slot.0.get_mut(1 + bit / 64) {
                *word ^= 1 << (bit % 64);
            }
            prop_assert!(!slot.is_at(position));
        }
    }
}
