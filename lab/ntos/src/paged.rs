//! Paged memory: what may be on the disk when it is touched.
//!
//! At `DISPATCH_LEVEL` and above nothing can be paged in, so drivers may not
//! touch paged pool or run `PAGE…` sections there; whether such a touch goes
//! wrong on Windows is luck. Here, all paged memory that was touched since the
//! last time is taken away when the IRQL is raised to that level, and given
//! back at the next touch: silently below `DISPATCH_LEVEL`, with a finding at
//! or above. A raise with nothing touched since costs a comparison.

use std::cell::Cell;
use std::ops::Range;

use lab_image::{MappedImage, Paged};
use lab_verifier::RuleId;
use nt::ke::{DISPATCH_LEVEL, KIRQL};

use crate::fault::{EXECUTED, Touch};
use crate::machine::Machine;

/// Whether paged memory is taken away.
pub(crate) struct Paging {
    enforced: bool,
    /// Whether some of it is accessible.
    resident: Cell<bool>,
}

impl Paging {
    pub(crate) fn new(enforced: bool) -> Self {
        Self {
            enforced,
            resident: Cell::new(false),
        }
    }

    /// Notes that paged memory is accessible.
    pub(crate) fn became_resident(&self) {
        self.resident.set(true);
    }
}

/// The sections of an image that may be paged out.
pub(crate) struct Pageable {
    ranges: Vec<Range<u64>>,
    resident: Cell<bool>,
}

impl Pageable {
    pub(crate) fn new(image: &MappedImage) -> Self {
        Self {
            ranges: image.pageable(),
            resident: Cell::new(true),
        }
    }

    fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

impl Machine {
    /// Sets the running processor's IRQL.
    #[inline]
    pub(crate) fn set_irql(&self, irql: KIRQL) {
        self.cpu().set_irql(irql);
        if irql >= DISPATCH_LEVEL && self.paging.enforced && self.paging.resident.get() {
            self.page_out();
        }
    }

    #[cold]
    fn page_out(&self) {
        self.paging.resident.set(false);
        self.pool.borrow_mut().page_out();
        for module in self.modules.borrow().iter() {
            let pageable = &module.pageable;
            if pageable.resident.get() && !pageable.ranges.is_empty() {
                // If the host refuses, the sections stay: nothing is found, and nothing is wrong.
                pageable
                    .resident
                    .set(module.image.set_paged_out(Paged::Out).is_err());
            }
        }
    }

    /// For the fault handler: whether an address may be accessible and only taken away.
    pub(crate) fn may_be_taken_away(&self, address: u64) -> bool {
        crate::memory::is_user(address) || self.paging.enforced
    }

    /// For the fault handler: gives back what was paged out, after judging the access. False for other memory.
    pub(crate) fn page_in(&self, touch: &Touch) -> bool {
        self.page_in_pool(touch) || self.page_in_image(touch)
    }

    fn page_in_pool(&self, touch: &Touch) -> bool {
        let block = self
            .pool
            .try_borrow()
            .ok()
            .and_then(|pool| pool.paged_block_at(touch.address));
        let Some(block) = block.filter(|_| touch.kind != EXECUTED) else {
            return false;
        };
        if block.locked == 0 {
            self.judge_paged_access(touch, "paged pool");
        }
        self.paging.became_resident();
        self.pool.borrow_mut().page_in(&block)
    }

    fn page_in_image(&self, touch: &Touch) -> bool {
        let away = |module: &crate::locate::Module| {
            !module.pageable.resident.get() && module.pageable.contains(touch.address)
        };
        if self.with_module(touch.address, away) != Some(true) {
            return false;
        }
        self.judge_paged_access(touch, "a PAGE section");
        self.paging.became_resident();
        self.with_module(touch.address, |module| {
            module.pageable.resident.set(true);
            module.image.set_paged_out(Paged::In).is_ok()
        })
        .unwrap_or(false)
    }

    fn judge_paged_access(&self, touch: &Touch, what: &str) {
        let irql = self.irql();
        if !touch.in_call || irql < DISPATCH_LEVEL {
            return;
        }
        let Touch { address, kind, .. } = *touch;
        let code = match kind {
            EXECUTED => 8,
            "write" => 1,
            _ => 0,
        };
        self.note_touch(
            touch,
            RuleId::PagedMemoryAtDispatch,
            [address, u64::from(irql), code, touch.registers.rip],
            format!("{kind} of {what} at {address:#x} at IRQL {irql}"),
        );
    }

    /// Gives back paged pool, so that it can be seen whether it is there.
    pub(crate) fn make_resident(&self, address: u64) {
        let mut pool = self.pool.borrow_mut();
        if let Some(block) = pool.paged_block_at(address) {
            self.paging.became_resident();
            pool.page_in(&block);
        }
    }
}
