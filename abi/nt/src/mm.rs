//! Memory manager.

use core::ffi::c_void;

use crate::base::{BOOLEAN, KPROCESSOR_MODE, PHYSICAL_ADDRESS, UNICODE_STRING};

#[repr(C)]
pub struct MDL {
    pub Next: *mut MDL,
    pub Size: i16,
    pub MdlFlags: i16,
    pub AllocationProcessorNumber: u16,
    pub Reserved: u16,
    pub Process: *mut c_void,
    pub MappedSystemVa: *mut c_void,
    /// Page-aligned.
    pub StartVa: *mut c_void,
    pub ByteCount: u32,
    pub ByteOffset: u32,
}
layout!(MDL, 0x30, Size @ 8, MdlFlags @ 0xA, MappedSystemVa @ 0x18, StartVa @ 0x20, ByteCount @ 0x28, ByteOffset @ 0x2C);

pub const MDL_MAPPED_TO_SYSTEM_VA: i16 = 0x1;
pub const MDL_PAGES_LOCKED: i16 = 0x2;
pub const MDL_SOURCE_IS_NONPAGED_POOL: i16 = 0x4;

/// `LOCK_OPERATION`.
pub const IoReadAccess: i32 = 0;
pub const IoWriteAccess: i32 = 1;
pub const IoModifyAccess: i32 = 2;

image! {
    /// Address of an exported kernel routine; null when there is none of that name.
    fn MmGetSystemRoutineAddress(SystemRoutineName: *const UNICODE_STRING) -> *mut c_void where irql == PASSIVE_LEVEL;
    /// Whether a read or write would fault.
    fn MmIsAddressValid(VirtualAddress: *mut c_void) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Maps device memory.
    fn MmMapIoSpace(PhysicalAddress: PHYSICAL_ADDRESS, NumberOfBytes: usize, CacheType: i32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Unmaps device memory.
    fn MmUnmapIoSpace(BaseAddress: *mut c_void, NumberOfBytes: usize) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Fills the pages of an MDL over nonpaged pool.
    fn MmBuildMdlForNonPagedPool(MemoryDescriptorList: *mut MDL) where irql <= DISPATCH_LEVEL;
    /// Locks the pages of an MDL; raises an exception when it cannot.
    fn MmProbeAndLockPages(MemoryDescriptorList: *mut MDL, AccessMode: KPROCESSOR_MODE, Operation: i32) where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Unlocks the pages of an MDL.
    fn MmUnlockPages(MemoryDescriptorList: *mut MDL) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Maps locked pages.
    fn MmMapLockedPagesSpecifyCache(MemoryDescriptorList: *mut MDL, AccessMode: KPROCESSOR_MODE, CacheType: i32, RequestedAddress: *mut c_void, BugCheckOnFailure: u32, Priority: u32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Maps locked pages; stops the system when it cannot.
    fn MmMapLockedPages(MemoryDescriptorList: *mut MDL, AccessMode: KPROCESSOR_MODE) -> *mut c_void where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Unmaps what `MmMapLockedPages…` mapped.
    fn MmUnmapLockedPages(BaseAddress: *mut c_void, MemoryDescriptorList: *mut MDL) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Physical address of a valid virtual one.
    fn MmGetPhysicalAddress(BaseAddress: *mut c_void) -> PHYSICAL_ADDRESS where irql <= HIGH_LEVEL;
    /// Allocates contiguous nonpaged memory.
    fn MmAllocateContiguousMemory(NumberOfBytes: usize, HighestAcceptableAddress: PHYSICAL_ADDRESS) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees contiguous memory.
    fn MmFreeContiguousMemory(BaseAddress: *mut c_void) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Allocates contiguous memory in a range, with a cache type.
    fn MmAllocateContiguousMemorySpecifyCache(NumberOfBytes: usize, LowestAcceptableAddress: PHYSICAL_ADDRESS, HighestAcceptableAddress: PHYSICAL_ADDRESS, BoundaryAddressMultiple: PHYSICAL_ADDRESS, CacheType: i32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees memory of `MmAllocateContiguousMemorySpecifyCache`; the length and cache type must be the same.
    fn MmFreeContiguousMemorySpecifyCache(BaseAddress: *mut c_void, NumberOfBytes: usize, CacheType: i32) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Locks the pageable section of a driver that an address is in; gives a handle for it.
    fn MmLockPagableDataSection(AddressWithinSection: *mut c_void) -> *mut c_void where irql <= APC_LEVEL;
    /// Locks a section again.
    fn MmLockPagableSectionByHandle(ImageSectionHandle: *mut c_void) where irql <= APC_LEVEL;
    /// Unlocks a section.
    fn MmUnlockPagableImageSection(ImageSectionHandle: *mut c_void) where irql <= APC_LEVEL;
}
