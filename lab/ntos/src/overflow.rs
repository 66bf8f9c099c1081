//! Counters that overflow: from the machine's PMU to the profile interrupt of a processor.
//!
//! What a processor executes when a counter overflows is the program that is counted, not the driver:
//! the interrupt's trap frame, process and thread are those of the program.

use std::cell::Cell;

use lab_devices::{Overflow, Place};

use crate::machine::Machine;

/// When the PMU is to be asked again.
#[derive(Default)]
pub(crate) struct Schedule {
    next_ns: Cell<Option<u64>>,
    is_live: Cell<bool>,
    was_written: Cell<bool>,
}

impl Machine {
    /// Writes a model-specific register of a processor; false raises #GP.
    pub(crate) fn write_register(&self, cpu: usize, register: u32, value: u64) -> bool {
        self.overflow_schedule.was_written.set(true);
        self.devices
            .wrmsr(cpu, register, value, self.clock.now_ns())
    }

    /// When the next counter overflows, or should be looked at, in ns since boot.
    pub(crate) fn next_overflow(&self) -> Option<u64> {
        self.overflow_schedule.next_ns.get()
    }

    /// Raises the interrupts of counters that have overflowed.
    #[inline]
    pub(crate) fn raise_overflows(&self) {
        let schedule = &self.overflow_schedule;
        let is_due = || {
            let next = schedule.next_ns.get();
            next.is_some_and(|next| next <= self.clock.now_ns())
        };
        if schedule.was_written.get() || schedule.is_live.get() || is_due() {
            self.look_for_overflows();
        }
    }

    fn look_for_overflows(&self) {
        let found = self.devices.overflows(self.clock.now_ns());
        let schedule = &self.overflow_schedule;
        schedule.was_written.set(false);
        schedule.is_live.set(found.is_live);
        schedule.next_ns.set(found.next_ns);
        for Overflow { cpu, at } in found.now {
            // One that is pending already serves this counter, too.
            if matches!(self.raise_profile(cpu), Ok(true)) {
                self.cpus[cpu].interrupted.set(Some(at));
            }
        }
    }

    /// Where the interrupt that is about to be serviced came, if a counter raised it.
    pub(crate) fn take_interrupted(&self) -> Option<Place> {
        self.cpu().interrupted.take()
    }

    /// The process and thread of the program that is counted, while its interrupt is serviced here.
    pub(crate) fn interrupted_program(&self) -> Option<Place> {
        self.cpu().in_program.get()
    }
}
