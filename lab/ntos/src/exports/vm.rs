//! `Mm…`, `Ex…`, `Zw…`: pages, MDLs, pool by other names, virtual memory of processes.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::ex::pool::Wanted;
use super::{exports, kernel_addresses};
use crate::guest::{self, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::memory::UserPages;
use crate::object::Kind;
use crate::pool::Owner;
use crate::resources::Held;
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{BOOLEAN, HANDLE, KPROCESSOR_MODE, PHYSICAL_ADDRESS};
use nt::ex::NonPagedPoolNx;
use nt::irp::DRIVER_OBJECT;
use nt::mm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_SOURCE_IS_NONPAGED_POOL};
use nt::status::{
    STATUS_CONFLICTING_ADDRESSES, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_ADDRESS,
    STATUS_INVALID_PAGE_PROTECTION, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
    STATUS_MEMORY_NOT_ALLOCATED, STATUS_NO_MEMORY, STATUS_PARTIAL_COPY, STATUS_SUCCESS,
};
use nt::vm::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, MM_COPY_MEMORY_PHYSICAL,
    MM_COPY_MEMORY_VIRTUAL, PAGE_EXECUTE, PAGE_EXECUTE_READ, PAGE_EXECUTE_READWRITE, PAGE_NOACCESS,
    PAGE_READONLY, PAGE_READWRITE, PHYSICAL_MEMORY_RANGE, POOL_QUOTA_FAIL_INSTEAD_OF_RAISE,
};
use std::ffi::c_void;
use std::ptr;

exports! {
    vm;

    fn MmPageEntireDriver(AddressWithinSection: *mut c_void) -> *mut c_void { current().image_of(AddressWithinSection as u64) as *mut c_void }
    fn MmResetDriverPaging(AddressWithinSection: *mut c_void) { current().image_of(AddressWithinSection as u64); }
    fn MmAllocatePagesForMdl(LowAddress: PHYSICAL_ADDRESS, HighAddress: PHYSICAL_ADDRESS, _SkipBytes: PHYSICAL_ADDRESS, TotalBytes: usize) -> *mut MDL { current().pages_for_mdl(LowAddress, HighAddress, TotalBytes) }
    fn MmAllocatePagesForMdlEx(LowAddress: PHYSICAL_ADDRESS, HighAddress: PHYSICAL_ADDRESS, _SkipBytes: PHYSICAL_ADDRESS, TotalBytes: usize, _CacheType: i32, _Flags: u32) -> *mut MDL { current().pages_for_mdl(LowAddress, HighAddress, TotalBytes) }
    fn MmFreePagesFromMdl(MemoryDescriptorList: *mut MDL) {
        let pages = get!(MemoryDescriptorList, StartVa) as u64;
        set!(MemoryDescriptorList, MdlFlags = get!(MemoryDescriptorList, MdlFlags) & !(MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA));
        current().free_pool(pages, 0);
    }
    fn MmAllocateNonCachedMemory(NumberOfBytes: usize) -> *mut c_void { current().allocate_pages(NumberOfBytes, b"MmNc") as *mut c_void }
    fn MmFreeNonCachedMemory(BaseAddress: *mut c_void, NumberOfBytes: usize) {
        let machine = current();
        let block = machine.pool.borrow().block_at(BaseAddress as u64);
        let size = (NumberOfBytes as u64).next_multiple_of(PAGE);
        if block.is_some_and(|block| block.size != size) {
            machine.violate(RuleId::BadObject, [BaseAddress as u64, size, 0, 0], "non-cached memory was freed with another length".into());
        }
        machine.free_pool(BaseAddress as u64, 0);
    }
    fn MmSizeOfMdl(Base: *mut c_void, Length: usize) -> usize { mdl_size(Base as u64, Length) }
    fn MmCreateMdl(MemoryDescriptorList: *mut MDL, Base: *mut c_void, Length: usize) -> *mut MDL {
        let machine = current();
        let mut mdl = MemoryDescriptorList;
        if mdl.is_null() {
            mdl = machine.allocate_pool(mdl_size(Base as u64, Length), u32::from_le_bytes(*b"Mdl "), Wanted::of_type(NonPagedPoolNx)) as *mut MDL;
        }
        if !mdl.is_null() {
            fill_mdl(mdl, Base as u64, Length);
        }
        mdl
    }
    fn IoBuildPartialMdl(SourceMdl: *mut MDL, TargetMdl: *mut MDL, VirtualAddress: *mut c_void, Length: u32) {
        let start = get!(SourceMdl, StartVa) as u64 + u64::from(get!(SourceMdl, ByteOffset));
        let end = start + u64::from(get!(SourceMdl, ByteCount));
        let address = VirtualAddress as u64;
        let length = if Length == 0 { end.saturating_sub(address) } else { u64::from(Length) };
        if address < start || address + length > end {
            current().violate(RuleId::BadObject, [SourceMdl as u64, address, length, 0], "a partial MDL of memory that the whole does not describe".into());
        }
        let room = get!(TargetMdl, Size);
        if usize::try_from(room).unwrap_or(0) < mdl_size(address, guest::size(length)) {
            current().violate(RuleId::BadObject, [TargetMdl as u64, address, length, 0], "a partial MDL with too few pages".into());
        }
        let state = get!(SourceMdl, MdlFlags) & (MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL);
        fill_mdl(TargetMdl, address, guest::size(length));
        set!(TargetMdl, Size = room);
        // A part of locked pages: unlocking is the whole's business.
        let inherited = if state == 0 { 0 } else { MDL_SOURCE_IS_NONPAGED_POOL };
        set!(TargetMdl, MdlFlags = inherited);
        set!(TargetMdl, MappedSystemVa = address as *mut c_void);
    }
    fn MmGetPhysicalMemoryRanges() -> *mut PHYSICAL_MEMORY_RANGE {
        let ranges = current().allocate_pool(2 * size_of::<PHYSICAL_MEMORY_RANGE>(), u32::from_le_bytes(*b"hPmM"), Wanted::of_type(NonPagedPoolNx)) as *mut PHYSICAL_MEMORY_RANGE;
        if !ranges.is_null() {
            let end = super::data::USER_PROBE_ADDRESS.cast_signed();
            guest::write(ranges, PHYSICAL_MEMORY_RANGE { BaseAddress: 0, NumberOfBytes: end });
            guest::write(ranges.wrapping_add(1), PHYSICAL_MEMORY_RANGE { BaseAddress: 0, NumberOfBytes: 0 });
        }
        ranges
    }
    fn MmQuerySystemSize() -> i32 { 2 }
    fn MmGetVirtualForPhysical(PhysicalAddress: PHYSICAL_ADDRESS) -> *mut c_void { PhysicalAddress as *mut c_void }
    fn MmMapIoSpaceEx(PhysicalAddress: PHYSICAL_ADDRESS, NumberOfBytes: usize, _Protect: u32) -> *mut c_void {
        let machine = current();
        machine.judge_call("MmMapIoSpaceEx");
        machine.map_io_space(PhysicalAddress.cast_unsigned(), NumberOfBytes) as *mut c_void
    }
    fn MmSecureVirtualMemory(Address: *mut c_void, Size: usize, _ProbeMode: u32) -> HANDLE {
        let machine = current();
        let site = machine.call_site();
        let end = (Address as u64).saturating_add(Size as u64);
        if Size == 0 || end > super::data::USER_PROBE_ADDRESS || !machine.is_readable(Address as u64) || !machine.is_readable(end - 1) || machine.must_fail() {
            return ptr::null_mut();
        }
        let mut resources = machine.resources.borrow_mut();
        let handle = resources.new_handle();
        resources.hold(Held::SecuredMemory, handle, site);
        handle as HANDLE
    }
    fn MmUnsecureVirtualMemory(SecureHandle: HANDLE) { current().must_hold(Held::SecuredMemory, SecureHandle as u64) }
    fn MmIsDriverVerifying(_DriverObject: *mut DRIVER_OBJECT) -> u32 { 1 }
    fn MmCopyMemory(TargetAddress: *mut c_void, SourceAddress: u64, NumberOfBytes: usize, Flags: u32, NumberOfBytesTransferred: *mut usize) -> NTSTATUS {
        if Flags != MM_COPY_MEMORY_PHYSICAL && Flags != MM_COPY_MEMORY_VIRTUAL {
            return STATUS_INVALID_PARAMETER_4;
        }
        let bytes = current().peek(SourceAddress, NumberOfBytes);
        guest::fill(TargetAddress.cast(), &bytes);
        guest::write(NumberOfBytesTransferred, bytes.len());
        if bytes.len() == NumberOfBytes { STATUS_SUCCESS } else { STATUS_INVALID_ADDRESS }
    }
    fn MmCopyVirtualMemory(FromProcess: *mut c_void, FromAddress: *const c_void, ToProcess: *mut c_void, ToAddress: *mut c_void, BufferSize: usize, _PreviousMode: KPROCESSOR_MODE, NumberOfBytesCopied: *mut usize) -> NTSTATUS {
        let machine = current();
        machine.check_process(FromProcess as u64);
        machine.check_process(ToProcess as u64);
        let bytes = machine.peek(FromAddress as u64, BufferSize);
        let copied = machine.poke(ToAddress as u64, &bytes);
        guest::write(NumberOfBytesCopied, copied);
        if copied == BufferSize { STATUS_SUCCESS } else { STATUS_PARTIAL_COPY }
    }
    fn MmIsNonPagedSystemAddressValid(VirtualAddress: *mut c_void) -> BOOLEAN {
        let machine = current();
        let paged = machine.pool.borrow().block_at(VirtualAddress as u64).is_some_and(|block| block.paged);
        u8::from(!paged && machine.is_readable(VirtualAddress as u64))
    }
    fn ExAllocatePoolWithQuotaTag(PoolType: i32, NumberOfBytes: usize, Tag: u32) -> *mut c_void { current().allocate_quota(PoolType, NumberOfBytes, Tag) as *mut c_void }
    fn ExAllocatePoolWithQuota(PoolType: i32, NumberOfBytes: usize) -> *mut c_void { current().allocate_quota(PoolType, NumberOfBytes, u32::from_le_bytes(*b"None")) as *mut c_void }
    fn ExAllocatePoolWithTagPriority(PoolType: i32, NumberOfBytes: usize, Tag: u32, _Priority: i32) -> *mut c_void { current().allocate_pool(NumberOfBytes, Tag, Wanted::of_type(PoolType)) as *mut c_void }
    fn ZwAllocateVirtualMemory(ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, _ZeroBits: usize, RegionSize: *mut usize, AllocationType: u32, Protect: u32) -> NTSTATUS {
        kernel_addresses!(BaseAddress, RegionSize);
        let machine = current();
        if let Err(status) = machine.resolve_handle(ProcessHandle as u64, Some(Kind::Process)) {
            return status;
        }
        machine.allocate_user(BaseAddress, RegionSize, AllocationType, Protect).err().unwrap_or(STATUS_SUCCESS)
    }
    fn ZwFreeVirtualMemory(ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, RegionSize: *mut usize, FreeType: u32) -> NTSTATUS {
        kernel_addresses!(BaseAddress, RegionSize);
        let machine = current();
        if let Err(status) = machine.resolve_handle(ProcessHandle as u64, Some(Kind::Process)) {
            return status;
        }
        let base = guest::read(BaseAddress) as u64;
        let mut services = machine.services.borrow_mut();
        match FreeType {
            MEM_RELEASE if guest::read(RegionSize) != 0 => STATUS_INVALID_PARAMETER,
            MEM_RELEASE => match services.user_memory.remove(&base) {
                Some(region) => {
                    guest::write(RegionSize, region.len());
                    STATUS_SUCCESS
                }
                None => STATUS_MEMORY_NOT_ALLOCATED,
            },
            // A region is committed as a whole here: decommitting leaves it, and its contents become zero.
            MEM_DECOMMIT => match services.user_memory.get(&base) {
                Some(region) => {
                    guest::set_bytes(base as *mut u8, 0, region.len());
                    STATUS_SUCCESS
                }
                None => STATUS_MEMORY_NOT_ALLOCATED,
            },
            _ => STATUS_INVALID_PARAMETER,
        }
    }
}

const PAGE: u64 = 4096;

fn pages_of(address: u64, len: usize) -> u64 {
    (address + len as u64).div_ceil(PAGE) - address / PAGE
}

fn mdl_size(address: u64, len: usize) -> usize {
    size_of::<MDL>() + 8 * guest::size(pages_of(address, len))
}

/// Describes a buffer; its pages are those of its addresses.
fn fill_mdl(mdl: *mut MDL, address: u64, len: usize) {
    let size = mdl_size(address, len);
    guest::set_bytes(mdl.cast(), 0, size);
    let first = address & !(PAGE - 1);
    set!(mdl, Size = i16::try_from(size).unwrap_or(i16::MAX));
    set!(mdl, StartVa = first as *mut c_void);
    set!(
        mdl,
        ByteOffset = u32::try_from(address - first).unwrap_or(0)
    );
    set!(mdl, ByteCount = u32::try_from(len).unwrap_or(u32::MAX));
    for page in 0..pages_of(address, len) {
        let entry = (mdl as u64 + size_of::<MDL>() as u64 + 8 * page) as *mut u64;
        guest::write(entry, first / PAGE + page);
    }
}

/// What a protection allows on the host; `None` when it is none.
pub(super) fn host_protection(protect: u32) -> Option<i32> {
    Some(match protect & 0xFF {
        PAGE_NOACCESS => libc::PROT_NONE,
        PAGE_READONLY => libc::PROT_READ,
        PAGE_READWRITE => libc::PROT_READ | libc::PROT_WRITE,
        PAGE_EXECUTE | PAGE_EXECUTE_READ => libc::PROT_READ | libc::PROT_EXEC,
        PAGE_EXECUTE_READWRITE => libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
        _ => return None,
    })
}

impl Machine {
    /// Where the image is loaded that an address is in; stops when it is in none.
    fn image_of(&self, address: u64) -> u64 {
        self.with_module(address, |module| module.image.base())
            .unwrap_or_else(|| {
                self.violate(
                    RuleId::BadObject,
                    [address, 0, 0, 0],
                    format!("{address:#x} is in no image"),
                )
            })
    }

    fn allocate_pages(&self, bytes: usize, tag: &[u8; 4]) -> u64 {
        if bytes == 0 || self.must_fail() {
            return 0;
        }
        let size = (bytes as u64).next_multiple_of(PAGE);
        let site = self.call_site();
        let tag = u32::from_le_bytes(*tag);
        let allocated = self
            .pool
            .borrow_mut()
            .allocate(size, tag, false, Owner::Driver, site);
        allocated.unwrap_or(0)
    }

    fn pages_for_mdl(&self, low: i64, high: i64, bytes: usize) -> *mut MDL {
        if low > high {
            return ptr::null_mut();
        }
        let size = bytes.next_multiple_of(guest::size(PAGE));
        let pages = self.allocate_pages(size, b"MmPg");
        if pages == 0 {
            return ptr::null_mut();
        }
        let tag = u32::from_le_bytes(*b"Mdl ");
        let site = self.call_site();
        let mdl = self.pool.borrow_mut().allocate(
            mdl_size(pages, size) as u64,
            tag,
            false,
            Owner::Driver,
            site,
        );
        let Some(mdl) = mdl else {
            self.free_pool(pages, 0);
            return ptr::null_mut();
        };
        let mdl = mdl as *mut MDL;
        guest::set_bytes(pages as *mut u8, 0, size);
        fill_mdl(mdl, pages, size);
        set!(mdl, MdlFlags = MDL_PAGES_LOCKED);
        mdl
    }

    fn allocate_quota(&self, pool_type: i32, bytes: usize, tag: u32) -> u64 {
        let wanted = Wanted::of_type(pool_type & !POOL_QUOTA_FAIL_INSTEAD_OF_RAISE);
        let block = self.allocate_pool(bytes, tag, wanted);
        if block == 0 && pool_type & POOL_QUOTA_FAIL_INSTEAD_OF_RAISE == 0 {
            self.raise_status(STATUS_INSUFFICIENT_RESOURCES);
        }
        block
    }

    /// Commits memory for a user program, or finds it committed.
    fn allocate_user(
        &self,
        base: *mut *mut c_void,
        size: *mut usize,
        kind: u32,
        protect: u32,
    ) -> Result<(), NTSTATUS> {
        let protection = host_protection(protect).ok_or(STATUS_INVALID_PAGE_PROTECTION)?;
        let wanted = guest::read(base) as u64;
        let len = guest::read(size);
        if len == 0 || kind & !(MEM_COMMIT | MEM_RESERVE) != 0 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let len = len.next_multiple_of(guest::size(PAGE));
        let mut services = self.services.borrow_mut();
        if wanted != 0 {
            let region = services.user_memory.range(..=wanted).next_back();
            let inside = region
                .is_some_and(|(start, region)| wanted + len as u64 <= start + region.len() as u64);
            // An address of the caller's own choice is not to be had in the host's memory.
            return if inside {
                Ok(())
            } else {
                Err(STATUS_CONFLICTING_ADDRESSES)
            };
        }
        if self.must_fail() {
            return Err(STATUS_NO_MEMORY);
        }
        let region = UserPages::map(len, protection).map_err(|_| STATUS_NO_MEMORY)?;
        guest::write(base, region.address() as *mut c_void);
        guest::write(size, len);
        services.user_memory.insert(region.address(), region);
        Ok(())
    }

    /// The bytes at an address, as far as they can be read.
    fn peek(&self, address: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < len {
            let at = address.wrapping_add(out.len() as u64);
            let part = guest::size(PAGE - at % PAGE).min(len - out.len());
            if !self.is_readable(at) {
                break;
            }
            out.extend(guest::bytes(at as *const u8, part));
        }
        out
    }

    /// Writes as many bytes as can be; says how many.
    fn poke(&self, address: u64, data: &[u8]) -> usize {
        let mut done = 0;
        while done < data.len() {
            let at = address.wrapping_add(done as u64);
            let part = (guest::size(PAGE - at % PAGE)).min(data.len() - done);
            if !self.is_writable(at) {
                break;
            }
            guest::fill(at as *mut u8, &data[done..done + part]);
            done += part;
        }
        done
    }
}
