//! Counters by name.

/// A counter of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// General-purpose: takes any event.
    General(u8),
    /// Fixed-function: takes the one event it is built for.
    Fixed(u8),
}

/// Counters of a core, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotSet {
    /// Bit n: general-purpose counter n.
    pub general: u64,
    /// Bit n: fixed counter n.
    pub fixed: u32,
}

impl SlotSet {
    /// No counter.
    pub const EMPTY: Self = Self {
        general: 0,
        fixed: 0,
    };

    /// The first so many of each kind.
    #[must_use]
    pub const fn first(general: u8, fixed: u8) -> Self {
        let general = if general >= 64 {
            u64::MAX
        } else {
            (1 << general) - 1
        };
        let fixed = if fixed >= 32 {
            u32::MAX
        } else {
            (1 << fixed) - 1
        };
        Self { general, fixed }
    }

    /// The counters of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            general: self.general | other.general,
            fixed: self.fixed | other.fixed,
        }
    }

    /// The counters that are in this set and in the other.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        Self {
            general: self.general & other.general,
            fixed: self.fixed & other.fixed,
        }
    }

    /// The counters that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            general: self.general & !other.general,
            fixed: self.fixed & !other.fixed,
        }
    }

    /// Whether there is no counter in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.general == 0 && self.fixed == 0
    }

    /// Whether the counter is in it.
    #[must_use]
    pub const fn contains(self, slot: Slot) -> bool {
        match slot {
            Slot::General(index) => index < 64 && self.general & (1 << index) != 0,
            Slot::Fixed(index) => index < 32 && self.fixed & (1 << index) != 0,
        }
    }

    /// Puts a counter in; indices past the width of the set are not there to be put.
    pub const fn insert(&mut self, slot: Slot) {
        match slot {
            Slot::General(index) if index < 64 => self.general |= 1 << index,
            Slot::Fixed(index) if index < 32 => self.fixed |= 1 << index,
            _ => {}
        }
    }

    /// Takes a counter out.
    pub const fn remove(&mut self, slot: Slot) {
        match slot {
            Slot::General(index) if index < 64 => self.general &= !(1 << index),
            Slot::Fixed(index) if index < 32 => self.fixed &= !(1 << index),
            _ => {}
        }
    }

    /// A counter in it, fixed ones first, then by number.
    #[must_use]
    pub fn first_counter(self) -> Option<Slot> {
        let index = u8::try_from(self.fixed.trailing_zeros()).ok()?;
        match self.fixed {
            0 => self.first_general(),
            _ => Some(Slot::Fixed(index)),
        }
    }

    /// The lowest general-purpose counter in it.
    #[must_use]
    pub fn first_general(self) -> Option<Slot> {
        let index = u8::try_from(self.general.trailing_zeros()).ok()?;
        (self.general != 0).then_some(Slot::General(index))
    }
}
