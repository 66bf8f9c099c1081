//! `Ex…`: pool, fast mutexes, lists, resources, callbacks.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

pub(crate) mod callback;
mod lookaside;
pub(crate) mod resource;
mod slist;

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{KernelMode, LIST_ENTRY, OBJECT_ATTRIBUTES, UserMode};
use nt::ex::{
    ALLOCATE_FUNCTION, CALLBACK_FUNCTION, ERESOURCE, FAST_MUTEX, FREE_FUNCTION,
    NPAGED_LOOKASIDE_LIST, NonPagedPoolCacheAligned, NonPagedPoolNx, NonPagedPoolNxCacheAligned,
    POOL_FLAG_PAGED, POOL_FLAG_RAISE_ON_FAILURE, POOL_FLAG_UNINITIALIZED, PagedPool,
    PagedPoolCacheAligned, SLIST_HEADER,
};
use nt::ke::{APC_LEVEL, KSPIN_LOCK};
use nt::status::STATUS_SUCCESS;

use super::exports;
use crate::guest::{self, field, get, set};
use crate::machine::{Machine, current};
use crate::pool::{Block, FreeError, Owner, tag_text};
use crate::process::SYSTEM_PROCESS;
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
        machine.set_irql(APC_LEVEL);
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
    fn ExLocalTimeToSystemTime(LocalTime: *const i64, SystemTime: *mut i64) { guest::write(SystemTime, guest::read(LocalTime)) }

    fn InitializeSListHead(SListHead: *mut SLIST_HEADER) { slist::initialize(SListHead) }
    fn ExpInterlockedPushEntrySList(ListHead: *mut SLIST_HEADER, ListEntry: *mut c_void) -> *mut c_void {
        if !slist::is_aligned(ListEntry as u64) {
            current().violate(RuleId::BadObject, [ListEntry as u64, 0, 0, 0], "an entry of an interlocked list is not aligned to 16 bytes".into());
        }
        slist::push(ListHead, ListEntry as u64) as *mut c_void
    }
    fn ExpInterlockedPopEntrySList(ListHead: *mut SLIST_HEADER) -> *mut c_void { slist::pop(ListHead) as *mut c_void }
    fn ExpInterlockedFlushSList(ListHead: *mut SLIST_HEADER) -> *mut c_void { slist::flush(ListHead) as *mut c_void }
    fn ExQueryDepthSList(SListHead: *mut SLIST_HEADER) -> u16 { slist::depth(SListHead) }
    fn ExInitializeNPagedLookasideList(Lookaside: *mut NPAGED_LOOKASIDE_LIST, Allocate: Option<ALLOCATE_FUNCTION>, Free: Option<FREE_FUNCTION>, Flags: u32, Size: usize, Tag: u32, _Depth: u16) {
        let wanted = lookaside::Wanted {
            allocate: Allocate.map_or(0, |routine| routine as usize as u64),
            free: Free.map_or(0, |routine| routine as usize as u64),
            flags: Flags,
            size: Size,
            tag: Tag,
        };
        current().initialize_lookaside(Lookaside, &wanted);
    }
    fn ExDeleteNPagedLookasideList(Lookaside: *mut NPAGED_LOOKASIDE_LIST) { current().delete_lookaside(Lookaside) }

    fn ExInitializeResourceLite(Resource: *mut ERESOURCE) -> NTSTATUS {
        guest::set_bytes(Resource.cast(), 0, size_of::<ERESOURCE>());
        current().initialize_resource(Resource as u64);
        STATUS_SUCCESS
    }
    fn ExDeleteResourceLite(Resource: *mut ERESOURCE) -> NTSTATUS {
        current().delete_resource(Resource as u64);
        STATUS_SUCCESS
    }
    fn ExAcquireResourceExclusiveLite(Resource: *mut ERESOURCE, Wait: u8) -> u8 {
        u8::from(current().acquire_resource(Resource as u64, resource::Mode::Exclusive, Wait != 0))
    }
    fn ExAcquireResourceSharedLite(Resource: *mut ERESOURCE, Wait: u8) -> u8 {
        u8::from(current().acquire_resource(Resource as u64, resource::Mode::Shared, Wait != 0))
    }
    fn ExReleaseResourceLite(Resource: *mut ERESOURCE) { current().release_resource(Resource as u64) }
    fn ExIsResourceAcquiredExclusiveLite(Resource: *mut ERESOURCE) -> u8 { u8::from(current().writes_resource(Resource as u64)) }
    fn ExIsResourceAcquiredSharedLite(Resource: *mut ERESOURCE) -> u32 { current().resource_count(Resource as u64) }

    fn ExCreateCallback(CallbackObject: *mut *mut c_void, ObjectAttributes: *mut OBJECT_ATTRIBUTES, Create: u8, AllowMultipleCallbacks: u8) -> NTSTATUS {
        match current().open_callback(ObjectAttributes, Create != 0, AllowMultipleCallbacks != 0) {
            Ok(object) => {
                guest::write(CallbackObject, object as *mut c_void);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn ExRegisterCallback(CallbackObject: *mut c_void, CallbackFunction: CALLBACK_FUNCTION, CallbackContext: *mut c_void) -> *mut c_void {
        current().register_callback(CallbackObject as u64, CallbackFunction as usize as u64, CallbackContext as u64).unwrap_or(0) as *mut c_void
    }
    fn ExUnregisterCallback(CallbackRegistration: *mut c_void) { current().unregister_callback(CallbackRegistration as u64) }
    fn ExNotifyCallback(CallbackObject: *mut c_void, Argument1: *mut c_void, Argument2: *mut c_void) {
        current().notify_callback(CallbackObject as u64, Argument1 as u64, Argument2 as u64);
    }

    fn ProbeForRead(Address: *const c_void, Length: usize, Alignment: u32) { current().probe_for_read(Address as u64, Length, Alignment) }
    fn ProbeForWrite(Address: *mut c_void, Length: usize, Alignment: u32) { current().probe_for_write(Address as u64, Length, Alignment) }
    fn ExGetPreviousMode() -> i8 {
        // A client's request comes from a user program; the system process has none.
        let machine = current();
        if machine.current_process() == machine.process(SYSTEM_PROCESS).unwrap_or_default() { KernelMode } else { UserMode }
    }
}

/// One context runs at a time, so an interlocked list needs no lock here.
fn link(before: *mut LIST_ENTRY, entry: *mut LIST_ENTRY, after: *mut LIST_ENTRY) {
    set!(entry, Flink = after);
    set!(entry, Blink = before);
    set!(before, Flink = entry);
    set!(after, Blink = entry);
}

pub(super) fn is_paged(pool_type: i32) -> bool {
    match pool_type & !(NonPagedPoolNx | NonPagedPoolNxCacheAligned | NonPagedPoolCacheAligned) {
        0 => false,
        rest => rest & PagedPool != 0 || pool_type == PagedPoolCacheAligned,
    }
}

impl Machine {
    pub(super) fn allocate_pool(&self, size: usize, tag: u32, paged: bool) -> u64 {
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
        if paged {
            self.paging.became_resident();
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
