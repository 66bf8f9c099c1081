//! Executive: pool, fast mutexes, interlocked lists.

use core::ffi::c_void;

use crate::base::{BOOLEAN, KPROCESSOR_MODE, LARGE_INTEGER, LIST_ENTRY, OBJECT_ATTRIBUTES};
use crate::ke::{KEVENT, KSPIN_LOCK};
use crate::status::NTSTATUS;

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

/// Head of an interlocked list (x86-64 layout: depth and sequence, then the first entry).
#[repr(C, align(16))]
pub struct SLIST_HEADER {
    /// Depth in the low 16 bits, sequence above.
    pub Alignment: u64,
    /// Address of the first entry (16-byte aligned; the low four bits are the kernel's).
    pub Region: u64,
}
layout!(SLIST_HEADER, 0x10, Region @ 8);

pub type ALLOCATE_FUNCTION =
    unsafe extern "efiapi" fn(PoolType: i32, NumberOfBytes: usize, Tag: u32) -> *mut c_void;
pub type FREE_FUNCTION = unsafe extern "efiapi" fn(Buffer: *mut c_void);

/// A list of free blocks of one size. Drivers take from it and put back with
/// inline functions, which know every field.
#[repr(C, align(64))]
pub struct NPAGED_LOOKASIDE_LIST {
    pub ListHead: SLIST_HEADER,
    /// Free blocks that are kept, at most.
    pub Depth: u16,
    pub MaximumDepth: u16,
    pub TotalAllocates: u32,
    pub AllocateMisses: u32,
    pub TotalFrees: u32,
    pub FreeMisses: u32,
    pub Type: i32,
    pub Tag: u32,
    /// Bytes of a block.
    pub Size: u32,
    pub Allocate: *mut c_void,
    pub Free: *mut c_void,
    pub ListEntry: LIST_ENTRY,
    pub LastTotalAllocates: u32,
    pub LastAllocateMisses: u32,
    pub Future: [u32; 2],
}
layout!(NPAGED_LOOKASIDE_LIST, 0x80,
    Depth @ 0x10, TotalAllocates @ 0x14, FreeMisses @ 0x20, Type @ 0x24, Tag @ 0x28, Size @ 0x2C,
    Allocate @ 0x30, Free @ 0x38, ListEntry @ 0x40, Future @ 0x58);

/// A reader-writer lock; its inside is the kernel's business.
#[repr(C)]
pub struct ERESOURCE {
    pub SystemResourcesList: LIST_ENTRY,
    pub OwnerTable: *mut c_void,
    pub ActiveCount: i16,
    pub Flag: u16,
    pub SharedWaiters: *mut c_void,
    pub ExclusiveWaiters: *mut c_void,
    pub OwnerEntry: [usize; 2],
    pub ActiveEntries: u32,
    pub ContentionCount: u32,
    pub NumberOfSharedWaiters: u32,
    pub NumberOfExclusiveWaiters: u32,
    pub Reserved2: *mut c_void,
    pub Address: *mut c_void,
    pub SpinLock: KSPIN_LOCK,
}
layout!(ERESOURCE, 0x68, ActiveCount @ 0x18, OwnerEntry @ 0x30, ActiveEntries @ 0x40, SpinLock @ 0x60);

pub type CALLBACK_FUNCTION =
    unsafe extern "efiapi" fn(Context: *mut c_void, Argument1: *mut c_void, Argument2: *mut c_void);

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
    /// Local time to UTC.
    fn ExLocalTimeToSystemTime(LocalTime: *const LARGE_INTEGER, SystemTime: *mut LARGE_INTEGER) where irql <= HIGH_LEVEL;

    /// Empties an interlocked list head.
    fn InitializeSListHead(SListHead: *mut SLIST_HEADER) where irql <= HIGH_LEVEL;
    /// Pushes onto an interlocked list; returns the former first entry.
    fn ExpInterlockedPushEntrySList(ListHead: *mut SLIST_HEADER, ListEntry: *mut c_void) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Pops off an interlocked list; null when it is empty.
    fn ExpInterlockedPopEntrySList(ListHead: *mut SLIST_HEADER) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Takes all of an interlocked list; returns the first entry.
    fn ExpInterlockedFlushSList(ListHead: *mut SLIST_HEADER) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Entries of an interlocked list.
    fn ExQueryDepthSList(SListHead: *mut SLIST_HEADER) -> u16 where irql <= DISPATCH_LEVEL;
    /// Initialises a lookaside list of nonpaged blocks.
    fn ExInitializeNPagedLookasideList(Lookaside: *mut NPAGED_LOOKASIDE_LIST, Allocate: Option<ALLOCATE_FUNCTION>, Free: Option<FREE_FUNCTION>, Flags: u32, Size: usize, Tag: u32, Depth: u16) where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Frees the blocks of a lookaside list.
    fn ExDeleteNPagedLookasideList(Lookaside: *mut NPAGED_LOOKASIDE_LIST) where irql <= DISPATCH_LEVEL, RELEASES;

    /// Initialises a reader-writer lock.
    fn ExInitializeResourceLite(Resource: *mut ERESOURCE) -> NTSTATUS where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Ends the use of a reader-writer lock.
    fn ExDeleteResourceLite(Resource: *mut ERESOURCE) -> NTSTATUS where irql <= APC_LEVEL, RELEASES;
    /// Acquires for writing; false if it is taken and `Wait` is false.
    fn ExAcquireResourceExclusiveLite(Resource: *mut ERESOURCE, Wait: BOOLEAN) -> BOOLEAN where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Acquires for reading; false if it is taken and `Wait` is false.
    fn ExAcquireResourceSharedLite(Resource: *mut ERESOURCE, Wait: BOOLEAN) -> BOOLEAN where irql <= APC_LEVEL, ACQUIRES, WAITS;
    /// Releases what the current thread acquired.
    fn ExReleaseResourceLite(Resource: *mut ERESOURCE) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Whether the current thread has acquired it for writing.
    fn ExIsResourceAcquiredExclusiveLite(Resource: *mut ERESOURCE) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// How often the current thread has acquired it.
    fn ExIsResourceAcquiredSharedLite(Resource: *mut ERESOURCE) -> u32 where irql <= DISPATCH_LEVEL;

    /// Opens a callback object, or creates one.
    fn ExCreateCallback(CallbackObject: *mut *mut c_void, ObjectAttributes: *mut OBJECT_ATTRIBUTES, Create: BOOLEAN, AllowMultipleCallbacks: BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Adds a routine to a callback object; null when it takes no more.
    fn ExRegisterCallback(CallbackObject: *mut c_void, CallbackFunction: CALLBACK_FUNCTION, CallbackContext: *mut c_void) -> *mut c_void where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Removes a routine from its callback object.
    fn ExUnregisterCallback(CallbackRegistration: *mut c_void) where irql <= APC_LEVEL, RELEASES;
    /// Calls the routines of a callback object.
    fn ExNotifyCallback(CallbackObject: *mut c_void, Argument1: *mut c_void, Argument2: *mut c_void) where irql <= DISPATCH_LEVEL;

    /// Raises an exception unless a range of user memory can be read, as far as its bounds tell.
    fn ProbeForRead(Address: *const c_void, Length: usize, Alignment: u32) where irql <= APC_LEVEL;
    /// Raises an exception unless a range of user memory can be written.
    fn ProbeForWrite(Address: *mut c_void, Length: usize, Alignment: u32) where irql <= APC_LEVEL;
    /// `KPROCESSOR_MODE` that the current thread came from.
    fn ExGetPreviousMode() -> KPROCESSOR_MODE where irql <= DISPATCH_LEVEL;
}
