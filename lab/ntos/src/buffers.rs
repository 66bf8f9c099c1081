//! Buffers of requests, each with its end at a guard page.
//!
//! A driver that runs past the end of the system buffer of a request faults
//! at the instruction, and it costs no system call per request: buffers are
//! recycled, and a shorter one just starts later.
#![expect(unsafe_code, reason = "maps and protects pages")]

use std::ptr;

use crate::{guest, memory};

const PAGE: usize = 4096;
/// Length of a recycled buffer.
const LEN: usize = 64 * 1024;

/// A buffer of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    map: u64,
    map_len: usize,
    /// First byte; 16-byte aligned.
    pub(crate) address: u64,
    /// The same byte for the lab: another address of a user program's buffer.
    host: u64,
    pub(crate) len: usize,
}

#[derive(Default)]
pub(crate) struct Buffers {
    free: Vec<u64>,
}

/// Fills what a request brings no data for, so that a driver that returns it unwritten is seen to.
pub(crate) const UNINITIALIZED: u8 = 0xCB;

impl Buffers {
    /// A buffer with `data` at its start and [`UNINITIALIZED`] behind it.
    pub(crate) fn take(&mut self, data: &[u8], len: usize) -> std::io::Result<Buffer> {
        let len = len.max(data.len()).max(1);
        let map_len = if len <= LEN {
            LEN
        } else {
            len.next_multiple_of(PAGE)
        };
        let recycled = if map_len == LEN {
            self.free.pop()
        } else {
            None
        };
        let map = match recycled {
            Some(map) => map,
            None => map_guarded(map_len)?,
        };
        let buffer = Buffer::at_end(map, map, map_len, len);
        buffer.fill(data);
        Ok(buffer)
    }

    pub(crate) fn put(&mut self, buffer: Buffer) {
        if buffer.map_len == LEN {
            self.free.push(buffer.map);
        } else {
            unmap(buffer.map, buffer.map_len);
        }
    }
}

impl Buffer {
    /// A buffer that ends where its mapping does; the lab has the mapping at `host`.
    pub(crate) fn at_end(map: u64, host: u64, map_len: usize, len: usize) -> Self {
        let offset = (map_len - len.next_multiple_of(16)) as u64;
        Self {
            map,
            map_len,
            address: map + offset,
            host: host + offset,
            len,
        }
    }

    /// Puts `data` at the start and [`UNINITIALIZED`] behind it.
    pub(crate) fn fill(&self, data: &[u8]) {
        guest::fill(self.host as *mut u8, data);
        let rest = self.host + data.len() as u64;
        guest::set_bytes(rest as *mut u8, UNINITIALIZED, self.len - data.len());
    }

    /// Where its mapping starts.
    pub(crate) fn map(&self) -> u64 {
        self.map
    }

    /// Whether it is in a user program's part of the address space.
    pub(crate) fn is_user(&self) -> bool {
        memory::is_user(self.map)
    }

    /// Copies from the start of the buffer.
    pub(crate) fn copy_to(&self, out: &mut [u8]) {
        let len = out.len().min(self.len);
        // SAFETY: the buffer has `len` bytes, is mapped, and the driver is done with it.
        unsafe { ptr::copy_nonoverlapping(self.host as *const u8, out.as_mut_ptr(), len) };
    }
}

fn map_guarded(len: usize) -> std::io::Result<u64> {
    let map = memory::map(len + PAGE, memory::READ_WRITE)?;
    // SAFETY: the page is the last of the new mapping.
    unsafe { libc::mprotect(map.wrapping_add(len).cast(), PAGE, libc::PROT_NONE) };
    Ok(map as u64)
}

fn unmap(map: u64, len: usize) {
    // SAFETY: the mapping came from `map_guarded` and its buffer was given back.
    unsafe { libc::munmap(map as *mut _, len + PAGE) };
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.free.drain(..).for_each(|map| unmap(map, LEN));
    }
}
