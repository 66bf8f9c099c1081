//! Memory from the host.
#![expect(unsafe_code, reason = "maps memory")]

use std::io;
use std::ptr;

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

/// Lowest address of a user program: nothing is mapped near null.
pub(crate) const USER_START: u64 = 0x1_0000;
/// First address that is not a user program's. Linux puts programs, heaps and everything it maps by
/// itself above 0x5500_0000_0000: the kernel's part, for drivers.
pub(crate) const USER_END: u64 = 0x1000_0000_0000;

/// Whether an address is in a user program's part of the address space.
pub(crate) const fn is_user(address: u64) -> bool {
    address < USER_END
}

/// Readable and writable.
pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
