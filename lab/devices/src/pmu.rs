//! An architectural performance-monitoring unit.
//!
//! Source: Intel SDM vol. 3 §20.2 (architectural performance monitoring,
//! version 2), vol. 4 table 2-2 (addresses and reserved bits).

use std::cell::RefCell;

use crate::registers::{Overflow, Overflows, Registers};
use crate::source::{Architectural, Event, Reached, Source};

/// Bits of a counter.
const WIDTH: u32 = 48;
const MASK: u64 = (1 << WIDTH) - 1;
/// Version of architectural performance monitoring.
const VERSION: u32 = 2;
/// General-purpose counters, at most, by the layout of the registers used here.
pub const MAX_GENERAL: u32 = 8;
/// Fixed counters: instructions, cycles, reference cycles.
const FIXED: [Architectural; 3] = [
    Architectural::Instructions,
    Architectural::Cycles,
    Architectural::ReferenceCycles,
];

const PMC: u32 = 0xC1;
const EVENT_SELECT: u32 = 0x186;
const FIXED_COUNTER: u32 = 0x309;
const FIXED_CONTROL: u32 = 0x38D;
const GLOBAL_STATUS: u32 = 0x38E;
const GLOBAL_CONTROL: u32 = 0x38F;
const OVERFLOW_CONTROL: u32 = 0x390;

/// `IA32_PERFEVTSELx`: event, umask, USR, OS, edge, pin, interrupt, any-thread, enable, invert, mask.
const SELECT_LEGAL: u64 = 0xFFFF_FFFF;
const SELECT_USER: u64 = 1 << 16;
const SELECT_KERNEL: u64 = 1 << 17;
const SELECT_INTERRUPT: u64 = 1 << 20;
const SELECT_ENABLE: u64 = 1 << 22;
/// Interrupt on overflow, of the four bits of a fixed counter in `IA32_FIXED_CTR_CTRL`.
const FIXED_INTERRUPT: u64 = 1 << 3;

const HYPERVISOR_PRESENT: u32 = 1 << 31;
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
/// What `cpuid` says the hypervisor is.
pub const HYPERVISOR: [u8; 12] = *b"DrydockLab\0\0";
const VENDOR: [u8; 12] = *b"GenuineIntel";
/// Family 6, model 0x8F, stepping 8: a processor with this PMU version and more.
const SIGNATURE: u32 = 0x0008_06F8;

/// State of one processor.
#[derive(Clone, Default)]
struct State {
    /// Value of each counter, general ones first, without what runs now.
    counters: [u64; (MAX_GENERAL as usize) + FIXED.len()],
    running: [bool; (MAX_GENERAL as usize) + FIXED.len()],
    /// Counters whose overflow has interrupted already.
    signalled: [bool; (MAX_GENERAL as usize) + FIXED.len()],
    select: [u64; MAX_GENERAL as usize],
    fixed_control: u64,
    global_control: u64,
    global_status: u64,
}

/// The PMU of every processor of a machine.
pub struct VirtualPmu<S> {
    general: u32,
    fixed: u32,
    source: S,
    states: RefCell<Vec<State>>,
}

impl<S: Source> VirtualPmu<S> {
    /// With `general` counters per processor, at most [`MAX_GENERAL`]; fixed
    /// counters are there if the source can count what they count.
    pub fn new(cpus: usize, general: u32, source: S) -> Self {
        let general = general.min(MAX_GENERAL);
        let fixed = FIXED
            .iter()
            .take_while(|event| source.supports(**event))
            .count();
        let fixed = u32::try_from(fixed).unwrap_or(0);
        Self {
            general,
            fixed,
            source,
            states: RefCell::new(vec![State::default(); cpus]),
        }
    }

    /// What counts.
    pub fn counting_source(&self) -> &S {
        &self.source
    }

    fn slot_of_fixed(&self, index: u32) -> usize {
        (self.general + index) as usize
    }

    fn slots(&self) -> usize {
        (self.general + self.fixed) as usize
    }

    /// What a counter counts, if it is enabled where it is selected and globally.
    fn event(&self, state: &State, slot: usize) -> Option<Event> {
        let slot32 = u32::try_from(slot).ok()?;
        let event = if slot32 < self.general {
            let select = state.select[slot];
            let globally = state.global_control >> slot & 1 != 0;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "event and umask are the low 16 bits"
            )]
            let code = select as u16;
            let user = select & SELECT_USER != 0;
            let kernel = select & SELECT_KERNEL != 0;
            (globally && select & SELECT_ENABLE != 0).then_some(Event { code, user, kernel })
        } else {
            let index = slot32 - self.general;
            let control = state.fixed_control >> (4 * index);
            let globally = state.global_control >> (32 + index) & 1 != 0;
            let code = FIXED[index as usize].code();
            globally.then_some(Event {
                code,
                user: control & 2 != 0,
                kernel: control & 1 != 0,
            })
        };
        event.filter(|event| event.user || event.kernel)
    }

    /// Whether a counter interrupts when it overflows.
    fn interrupts(&self, state: &State, slot: usize) -> bool {
        match slot.checked_sub(self.general as usize) {
            None => state.select[slot] & SELECT_INTERRUPT != 0,
            Some(index) => state.fixed_control >> (4 * index) & FIXED_INTERRUPT != 0,
        }
    }

    /// Whether a counter has an event, running or not.
    fn is_programmed(&self, state: &State, slot: usize) -> bool {
        match slot.checked_sub(self.general as usize) {
            None => state.select[slot] != 0,
            Some(index) => state.fixed_control >> (4 * index) & 0xF != 0,
        }
    }

    /// Starts a counter from the value it has.
    fn start(&self, state: &mut State, (cpu, slot): (usize, usize), event: Event, now: u64) {
        let after = self
            .interrupts(state, slot)
            .then(|| MASK + 1 - state.counters[slot]);
        state.running[slot] = true;
        state.signalled[slot] = false;
        self.source.start(cpu, slot, event, after, now);
    }

    /// Stops a counter; it keeps what it has counted.
    fn stop(&self, state: &mut State, (cpu, slot): (usize, usize), now: u64) {
        let counted = self.source.stop(cpu, slot, now);
        state.running[slot] = false;
        state.add(slot, counted, self.status_bit(slot));
    }

    /// Changes a processor's control registers, and starts and stops what that starts and stops.
    fn change(&self, cpu: usize, now: u64, change: impl FnOnce(&mut State)) -> bool {
        let mut states = self.states.borrow_mut();
        let Some(state) = states.get_mut(cpu) else {
            return false;
        };
        let what = |state: &State, slot| (self.event(state, slot), self.interrupts(state, slot));
        let before: Vec<_> = (0..self.slots()).map(|slot| what(state, slot)).collect();
        let mut next = state.clone();
        change(&mut next);
        for (slot, was) in before.into_iter().enumerate() {
            let is = what(&next, slot);
            if was == is {
                continue;
            }
            if next.running[slot] {
                self.stop(&mut next, (cpu, slot), now);
            }
            if let (Some(event), _) = is {
                self.start(&mut next, (cpu, slot), event, now);
            }
            if self.is_programmed(state, slot) && !self.is_programmed(&next, slot) {
                self.source.release(cpu, slot);
            }
        }
        *state = next;
        true
    }

    /// Clears bits of the status: what overflowed before is over, and may happen again.
    fn acknowledge(&self, cpu: usize, bits: u64, now: u64) -> bool {
        let mut states = self.states.borrow_mut();
        let Some(state) = states.get_mut(cpu) else {
            return false;
        };
        for slot in (0..self.slots()).filter(|slot| bits & self.status_bit(*slot) != 0) {
            let event = self.event(state, slot).filter(|_| state.running[slot]);
            let counted = event.map_or(0, |_| self.source.read(cpu, slot, now));
            if let Some(event) = event
                && state.counters[slot].saturating_add(counted) > MASK
            {
                self.stop(state, (cpu, slot), now);
                self.start(state, (cpu, slot), event, now);
            }
            state.signalled[slot] = false;
        }
        state.global_status &= !bits;
        true
    }

    fn status_bit(&self, slot: usize) -> u64 {
        let general = self.general as usize;
        if slot < general {
            1 << slot
        } else {
            1 << (32 + slot - general)
        }
    }

    fn value(&self, cpu: usize, slot: usize, now: u64) -> Option<u64> {
        let states = self.states.borrow();
        let state = states.get(cpu)?;
        if slot >= self.slots() {
            return None;
        }
        let running = if state.running[slot] {
            self.source.read(cpu, slot, now)
        } else {
            0
        };
        Some(state.counters[slot].wrapping_add(running) & MASK)
    }

    fn status(&self, cpu: usize, now: u64) -> Option<u64> {
        let states = self.states.borrow();
        let state = states.get(cpu)?;
        let overflowed = (0..self.slots())
            .filter(|slot| state.running[*slot])
            .filter(|slot| {
                let counted = self.source.read(cpu, *slot, now);
                state.counters[*slot].saturating_add(counted) > MASK
            });
        Some(overflowed.fold(state.global_status, |status, slot| {
            status | self.status_bit(slot)
        }))
    }

    /// The counter that an address names.
    fn counter(&self, register: u32) -> Option<usize> {
        let general = register
            .checked_sub(PMC)
            .filter(|index| *index < self.general);
        let fixed = register
            .checked_sub(FIXED_COUNTER)
            .filter(|index| *index < self.fixed);
        general
            .map(|index| index as usize)
            .or_else(|| fixed.map(|index| self.slot_of_fixed(index)))
    }

    fn global_legal(&self) -> u64 {
        ((1 << self.general) - 1) | ((1 << self.fixed) - 1) << 32
    }

    fn fixed_legal(&self) -> u64 {
        // Enable, and interrupt on overflow; any-thread is not offered.
        (0..self.fixed).fold(0, |legal, index| legal | 0b1011 << (4 * index))
    }

    fn performance_leaf(&self) -> [u32; 4] {
        let events = u32::try_from(Architectural::ALL.len()).unwrap_or(0);
        let absent = Architectural::ALL
            .iter()
            .enumerate()
            .filter(|(_, event)| !self.source.supports(**event));
        let absent = absent.fold(0, |bits, (bit, _)| bits | 1 << bit);
        let eax = VERSION | self.general << 8 | WIDTH << 16 | events << 24;
        [eax, absent, 0, self.fixed | WIDTH << 5]
    }
}

impl State {
    fn add(&mut self, slot: usize, counted: u64, status_bit: u64) {
        let sum = self.counters[slot].saturating_add(counted);
        if sum > MASK {
            self.global_status |= status_bit;
        }
        self.counters[slot] = sum & MASK;
    }
}

fn words(text: [u8; 12]) -> [u32; 3] {
    let word = |at: usize| u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    [word(0), word(4), word(8)]
}

impl<S: Source> Registers for VirtualPmu<S> {
    fn cpuid(&self, _cpu: usize, leaf: u32, _subleaf: u32, host: [u32; 4]) -> [u32; 4] {
        match leaf {
            0 => {
                let [b, d, c] = words(VENDOR);
                [host[0].max(0xA), b, c, d]
            }
            1 => [SIGNATURE, host[1], host[2] | HYPERVISOR_PRESENT, host[3]],
            0xA => self.performance_leaf(),
            HYPERVISOR_LEAF => {
                let [b, c, d] = words(HYPERVISOR);
                [HYPERVISOR_LEAF, b, c, d]
            }
            _ => host,
        }
    }

    fn rdmsr(&self, cpu: usize, register: u32, now_ns: u64) -> Option<u64> {
        if let Some(slot) = self.counter(register) {
            return self.value(cpu, slot, now_ns);
        }
        let states = self.states.borrow();
        let state = states.get(cpu)?;
        match register {
            FIXED_CONTROL => Some(state.fixed_control),
            GLOBAL_CONTROL => Some(state.global_control),
            OVERFLOW_CONTROL => Some(0),
            GLOBAL_STATUS => {
                drop(states);
                self.status(cpu, now_ns)
            }
            _ => {
                let index = register
                    .checked_sub(EVENT_SELECT)
                    .filter(|index| *index < self.general)?;
                Some(state.select[index as usize])
            }
        }
    }

    fn wrmsr(&self, cpu: usize, register: u32, value: u64, now_ns: u64) -> bool {
        if let Some(slot) = self.counter(register) {
            // Without full-width writes, a general counter takes 32 bits, sign-extended.
            let general = register < FIXED_COUNTER;
            #[expect(clippy::cast_possible_truncation, reason = "what the register takes")]
            let written = if general {
                i64::from(value as i32).cast_unsigned() & MASK
            } else {
                value
            };
            return written <= MASK && self.write_counter(cpu, slot, written, now_ns);
        }
        match register {
            FIXED_CONTROL if value & !self.fixed_legal() == 0 => {
                self.change(cpu, now_ns, |state| state.fixed_control = value)
            }
            GLOBAL_CONTROL if value & !self.global_legal() == 0 => {
                self.change(cpu, now_ns, |state| state.global_control = value)
            }
            // Bits 62 and 63 (buffer overflow, condition changed) can be cleared too.
            OVERFLOW_CONTROL if value & !(self.global_legal() | 3 << 62) == 0 => {
                self.acknowledge(cpu, value, now_ns)
            }
            _ => {
                let index = register
                    .checked_sub(EVENT_SELECT)
                    .filter(|index| *index < self.general);
                let Some(index) = index.filter(|_| value & !SELECT_LEGAL == 0) else {
                    return false;
                };
                self.change(cpu, now_ns, |state| state.select[index as usize] = value)
            }
        }
    }

    fn rdpmc(&self, cpu: usize, counter: u32, now_ns: u64) -> Option<u64> {
        const FIXED_SELECTOR: u32 = 1 << 30;
        let slot = if counter & FIXED_SELECTOR != 0 {
            let index = counter & !FIXED_SELECTOR;
            (index < self.fixed).then(|| self.slot_of_fixed(index))
        } else {
            (counter < self.general).then_some(counter as usize)
        };
        self.value(cpu, slot?, now_ns)
    }

    fn overflows(&self, now_ns: u64) -> Overflows {
        let mut found = Overflows {
            is_live: self.source.is_live(),
            ..Overflows::default()
        };
        for (cpu, state) in self.states.borrow_mut().iter_mut().enumerate() {
            for slot in 0..self.slots() {
                if !state.running[slot] || state.signalled[slot] || !self.interrupts(state, slot) {
                    continue;
                }
                let count = MASK + 1 - state.counters[slot];
                match self.source.reached(cpu, slot, count, now_ns) {
                    Reached::At(at) => {
                        state.signalled[slot] = true;
                        found.now.push(Overflow { cpu, at });
                    }
                    Reached::NotBefore(ns) => {
                        found.next_ns = Some(found.next_ns.map_or(ns, |next| next.min(ns)));
                    }
                    Reached::Never => {}
                }
            }
        }
        found
    }

    fn take_fixed_counter(&self, counter: u32) -> bool {
        if counter >= self.fixed {
            return false;
        }
        let cpus = self.states.borrow().len();
        (0..cpus).all(|cpu| {
            self.change(cpu, 0, |state| {
                state.fixed_control |= 0b11 << (4 * counter);
                state.global_control |= 1 << (32 + counter);
            })
        })
    }

    fn counters(&self) -> u32 {
        self.general
    }

    fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String> {
        self.source.attach(cpu, process)
    }

    fn source(&self) -> &'static str {
        self.source.name()
    }
}

impl<S: Source> VirtualPmu<S> {
    /// Sets a counter; one that runs goes on from the new value.
    fn write_counter(&self, cpu: usize, slot: usize, value: u64, now_ns: u64) -> bool {
        let mut states = self.states.borrow_mut();
        let Some(state) = states.get_mut(cpu) else {
            return false;
        };
        let event = self.event(state, slot);
        if state.running[slot] {
            self.stop(state, (cpu, slot), now_ns);
        }
        state.counters[slot] = value;
        if let Some(event) = event {
            self.start(state, (cpu, slot), event, now_ns);
        }
        true
    }
}

#[cfg(test)]
mod tests;
