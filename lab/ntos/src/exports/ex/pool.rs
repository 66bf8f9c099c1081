//! Allocating and freeing pool for drivers, with what can be wrong about it.

use lab_verifier::RuleId;
use nt::ex::{
    NonPagedPoolCacheAligned, NonPagedPoolNx, NonPagedPoolNxCacheAligned,
    POOL_FLAG_NON_PAGED_EXECUTE, POOL_FLAG_PAGED, PagedPool, PagedPoolCacheAligned,
};
use nt::ke::{APC_LEVEL, DISPATCH_LEVEL};

use crate::machine::Machine;
use crate::pool::{Block, FreeError, Owner, tag_text};
use crate::resources::Held;

/// What kind of pool is asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::exports) struct Wanted {
    paged: bool,
    executable: bool,
    /// The type or flags as the driver passed them.
    raw: u64,
}

impl Wanted {
    /// By `POOL_TYPE`.
    pub(in crate::exports) fn of_type(pool_type: i32) -> Self {
        let paged = is_paged(pool_type);
        Self {
            paged,
            executable: !paged && pool_type & NonPagedPoolNx == 0,
            raw: u64::from(pool_type.cast_unsigned()),
        }
    }

    /// By `POOL_FLAGS`.
    pub(super) fn of_flags(flags: u64) -> Self {
        Self {
            paged: flags & POOL_FLAG_PAGED != 0,
            executable: flags & POOL_FLAG_NON_PAGED_EXECUTE != 0,
            raw: flags,
        }
    }
}

fn is_paged(pool_type: i32) -> bool {
    match pool_type & !(NonPagedPoolNx | NonPagedPoolNxCacheAligned | NonPagedPoolCacheAligned) {
        0 => false,
        rest => rest & PagedPool != 0 || pool_type == PagedPoolCacheAligned,
    }
}

/// Which function frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freer {
    Pool,
    Contiguous,
}

impl Machine {
    pub(in crate::exports) fn allocate_pool(&self, size: usize, tag: u32, wanted: Wanted) -> u64 {
        self.check_allocation(size as u64, tag, wanted);
        if self.must_fail() {
            return 0;
        }
        if wanted.paged {
            self.paging.became_resident();
        }
        let site = self.call_site();
        self.pool
            .borrow_mut()
            .allocate(size as u64, tag, wanted.paged, Owner::Driver, site)
            .unwrap_or(0)
    }

    fn check_allocation(&self, size: u64, tag: u32, wanted: Wanted) {
        let (irql, site) = (self.irql(), self.call_site());
        let text = tag_text(tag);
        if size == 0 {
            self.report(
                RuleId::PoolZeroBytes,
                [0, u64::from(irql), wanted.raw, 0],
                format!("zero bytes of pool allocated, tag '{text}'"),
            );
        }
        if tag == 0 {
            self.report(
                RuleId::PoolTagZero,
                [0, wanted.raw, size, site],
                format!("{size} bytes of pool allocated with tag zero"),
            );
        }
        if wanted.executable {
            self.report(
                RuleId::PoolExecutable,
                [0, site, wanted.raw, u64::from(tag)],
                format!("{size} bytes of executable pool allocated, tag '{text}'"),
            );
        }
        let rule = match irql {
            irql if irql > DISPATCH_LEVEL => RuleId::PoolIrqlNonpaged,
            irql if irql > APC_LEVEL && wanted.paged => RuleId::PoolIrql,
            _ => return,
        };
        let kind = if wanted.paged { "paged" } else { "nonpaged" };
        self.report(
            rule,
            [0, u64::from(irql), wanted.raw, size],
            format!("{size} bytes of {kind} pool allocated at IRQL {irql}, tag '{text}'"),
        );
    }

    /// `ExFreePool` and its like; tag 0 matches any.
    pub(crate) fn free_pool(&self, address: u64, tag: u32) {
        self.free_memory(address, tag, Freer::Pool);
    }

    pub(crate) fn free_memory(&self, address: u64, tag: u32, freer: Freer) {
        let block = self.pool.borrow().block_at(address);
        let live = block.filter(|block| block.address == address && block.freed_at == 0);
        if let Some(block) = live {
            if !self.may_free(&block, freer) {
                return;
            }
            let what = format!("{} was freed", block.describe());
            self.check_contents(block.address, block.size, &what);
        } else if self.irps.borrow().contains(address) {
            self.report(
                RuleId::IrpFreedAsPool,
                [0, address, 0, 0],
                format!("the IRP at {address:#x} was freed as pool"),
            );
            return;
        }
        let freed = self.pool.borrow_mut().free(address, tag, self.call_site());
        if let Err(error) = freed {
            self.report_free(address, tag, freer, error);
        }
    }

    /// Whether a live block may be freed so; reports what is wrong with it.
    fn may_free(&self, block: &Block, freer: Freer) -> bool {
        let irql = self.irql();
        let address = block.address;
        let right = match block.owner {
            Owner::Kernel => {
                self.report(
                    RuleId::PoolBadFree,
                    [0, address, 0, 0],
                    format!("{address:#x} was freed as pool, which is an object of the kernel"),
                );
                return false;
            }
            Owner::Driver => Freer::Pool,
            Owner::Contiguous => Freer::Contiguous,
        };
        if right != freer {
            self.report_wrong_function(block, freer);
        }
        let rule = match irql {
            irql if irql > DISPATCH_LEVEL => RuleId::PoolFreeIrqlNonpaged,
            irql if irql > APC_LEVEL && block.paged => RuleId::PoolFreeIrql,
            _ => return true,
        };
        self.report(
            rule,
            [0, u64::from(irql), u64::from(block.paged), address],
            format!("{} freed at IRQL {irql}", block.describe()),
        );
        true
    }

    fn report_wrong_function(&self, block: &Block, freer: Freer) {
        let (code, name) = match freer {
            Freer::Contiguous => (0x60, "MmFreeContiguousMemory"),
            Freer::Pool => (0x46, "ExFreePool"),
        };
        let what = format!(
            "{}, allocated at {}, was freed by {name}",
            block.describe(),
            self.site_in_words(block.allocated_at)
        );
        self.report(RuleId::PoolWrongFunction, [code, block.address, 0, 0], what);
    }

    fn report_free(&self, address: u64, tag: u32, freer: Freer, error: FreeError) {
        match error {
            FreeError::NotPool => self.report(
                RuleId::PoolBadFree,
                [0, address, 0, 0],
                format!("{address:#x} was freed, which is no pool block"),
            ),
            FreeError::Twice(block) => {
                let what = format!(
                    "{} freed twice; allocated at {}, first freed at {}",
                    block.describe(),
                    self.site_in_words(block.allocated_at),
                    self.site_in_words(block.freed_at)
                );
                let parameters = [0, 0, u64::from(block.tag), address];
                self.report(RuleId::PoolDoubleFree, parameters, what);
            }
            FreeError::WrongTag(block) => {
                let what = format!(
                    "{}, allocated at {}, freed with tag '{}'",
                    block.describe(),
                    self.site_in_words(block.allocated_at),
                    tag_text(tag)
                );
                let parameters = [0, address, u64::from(block.tag), u64::from(tag)];
                self.report(RuleId::PoolWrongTag, parameters, what);
                self.free_memory(address, 0, freer);
            }
            FreeError::Corrupted(block, changed) => self.corrupted(&block, changed),
        }
    }

    fn corrupted(&self, block: &Block, changed: u64) -> ! {
        let place = changed.cast_signed() - block.address.cast_signed();
        let (rule, kind) = match place {
            ..0 => (RuleId::PoolCorruptionBefore, 0x23),
            _ => (RuleId::PoolCorruption, 0x24),
        };
        let what = format!(
            "{}: byte {place} was changed; allocated at {}",
            block.describe(),
            self.site_in_words(block.allocated_at)
        );
        self.violate(rule, [block.address, changed, 0, kind], what)
    }

    /// Nothing that the kernel still uses may be in memory that is given back.
    pub(crate) fn check_contents(&self, start: u64, size: u64, what: &str) {
        let range = start..start + size.max(1);
        let end = range.end;
        let timers = self.timers.borrow().within(range.clone());
        for timer in timers {
            let text = format!("{what} with a timer at {timer:#x} in it that is set");
            self.report(RuleId::TimerFreed, [0, timer, start, end], text);
            self.timers.borrow_mut().cancel(timer);
        }
        while let Some(dpc) = self.queued_dpc_within(&range) {
            let text = format!("{what} with a DPC at {dpc:#x} in it that is queued");
            self.report(RuleId::DpcFreed, [0, dpc, start, end], text);
            self.remove_dpc(dpc);
        }
        for (kind, rule) in [
            (Held::Resource, RuleId::ResourceFreed),
            (Held::LookasideList, RuleId::LookasideFreed),
        ] {
            let inside = self.resources.borrow().held_within(kind, &range);
            for (address, site) in inside {
                let text = format!(
                    "{what} with a {} at {address:#x} in it, initialised at {}",
                    kind.name(),
                    self.site_in_words(site)
                );
                self.report(rule, [0, address, start, size], text);
                self.resources.borrow_mut().drop_held(kind, address);
            }
        }
        {
            let mut resources = self.resources.borrow_mut();
            resources.locks.retain(|lock, _| !range.contains(lock));
            // One that is still acquired is left behind.
            resources
                .remove_locks
                .retain(|lock, known| !range.contains(lock) || !known.held.is_empty());
        }
        self.forget_locks(&range, what);
        let waited = self
            .waiters
            .borrow()
            .keys()
            .copied()
            .find(|object| range.contains(object));
        if let Some(object) = waited {
            let text =
                format!("{what} with an object at {object:#x} in it that a thread waits for");
            self.violate(RuleId::WaitedFreed, [object, start, size, 0], text);
        }
    }

    fn queued_dpc_within(&self, range: &std::ops::Range<u64>) -> Option<u64> {
        self.cpus.iter().find_map(|cpu| {
            let queue = cpu.dpcs.borrow();
            queue.iter().copied().find(|dpc| range.contains(dpc))
        })
    }
}
