//! Counts that depend on virtual time alone, so that tests know them exactly.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::source::{Architectural, Event, Place, Reached, Source};

/// Thousandths of an event per nanosecond on processor 0.
const fn rate(event: Architectural) -> u64 {
    match event {
        Architectural::Cycles => 3000,
        Architectural::Instructions => 6000,
        Architectural::ReferenceCycles => 2500,
        Architectural::CacheReferences => 30,
        Architectural::CacheMisses => 6,
        Architectural::Branches => 1200,
        Architectural::BranchMisses => 12,
        Architectural::Slots => 18_000,
    }
}

/// Per cent of the events that fall in user mode.
const USER_SHARE: u64 = 75;

/// The deterministic source: every processor is busy all the time, processor
/// n counts n per cent faster than processor 0, and a quarter of it is kernel
/// mode. Events without a meaning count nothing, as on hardware.
#[derive(Default)]
pub struct Model {
    started: RefCell<HashMap<(usize, usize), (Event, u64)>>,
}

impl Model {
    /// Ten-millionths of an event per nanosecond.
    fn speed(cpu: usize, event: Event) -> u128 {
        let Some(architectural) = Architectural::from_code(event.code) else {
            return 0;
        };
        let share =
            u64::from(event.user) * USER_SHARE + u64::from(event.kernel) * (100 - USER_SHARE);
        u128::from(rate(architectural) * share * (100 + cpu as u64))
    }

    /// What processor `cpu` has counted of an event up to `now_ns`, from time zero.
    #[must_use]
    pub fn total(cpu: usize, event: Event, now_ns: u64) -> u64 {
        let scaled = u128::from(now_ns) * Self::speed(cpu, event);
        u64::try_from(scaled / TEN_MILLION).unwrap_or(u64::MAX)
    }

    /// When processor `cpu` has counted so many events, from time zero; `None` if it never will.
    #[must_use]
    pub fn time_of(cpu: usize, event: Event, total: u64) -> Option<u64> {
        let speed = Self::speed(cpu, event);
        let scaled = u128::from(total) * TEN_MILLION;
        if speed == 0 {
            return None;
        }
        u64::try_from(scaled.div_ceil(speed)).ok()
    }

    /// Where processor `cpu` is at a time, if what it does there is this event.
    ///
    /// It runs a program of 64 blocks, a microsecond each, over and over; the last quarter of each
    /// four microseconds is spent in the kernel. Each processor has a process, with three threads that
    /// take turns every 100 µs.
    #[must_use]
    pub fn place(cpu: usize, event: Event, time_ns: u64) -> Place {
        let micros = time_ns / 1000;
        let user = event.user && (!event.kernel || micros % 4 != 3);
        let code = if user { USER_CODE } else { KERNEL_CODE };
        let process = FIRST_PROCESS + 0x100 * cpu as u64;
        Place {
            pc: code + BLOCK_BYTES * (micros % BLOCKS),
            user,
            process,
            thread: process + 4 + 4 * (micros / 100 % THREADS),
        }
    }
}

const TEN_MILLION: u128 = 10_000_000;
/// Where the program's blocks are.
pub const USER_CODE: u64 = 0x1_4000_1000;
/// Where the kernel's are.
pub const KERNEL_CODE: u64 = 0xFFFF_F800_0010_0000;
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 0x10;
/// Process of processor 0.
pub const FIRST_PROCESS: u64 = 0x1000;
const THREADS: u64 = 3;

impl Source for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn supports(&self, _event: Architectural) -> bool {
        true
    }

    fn start(&self, cpu: usize, slot: usize, event: Event, _after: Option<u64>, now_ns: u64) {
        self.started
            .borrow_mut()
            .insert((cpu, slot), (event, now_ns));
    }

    fn reached(&self, cpu: usize, slot: usize, count: u64, now_ns: u64) -> Reached {
        let started = self.started.borrow();
        let Some((event, since)) = started.get(&(cpu, slot)) else {
            return Reached::Never;
        };
        let total = Self::total(cpu, *event, *since).saturating_add(count);
        match Self::time_of(cpu, *event, total) {
            None => Reached::Never,
            Some(due) if due > now_ns => Reached::NotBefore(due),
            Some(due) => Reached::At(Self::place(cpu, *event, due)),
        }
    }

    fn read(&self, cpu: usize, slot: usize, now_ns: u64) -> u64 {
        match self.started.borrow().get(&(cpu, slot)) {
            Some((event, since)) => {
                Self::total(cpu, *event, now_ns) - Self::total(cpu, *event, *since)
            }
            None => 0,
        }
    }

    fn stop(&self, cpu: usize, slot: usize, now_ns: u64) -> u64 {
        let count = self.read(cpu, slot, now_ns);
        self.started.borrow_mut().remove(&(cpu, slot));
        count
    }

    fn attach(&self, _cpu: usize, _process: Option<u32>) -> Result<(), String> {
        Ok(())
    }
}
