//! The one place that maps, protects and unmaps memory.
//!
//! A [`Draft`] is writable and known to nobody else; sealing it gives a [`Region`], whose bytes belong to the driver
//! and are never again seen as a Rust slice.
#![expect(
    unsafe_code,
    reason = "maps memory for a driver and changes its protection"
)]

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::Protection;

/// Private zeroed memory, readable and writable, not yet shared with anyone.
pub(super) struct Draft {
    region: Region,
}

impl Draft {
    /// Maps `len` bytes, the first `resident` of which are made present at once rather than fault by fault.
    pub(super) fn new(len: usize, resident: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint without FIXED cannot replace an existing mapping.
        let start = unsafe { mm::mmap_anonymous(core::ptr::null_mut(), len, access, flags) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        let region = Region { start, len };
        if resident > 0 {
            // An old kernel without this advice still works, page fault by page fault.
            // SAFETY: the range is inside the mapping made above; populating changes no contents.
            let _ = unsafe {
                mm::madvise(
                    start.as_ptr(),
                    resident.min(len),
                    Advice::LinuxPopulateWrite,
                )
            };
        }
        Ok(Self { region })
    }

    /// The memory; exclusive as long as it is a draft.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let start = self.region.start.as_ptr().cast::<u8>();
        // SAFETY: (1) `start` points at `len` zero-initialised bytes mapped readable and writable by `new`.
        // (2) Nobody else has the address before `seal`, and the slice borrows `self` mutably.
        // (3) `len` is below isize::MAX, since the mapping exists.
        unsafe { core::slice::from_raw_parts_mut(start, self.region.len) }
    }

    /// Address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.region.address()
    }

    /// Gives the memory up to the driver, range by range; offsets are multiples of the page size.
    pub(super) fn seal(self, runs: &[(Range<usize>, Protection)]) -> Result<Region, Errno> {
        for (range, protection) in runs {
            if *protection != Protection::ReadWrite {
                self.region.protect(range.clone(), *protection)?;
            }
        }
        Ok(self.region)
    }
}

/// A mapping that is unmapped when dropped.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the region is an address range owned by this value; it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: through `&self` only its address and length can be read, and `protect` is a system call that is atomic.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Changes the protection of a range of whole pages.
    ///
    /// Errors: `EINVAL` if the range is not inside the region.
    pub(super) fn protect(&self, range: Range<usize>, protection: Protection) -> Result<(), Errno> {
        if range.start > range.end || range.end > self.len {
            return Err(Errno::INVAL);
        }
        let start = self.start.as_ptr().wrapping_byte_add(range.start);
        // SAFETY: the range was checked to be inside this mapping. No Rust reference into a sealed region exists, so
        // taking access away breaks none.
        unsafe { mm::mprotect(start, range.len(), flags(protection)) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `Draft::new`, which nothing of ours refers to any more.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping cannot fail");
    }
}

fn flags(protection: Protection) -> MprotectFlags {
    match protection {
        Protection::None => MprotectFlags::empty(),
        Protection::Read => MprotectFlags::READ,
        Protection::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
        Protection::ReadWriteExecute => {
            MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC
        }
    }
}
