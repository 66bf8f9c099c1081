//! A vector in nonpaged pool whose growth may fail.

use super::{PoolBox, PoolTag};
use crate::Result;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// Values in nonpaged pool, as many as were pushed.
///
/// # Invariants
/// The first `len` places are initialised; `len` is at most their number.
pub struct PoolVec<T> {
    places: PoolBox<[MaybeUninit<T>]>,
    len: usize,
    tag: PoolTag,
}

/// Places of the first growth from nothing.
const FIRST: usize = 4;

impl<T> PoolVec<T> {
    /// Empty, with room for `capacity` values.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub fn try_with_capacity(tag: PoolTag, capacity: usize) -> Result<Self> {
        let places = PoolBox::try_from_fn(tag, capacity, |_| Ok(MaybeUninit::uninit()))?;
        Ok(Self {
            places,
            len: 0,
            tag,
        })
    }

    /// Number of values for which there is room.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Appends a value; doubles the room if there is none.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; the value is dropped, the others stay.
    pub fn try_push(&mut self, value: T) -> Result<()> {
        if self.len == self.places.len() {
            self.grow()?;
        }
        if let Some(place) = self.places.get_mut(self.len) {
            place.write(value);
            // INVARIANT: one more is initialised.
            self.len += 1;
        }
        Ok(())
    }

    /// Takes the last value out.
    ///
    /// IRQL: any.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let place = self.places.get(last)?;
        self.len = last;
        // SAFETY: initialised: it was among the first `len`, and no longer is.
        Some(unsafe { place.assume_init_read() })
    }

    /// Drops all values; the room stays.
    ///
    /// IRQL: that of dropping a value.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    fn grow(&mut self) -> Result<()> {
        let more = self.len.saturating_mul(2).max(FIRST);
        let mut larger = Self::try_with_capacity(self.tag, more)?;
        for (to, from) in larger.places.iter_mut().zip(self.places.iter()) {
            // SAFETY: a bitwise move of a place, initialised or not; the former one is not read again
            // because its `len` becomes 0 below.
            *to = unsafe { core::ptr::read(from) };
        }
        larger.len = core::mem::take(&mut self.len);
        // INVARIANT: as many values as before, in the larger places.
        *self = larger;
        Ok(())
    }
}

impl<T> Deref for PoolVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        let places = self.places.get(..self.len).unwrap_or_default();
        // SAFETY: the first `len` are initialised: invariant of the type.
        unsafe { places.assume_init_ref() }
    }
}

impl<T> DerefMut for PoolVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let places = self.places.get_mut(..self.len).unwrap_or_default();
        // SAFETY: the first `len` are initialised: invariant of the type.
        unsafe { places.assume_init_mut() }
    }
}

impl<T> Drop for PoolVec<T> {
    /// IRQL: `<= DISPATCH_LEVEL`.
    fn drop(&mut self) {
        self.clear();
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for PoolVec<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
