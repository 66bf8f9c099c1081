//! Counts of a process of the host, through `perf_event_open`.
//!
//! A virtual processor that executes a process counts that process, its
//! threads and its children; one that executes none stands still. Where the
//! host has no hardware counters (most virtual machines), the virtual
//! processor runs at 1 GHz of CPU time: one cycle per nanosecond that the
//! process ran, by the kernel's task clock. Events which nothing on the host
//! can count are announced as absent, not made up.
//!
//! A counter that interrupts is a sampled event of the host's: each record of the kernel is one
//! interrupt, and moves the counter by one interval. Records that the kernel had no room for move it
//! as far, without an interrupt of their own.

mod sampled;

use std::cell::RefCell;
use std::collections::HashMap;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};

use crate::source::{Architectural, Event, Reached, Source};
use sampled::Sampled;

/// Host events: codes that no architectural event uses, counted by the host's kernel.
pub const HOST_EVENTS: [(u16, Software, &str); 6] = [
    (0x00E0, Software::TASK_CLOCK, "task-clock-ns"),
    (0x01E0, Software::PAGE_FAULTS, "page-faults"),
    (0x02E0, Software::PAGE_FAULTS_MIN, "minor-faults"),
    (0x03E0, Software::PAGE_FAULTS_MAJ, "major-faults"),
    (0x04E0, Software::CONTEXT_SWITCHES, "context-switches"),
    (0x05E0, Software::CPU_MIGRATIONS, "cpu-migrations"),
];

/// A counter that was started.
struct Started {
    event: Event,
    /// Counts of processes that were attached before the present one.
    before: u64,
    counter: Option<Counter>,
}

/// The source.
pub struct HostPerf {
    hardware: Vec<Architectural>,
    processes: RefCell<HashMap<usize, u32>>,
    started: RefCell<HashMap<(usize, usize), Started>>,
    /// Counters that interrupt; kept while they stand still between two interrupts.
    sampled: RefCell<HashMap<(usize, usize), Sampled>>,
}

/// How long records may wait for somebody to look. Units: ns.
const LOOK_NS: u64 = 1_000_000;

impl HostPerf {
    /// Finds out what the host can count.
    ///
    /// Errors: the host does not let this user count even its own processes.
    pub fn new() -> Result<Self, String> {
        let event = |event| Event {
            code: event,
            user: true,
            kernel: false,
        };
        let own = std::process::id();
        open(Backing::Software(Software::TASK_CLOCK), event(0), own).map_err(|error| {
            format!("this host does not allow counting ({error}); see kernel.perf_event_paranoid")
        })?;
        let hardware = Architectural::ALL
            .into_iter()
            .filter(|architectural| {
                hardware(*architectural).is_some_and(|backing| {
                    open(Backing::Hardware(backing), event(architectural.code()), own).is_ok()
                })
            })
            .collect();
        Ok(Self {
            hardware,
            processes: RefCell::default(),
            started: RefCell::default(),
            sampled: RefCell::default(),
        })
    }

    /// Whether the host's processor counts, or only its kernel.
    #[must_use]
    pub fn has_hardware(&self) -> bool {
        !self.hardware.is_empty()
    }

    /// Goes on with a counter that interrupts every so many events, or makes one.
    fn start_sampled(&self, key: (usize, usize), event: Event, period: u64) {
        let mut all = self.sampled.borrow_mut();
        let is_same = |known: &Sampled| known.event == event && known.period == period;
        if let Some(known) = all.get_mut(&key).filter(|known| is_same(known)) {
            return known.start();
        }
        let mut sampled = Sampled::new(event, period);
        let process = self.processes.borrow().get(&key.0).copied();
        sampled.attach(self.backing(event.code), process);
        all.insert(key, sampled);
    }

    fn backing(&self, code: u16) -> Option<Backing> {
        if let Some((_, software, _)) = HOST_EVENTS.iter().find(|(known, ..)| *known == code) {
            return Some(Backing::Software(*software));
        }
        let architectural = Architectural::from_code(code)?;
        if self.hardware.contains(&architectural) {
            return hardware(architectural).map(Backing::Hardware);
        }
        let by_clock = matches!(
            architectural,
            Architectural::Cycles | Architectural::ReferenceCycles
        );
        by_clock.then_some(Backing::Software(Software::TASK_CLOCK))
    }

    /// A counter on the process that a processor executes, if it can be counted.
    fn open(&self, cpu: usize, event: Event) -> Option<Counter> {
        let process = *self.processes.borrow().get(&cpu)?;
        let mut counter = open(self.backing(event.code)?, event, process).ok()?;
        counter.enable().ok()?;
        Some(counter)
    }
}

#[derive(Clone, Copy)]
enum Backing {
    Hardware(Hardware),
    Software(Software),
}

fn hardware(event: Architectural) -> Option<Hardware> {
    Some(match event {
        Architectural::Cycles => Hardware::CPU_CYCLES,
        Architectural::Instructions => Hardware::INSTRUCTIONS,
        Architectural::ReferenceCycles => Hardware::REF_CPU_CYCLES,
        Architectural::CacheReferences => Hardware::CACHE_REFERENCES,
        Architectural::CacheMisses => Hardware::CACHE_MISSES,
        Architectural::Branches => Hardware::BRANCH_INSTRUCTIONS,
        Architectural::BranchMisses => Hardware::BRANCH_MISSES,
        Architectural::Slots => return None,
    })
}

/// An event of a process and what it starts, in the modes that are asked for.
fn builder<'a>(backing: Backing, event: Event) -> Builder<'a> {
    let mut builder = match backing {
        Backing::Hardware(hardware) => Builder::new(hardware),
        Backing::Software(software) => Builder::new(software),
    };
    builder
        .inherit(true)
        .exclude_hv(true)
        .exclude_user(!event.user)
        .exclude_kernel(!event.kernel);
    builder
}

fn open(backing: Backing, event: Event, process: u32) -> std::io::Result<Counter> {
    let process = i32::try_from(process).map_err(std::io::Error::other)?;
    builder(backing, event)
        .observe_pid(process)
        .any_cpu()
        .build()
}

fn value(started: &mut Started) -> u64 {
    let current = started
        .counter
        .as_mut()
        .and_then(|counter| counter.read().ok())
        .unwrap_or(0);
    started.before + current
}

impl Source for HostPerf {
    fn name(&self) -> &'static str {
        if self.has_hardware() {
            "perf"
        } else {
            "perf-software"
        }
    }

    fn supports(&self, event: Architectural) -> bool {
        self.backing(event.code()).is_some()
    }

    fn start(&self, cpu: usize, slot: usize, event: Event, after: Option<u64>, _now_ns: u64) {
        if let Some(period) = after {
            return self.start_sampled((cpu, slot), event, period);
        }
        let counter = self.open(cpu, event);
        self.started.borrow_mut().insert(
            (cpu, slot),
            Started {
                event,
                before: 0,
                counter,
            },
        );
    }

    fn reached(&self, cpu: usize, slot: usize, count: u64, now_ns: u64) -> Reached {
        let mut sampled = self.sampled.borrow_mut();
        let Some(sampled) = sampled.get_mut(&(cpu, slot)) else {
            return Reached::Never;
        };
        while let Some(place) = sampled.next() {
            if sampled.value() >= count {
                return Reached::At(place);
            }
        }
        Reached::NotBefore(now_ns + LOOK_NS)
    }

    fn is_live(&self) -> bool {
        !self.sampled.borrow().is_empty()
    }

    fn release(&self, cpu: usize, slot: usize) {
        self.sampled.borrow_mut().remove(&(cpu, slot));
    }

    fn read(&self, cpu: usize, slot: usize, _now_ns: u64) -> u64 {
        if let Some(sampled) = self.sampled.borrow().get(&(cpu, slot)) {
            return sampled.value();
        }
        self.started
            .borrow_mut()
            .get_mut(&(cpu, slot))
            .map_or(0, value)
    }

    fn stop(&self, cpu: usize, slot: usize, _now_ns: u64) -> u64 {
        if let Some(sampled) = self.sampled.borrow().get(&(cpu, slot)) {
            return sampled.value();
        }
        self.started
            .borrow_mut()
            .remove(&(cpu, slot))
            .map_or(0, |mut started| value(&mut started))
    }

    fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String> {
        if let Some(process) = process {
            let probe = Event {
                code: 0,
                user: true,
                kernel: false,
            };
            open(Backing::Software(Software::TASK_CLOCK), probe, process)
                .map_err(|error| format!("cannot count process {process}: {error}"))?;
        }
        let mut started = self.started.borrow_mut();
        let slots: Vec<_> = started
            .keys()
            .copied()
            .filter(|(owner, _)| *owner == cpu)
            .collect();
        for key in &slots {
            if let Some(started) = started.get_mut(key) {
                started.before = value(started);
                started.counter = None;
            }
        }
        match process {
            Some(process) => self.processes.borrow_mut().insert(cpu, process),
            None => self.processes.borrow_mut().remove(&cpu),
        };
        for key in &slots {
            if let Some(started) = started.get_mut(key) {
                started.counter = self.open(cpu, started.event);
            }
        }
        let mut sampled = self.sampled.borrow_mut();
        for (_, sampled) in sampled.iter_mut().filter(|((owner, _), _)| *owner == cpu) {
            sampled.attach(self.backing(sampled.event.code), process);
        }
        Ok(())
    }
}
