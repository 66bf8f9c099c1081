//! Memory descriptor lists. The lab's memory is flat: an MDL's pages are the
//! buffer's own, and mapping it gives the buffer's address.

use lab_verifier::RuleId;
use nt::base::KernelMode;
use nt::mm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_SOURCE_IS_NONPAGED_POOL};
use nt::status::STATUS_ACCESS_VIOLATION;

use crate::guest::{get, set};
use crate::machine::Machine;
use crate::pool::Owner;

const PAGE: u64 = 4096;

impl Machine {
    /// An MDL for a buffer, in kernel-owned pool; null without memory.
    pub(crate) fn allocate_mdl(&self, address: u64, len: usize) -> *mut MDL {
        let first = address & !(PAGE - 1);
        // The range may be any numbers, and end behind the last address.
        let pages = (address - first).saturating_add(len as u64).div_ceil(PAGE);
        let size = size_of::<MDL>() as u64 + 8 * pages;
        let site = self.call_site();
        let tag = u32::from_le_bytes(*b"Mdl ");
        let Some(block) = self
            .pool
            .borrow_mut()
            .allocate(size, tag, false, Owner::Kernel, site)
        else {
            return std::ptr::null_mut();
        };
        let mdl = block as *mut MDL;
        crate::guest::set_bytes(mdl.cast(), 0, usize::try_from(size).unwrap_or(0));
        set!(mdl, Size = i16::try_from(size).unwrap_or(i16::MAX));
        set!(mdl, StartVa = first as *mut _);
        set!(
            mdl,
            ByteOffset = u32::try_from(address - first).unwrap_or(0)
        );
        set!(mdl, ByteCount = u32::try_from(len).unwrap_or(u32::MAX));
        for page in 0..pages {
            let entry = (block + size_of::<MDL>() as u64 + 8 * page) as *mut u64;
            crate::guest::write(entry, first / PAGE + page);
        }
        mdl
    }

    /// An MDL whose pages are locked, for a request's output.
    pub(crate) fn locked_mdl(&self, address: u64, len: usize) -> *mut MDL {
        let mdl = self.allocate_mdl(address, len);
        if !mdl.is_null() {
            set!(mdl, MdlFlags = MDL_PAGES_LOCKED);
        }
        mdl
    }

    /// Frees an MDL of the lab's own.
    pub(crate) fn drop_mdl(&self, mdl: *mut MDL) {
        // The lab's own block: nothing to tell the driver about.
        let _ = self.pool.borrow_mut().free(mdl as u64, 0, self.call_site());
    }

    /// `IoFreeMdl`.
    pub(crate) fn free_mdl(&self, mdl: *mut MDL) {
        let known = self
            .resources
            .borrow_mut()
            .mdls
            .remove(&(mdl as u64))
            .is_some();
        if !known {
            self.violate(
                RuleId::BadObject,
                [mdl as u64, 0, 0, 0],
                format!("{:#x} is no MDL that the driver allocated", mdl as u64),
            );
        }
        if get!(mdl, MdlFlags) & MDL_PAGES_LOCKED != 0 {
            self.violate(
                RuleId::MdlLeft,
                [mdl as u64, 0, 0, 0],
                "an MDL was freed whose pages are locked".into(),
            );
        }
        self.drop_mdl(mdl);
    }

    /// Address at which an MDL's buffer is mapped.
    pub(crate) fn map_mdl(&self, mdl: *mut MDL) -> u64 {
        let flags = get!(mdl, MdlFlags);
        if flags & (MDL_PAGES_LOCKED | MDL_SOURCE_IS_NONPAGED_POOL) == 0 {
            self.violate(
                RuleId::BadObject,
                [mdl as u64, 0, 0, 0],
                "an MDL was mapped whose pages are not locked".into(),
            );
        }
        let address = get!(mdl, StartVa) as u64 + u64::from(get!(mdl, ByteOffset));
        // A user program's memory has an address for the kernel, too.
        let address = self.kernel_address_of(address).unwrap_or(address);
        set!(mdl, MappedSystemVa = address as *mut _);
        set!(mdl, MdlFlags = flags | MDL_MAPPED_TO_SYSTEM_VA);
        address
    }

    /// `MmProbeAndLockPages`: raises unless the pages are there, and the mode may have them.
    pub(crate) fn lock_pages(&self, mdl: *mut MDL, mode: i8) {
        let flags = get!(mdl, MdlFlags);
        if flags & MDL_PAGES_LOCKED != 0 {
            self.violate(
                RuleId::BadObject,
                [mdl as u64, 0, 0, 0],
                "the pages of an MDL were locked twice".into(),
            );
        }
        let start = get!(mdl, StartVa) as u64 + u64::from(get!(mdl, ByteOffset));
        let len = u64::from(get!(mdl, ByteCount));
        let end = start.checked_add(len);
        let allowed = mode == KernelMode
            || end.is_some_and(|end| end <= crate::exports::data::USER_PROBE_ADDRESS);
        if !allowed || !self.is_mapped(start, len) {
            self.raise_status(STATUS_ACCESS_VIOLATION);
            return;
        }
        self.hold_pages(start, len, true);
        set!(mdl, MdlFlags = flags | MDL_PAGES_LOCKED);
    }

    /// `MmUnlockPages`.
    pub(crate) fn unlock_pages(&self, mdl: *mut MDL) {
        let flags = get!(mdl, MdlFlags);
        if flags & MDL_PAGES_LOCKED == 0 {
            self.violate(
                RuleId::BadObject,
                [mdl as u64, 0, 0, 0],
                "the pages of an MDL were unlocked that are not locked".into(),
            );
        }
        let start = get!(mdl, StartVa) as u64 + u64::from(get!(mdl, ByteOffset));
        self.hold_pages(start, u64::from(get!(mdl, ByteCount)), false);
        set!(
            mdl,
            MdlFlags = flags & !(MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA)
        );
    }

    fn hold_pages(&self, start: u64, len: u64, hold: bool) {
        self.lock_user_range(start, len, hold);
        self.pool.borrow_mut().lock(start, hold);
    }
}
