//! IRQL and spin locks.

use lab_verifier::RuleId;
use nt::ke::{APC_LEVEL, DISPATCH_LEVEL, HIGH_LEVEL, KIRQL, KSPIN_LOCK};

use crate::guest;
use crate::layout::pending;
use crate::machine::Machine;

impl Machine {
    /// Raises the IRQL; returns the old one.
    pub(crate) fn raise(&self, irql: KIRQL) -> KIRQL {
        let old = self.irql();
        if irql < old || irql > HIGH_LEVEL {
            self.violate(
                RuleId::IrqlRaiseBelow,
                [0x30, u64::from(old), u64::from(irql), 0],
                format!("the IRQL was raised from {old} to {irql}"),
            );
        }
        self.set_irql(irql);
        old
    }

    /// Lowers the IRQL; what was held back runs on the way out.
    pub(crate) fn lower(&self, irql: KIRQL) {
        let old = self.irql();
        if irql > old {
            self.violate(
                RuleId::IrqlLowerAbove,
                [0x31, u64::from(old), u64::from(irql), 0],
                format!("the IRQL was lowered from {old} to {irql}"),
            );
        }
        self.set_irql(irql);
        if irql < DISPATCH_LEVEL {
            self.restart_raised_time();
        }
        let dpcs = irql < DISPATCH_LEVEL && !self.cpu().dpcs.borrow().is_empty();
        if dpcs || self.raised.get() > 0 {
            self.cpu().request(pending::SCHEDULE);
        }
    }

    /// What a held spin lock contains: its processor's identity, with the low bit set.
    fn lock_owner(&self) -> usize {
        usize::try_from(self.cpu().address() | 1).unwrap_or(1)
    }

    pub(crate) fn acquire(&self, lock: *mut KSPIN_LOCK) {
        if self.irql() < APC_LEVEL + 1 {
            self.violate(
                RuleId::IrqlContract,
                [lock as u64, u64::from(self.irql()), 0, 0],
                "a spin lock was acquired below DISPATCH_LEVEL".into(),
            );
        }
        let held = guest::read(lock);
        if held == self.lock_owner() {
            self.violate(
                RuleId::SpinLockRecursive,
                [0x1001, lock as u64, 0, 0],
                format!(
                    "spin lock {:#x} is held by this processor already",
                    lock as u64
                ),
            );
        }
        if held != 0 {
            self.spin(lock as u64);
        }
        guest::write(lock, self.lock_owner());
        self.watch.last_lock.set(lock as u64);
    }

    /// Whether the running processor holds a spin lock.
    pub(crate) fn holds_lock(&self, lock: u64) -> bool {
        lock != 0 && guest::read(lock as *const KSPIN_LOCK) == self.lock_owner()
    }

    pub(crate) fn try_acquire(&self, lock: *mut KSPIN_LOCK) -> bool {
        let free = guest::read(lock) == 0;
        if free {
            guest::write(lock, self.lock_owner());
        }
        free
    }

    pub(crate) fn release_lock(&self, lock: *mut KSPIN_LOCK) {
        let held = guest::read(lock);
        if held != self.lock_owner() {
            self.violate(
                RuleId::SpinLockNotOwned,
                [lock as u64, held as u64, 0, 0],
                format!(
                    "spin lock {:#x} was released, which this processor does not hold",
                    lock as u64
                ),
            );
        }
        guest::write(lock, 0);
        self.watch.last_lock.set(0);
        self.wake_spinners(lock as u64);
    }
}
