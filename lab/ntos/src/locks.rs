//! Which locks each context holds, and the regions it is in.
//!
//! A context is a thread or a processor's DPCs. What a lock is made of is the
//! business of the export that acquires it; what is kept here is who holds it
//! since where, so that every misuse can name both places.

pub(crate) mod order;
pub(crate) mod returned;
mod spin;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use lab_verifier::{RuleId, Trace};
use nt::ke::{APC_LEVEL, PASSIVE_LEVEL};
pub(crate) use order::Mode;
use order::{Edge, Order};
pub(crate) use spin::How;

use crate::machine::Machine;
use crate::process::SYSTEM_PROCESS;
use crate::sched::ThreadId;

/// What kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Spin(How),
    Mutex,
    FastMutex,
    GuardedMutex,
    Resource,
    PushLock,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spin(How::Queued | How::QueuedAtDpc) => "in-stack queued spin lock",
            Self::Spin(_) => "spin lock",
            Self::Mutex => "mutex",
            Self::FastMutex => "fast mutex",
            Self::GuardedMutex => "guarded mutex",
            Self::Resource => "executive resource",
            Self::PushLock => "push lock",
        }
    }

    fn is_spin(self) -> bool {
        matches!(self, Self::Spin(_))
    }
}

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) lock: u64,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    /// Acquisitions, for locks that nest.
    pub(crate) count: u32,
    /// Where it was acquired.
    pub(crate) site: u64,
}

/// What one context holds.
#[derive(Default)]
pub(crate) struct Holds {
    locks: Vec<Hold>,
    /// Critical regions entered and not left.
    critical: Cell<i32>,
    /// Guarded regions entered and not left.
    guarded: Cell<i32>,
}

/// The locks of a machine.
#[derive(Default)]
pub(crate) struct Locks {
    /// By context.
    held: RefCell<Vec<Holds>>,
    order: RefCell<Order>,
    /// Spin locks that were acquired as in-stack queued ones.
    queued: RefCell<HashSet<u64>>,
}

/// A region in which normal kernel APCs are not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    Critical,
    Guarded,
}

impl Locks {
    fn with<R>(&self, id: ThreadId, f: impl FnOnce(&mut Holds) -> R) -> R {
        let mut held = self.held.borrow_mut();
        if held.len() <= id.0 {
            held.resize_with(id.0 + 1, Holds::default);
        }
        f(&mut held[id.0])
    }

    fn hold_of(&self, id: ThreadId, lock: u64) -> Option<Hold> {
        self.with(id, |holds| {
            holds.locks.iter().find(|hold| hold.lock == lock).copied()
        })
    }

    /// Who holds a lock, if anybody does.
    fn holder(&self, lock: u64) -> Option<(ThreadId, Hold)> {
        let held = self.held.borrow();
        held.iter().enumerate().find_map(|(index, holds)| {
            let hold = holds.locks.iter().find(|hold| hold.lock == lock)?;
            Some((ThreadId(index), *hold))
        })
    }

    /// A lock in a range of addresses that somebody holds.
    fn held_within(&self, range: &std::ops::Range<u64>) -> Option<(ThreadId, Hold)> {
        let held = self.held.borrow();
        held.iter().enumerate().find_map(|(index, holds)| {
            let hold = holds.locks.iter().find(|hold| range.contains(&hold.lock))?;
            Some((ThreadId(index), *hold))
        })
    }

    /// Forgets everything: the driver is gone.
    pub(crate) fn clear(&self) {
        self.held.borrow_mut().clear();
        self.order.borrow_mut().clear();
        self.queued.borrow_mut().clear();
    }
}

impl Machine {
    /// Notes that the running context is about to wait for a lock: its order is checked.
    pub(crate) fn lock_wanted(&self, lock: u64, mode: Mode) {
        let Some(id) = self.running.get() else { return };
        let news = self.locks.with(id, |holds| {
            if holds.locks.is_empty() || holds.locks.iter().any(|hold| hold.lock == lock) {
                return Vec::new();
            }
            let order = self.locks.order.borrow();
            let edges = holds.locks.iter().map(|from| {
                let others = holds.locks.iter().filter(|other| other.lock != from.lock);
                let gates = others.filter(|other| other.mode == Mode::Exclusive);
                let gates = gates.map(|other| other.lock).collect();
                Edge::new((from.lock, from.mode), (lock, mode), gates, from.site)
            });
            edges.filter(|edge| !order.knows(edge)).collect()
        });
        for edge in news {
            self.new_order(edge);
        }
    }

    fn new_order(&self, mut edge: Edge) {
        edge.stack = self.call_stack();
        let circle = self.locks.order.borrow().circle(&edge);
        if let Some(circle) = circle {
            self.report_order(&edge, &circle);
        }
        self.locks.order.borrow_mut().add(edge);
    }

    fn report_order(&self, edge: &Edge, circle: &[Edge]) {
        let what = format!(
            "lock {:#x} is acquired here while lock {:#x} is held (since {}), and elsewhere it is the other way round",
            edge.to,
            edge.from,
            self.frame(edge.site.saturating_sub(1))
        );
        let others = circle.iter().map(|other| {
            let title = format!(
                "lock {:#x} was acquired while lock {:#x} was held (since {})",
                other.to,
                other.from,
                self.frame(other.site.saturating_sub(1))
            );
            self.trace(title, &other.stack)
        });
        self.report_with(
            RuleId::LockOrder,
            [0, edge.to, 0, 0],
            what,
            others.collect(),
        );
    }

    /// Notes that the running context has acquired a lock.
    pub(crate) fn lock_taken(&self, lock: u64, kind: Kind, mode: Mode) {
        let Some(id) = self.running.get() else { return };
        let site = self.call_site();
        self.lock_taken_by(id, lock, kind, mode, site);
    }

    /// Notes that a context has acquired a lock.
    pub(crate) fn lock_taken_by(&self, id: ThreadId, lock: u64, kind: Kind, mode: Mode, site: u64) {
        self.locks.with(id, |holds| {
            let known = holds.locks.iter_mut().find(|hold| hold.lock == lock);
            match known {
                Some(hold) => hold.count += 1,
                None => holds.locks.push(Hold {
                    lock,
                    kind,
                    mode,
                    count: 1,
                    site,
                }),
            }
        });
    }

    /// Notes that the running context has released a lock; false if it did not hold it.
    pub(crate) fn lock_released(&self, lock: u64) -> bool {
        self.running
            .get()
            .is_some_and(|id| self.lock_released_by(id, lock))
    }

    fn lock_released_by(&self, id: ThreadId, lock: u64) -> bool {
        self.locks.with(id, |holds| {
            let Some(index) = holds.locks.iter().rposition(|hold| hold.lock == lock) else {
                return false;
            };
            holds.locks[index].count -= 1;
            if holds.locks[index].count == 0 {
                holds.locks.remove(index);
            }
            true
        })
    }

    /// The running context's hold of a lock.
    pub(crate) fn my_hold(&self, lock: u64) -> Option<Hold> {
        self.locks.hold_of(self.running.get()?, lock)
    }

    /// Who holds a lock since where.
    pub(crate) fn holder_in_words(&self, lock: u64) -> String {
        match self.locks.holder(lock) {
            None => "which nobody is known to hold".into(),
            Some((owner, hold)) => format!(
                "which processor {} holds since {}",
                self.thread(owner).cpu.get(),
                self.site_in_words(hold.site)
            ),
        }
    }

    /// Reports the release of a lock, not a spin lock, that the running thread does not hold.
    pub(crate) fn report_not_owned(&self, lock: u64, kind: Kind) {
        let me = self.current_thread_object();
        let name = kind.name();
        match self.locks.holder(lock) {
            None => self.report(
                RuleId::LockNotOwned,
                [0, lock, 0, 0],
                format!("the {name} at {lock:#x} was released, which nobody holds"),
            ),
            Some((owner, hold)) => {
                let owner = self.thread(owner).object.get();
                let what = format!(
                    "the {name} at {lock:#x} was released by thread {me:#x}; thread {owner:#x} holds it since {}",
                    self.site_in_words(hold.site)
                );
                self.report(RuleId::LockWrongThread, [0, lock, owner, me], what);
            }
        }
    }

    /// Stops at an acquisition that waits for its own thread.
    pub(crate) fn lock_recursion(&self, lock: u64, kind: Kind) -> ! {
        let since = self.my_hold(lock).map_or(0, |hold| hold.site);
        self.violate(
            RuleId::LockRecursive,
            [0, lock, 0, 0],
            format!(
                "the {} at {lock:#x} was acquired by the thread that holds it since {}",
                kind.name(),
                self.site_in_words(since)
            ),
        )
    }

    /// Memory is about to be used for something else: nobody may hold a lock in it.
    pub(crate) fn forget_locks(&self, range: &std::ops::Range<u64>, what: &str) {
        if let Some((owner, hold)) = self.locks.held_within(range) {
            let thread = self.thread(owner).object.get();
            let text = format!(
                "{what} with the {} at {:#x} in it, held since {}",
                hold.kind.name(),
                hold.lock,
                self.site_in_words(hold.site)
            );
            self.report(RuleId::LockFreed, [0, hold.lock, thread, 0], text);
            self.lock_released_by(owner, hold.lock);
        }
        self.locks.order.borrow_mut().forget(range);
        let mut queued = self.locks.queued.borrow_mut();
        if !queued.is_empty() {
            queued.retain(|lock| !range.contains(lock));
        }
    }

    /// Whether normal kernel APCs can't interrupt the running thread.
    fn apcs_are_disabled(&self) -> bool {
        let Some(id) = self.running.get() else {
            return true;
        };
        let system = self.process(SYSTEM_PROCESS).unwrap_or_default();
        self.irql() >= APC_LEVEL
            || self.thread(id).process.get() == system
            || self.apc_disable_count() != 0
    }

    /// The running thread's APC disable count, as `KTHREAD` has it: negative while disabled.
    pub(crate) fn apc_disable_count(&self) -> i32 {
        let Some(id) = self.running.get() else {
            return 0;
        };
        self.locks.with(id, |holds| {
            let mutexes = holds.locks.iter().filter(|hold| hold.kind == Kind::Mutex);
            let mutexes = i32::try_from(mutexes.count()).unwrap_or(i32::MAX);
            -(holds.critical.get() + holds.guarded.get() + mutexes)
        })
    }

    /// Whether the running thread is in a guarded region.
    pub(crate) fn in_guarded_region(&self) -> bool {
        self.running
            .get()
            .is_some_and(|id| self.locks.with(id, |holds| holds.guarded.get() > 0))
    }

    /// Reports a lock that is acquired while the thread could be suspended.
    pub(crate) fn check_apcs_disabled(&self, lock: u64, kind: Kind) {
        let irql = self.irql();
        if irql != PASSIVE_LEVEL || self.apcs_are_disabled() {
            return;
        }
        let rule = match kind {
            Kind::PushLock => RuleId::PushLockApcs,
            _ => RuleId::ResourceApcs,
        };
        self.report(
            rule,
            [0, u64::from(irql), 0, lock],
            format!(
                "the {} at {lock:#x} was acquired outside a critical region",
                kind.name()
            ),
        );
    }

    /// `KeEnter…Region`.
    pub(crate) fn enter_region(&self, region: Region) {
        let Some(id) = self.running.get() else { return };
        self.locks.with(id, |holds| {
            let count = holds.region(region);
            count.set(count.get() + 1);
        });
    }

    /// `KeLeave…Region`.
    pub(crate) fn leave_region(&self, region: Region) {
        let Some(id) = self.running.get() else { return };
        let left = self.locks.with(id, |holds| {
            let count = holds.region(region);
            let left = count.get() - 1;
            count.set(left.max(0));
            left
        });
        if left < 0 {
            let (rule, name) = match region {
                Region::Critical => (RuleId::CriticalRegionNotEntered, "critical"),
                Region::Guarded => (RuleId::GuardedRegionNotEntered, "guarded"),
            };
            self.report(
                rule,
                [0; 4],
                format!("a {name} region was left that the thread is not in"),
            );
        }
    }

    /// A place in driver code before a return address, in words.
    pub(crate) fn site_in_words(&self, site: u64) -> String {
        match site {
            0 => "an unknown place".into(),
            site => self.frame(site - 1).to_string(),
        }
    }

    /// A stack for a report.
    pub(crate) fn trace(&self, what: String, stack: &[u64]) -> Trace {
        let stack = stack
            .iter()
            .map(|address| self.frame(address - 1))
            .collect();
        Trace { what, stack }
    }
}

impl Holds {
    fn region(&self, region: Region) -> &Cell<i32> {
        match region {
            Region::Critical => &self.critical,
            Region::Guarded => &self.guarded,
        }
    }
}
