//! Spin locks.

use lab_verifier::RuleId;
use nt::ke::{DISPATCH_LEVEL, KSPIN_LOCK};

use super::{Hold, Kind, Mode};
use crate::guest;
use crate::machine::Machine;

/// By which function a spin lock is acquired or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// `KeAcquireSpinLock`, `KeReleaseSpinLock`.
    Raising,
    /// `…AtDpcLevel`, `…FromDpcLevel`.
    AtDpc,
    /// `KeAcquireInStackQueuedSpinLock` and its twin.
    Queued,
    /// `KeAcquireInStackQueuedSpinLockAtDpcLevel` and its twin.
    QueuedAtDpc,
    /// The kernel's own: `IoAcquireCancelSpinLock`.
    System,
}

impl How {
    fn is_queued(self) -> bool {
        matches!(self, Self::Queued | Self::QueuedAtDpc)
    }

    fn acquired_by(self) -> &'static str {
        match self {
            Self::Raising => "KeAcquireSpinLock",
            Self::AtDpc => "KeAcquireSpinLockAtDpcLevel",
            Self::Queued => "KeAcquireInStackQueuedSpinLock",
            Self::QueuedAtDpc => "KeAcquireInStackQueuedSpinLockAtDpcLevel",
            Self::System => "IoAcquireCancelSpinLock",
        }
    }
}

impl Machine {
    /// What a held spin lock contains: its processor's identity, with the low bit set.
    fn lock_owner(&self) -> usize {
        usize::try_from(self.cpu().address() | 1).unwrap_or(1)
    }

    /// Acquires a lock of the kernel's own.
    pub(crate) fn acquire(&self, lock: *mut KSPIN_LOCK) {
        self.acquire_spin(lock, How::System);
    }

    /// Acquires a spin lock at the present IRQL; busy-waits for it.
    pub(crate) fn acquire_spin(&self, lock: *mut KSPIN_LOCK, how: How) {
        let held = guest::read(lock);
        if held == self.lock_owner() {
            let since = self.my_hold(lock as u64).map_or(0, |hold| hold.site);
            self.violate(
                RuleId::SpinLockRecursive,
                [0, lock as u64, 0, 0],
                format!(
                    "spin lock {:#x} is held by this processor since {}",
                    lock as u64,
                    self.site_in_words(since)
                ),
            );
        }
        self.lock_wanted(lock as u64, Mode::Exclusive);
        if held != 0 {
            self.check_spin_value(lock as u64, held);
            self.spin(lock as u64);
        }
        self.take_spin(lock, how);
    }

    /// Acquires a spin lock if it is free.
    pub(crate) fn try_acquire(&self, lock: *mut KSPIN_LOCK) -> bool {
        let free = guest::read(lock) == 0;
        if free {
            self.take_spin(lock, How::AtDpc);
        }
        free
    }

    fn take_spin(&self, lock: *mut KSPIN_LOCK, how: How) {
        guest::write(lock, self.lock_owner());
        self.watch.last_lock.set(lock as u64);
        self.check_mixed(lock as u64, how);
        self.lock_taken(lock as u64, Kind::Spin(how), Mode::Exclusive);
    }

    /// A lock that is not free contains a processor, or was never initialised.
    fn check_spin_value(&self, lock: u64, held: usize) {
        let is_owner = self.cpus.iter().any(|cpu| cpu.address() | 1 == held as u64);
        if !is_owner {
            self.violate(
                RuleId::SpinLockUninitialized,
                [0, lock, 0, 0],
                format!(
                    "spin lock {lock:#x} contains {held:#x}, which is neither free nor an owner"
                ),
            );
        }
    }

    fn check_mixed(&self, lock: u64, how: How) {
        let mut queued = self.locks.queued.borrow_mut();
        if how.is_queued() {
            queued.insert(lock);
        } else if !queued.is_empty() && queued.remove(&lock) {
            drop(queued);
            self.report(
                RuleId::SpinLockMixed,
                [0, lock, 0, 0],
                format!(
                    "spin lock {lock:#x}, used as an in-stack queued lock before, was acquired by {}",
                    how.acquired_by()
                ),
            );
        }
    }

    /// Releases a lock of the kernel's own.
    pub(crate) fn release_lock(&self, lock: *mut KSPIN_LOCK) {
        self.release_spin(lock, How::System);
    }

    /// Releases a spin lock that this processor holds.
    pub(crate) fn release_spin(&self, lock: *mut KSPIN_LOCK, how: How) {
        let held = guest::read(lock);
        if held != self.lock_owner() {
            self.report_spin_not_owned(lock as u64, held);
            return;
        }
        if let Some(hold) = self.my_hold(lock as u64) {
            self.check_twin(&hold, how);
        }
        self.lock_released(lock as u64);
        guest::write(lock, 0);
        self.watch.last_lock.set(0);
        self.wake_spinners(lock as u64);
    }

    /// Whether the running processor holds a spin lock.
    pub(crate) fn holds_lock(&self, lock: u64) -> bool {
        lock != 0 && guest::read(lock as *const KSPIN_LOCK) == self.lock_owner()
    }

    /// Has another spin lock of this processor be released by `KeReleaseSpinLock`, with the IRQL that
    /// was before both: locks needn't be released in the order of their acquisition.
    fn hand_over(&self) -> bool {
        let Some(id) = self.running.get() else {
            return false;
        };
        self.locks.with(id, |holds| {
            let mut spins = holds.locks.iter_mut();
            let heir = spins.find(|hold| hold.kind == Kind::Spin(How::AtDpc));
            heir.map(|hold| hold.kind = Kind::Spin(How::Raising))
                .is_some()
        })
    }

    fn check_twin(&self, hold: &Hold, how: How) {
        let Kind::Spin(acquired) = hold.kind else {
            return;
        };
        if acquired == how || (acquired, how) == (How::Raising, How::AtDpc) && self.hand_over() {
            return;
        }
        let what = format!(
            "spin lock {:#x}, acquired by {} at {}, was released by the twin of {}",
            hold.lock,
            acquired.acquired_by(),
            self.site_in_words(hold.site),
            how.acquired_by()
        );
        self.report(RuleId::SpinLockWrongFunction, [0, hold.lock, 0, 0], what);
    }

    fn report_spin_not_owned(&self, lock: u64, held: usize) {
        let holder = self.locks.holder(lock).filter(|_| held != 0);
        let Some((owner, hold)) = holder else {
            self.report(
                RuleId::SpinLockNotOwned,
                [0, lock, 0, 0],
                format!(
                    "spin lock {lock:#x} was released, which nobody holds; it contains {held:#x}"
                ),
            );
            return;
        };
        let owner = self.thread(owner);
        let what = format!(
            "spin lock {lock:#x} was released on processor {}; processor {} holds it since {}",
            self.current_cpu.get(),
            owner.cpu.get(),
            self.site_in_words(hold.site)
        );
        let threads = [owner.object.get(), self.current_thread_object()];
        self.report(
            RuleId::SpinLockWrongOwner,
            [0, lock, threads[0], threads[1]],
            what,
        );
    }

    /// Reports `KeAcquireSpinLockAtDpcLevel` below `DISPATCH_LEVEL`.
    pub(crate) fn check_at_dpc(&self, lock: u64) {
        let irql = self.irql();
        if irql < DISPATCH_LEVEL {
            self.report(
                RuleId::SpinLockIrql,
                [0, u64::from(irql), lock, 0],
                format!("KeAcquireSpinLockAtDpcLevel of {lock:#x} at IRQL {irql}"),
            );
        }
    }

    /// Reports the release of a spin lock at an IRQL at which it can't be held.
    pub(crate) fn check_release_irql(&self, lock: u64, how: How) {
        let irql = self.irql();
        let (legal, code, name) = match how {
            How::Raising => (irql == DISPATCH_LEVEL, 0x32, "KeReleaseSpinLock"),
            _ => (
                irql >= DISPATCH_LEVEL,
                0x41,
                "KeReleaseSpinLockFromDpcLevel",
            ),
        };
        if !legal {
            self.report(
                RuleId::SpinLockReleaseIrql,
                [code, u64::from(irql), lock, 0],
                format!("{name} of {lock:#x} at IRQL {irql}"),
            );
        }
    }

    /// Reports a spin lock acquired by raising from above `DISPATCH_LEVEL`.
    pub(crate) fn check_raising(&self, lock: u64) {
        let irql = self.irql();
        if irql > DISPATCH_LEVEL {
            self.report(
                RuleId::SpinLockRaiseIrql,
                [0, u64::from(irql), lock, 0],
                format!("KeAcquireSpinLock of {lock:#x} at IRQL {irql}"),
            );
        }
    }
}
