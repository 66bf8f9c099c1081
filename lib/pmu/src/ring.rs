//! Samples on their way from an interrupt routine to a reader.
//!
//! ```text
//!            taken              pushed
//!              ▼                   ▼
//!  │ … read …  │ waiting … waiting │  free …  │   positions count up for ever; modulo the length
//! ```
//! One side pushes, at any IRQL, and never waits; one side takes. Neither needs a lock. What does not
//! fit is counted, so that nothing is lost in silence.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

/// A sample, as an interrupt routine takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// When. Units: ns.
    pub time_ns: u64,
    /// Instruction that was next.
    pub pc: u64,
    /// Run of the core that it belongs to.
    pub generation: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Place of the source in the assignment.
    pub source: u16,
    /// Whether the processor was in user mode.
    pub user: bool,
}

/// Room for one sample.
#[derive(Debug, Default)]
pub struct RingPlace([AtomicU64; 5]);

impl RingPlace {
    /// Nothing in it yet.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 5])
    }

    fn put(&self, sample: RawSample) {
        let words = [
            sample.time_ns,
            sample.pc,
            sample.generation,
            u64::from(sample.pid) << 32 | u64::from(sample.tid),
            u64::from(sample.source) << 1 | u64::from(sample.user),
        ];
        for (place, word) in self.0.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    fn get(&self) -> RawSample {
        let [time_ns, pc, generation, ids, rest] = &self.0;
        let ids = ids.load(Ordering::Relaxed);
        let rest = rest.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "halves of a word")]
        RawSample {
            time_ns: time_ns.load(Ordering::Relaxed),
            pc: pc.load(Ordering::Relaxed),
            generation: generation.load(Ordering::Relaxed),
            pid: (ids >> 32) as u32,
            tid: ids as u32,
            source: (rest >> 1) as u16,
            user: rest & 1 != 0,
        }
    }
}

/// The ring. `S` is its storage: a power of two of places.
///
/// # Invariants
/// One context at a time pushes and one at a time takes; both may at once.
#[derive(Debug)]
pub struct Ring<S> {
    places: S,
    pushed: AtomicU64,
    taken: AtomicU64,
    full: AtomicU64,
    late: AtomicU64,
}

/// What went through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RingCounts {
    /// Samples that were taken out.
    pub taken: u64,
    /// Samples that are in it.
    pub waiting: u64,
    /// Samples that found it full.
    pub full: u64,
    /// Samples that were due and never taken, because the one before was not served yet.
    pub late: u64,
}

impl RingCounts {
    /// All that were due.
    #[must_use]
    pub const fn generated(&self) -> u64 {
        self.taken + self.waiting + self.full + self.late
    }
}

impl<S: Deref<Target = [RingPlace]>> Ring<S> {
    /// Over storage; `None` unless it has a power of two of places, at least two.
    pub fn new(places: S) -> Option<Self> {
        let is_right = places.len() >= 2 && places.len().is_power_of_two();
        is_right.then_some(Self {
            places,
            pushed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            full: AtomicU64::new(0),
            late: AtomicU64::new(0),
        })
    }

    /// Places it has.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    fn place(&self, position: u64) -> Option<&RingPlace> {
        let mask = self.places.len().wrapping_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
        let index = position as usize & mask;
        self.places.get(index)
    }

    /// Puts a sample in; false, and counted, if there is no room. For the pushing side.
    pub fn push(&self, sample: RawSample) -> bool {
        let pushed = self.pushed.load(Ordering::Relaxed);
        // Acquire: what was read from a place was read before it is written again.
        let taken = self.taken.load(Ordering::Acquire);
        let is_full = pushed.wrapping_sub(taken) >= self.places.len() as u64;
        let Some(place) = self.place(pushed).filter(|_| !is_full) else {
            add(&self.full, 1);
            return false;
        };
        place.put(sample);
        // Release: whoever sees the position sees the sample.
        self.pushed.store(pushed.wrapping_add(1), Ordering::Release);
        true
    }

    /// Counts samples that were due and never taken. For the pushing side.
    pub fn note_late(&self, samples: u64) {
        add(&self.late, samples);
    }

    /// Takes the oldest sample out. For the taking side.
    pub fn take(&self) -> Option<RawSample> {
        let taken = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Acquire);
        if taken == pushed {
            return None;
        }
        let sample = self.place(taken)?.get();
        self.taken.store(taken.wrapping_add(1), Ordering::Release);
        Some(sample)
    }

    /// What went through up to now.
    #[must_use]
    pub fn counts(&self) -> RingCounts {
        let taken = self.taken.load(Ordering::Acquire);
        let pushed = self.pushed.load(Ordering::Acquire);
        RingCounts {
            taken,
            waiting: pushed.wrapping_sub(taken),
            full: self.full.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
        }
    }

    /// Whether it is time to read it.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Relaxed);
        pushed.wrapping_sub(taken) >= self.places.len() as u64 / 2
    }

    /// Makes it as new. While neither side is at it.
    pub fn clear(&self) {
        for count in [&self.pushed, &self.taken, &self.full, &self.late] {
            count.store(0, Ordering::Release);
        }
    }
}

/// Adds to a count that one side alone changes.
fn add(count: &AtomicU64, more: u64) {
    let value = count.load(Ordering::Relaxed).saturating_add(more);
    count.store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
