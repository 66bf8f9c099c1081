//! Executive: pool, fast mutexes, interlocked lists.

use core::ffi::c_void;

use crate::base::{LARGE_INTEGER, LIST_ENTRY};
use crate::ke::{KEVENT, KSPIN_LOCK};

/// `POOL_TYPE`.
pub const NonPagedPool: i32 = 0;
pub const PagedPool: i32 = 1;
pub const NonPagedPoolMustSucceed: i32 = 2;
pub const NonPagedPoolCacheAligned: i32 = 4;
pub const PagedPoolCacheAligned: i32 = 5;
pub const NonPagedPoolNx: i32 = 512;
pub const NonPagedPoolNxCacheAligned: i32 = 516;

/// `POOL_FLAGS` (wdm.h).
pub const POOL_FLAG_USE_QUOTA: u64 = 0x1;
pub const POOL_FLAG_UNINITIALIZED: u64 = 0x2;
pub const POOL_FLAG_SESSION: u64 = 0x4;
pub const POOL_FLAG_CACHE_ALIGNED: u64 = 0x8;
pub const POOL_FLAG_RAISE_ON_FAILURE: u64 = 0x20;
pub const POOL_FLAG_NON_PAGED: u64 = 0x40;
pub const POOL_FLAG_NON_PAGED_EXECUTE: u64 = 0x80;
pub const POOL_FLAG_PAGED: u64 = 0x100;

#[repr(C)]
pub struct FAST_MUTEX {
    /// 1 when free.
    pub Count: i32,
    pub Owner: *mut c_void,
    pub Contention: u32,
    pub Event: KEVENT,
    pub OldIrql: u32,
}
layout!(FAST_MUTEX, 0x38, Owner @ 8, Contention @ 0x10, Event @ 0x18, OldIrql @ 0x30);

image! {
    /// Allocates pool (zeroed unless `POOL_FLAG_UNINITIALIZED`); null when there is none.
    fn ExAllocatePool2(Flags: u64, NumberOfBytes: usize, Tag: u32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Allocates pool; null when there is none.
    fn ExAllocatePoolWithTag(PoolType: i32, NumberOfBytes: usize, Tag: u32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Allocates pool with no tag of its own.
    fn ExAllocatePool(PoolType: i32, NumberOfBytes: usize) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees pool; a non-zero tag must be the one it was allocated with.
    fn ExFreePoolWithTag(P: *mut c_void, Tag: u32) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Frees pool.
    fn ExFreePool(P: *mut c_void) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Acquires a fast mutex and raises to `APC_LEVEL`.
    fn ExAcquireFastMutex(FastMutex: *mut FAST_MUTEX) where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Releases a fast mutex and restores the IRQL.
    fn ExReleaseFastMutex(FastMutex: *mut FAST_MUTEX) where irql == APC_LEVEL, RELEASES;
    /// Inserts at the tail under a spin lock; returns the former tail or null.
    fn ExInterlockedInsertTailList(ListHead: *mut LIST_ENTRY, ListEntry: *mut LIST_ENTRY, Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY where irql <= HIGH_LEVEL;
    /// Inserts at the head under a spin lock; returns the former head or null.
    fn ExInterlockedInsertHeadList(ListHead: *mut LIST_ENTRY, ListEntry: *mut LIST_ENTRY, Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY where irql <= HIGH_LEVEL;
    /// Removes the head under a spin lock; null when empty.
    fn ExInterlockedRemoveHeadList(ListHead: *mut LIST_ENTRY, Lock: *mut KSPIN_LOCK) -> *mut LIST_ENTRY where irql <= HIGH_LEVEL;
    /// UTC to local time.
    fn ExSystemTimeToLocalTime(SystemTime: *const LARGE_INTEGER, LocalTime: *mut LARGE_INTEGER) where irql <= HIGH_LEVEL;
}
