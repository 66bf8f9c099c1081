//! Memory manager and pool: pages, MDLs, virtual memory of processes.
//!
//! The lab's memory is flat and never paged: physical addresses are virtual
//! ones, and what is locked or pageable is only kept account of.

use core::ffi::c_void;

use crate::base::{BOOLEAN, HANDLE, KPROCESSOR_MODE, LARGE_INTEGER, PHYSICAL_ADDRESS};
use crate::irp::DRIVER_OBJECT;
use crate::mm::MDL;
use crate::status::NTSTATUS;

/// Run of physical memory; a list ends with one of zeros.
#[repr(C)]
pub struct PHYSICAL_MEMORY_RANGE {
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub NumberOfBytes: LARGE_INTEGER,
}
layout!(PHYSICAL_MEMORY_RANGE, 0x10, NumberOfBytes @ 8);

/// `MmCopyMemory`'s flags.
pub const MM_COPY_MEMORY_PHYSICAL: u32 = 1;
pub const MM_COPY_MEMORY_VIRTUAL: u32 = 2;
/// In `ExAllocatePoolWithQuotaTag`'s pool type: null instead of an exception.
pub const POOL_QUOTA_FAIL_INSTEAD_OF_RAISE: i32 = 8;

/// Protection of pages (winnt.h).
pub const PAGE_NOACCESS: u32 = 0x1;
pub const PAGE_READONLY: u32 = 0x2;
pub const PAGE_READWRITE: u32 = 0x4;
pub const PAGE_EXECUTE: u32 = 0x10;
pub const PAGE_EXECUTE_READ: u32 = 0x20;
pub const PAGE_EXECUTE_READWRITE: u32 = 0x40;
pub const PAGE_NOCACHE: u32 = 0x200;
pub const PAGE_WRITECOMBINE: u32 = 0x400;
pub const MEM_COMMIT: u32 = 0x1000;
pub const MEM_RESERVE: u32 = 0x2000;
pub const MEM_DECOMMIT: u32 = 0x4000;
pub const MEM_RELEASE: u32 = 0x8000;

image! {
    /// Makes all of a driver pageable; returns where it is loaded. Nothing is paged here.
    fn MmPageEntireDriver(AddressWithinSection: *mut c_void) -> *mut c_void where irql <= APC_LEVEL;
    /// Makes a driver as pageable as its sections say.
    fn MmResetDriverPaging(AddressWithinSection: *mut c_void) where irql <= APC_LEVEL;
    /// Allocates zeroed pages; the MDL describes fewer when there are not enough. Both are freed, by `MmFreePagesFromMdl` and `ExFreePool`.
    fn MmAllocatePagesForMdl(LowAddress: PHYSICAL_ADDRESS, HighAddress: PHYSICAL_ADDRESS, SkipBytes: PHYSICAL_ADDRESS, TotalBytes: usize) -> *mut MDL where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Allocates pages as flags say; see `MmAllocatePagesForMdl`.
    fn MmAllocatePagesForMdlEx(LowAddress: PHYSICAL_ADDRESS, HighAddress: PHYSICAL_ADDRESS, SkipBytes: PHYSICAL_ADDRESS, TotalBytes: usize, CacheType: i32, Flags: u32) -> *mut MDL where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees the pages of an MDL, but not the MDL.
    fn MmFreePagesFromMdl(MemoryDescriptorList: *mut MDL) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Allocates memory that is not cached.
    fn MmAllocateNonCachedMemory(NumberOfBytes: usize) -> *mut c_void where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Frees memory that is not cached.
    fn MmFreeNonCachedMemory(BaseAddress: *mut c_void, NumberOfBytes: usize) where irql <= APC_LEVEL, RELEASES;
    /// Bytes that an MDL for a buffer takes.
    fn MmSizeOfMdl(Base: *mut c_void, Length: usize) -> usize where irql <= HIGH_LEVEL;
    /// Initialises an MDL, or allocates it from pool.
    fn MmCreateMdl(MemoryDescriptorList: *mut MDL, Base: *mut c_void, Length: usize) -> *mut MDL where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Describes a part of a buffer with an MDL that the driver allocated.
    fn IoBuildPartialMdl(SourceMdl: *mut MDL, TargetMdl: *mut MDL, VirtualAddress: *mut c_void, Length: u32) where irql <= DISPATCH_LEVEL;
    /// The runs of physical memory, in pool that the driver frees. Memory is flat: one run of all there could be.
    fn MmGetPhysicalMemoryRanges() -> *mut PHYSICAL_MEMORY_RANGE where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// How much memory the system has: 0 small, 1 medium, 2 large.
    fn MmQuerySystemSize() -> i32 where irql <= HIGH_LEVEL;
    /// The virtual address of a physical one.
    fn MmGetVirtualForPhysical(PhysicalAddress: PHYSICAL_ADDRESS) -> *mut c_void where irql <= HIGH_LEVEL;
    /// Maps device memory; null where there is none.
    fn MmMapIoSpaceEx(PhysicalAddress: PHYSICAL_ADDRESS, NumberOfBytes: usize, Protect: u32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Keeps a user program's memory as it is; null when it is not accessible so.
    fn MmSecureVirtualMemory(Address: *mut c_void, Size: usize, ProbeMode: u32) -> HANDLE where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Lets a user program's memory change again.
    fn MmUnsecureVirtualMemory(SecureHandle: HANDLE) where irql <= APC_LEVEL, RELEASES;
    /// Whether Driver Verifier checks a driver: here every driver is checked.
    fn MmIsDriverVerifying(DriverObject: *mut DRIVER_OBJECT) -> u32 where irql <= APC_LEVEL;
    /// Copies from any address without faulting.
    fn MmCopyMemory(TargetAddress: *mut c_void, SourceAddress: u64, NumberOfBytes: usize, Flags: u32, NumberOfBytesTransferred: *mut usize) -> NTSTATUS where irql <= APC_LEVEL;
    /// Copies between the memory of processes; all share one here.
    fn MmCopyVirtualMemory(FromProcess: *mut c_void, FromAddress: *const c_void, ToProcess: *mut c_void, ToAddress: *mut c_void, BufferSize: usize, PreviousMode: KPROCESSOR_MODE, NumberOfBytesCopied: *mut usize) -> NTSTATUS where irql <= APC_LEVEL;
    /// Whether an address of the system's can be used at any IRQL.
    fn MmIsNonPagedSystemAddressValid(VirtualAddress: *mut c_void) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Allocates pool charged to the process; without `POOL_QUOTA_FAIL_INSTEAD_OF_RAISE`, raises an exception when there is none.
    fn ExAllocatePoolWithQuotaTag(PoolType: i32, NumberOfBytes: usize, Tag: u32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// As `ExAllocatePoolWithQuotaTag`, without a tag of its own.
    fn ExAllocatePoolWithQuota(PoolType: i32, NumberOfBytes: usize) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Allocates pool; the priority says how willingly it may fail.
    fn ExAllocatePoolWithTagPriority(PoolType: i32, NumberOfBytes: usize, Tag: u32, Priority: i32) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Commits or reserves memory of a process. All processes of the lab share one address space.
    fn ZwAllocateVirtualMemory(ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, ZeroBits: usize, RegionSize: *mut usize, AllocationType: u32, Protect: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Frees memory of `ZwAllocateVirtualMemory`, all of a region at once.
    fn ZwFreeVirtualMemory(ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, RegionSize: *mut usize, FreeType: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
}
