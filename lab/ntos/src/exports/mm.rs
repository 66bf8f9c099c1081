//! `Mm…`: memory.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::base::{KernelMode, UNICODE_STRING};
use nt::ke::DISPATCH_LEVEL;
use nt::mm::{MDL, MDL_MAPPED_TO_SYSTEM_VA};

use super::ex::pool::Freer;
use super::exports;
use crate::guest::{get, set};
use crate::machine::current;
use crate::pool::Owner;

exports! {
    mm;

    fn MmGetSystemRoutineAddress(SystemRoutineName: *const UNICODE_STRING) -> *mut c_void {
        let machine = current();
        machine.string(SystemRoutineName).map_or(ptr::null_mut(), |name| machine.routine_address(&name) as *mut c_void)
    }
    fn MmIsAddressValid(VirtualAddress: *mut c_void) -> u8 {
        u8::from(current().is_valid(VirtualAddress as u64))
    }
    fn MmMapIoSpace(PhysicalAddress: i64, NumberOfBytes: usize, _CacheType: i32) -> *mut c_void {
        let machine = current();
        machine.judge_call("MmMapIoSpace");
        machine.map_io_space(PhysicalAddress.cast_unsigned(), NumberOfBytes) as *mut c_void
    }
    fn MmUnmapIoSpace(BaseAddress: *mut c_void, NumberOfBytes: usize) {
        current().unmap_io_space(BaseAddress as u64, NumberOfBytes);
    }
    fn MmBuildMdlForNonPagedPool(MemoryDescriptorList: *mut MDL) {
        current().build_mdl_for_nonpaged_pool(MemoryDescriptorList);
    }
    fn MmProbeAndLockPages(MemoryDescriptorList: *mut MDL, AccessMode: i8, _Operation: i32) { current().lock_pages(MemoryDescriptorList, AccessMode) }
    fn MmUnlockPages(MemoryDescriptorList: *mut MDL) { current().unlock_pages(MemoryDescriptorList) }
    fn MmMapLockedPagesSpecifyCache(MemoryDescriptorList: *mut MDL, AccessMode: i8, _CacheType: i32, _RequestedAddress: *mut c_void, BugCheckOnFailure: u32, _Priority: u32) -> *mut c_void {
        let machine = current();
        if BugCheckOnFailure != 0 && AccessMode == KernelMode {
            machine.report_must_succeed(MemoryDescriptorList);
        }
        if machine.must_fail() {
            return ptr::null_mut();
        }
        machine.map_mdl(MemoryDescriptorList) as *mut c_void
    }
    fn MmMapLockedPages(MemoryDescriptorList: *mut MDL, _AccessMode: i8) -> *mut c_void {
        current().map_mdl(MemoryDescriptorList) as *mut c_void
    }
    fn MmUnmapLockedPages(_BaseAddress: *mut c_void, MemoryDescriptorList: *mut MDL) {
        set!(MemoryDescriptorList, MdlFlags = get!(MemoryDescriptorList, MdlFlags) & !MDL_MAPPED_TO_SYSTEM_VA);
    }
    fn MmGetPhysicalAddress(BaseAddress: *mut c_void) -> i64 {
        // Memory is flat: physical and virtual addresses are the same numbers.
        (BaseAddress as u64).cast_signed()
    }
    fn MmAllocateContiguousMemory(NumberOfBytes: usize, _HighestAcceptableAddress: i64) -> *mut c_void {
        current().allocate_contiguous(NumberOfBytes) as *mut c_void
    }
    fn MmAllocateContiguousMemorySpecifyCache(NumberOfBytes: usize, _LowestAcceptableAddress: i64, _HighestAcceptableAddress: i64, BoundaryAddressMultiple: i64, _CacheType: i32) -> *mut c_void {
        // A block never crosses a boundary that it is shorter than: there is nothing physical to cross.
        let boundary = usize::try_from(BoundaryAddressMultiple).unwrap_or(0);
        if boundary != 0 && NumberOfBytes > boundary {
            return ptr::null_mut();
        }
        current().allocate_contiguous(NumberOfBytes) as *mut c_void
    }
    fn MmFreeContiguousMemorySpecifyCache(BaseAddress: *mut c_void, NumberOfBytes: usize, _CacheType: i32) {
        let machine = current();
        let size = (NumberOfBytes as u64).next_multiple_of(4096);
        let block = machine.pool.borrow().block_at(BaseAddress as u64);
        if block.is_some_and(|block| block.address == BaseAddress as u64 && block.size != size) {
            machine.report(RuleId::PoolWrongFunction, [0x60, BaseAddress as u64, 0, 0], format!("contiguous memory was freed as {NumberOfBytes} bytes, and has another length"));
        }
        machine.free_memory(BaseAddress as u64, 0, Freer::Contiguous);
    }
    fn MmLockPagableDataSection(AddressWithinSection: *mut c_void) -> *mut c_void {
        current().lock_section(AddressWithinSection as u64, true);
        AddressWithinSection
    }
    fn MmLockPagableSectionByHandle(ImageSectionHandle: *mut c_void) { current().lock_section(ImageSectionHandle as u64, true) }
    fn MmUnlockPagableImageSection(ImageSectionHandle: *mut c_void) { current().lock_section(ImageSectionHandle as u64, false) }
    fn MmFreeContiguousMemory(BaseAddress: *mut c_void) { current().free_memory(BaseAddress as u64, 0, Freer::Contiguous) }
}

impl crate::machine::Machine {
    fn allocate_contiguous(&self, bytes: usize) -> u64 {
        if bytes == 0 || self.must_fail() {
            return 0;
        }
        let size = (bytes as u64).next_multiple_of(4096);
        let tag = u32::from_le_bytes(*b"MmCm");
        let site = self.call_site();
        self.pool
            .borrow_mut()
            .allocate(size, tag, false, Owner::Contiguous, site)
            .unwrap_or(0)
    }

    /// Whether a driver can read the byte at an address now.
    fn is_valid(&self, address: u64) -> bool {
        if self.irql() < DISPATCH_LEVEL {
            self.make_resident(address);
        }
        self.kernel_address_of(address).is_some() || self.is_readable(address)
    }

    /// Whether the byte at an address can be read, without touching it.
    pub(crate) fn is_readable(&self, address: u64) -> bool {
        let mut byte = 0u8;
        let local = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let remote = libc::iovec {
            iov_base: address as *mut c_void,
            iov_len: 1,
        };
        let process = std::process::id().cast_signed();
        // SAFETY: the local buffer is one byte of ours; a bad remote address is an error, not a fault.
        let read = unsafe {
            libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0)
        };
        read == 1
    }

    /// Whether the byte at an address can be written: it is, with its own value.
    pub(crate) fn is_writable(&self, address: u64) -> bool {
        if !self.is_readable(address) {
            return false;
        }
        let mut byte = crate::guest::read(address as *const u8);
        let local = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let remote = libc::iovec {
            iov_base: address as *mut c_void,
            iov_len: 1,
        };
        let process = std::process::id().cast_signed();
        // SAFETY: the local buffer is one byte of ours; the byte that is written was there before.
        let written = unsafe {
            libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0)
        };
        written == 1
    }
}
