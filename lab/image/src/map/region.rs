//! The one place that maps, protects and unmaps memory.
//!
//! [`Contents`] is a sealed memory file with an image laid out for one base. A [`Draft`] is a private mapping of it,
//! writable and known to nobody else; sealing it gives a [`Region`], whose bytes belong to the driver and are never
//! again seen as a Rust slice. Pages that the driver does not write to are shared by all mappings of the contents,
//! which is what makes loading again cheap.
#![expect(
    unsafe_code,
    reason = "maps memory for a driver and changes its protection"
)]

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::io::{self, Errno};
use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::Protection;

/// A memory file that holds an image.
///
/// # Invariants
/// - Its size is `len`. Once written it is sealed: neither contents nor size ever change.
#[derive(Debug)]
pub(super) struct Contents {
    file: OwnedFd,
    len: usize,
}

impl Contents {
    /// A file of `len` zero bytes, to be written once.
    pub(super) fn new(len: usize) -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = fs::memfd_create(c"driver image", flags)?;
        fs::ftruncate(&file, len as u64)?;
        Ok(Self { file, len })
    }

    /// Writes the contents and seals the file; pages of zeros stay holes.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        for (offset, page) in (0..).step_by(super::PAGE).zip(bytes.chunks(super::PAGE)) {
            if page.iter().any(|&byte| byte != 0) {
                self.write_at(page, offset)?;
            }
        }
        let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL;
        fs::fcntl_add_seals(&self.file, seals)
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = io::pwrite(&self.file, bytes, offset)?;
            offset += written as u64;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }
}

/// A private copy of contents, readable and writable, not yet shared with anyone.
pub(super) struct Draft {
    region: Region,
    /// Bytes that have contents behind them; the rest of the region must not be touched.
    backed: usize,
}

impl Draft {
    /// Maps `len` bytes that begin with the contents, at `hint` if that is free.
    pub(super) fn new(contents: &Contents, len: usize, hint: Option<u64>) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let hint = hint
            .and_then(|hint| usize::try_from(hint).ok())
            .unwrap_or(0);
        let hint = core::ptr::without_provenance_mut(hint);
        // SAFETY: a hint without FIXED cannot replace an existing mapping.
        let start = unsafe { mm::mmap(hint, len, access, flags, &contents.file, 0) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self {
            region: Region { start, len },
            backed: contents.len.min(len),
        })
    }

    /// The memory that has contents; exclusive as long as it is a draft.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let start = self.region.start.as_ptr().cast::<u8>();
        // SAFETY: (1) `start` points at `backed` initialised bytes mapped readable and writable by `new`, all inside
        // the file. (2) They are a private copy of contents that no longer change, nobody else has their address
        // before `seal`, and the slice borrows `self` mutably. (3) `backed` is below isize::MAX: the mapping exists.
        unsafe { core::slice::from_raw_parts_mut(start, self.backed) }
    }

    /// Address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.region.address()
    }

    /// Gives the memory up to the driver, run by run; offsets are multiples of the page size.
    ///
    /// Writable pages are copied when first written to: most are not, before the driver is unloaded again.
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
        self.start.as_ptr().expose_provenance() as u64
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
