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
        let flags = get!(mdl, MdlFlags);
        if flags & MDL_PAGES_LOCKED != 0 {
            self.report_mdl_freed_locked(mdl);
        } else if flags & MDL_MAPPED_TO_SYSTEM_VA != 0 {
            self.report_mdl(RuleId::MdlFreedMapped, mdl, 0, "freed, and it is mapped");
        }
        self.drop_mdl(mdl);
    }

    fn report_mdl_freed_locked(&self, mdl: *mut MDL) {
        let bytes = u64::from(get!(mdl, ByteOffset)) + u64::from(get!(mdl, ByteCount));
        self.report(
            RuleId::MdlFreedLocked,
            [self.call_site(), 0, mdl as u64, bytes.div_ceil(PAGE)],
            format!(
                "the MDL at {:#x} was freed, and its pages are locked",
                mdl as u64
            ),
        );
    }

    fn report_mdl(&self, rule: RuleId, mdl: *mut MDL, more: i16, what: &str) {
        let flags = |flags: i16| u64::from(flags.cast_unsigned());
        self.report(
            rule,
            [0, mdl as u64, flags(get!(mdl, MdlFlags)), flags(more)],
            format!("the MDL at {:#x} was {what}", mdl as u64),
        );
    }

    /// `MmBuildMdlForNonPagedPool`.
    pub(crate) fn build_mdl_for_nonpaged_pool(&self, mdl: *mut MDL) {
        let address = get!(mdl, StartVa) as u64 + u64::from(get!(mdl, ByteOffset));
        let flags = get!(mdl, MdlFlags);
        let block = self.pool.borrow().block_at(address);
        if let Some(block) = block.filter(|block| block.paged) {
            self.report(
                RuleId::MdlPagedPool,
                [
                    0,
                    u64::from(self.irql()),
                    mdl as u64,
                    u64::from(flags.cast_unsigned()),
                ],
                format!("MmBuildMdlForNonPagedPool for {}", block.describe()),
            );
        }
        set!(mdl, MdlFlags = flags | MDL_SOURCE_IS_NONPAGED_POOL);
        set!(mdl, MappedSystemVa = address as *mut _);
    }

    pub(crate) fn report_must_succeed(&self, mdl: *mut MDL) {
        self.report_mdl(
            RuleId::MdlMustSucceed,
            mdl,
            0,
            "mapped with BugCheckOnFailure",
        );
    }

    /// Address at which an MDL's buffer is mapped.
    pub(crate) fn map_mdl(&self, mdl: *mut MDL) -> u64 {
        let flags = get!(mdl, MdlFlags);
        let wanted = MDL_PAGES_LOCKED | MDL_SOURCE_IS_NONPAGED_POOL;
        if flags & wanted == 0 {
            let what = "mapped, and its pages are not locked";
            self.report_mdl(RuleId::MdlMappedUnlocked, mdl, wanted, what);
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
        let wrong = flags & (MDL_PAGES_LOCKED | MDL_SOURCE_IS_NONPAGED_POOL);
        if wrong != 0 {
            let what = "locked, and its pages are locked or nonpaged already";
            self.report_mdl(RuleId::MdlLockedTwice, mdl, wrong, what);
            return;
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
        let (rule, what) = if flags & MDL_SOURCE_IS_NONPAGED_POOL != 0 {
            let what = "unlocked, and is of nonpaged pool";
            (RuleId::MdlUnlockNonpaged, what)
        } else {
            let what = "unlocked, and its pages are not locked";
            (RuleId::MdlUnlockedTwice, what)
        };
        if flags & MDL_PAGES_LOCKED == 0 {
            self.report_mdl(rule, mdl, 0, what);
            return;
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
