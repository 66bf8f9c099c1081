//! Work on a processor without a DPC: the calling thread goes there.

use crate::processor::{CoreId, CurrentCore};
use nt::ke::{DISPATCH_LEVEL, KAFFINITY, KIRQL};

/// The thread's affinity before it was moved; restored when dropped.
struct Moved(KAFFINITY);

impl Moved {
    fn to(core: CoreId) -> Option<Self> {
        let mask = 1usize.checked_shl(core.0)?;
        // SAFETY: a mask with one processor of group 0; undone when dropped.
        Some(Self(unsafe { nt::ke::KeSetSystemAffinityThreadEx(mask) }))
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // SAFETY: undoes the one of `to`, on the same thread.
        unsafe { nt::ke::KeRevertToUserAffinityThreadEx(self.0) };
    }
}

/// The IRQL before it was raised; restored when dropped.
pub(crate) struct Raised(KIRQL);

impl Raised {
    pub(crate) fn to_dispatch() -> Self {
        // SAFETY: callers are at `PASSIVE_LEVEL`; undone when dropped.
        Self(unsafe { nt::ke::KfRaiseIrql(DISPATCH_LEVEL) })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // SAFETY: what the paired raise returned.
        unsafe { nt::ke::KeLowerIrql(self.0) };
    }
}

/// Runs `work` on a processor of group 0; no effect on others.
///
/// IRQL: `PASSIVE_LEVEL`; `work` runs at `DISPATCH_LEVEL`.
/// Source: `KeSetSystemAffinityThreadEx`, `KfRaiseIrql`, wdm.h.
pub(super) fn run_on(core: CoreId, work: impl FnOnce(&CurrentCore)) {
    if let Some(_moved) = Moved::to(core) {
        let _raised = Raised::to_dispatch();
        work(&CurrentCore::new(core));
    }
}
