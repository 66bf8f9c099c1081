//! `Ex…`: pool, fast mutexes, interlocked lists.
#![expect(unsafe_code, reason = "exports have foreign signatures")]

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::base::LIST_ENTRY;
use nt::ex::{
    FAST_MUTEX, NonPagedPoolCacheAligned, NonPagedPoolNx, NonPagedPoolNxCacheAligned,
    POOL_FLAG_PAGED, POOL_FLAG_RAISE_ON_FAILURE, POOL_FLAG_UNINITIALIZED, PagedPool,
    PagedPoolCacheAligned,
};
use nt::ke::{APC_LEVEL, KSPIN_LOCK};

use super::exports;
use crate::guest::{self, field, get, set};
use crate::machine::{Machine, current};
use crate::pool::{Block, FreeError, Owner, tag_text};
use crate::wait::Timeout;

/// Tag of pool that was allocated without one ("None").
const NO_TAG: u32 = u32::from_le_bytes(*b"None");

exports! {
    ex;

    fn ExAllocatePool2(Flags: u64, NumberOfBytes: usize, Tag: u32) -> *mut c_void {
        let machine = current();
        let block = machine.allocate_pool(NumberOfBytes, Tag, Flags & POOL_FLAG_PAGED != 0);
        if block == 0 && Flags & POOL_FLAG_RAISE_ON_FAILURE != 0 {
            machine.violate(RuleId::BugCheck, [0; 4], "an allocation with POOL_FLAG_RAISE_ON_FAILURE failed, and the lab raises no exceptions yet".into());
        }
        if block != 0 && Flags & POOL_FLAG_UNINITIALIZED == 0 {
            guest::set_bytes(block as *mut u8, 0, NumberOfBytes);
        }
        block as *mut c_void
    }
    fn ExAllocatePoolWithTag(PoolType: i32, NumberOfBytes: usize, Tag: u32) -> *mut c_void {
        current().allocate_pool(NumberOfBytes, Tag, is_paged(PoolType)) as *mut c_void
    }
    fn ExAllocatePool(PoolType: i32, NumberOfBytes: usize) -> *mut c_void {
        current().allocate_pool(NumberOfBytes, NO_TAG, is_paged(PoolType)) as *mut c_void
    }
    fn ExFreePoolWithTag(P: *mut c_void, Tag: u32) { current().free_pool(P as u64, Tag) }
    fn ExFreePool(P: *mut c_void) { current().free_pool(P as u64, 0) }
    fn ExAcquireFastMutex(FastMutex: *mut FAST_MUTEX) {
        let machine = current();
        let thread = machine.current_thread_object();
        if get!(FastMutex, Owner) as u64 == thread && get!(FastMutex, Count) < 1 {
            machine.violate(RuleId::SpinLockRecursive, [0x1001, FastMutex as u64, 0, 0], "a fast mutex was acquired by the thread that owns it".into());
        }
        let old = machine.irql();
        while get!(FastMutex, Count) < 1 {
            machine.wait(&[field!(FastMutex, Event) as u64], false, Timeout::Never);
        }
        set!(FastMutex, Count = 0);
        set!(FastMutex, Owner = thread as *mut c_void);
        set!(FastMutex, OldIrql = u32::from(old));
        machine.cpu().set_irql(APC_LEVEL);
    }
    fn ExReleaseFastMutex(FastMutex: *mut FAST_MUTEX) {
        let machine = current();
        if get!(FastMutex, Owner) as u64 != machine.current_thread_object() {
            machine.violate(RuleId::SpinLockNotOwned, [FastMutex as u64, 0, 0, 0], "a fast mutex was released by a thread that does not own it".into());
        }
        set!(FastMutex, Owner = ptr::null_mut());
        set!(FastMutex, Count = 1);
        machine.lower(u8::try_from(get!(FastMutex, OldIrql)).unwrap_or(0));
        machine.signal(field!(FastMutex, Event) as u64, 1);
    }
    fn ExInterlockedInsertTailList(ListHead: *mut LIST_ENTRY, ListEntry: *mut LIST_ENTRY, _Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY {
        let last = get!(ListHead, Blink);
        link(last, ListEntry, ListHead);
        if ptr::eq(last, ListHead) { ptr::null_mut() } else { last }
    }
    fn ExInterlockedInsertHeadList(ListHead: *mut LIST_ENTRY, ListEntry: *mut LIST_ENTRY, _Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY {
        let first = get!(ListHead, Flink);
        link(ListHead, ListEntry, first);
        if ptr::eq(first, ListHead) { ptr::null_mut() } else { first }
    }
    fn ExInterlockedRemoveHeadList(ListHead: *mut LIST_ENTRY, _Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY {
        let first = get!(ListHead, Flink);
        if ptr::eq(first, ListHead) {
            return ptr::null_mut();
        }
        let second = get!(first, Flink);
        set!(ListHead, Flink = second);
        set!(second, Blink = ListHead);
        first
    }
    fn ExSystemTimeToLocalTime(SystemTime: *const i64, LocalTime: *mut i64) {
        // The machine's time zone is UTC.
        guest::write(LocalTime, guest::read(SystemTime));
    }
}

/// One context runs at a time, so an interlocked list needs no lock here.
fn link(before: *mut LIST_ENTRY, entry: *mut LIST_ENTRY, after: *mut LIST_ENTRY) {
    set!(entry, Flink = after);
    set!(entry, Blink = before);
    set!(before, Flink = entry);
    set!(after, Blink = entry);
}

fn is_paged(pool_type: i32) -> bool {
    match pool_type & !(NonPagedPoolNx | NonPagedPoolNxCacheAligned | NonPagedPoolCacheAligned) {
        0 => false,
        rest => rest & PagedPool != 0 || pool_type == PagedPoolCacheAligned,
    }
}

impl Machine {
    fn allocate_pool(&self, size: usize, tag: u32, paged: bool) -> u64 {
        let site = self.call_site();
        if size == 0 {
            self.violate(
                RuleId::PoolZeroBytes,
                [0, u64::from(self.irql()), 0, 0],
                format!("zero bytes of pool allocated, tag '{}'", tag_text(tag)),
            );
        }
        if paged && self.irql() > APC_LEVEL {
            self.violate(
                RuleId::PoolIrql,
                [1, u64::from(self.irql()), 1, size as u64],
                format!("paged pool allocated at IRQL {}", self.irql()),
            );
        }
        if self.must_fail() {
            return 0;
        }
        self.pool
            .borrow_mut()
            .allocate(size as u64, tag, paged, Owner::Driver, site)
            .unwrap_or(0)
    }

    pub(crate) fn free_pool(&self, address: u64, tag: u32) {
        let block = self.pool.borrow().block_at(address);
        if let Some(block) = block {
            self.check_free(&block);
        }
        let freed = self.pool.borrow_mut().free(address, tag, self.call_site());
        match freed {
            Ok(_) => {}
            Err(FreeError::NotPool) => {
                let what = format!("{address:#x} was freed, which is no pool block");
                self.violate(RuleId::PoolBadFree, [0x46, address, 0, 0], what)
            }
            Err(FreeError::Twice(block)) => {
                let what = format!(
                    "{} freed twice; first at {}",
                    block.describe(),
                    self.frame(block.freed_at)
                );
                self.violate(RuleId::PoolDoubleFree, [7, address, 0, 0], what)
            }
            Err(FreeError::WrongTag(block)) => {
                let what = format!("{} freed with tag '{}'", block.describe(), tag_text(tag));
                self.violate(
                    RuleId::PoolWrongTag,
                    [0xA, address, u64::from(block.tag), u64::from(tag)],
                    what,
                )
            }
            Err(FreeError::Corrupted(block, changed)) => {
                let place = changed.cast_signed() - block.address.cast_signed();
                let what = format!(
                    "{}: byte {place} was changed; allocated at {}",
                    block.describe(),
                    self.frame(block.allocated_at)
                );
                self.violate(
                    RuleId::PoolCorruption,
                    [address, changed, block.size, 0x24],
                    what,
                )
            }
        }
    }

    /// Nothing that the kernel still uses may be in a block that is freed.
    fn check_free(&self, block: &Block) {
        let range = block.address..block.address + block.size.max(1);
        if block.owner == Owner::Kernel {
            self.violate(
                RuleId::PoolBadFree,
                [0x46, block.address, 0, 0],
                "an object of the kernel was freed as pool".into(),
            );
        }
        if block.paged && self.irql() > APC_LEVEL {
            self.violate(
                RuleId::PoolIrql,
                [0x11, u64::from(self.irql()), 1, block.address],
                format!("paged pool freed at IRQL {}", self.irql()),
            );
        }
        if let Some(timer) = self.timers.borrow().within(range.clone()).first().copied() {
            self.violate(
                RuleId::TimerFreed,
                [0, timer, block.address, block.size],
                format!("{} freed with a timer in it that is set", block.describe()),
            );
        }
        let queued = self.cpus.iter().find_map(|cpu| {
            cpu.dpcs
                .borrow()
                .iter()
                .copied()
                .find(|dpc| range.contains(dpc))
        });
        if let Some(dpc) = queued {
            self.violate(
                RuleId::DpcFreed,
                [1, dpc, block.address, block.size],
                format!("{} freed with a DPC in it that is queued", block.describe()),
            );
        }
    }
}
