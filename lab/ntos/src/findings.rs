//! What a machine has found: broken rules after which it goes on, and the one at which it stopped.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::sync::Arc;

use lab_verifier::{Cpu as CpuState, Finding, RuleId, Trace};

use crate::crash::Given;
use crate::locate::Raw;
use crate::machine::{Machine, thread_id};
use crate::process::SYSTEM_PROCESS;
use crate::thunk::UNKNOWN;
use crate::unwind::Registers as CpuRegisters;

/// The machine has stopped at a broken rule; nothing more runs on it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub Arc<Finding>);

/// Broken rules of a machine.
#[derive(Default)]
pub(crate) struct Found {
    /// Rules after which the machine went on, in the order of their first breach.
    reported: RefCell<Vec<Finding>>,
    /// Where in `reported` the breach of a rule at an instruction is.
    seen: RefCell<HashMap<(RuleId, u64), usize>>,
    /// What the machine stopped at.
    caught: RefCell<Option<Raw>>,
    stopped: Cell<bool>,
    /// The code that the driver itself stopped it with.
    pub(crate) own_code: Cell<Option<u32>>,
    /// Whether the routines for bug checks have been called.
    pub(crate) routines_called: Cell<bool>,
    /// Whether one of them runs.
    pub(crate) in_routine: Cell<bool>,
    /// What it broke.
    pub(crate) broken_in_routine: RefCell<Option<Raw>>,
    /// What they gave for a dump.
    pub(crate) given: RefCell<Vec<Given>>,
}

/// A stop, as Windows reports it.
pub(crate) struct Stop {
    pub(crate) code: u32,
    pub(crate) parameters: [u64; 4],
}

impl Machine {
    /// Circumstances of a finding.
    pub(crate) fn cpu_state(&self) -> CpuState {
        let thread = self.running.get().map(|id| self.thread(id));
        let process = thread
            .as_ref()
            .and_then(|thread| self.process_id(thread.process.get()));
        CpuState {
            index: self.current_cpu.get(),
            irql: self.irql(),
            thread: self.running.get().map_or(0, thread_id),
            process: process.unwrap_or(SYSTEM_PROCESS),
        }
    }

    /// Stops the machine: the driver broke a rule in the kernel call under way, and nothing after it
    /// could be trusted.
    pub(crate) fn violate(&self, rule: RuleId, parameters: [u64; 4], what: String) -> ! {
        self.stop_with(self.in_call(rule, parameters, what))
    }

    /// Records that the driver broke a rule in the kernel call under way; the machine goes on.
    ///
    /// A rule that is broken at the same place again is counted.
    pub(crate) fn report(&self, rule: RuleId, parameters: [u64; 4], what: String) {
        self.note(&self.in_call(rule, parameters, what));
    }

    /// As [`Self::report`], with other places that the finding is about.
    pub(crate) fn report_with(
        &self,
        rule: RuleId,
        parameters: [u64; 4],
        what: String,
        others: Vec<Trace>,
    ) {
        let raw = self.in_call(rule, parameters, what);
        if let Some(mut finding) = self.note_new(&raw) {
            finding.others = others;
        }
    }

    /// As [`Self::report`], on account of the code before the return address `site`, found when that
    /// code is no longer under way.
    pub(crate) fn report_at(&self, rule: RuleId, parameters: [u64; 4], what: String, site: u64) {
        self.note(&self.at_site(rule, parameters, what, site.saturating_sub(1)));
    }

    /// Records a broken rule, or counts it if it was broken at that place before; the machine goes on.
    pub(crate) fn note(&self, raw: &Raw) {
        self.note_new(raw);
    }

    /// As [`Self::note`]; the finding, if it is a new one.
    fn note_new(&self, raw: &Raw) -> Option<RefMut<'_, Finding>> {
        let key = (raw.rule, raw.registers.rip);
        let known = self.found.seen.borrow().get(&key).copied();
        if let Some(index) = known {
            self.found.reported.borrow_mut()[index].count += 1;
            return None;
        }
        let finding = self.explain(raw);
        let mut reported = self.found.reported.borrow_mut();
        self.found.seen.borrow_mut().insert(key, reported.len());
        reported.push(finding);
        RefMut::filter_map(reported, |reported| reported.last_mut()).ok()
    }

    /// The broken rules after which the machine went on, since it was made or they were last taken.
    pub fn take_findings(&self) -> Vec<Finding> {
        self.found.seen.borrow_mut().clear();
        self.found.reported.take()
    }

    /// A rule broken in the kernel call under way.
    fn in_call(&self, rule: RuleId, parameters: [u64; 4], what: String) -> Raw {
        let api = self.slot().api;
        let registers = self.call_registers();
        Raw {
            rule,
            parameters,
            what,
            registers,
            access: None,
            api: (api < UNKNOWN && registers.rip != 0).then_some(api),
            after_call: true,
            cpu: self.cpu_state(),
            thread: self.running.get(),
        }
    }

    /// A rule found broken while no driver code ran, on account of the code at `site`.
    pub(crate) fn at_site(
        &self,
        rule: RuleId,
        parameters: [u64; 4],
        what: String,
        site: u64,
    ) -> Raw {
        Raw {
            rule,
            parameters,
            what,
            registers: CpuRegisters {
                rip: site,
                ..CpuRegisters::NONE
            },
            access: None,
            api: None,
            after_call: false,
            cpu: self.cpu_state(),
            thread: None,
        }
    }

    /// Stops the machine at a broken rule found by the lab while no driver code ran.
    pub(crate) fn record(&self, rule: RuleId, parameters: [u64; 4], what: String, site: u64) {
        let raw = self.at_site(rule, parameters, what, site);
        self.found.caught.borrow_mut().get_or_insert(raw);
        self.found.stopped.set(true);
    }

    /// Stops the machine; the running fiber is abandoned where it is.
    pub(crate) fn stop_with(&self, raw: Raw) -> ! {
        let caught = if self.found.in_routine.get() {
            &self.found.broken_in_routine
        } else {
            &self.found.caught
        };
        caught.borrow_mut().get_or_insert(raw);
        self.found.stopped.set(true);
        loop {
            // The scheduler does not come back to a fiber of a stopped machine.
            self.yield_to_scheduler();
        }
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.found.stopped.get()
    }

    /// The stop, explained; what drivers registered for it has been called.
    pub(crate) fn stop(&self) -> Stopped {
        let Some((stop, raw)) = self.stopped_at() else {
            unreachable!("a machine stops at a finding")
        };
        let finding = self.explain(&raw);
        self.call_bug_check_routines(&stop, &raw);
        Stopped(Arc::new(finding))
    }

    /// The stop as Windows reports it, and as it was caught.
    pub(crate) fn stopped_at(&self) -> Option<(Stop, Raw)> {
        let raw = self.found.caught.borrow().clone()?;
        let rule = raw.rule.rule();
        let stop = match self.found.own_code.get() {
            Some(code) if raw.rule == RuleId::BugCheck => Stop {
                code,
                parameters: raw.parameters,
            },
            _ => Stop {
                code: rule.stop.0,
                parameters: rule.reported(raw.parameters),
            },
        };
        Some((stop, raw))
    }
}
