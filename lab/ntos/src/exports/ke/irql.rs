//! IRQL.

use lab_verifier::RuleId;
use nt::ke::{DISPATCH_LEVEL, HIGH_LEVEL, KIRQL};

use crate::layout::pending;
use crate::machine::Machine;

impl Machine {
    /// Raises the IRQL; returns the old one.
    pub(crate) fn raise(&self, irql: KIRQL) -> KIRQL {
        let old = self.irql();
        if irql < old || irql > HIGH_LEVEL {
            self.report(
                RuleId::IrqlRaiseBelow,
                [0, u64::from(old), u64::from(irql), 0],
                format!("the IRQL was raised from {old} to {irql}"),
            );
        }
        self.set_irql(irql.min(HIGH_LEVEL));
        old
    }

    /// Lowers the IRQL; what was held back runs on the way out.
    pub(crate) fn lower(&self, irql: KIRQL) {
        let old = self.irql();
        if irql > old || irql > HIGH_LEVEL {
            self.report(
                RuleId::IrqlLowerAbove,
                [0, u64::from(old), u64::from(irql), 0],
                format!("the IRQL was lowered from {old} to {irql}"),
            );
        }
        self.set_irql(irql.min(HIGH_LEVEL));
        if irql < DISPATCH_LEVEL {
            self.restart_raised_time();
        }
        let dpcs = irql < DISPATCH_LEVEL && !self.cpu().dpcs.borrow().is_empty();
        if dpcs || self.raised.get() > 0 {
            self.cpu().request(pending::SCHEDULE);
        }
    }
}
