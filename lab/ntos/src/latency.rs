//! How long DPC and interrupt routines take.
//!
//! Taken is the time that a routine's context runs on the host: its own code
//! and the kernel calls it makes, not what other contexts run meanwhile. What
//! the host's scheduler takes away is in it, so single outliers say nothing
//! on a loaded host; the distribution does.
#![expect(unsafe_code, reason = "reads the time-stamp counter")]

use std::cell::{Cell, RefCell};
use std::time::Instant;

use lab_verifier::Frame;

use crate::machine::Machine;

/// Kinds of routines whose time is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Routine {
    Dpc,
    Isr,
}

/// Times of the routines of one machine.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// DPC routines; Windows asks for at most 100 µs.
    pub dpc: Distribution,
    /// Interrupt routines; Windows asks for at most 25 µs.
    pub isr: Distribution,
}

/// How the times of one kind of routine are spread.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Calls.
    pub count: u64,
    /// Calls by duration, the shortest first; each bucket is twice as long as the one before.
    pub buckets: Vec<Bucket>,
    /// The longest call.
    pub longest: Option<Longest>,
}

/// Calls that took about as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Each took less than this many nanoseconds.
    pub below_ns: u64,
    /// How many.
    pub count: u64,
}

/// The longest call of a routine.
#[derive(Clone, Debug)]
pub struct Longest {
    /// Nanoseconds.
    pub ns: u64,
    /// The routine.
    pub routine: Frame,
}

/// A machine's times, in ticks of the time-stamp counter.
pub(crate) struct Latencies {
    dpc: Histogram,
    isr: Histogram,
    origin: (Instant, u64),
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            dpc: Histogram::default(),
            isr: Histogram::default(),
            origin: (Instant::now(), now()),
        }
    }
}

/// Calls by the binary logarithm of their ticks.
struct Histogram {
    buckets: RefCell<[u64; 64]>,
    /// Ticks and routine of the longest.
    longest: Cell<(u64, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: RefCell::new([0; 64]),
            longest: Cell::new((0, 0)),
        }
    }
}

/// The time-stamp counter; never 0.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }.max(1)
}

impl Histogram {
    fn add(&self, ticks: u64, routine: u64) {
        self.buckets.borrow_mut()[ticks.max(1).ilog2() as usize] += 1;
        if ticks > self.longest.get().0 {
            self.longest.set((ticks, routine));
        }
    }
}

impl Machine {
    /// Calls a routine of the driver and takes its time.
    pub(crate) fn timed(&self, kind: Routine, routine: u64, args: [u64; 4]) -> u64 {
        let Some(id) = self.running.get() else {
            return 0;
        };
        let thread = self.thread(id);
        let outer = (thread.timing.replace(true), thread.away.replace(0));
        thread.ticks.set(0);
        let start = now();
        let result = self.call(routine, args);
        let ticks = now()
            .saturating_sub(start)
            .saturating_sub(thread.away.get());
        thread.timing.set(outer.0);
        // A nested routine's time is not that of the one it interrupted.
        thread.away.set(outer.1 + now().saturating_sub(start));
        thread.ticks.set(0);
        match kind {
            Routine::Dpc => self.latencies.dpc.add(ticks, routine),
            Routine::Isr => self.latencies.isr.add(ticks, routine),
        }
        result
    }

    /// How long DPC and interrupt routines took since the machine was made.
    pub fn latency(&self) -> Latency {
        let (instant, ticks) = self.latencies.origin;
        let elapsed = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ticks = now().saturating_sub(ticks).max(1);
        let to_ns = |count: u64| {
            let ns = u128::from(count) * u128::from(elapsed) / u128::from(ticks);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        Latency {
            dpc: self.distribution(&self.latencies.dpc, to_ns),
            isr: self.distribution(&self.latencies.isr, to_ns),
        }
    }

    fn distribution(&self, histogram: &Histogram, to_ns: impl Fn(u64) -> u64) -> Distribution {
        let counts = *histogram.buckets.borrow();
        let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let buckets = used.map(|(log, count)| Bucket {
            below_ns: to_ns(2u64.saturating_pow(u32::try_from(log + 1).unwrap_or(64))),
            count: *count,
        });
        let (ticks, routine) = histogram.longest.get();
        Distribution {
            count: counts.iter().sum(),
            buckets: buckets.collect(),
            longest: (ticks > 0).then(|| Longest {
                ns: to_ns(ticks),
                routine: self.frame(routine),
            }),
        }
    }
}
