//! What must be as it was when a routine of the driver returns.

use lab_verifier::RuleId;
use nt::ke::KIRQL;

use super::Hold;
use crate::guest;
use crate::layout::pending;
use crate::machine::Machine;
use crate::sched::ThreadId;

/// Which routine of the driver is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Called {
    /// Of a device.
    Dispatch(u64),
    Completion,
    Other,
}

/// What a context holds when a routine is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    locks: usize,
    critical: i32,
    guarded: i32,
}

impl Machine {
    /// To be compared with when the routine returns.
    pub(crate) fn before_call(&self, id: ThreadId) -> Before {
        self.locks.with(id, |holds| Before {
            locks: holds.locks.len(),
            critical: holds.critical.get(),
            guarded: holds.guarded.get(),
        })
    }

    /// Reports what a routine of the driver left changed, and puts it right.
    pub(crate) fn check_returned(
        &self,
        id: ThreadId,
        called: Called,
        function: u64,
        irql: KIRQL,
        before: Before,
    ) {
        let now = self.before_call(id);
        if (now.locks, now.critical, now.guarded) != (before.locks, before.critical, before.guarded)
        {
            self.check_locks_returned(id, function, before);
            self.check_regions_returned(id, function, before);
        }
        if self.irql() != irql {
            self.report_irql(called, function, irql);
        }
    }

    fn check_locks_returned(&self, id: ThreadId, function: u64, before: Before) {
        let left = self.locks.with(id, |holds| {
            let from = before.locks.min(holds.locks.len());
            holds.locks.split_off(from)
        });
        for hold in left {
            self.report_held(id, function, &hold);
        }
    }

    fn report_held(&self, id: ThreadId, function: u64, hold: &Hold) {
        let lock = hold.lock;
        let what = format!(
            "a routine returned with the {} at {lock:#x}, held since {}",
            hold.kind.name(),
            self.site_in_words(hold.site)
        );
        if hold.kind.is_spin() {
            self.report_at(
                RuleId::SpinLockHeld,
                [0, lock, function, 0],
                what,
                hold.site,
            );
            guest::write(lock as *mut usize, 0);
            self.wake_spinners(lock);
        } else {
            let thread = self.thread(id).object.get();
            self.report_at(
                RuleId::LockHeld,
                [0, thread, lock, function],
                what,
                hold.site,
            );
        }
    }

    fn check_regions_returned(&self, id: ThreadId, function: u64, before: Before) {
        let (critical, guarded) = self.locks.with(id, |holds| {
            let changes = (
                holds.critical.get() - before.critical,
                holds.guarded.get() - before.guarded,
            );
            holds.critical.set(before.critical);
            holds.guarded.set(before.guarded);
            changes
        });
        if critical == 0 && guarded == 0 {
            return;
        }
        let count = |value: i32| i64::from(-value).cast_unsigned();
        let was = before.critical + before.guarded;
        self.report_at(
            RuleId::ApcDisableChanged,
            [0, function, count(was + critical + guarded), count(was)],
            format!(
                "a routine returned in {critical} critical and {guarded} guarded regions more than it was called in"
            ),
            function + 1,
        );
    }

    fn report_irql(&self, called: Called, function: u64, before: KIRQL) {
        let now = self.irql();
        let irqls = [u64::from(before), u64::from(now)];
        let (rule, parameters) = match called {
            Called::Dispatch(device) => (
                RuleId::IrqlChangedByDispatch,
                [0, device, irqls[0], irqls[1]],
            ),
            Called::Completion => (
                RuleId::IrqlChangedByCompletion,
                [0, function, irqls[0], irqls[1]],
            ),
            Called::Other => (RuleId::IrqlChanged, [function, irqls[0], irqls[1], 0]),
        };
        let what = format!("a routine that had to return at IRQL {before} returned at IRQL {now}");
        self.report_at(rule, parameters, what, function + 1);
        self.set_irql(before);
        if before < now {
            self.cpu().request(pending::SCHEDULE);
        }
    }

    /// Reports the locks with which the running thread ends.
    pub(crate) fn check_thread_end(&self, id: ThreadId) {
        let left = self.locks.with(id, |holds| {
            holds.critical.set(0);
            holds.guarded.set(0);
            std::mem::take(&mut holds.locks)
        });
        for hold in left {
            let thread = self.thread(id).object.get();
            self.report(
                RuleId::LockHeld,
                [0, thread, hold.lock, 0],
                format!(
                    "the thread ends with the {} at {:#x}, held since {}",
                    hold.kind.name(),
                    hold.lock,
                    self.site_in_words(hold.site)
                ),
            );
        }
    }
}
