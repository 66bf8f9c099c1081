//! Memory from the host.
#![expect(unsafe_code, reason = "maps memory")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maps zeroed memory of our own; it is committed when it is touched.
pub(crate) fn map(len: usize, protection: i32) -> io::Result<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
    let memory = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(memory.cast())
}

/// First address that is not a user program's. Linux puts programs, heaps and everything it maps by
/// itself above 0x5500_0000_0000: the kernel's part, for drivers.
pub(crate) const USER_END: u64 = 0x1000_0000_0000;

/// Whether an address is in a user program's part of the address space.
pub(crate) const fn is_user(address: u64) -> bool {
    address < USER_END
}

/// Whether an address can be one of the kernel's: Linux gives none above the lower half.
pub(crate) const fn is_kernel(address: u64) -> bool {
    address >= USER_END && address < 1 << 47
}

/// The same zeroed memory at two addresses: a user program's, where it can't be accessed yet, and the
/// kernel's, readable and writable. A page behind each is inaccessible.
pub(crate) fn map_user(len: usize) -> io::Result<(u64, u64)> {
    let file = zeroed_file(len)?;
    let kernel = map(len + PAGE, libc::PROT_NONE)? as u64;
    map_file(&file, 0, kernel, len, READ_WRITE, libc::MAP_FIXED)?;
    Ok((map_at_user(&file, 0, len, libc::PROT_NONE)?, kernel))
}

/// A file of so many zeros that has no name.
fn zeroed_file(len: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the call makes a file, and has no other effect.
    let file = unsafe { libc::memfd_create(c"user memory".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nothing else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let size = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: it is our descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Maps a file somewhere in a user program's part.
fn map_at_user(file: &OwnedFd, offset: u64, len: usize, protection: i32) -> io::Result<u64> {
    /// Where to look next; addresses come again when all have been used.
    static NEXT: AtomicU64 = AtomicU64::new(USER_FIRST);
    const USER_FIRST: u64 = 0x100_0000_0000;
    const ATTEMPTS: usize = 64;
    let step = (len + PAGE).next_multiple_of(0x1_0000) as u64;
    for _ in 0..ATTEMPTS {
        let mut address = NEXT.fetch_add(step, Ordering::Relaxed);
        if address + step > USER_END - 0x1_0000 {
            NEXT.store(USER_FIRST + step, Ordering::Relaxed);
            address = USER_FIRST;
        }
        if map_file(
            file,
            offset,
            address,
            len,
            protection,
            libc::MAP_FIXED_NOREPLACE,
        )
        .is_ok()
        {
            return Ok(address);
        }
    }
    Err(io::Error::last_os_error())
}

/// Maps a file at an address that is ours, or with `MAP_FIXED_NOREPLACE` one that nobody has.
fn map_file(
    file: &OwnedFd,
    offset: u64,
    at: u64,
    len: usize,
    protection: i32,
    how: i32,
) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    let flags = libc::MAP_SHARED | how;
    let at = at as *mut libc::c_void;
    // SAFETY: the callers replace a mapping of their own, or none.
    let mapped = unsafe { libc::mmap(at, len, protection, flags, file.as_raw_fd(), offset) };
    if mapped == at {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Changes the protection of pages of ours that only drivers, and the lab on their behalf, access.
pub(crate) fn protect(start: u64, len: usize, protection: i32) -> bool {
    // SAFETY: no Rust reference into such memory exists; an access that it takes away is a fault, which is caught.
    unsafe { libc::mprotect(start as *mut libc::c_void, len, protection) == 0 }
}

/// Gives memory back that came from this module.
pub(crate) fn unmap(start: u64, len: usize) {
    // SAFETY: the caller made the mapping, and nothing uses it any more.
    unsafe { libc::munmap(start as *mut libc::c_void, len) };
}

/// Size of a page.
pub(crate) const PAGE: usize = 4096;

/// Readable and writable.
pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Memory of a user program, which a driver asked for; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct UserPages {
    address: u64,
    len: usize,
}

impl UserPages {
    /// Maps zeroed memory with a protection of the host's.
    pub(crate) fn map(len: usize, protection: i32) -> io::Result<Self> {
        let address = map_at_user(&zeroed_file(len)?, 0, len, protection)?;
        Ok(Self { address, len })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Memory that programs can map as often as they like, as of the paging file.
#[derive(Debug)]
pub(crate) struct SectionMemory {
    file: OwnedFd,
    /// Bytes, in whole pages.
    pub(crate) len: u64,
}

impl SectionMemory {
    /// Zeroed memory of so many bytes.
    pub(crate) fn new(len: u64) -> io::Result<Self> {
        let len = len
            .checked_next_multiple_of(PAGE as u64)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let file = zeroed_file(usize::try_from(len).map_err(io::Error::other)?)?;
        Ok(Self { file, len })
    }

    /// Maps a part into a program.
    pub(crate) fn map(&self, offset: u64, len: usize, protection: i32) -> io::Result<UserPages> {
        let address = map_at_user(&self.file, offset, len, protection)?;
        Ok(UserPages { address, len })
    }
}

impl Drop for UserPages {
    fn drop(&mut self) {
        unmap(self.address, self.len);
    }
}
