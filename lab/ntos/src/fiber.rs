//! A fiber: the two stacks on which one NT thread (or a processor's DPCs) runs.
//!
//! ```text
//! low                                                                  high
//! | guard | host stack 256 KiB | guard | kernel stack 24 KiB | slack | guard |
//! ```
//! The slack above the kernel stack's top is what a thunk may read as "stack
//! arguments" of a function that has fewer than twelve.
#![expect(unsafe_code, reason = "maps and prepares stacks")]

use std::ptr;

use crate::asm;
use crate::layout::Slot;
use crate::memory;
use crate::sched::ThreadId;

const PAGE: usize = 4096;
const HOST_STACK: usize = 256 * 1024;
/// Bytes of kernel stack a driver has on x86-64 Windows.
pub(crate) const KERNEL_STACK: usize = 24 * 1024;
const SLACK: usize = 256;
const TOTAL: usize = PAGE + HOST_STACK + PAGE + KERNEL_STACK + PAGE + PAGE;

/// The stacks of a fiber and what is saved while it does not run.
pub(crate) struct Fiber {
    map: *mut u8,
    /// Saved stack pointer of the host side, while switched out.
    pub(crate) saved_rsp: u64,
    /// `HostArea::host_rsp` while switched out.
    pub(crate) host_rsp: u64,
    /// `HostArea::slot` while switched out.
    pub(crate) slot: Slot,
}

/// Why no fiber could be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot map the stacks of a thread: {0}")]
pub(crate) struct FiberError(std::io::Error);

impl Fiber {
    /// Maps the stacks; the first switch to it enters `fiber_main(thread)`.
    pub(crate) fn new(thread: ThreadId) -> Result<Self, FiberError> {
        let map = memory::map(TOTAL, memory::READ_WRITE).map_err(FiberError)?;
        let mut fiber = Self {
            map,
            saved_rsp: 0,
            host_rsp: 0,
            slot: Slot::default(),
        };
        for guard in [0, PAGE + HOST_STACK, TOTAL - PAGE] {
            let page = fiber.map.wrapping_add(guard);
            // SAFETY: the page is inside the new mapping, and nothing uses it yet.
            let result = unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) };
            if result != 0 {
                return Err(FiberError(std::io::Error::last_os_error()));
            }
        }
        fiber.prepare(thread);
        Ok(fiber)
    }

    /// Lays out the frame that the first [`asm::switch`] pops.
    pub(crate) fn prepare(&mut self, thread: ThreadId) {
        let top = self.map.wrapping_add(PAGE + HOST_STACK).cast::<u64>();
        // r15 r14 r13 r12 rbx rbp, return address, padding that makes the stack look called.
        let frame = [
            0,
            0,
            0,
            thread.0 as u64,
            0,
            0,
            asm::fiber_entry as *const () as u64,
            0,
            0,
        ];
        let start = top.wrapping_sub(frame.len());
        // SAFETY: the words lie at the top of the fresh host stack, inside the mapping.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), start, frame.len()) };
        self.saved_rsp = start as u64;
    }

    /// Address one past the kernel stack that a driver may use.
    pub(crate) fn kernel_top(&self) -> u64 {
        self.kernel_low() + KERNEL_STACK as u64
    }

    /// Lowest address of the kernel stack.
    pub(crate) fn kernel_low(&self) -> u64 {
        self.map as u64 + (PAGE + HOST_STACK + PAGE + PAGE - SLACK) as u64
    }

    /// Bounds of the kernel stack.
    pub(crate) fn kernel_stack(&self) -> (usize, usize) {
        let bound = |address| crate::guest::size(address);
        (bound(self.kernel_low()), bound(self.kernel_top()))
    }

    /// Pages of the kernel stack.
    pub(crate) fn kernel_pages(&self) -> std::ops::Range<u64> {
        let start = self.map as u64 + (PAGE + HOST_STACK + PAGE) as u64;
        start..start + (KERNEL_STACK + PAGE) as u64
    }

    /// Whether an address is on the kernel stack.
    pub(crate) fn on_kernel_stack(&self, address: u64) -> bool {
        let mapped = self.map as u64 + (PAGE + HOST_STACK + PAGE) as u64;
        (mapped..self.kernel_top() + SLACK as u64).contains(&address)
    }

    /// Whether an address is in the guard page below the kernel stack.
    pub(crate) fn in_guard(&self, address: u64) -> bool {
        let guard = self.map as u64 + (PAGE + HOST_STACK) as u64;
        (guard..guard + PAGE as u64).contains(&address)
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing runs on it: a fiber is dropped by its
        // machine, which runs on the stack of whoever called it.
        unsafe { libc::munmap(self.map.cast(), TOTAL) };
    }
}
