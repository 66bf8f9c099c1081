//! Counts that depend on virtual time alone, so that tests know them exactly.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::source::{Architectural, Event, Source};

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
    /// What processor `cpu` has counted of an event up to `now_ns`, from time zero.
    #[must_use]
    pub fn total(cpu: usize, event: Event, now_ns: u64) -> u64 {
        let Some(architectural) = Architectural::from_code(event.code) else {
            return 0;
        };
        let share =
            u64::from(event.user) * USER_SHARE + u64::from(event.kernel) * (100 - USER_SHARE);
        let speed = 100 + cpu as u64;
        let scaled = u128::from(now_ns) * u128::from(rate(architectural) * share * speed);
        u64::try_from(scaled / (1000 * 100 * 100)).unwrap_or(u64::MAX)
    }
}

impl Source for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn supports(&self, _event: Architectural) -> bool {
        true
    }

    fn start(&self, cpu: usize, slot: usize, event: Event, now_ns: u64) {
        self.started
            .borrow_mut()
            .insert((cpu, slot), (event, now_ns));
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
