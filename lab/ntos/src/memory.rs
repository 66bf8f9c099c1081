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

/// Readable and writable.
pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Memory of a user program, which a driver asked for; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct UserMemory {
    address: *mut u8,
    len: usize,
}

impl UserMemory {
    /// Maps zeroed memory with a protection of the host's.
    pub(crate) fn map(len: usize, protection: i32) -> io::Result<Self> {
        let address = map(len, protection)?;
        Ok(Self { address, len })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference of ours points into it.
        unsafe { libc::munmap(self.address.cast(), self.len) };
    }
}
