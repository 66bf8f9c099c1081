//! A virtual processor.
#![expect(unsafe_code, reason = "maps a control region and points gs at it")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use lab_devices::Place;
use nt::ke::{DISPATCH_LEVEL, KIRQL, PASSIVE_LEVEL};
use nt::kpcr;

use crate::guest;
use crate::interrupt::Interrupt;
use crate::layout::{BLOCK, HOST, HostArea};
use crate::memory;
use crate::sched::ThreadId;

/// Set of processors of a machine.
pub(crate) type CpuSet = Vec<u64>;

/// A virtual processor: its block, what runs on it, its DPC queue.
pub(crate) struct Cpu {
    block: *mut u8,
    /// The thread that runs here when no DPC does.
    pub(crate) thread: Cell<Option<ThreadId>>,
    /// Whether the DPC fiber is on top of the thread.
    pub(crate) in_dpc: Cell<bool>,
    /// The fiber that DPCs run on.
    pub(crate) dpc_thread: ThreadId,
    /// Addresses of queued `KDPC`s.
    pub(crate) dpcs: RefCell<VecDeque<u64>>,
    /// Whether the interrupt fiber is on top of everything else.
    pub(crate) in_isr: Cell<bool>,
    /// The fiber that interrupt routines run on, made at the first interrupt.
    pub(crate) isr_thread: Cell<Option<ThreadId>>,
    /// Interrupts that were raised and not yet serviced.
    pub(crate) interrupts: RefCell<Vec<Interrupt>>,
    /// Where the pending profile interrupt came, if a counter raised it.
    pub(crate) interrupted: Cell<Option<Place>>,
    /// The same, while it is serviced.
    pub(crate) in_program: Cell<Option<Place>>,
}

impl Cpu {
    pub(crate) fn new(index: usize, dpc_thread: ThreadId) -> std::io::Result<Self> {
        let block = memory::map(BLOCK, memory::READ_WRITE)?;
        let word =
            |offset: usize, value: u64| guest::write(block.wrapping_add(offset).cast(), value);
        word(kpcr::SELF, block as u64);
        word(kpcr::CURRENT_PRCB, block as u64 + kpcr::PRCB as u64);
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        guest::write(block.wrapping_add(kpcr::PRCB_NUMBER).cast(), number);
        guest::write(block.wrapping_add(kpcr::PRCB_INDEX).cast(), number);
        let cpu = Self {
            block,
            thread: Cell::new(None),
            in_dpc: Cell::new(false),
            dpc_thread,
            dpcs: RefCell::default(),
            in_isr: Cell::new(false),
            isr_thread: Cell::new(None),
            interrupts: RefCell::default(),
            interrupted: Cell::new(None),
            in_program: Cell::new(None),
        };
        guest::write(guest::field!(cpu.area(), interrupts_enabled), 1u32);
        Ok(cpu)
    }

    /// Address of the block: identity of the processor, never zero, even.
    pub(crate) fn address(&self) -> u64 {
        self.block as u64
    }

    /// The lab's part of the block.
    #[inline]
    pub(crate) fn area(&self) -> *mut HostArea {
        self.block.wrapping_add(HOST).cast()
    }

    #[inline]
    pub(crate) fn irql(&self) -> KIRQL {
        guest::read(self.block.wrapping_add(kpcr::IRQL))
    }

    #[inline]
    pub(crate) fn set_irql(&self, irql: KIRQL) {
        guest::write(self.block.wrapping_add(kpcr::IRQL), irql);
    }

    /// What `KeGetCurrentThread` reads inline.
    #[inline]
    pub(crate) fn set_current_thread(&self, object: u64) {
        guest::write(self.block.wrapping_add(kpcr::CURRENT_THREAD).cast(), object);
    }

    /// Makes the next kernel call look for work on its way out.
    #[inline]
    pub(crate) fn request(&self, what: u32) {
        let pending: u32 = guest::get!(self.area(), pending);
        guest::write(guest::field!(self.area(), pending), pending | what);
    }

    /// Takes what the kernel call on its way out was asked to do.
    #[inline]
    pub(crate) fn take_requests(&self) -> u32 {
        let pending = guest::get!(self.area(), pending);
        guest::write(guest::field!(self.area(), pending), 0);
        pending
    }

    pub(crate) fn set_interrupts(&self, enabled: u32) {
        guest::write(guest::field!(self.area(), interrupts_enabled), enabled);
    }

    /// Whether interrupts are enabled.
    pub(crate) fn interrupts_enabled(&self) -> bool {
        let enabled: u32 = guest::get!(self.area(), interrupts_enabled);
        enabled != 0
    }

    /// The contexts on this processor, the lowest first.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = ThreadId> {
        let isr = self.isr_thread.get().filter(|_| self.in_isr.get());
        let dpc = self.in_dpc.get().then_some(self.dpc_thread);
        [self.thread.get(), dpc, isr].into_iter().flatten()
    }

    /// The context on top: the one that runs when this processor does.
    pub(crate) fn top(&self) -> Option<ThreadId> {
        if self.in_isr.get() {
            return self.isr_thread.get();
        }
        if self.in_dpc.get() {
            return Some(self.dpc_thread);
        }
        self.thread.get()
    }

    /// Whether a queued DPC could run here now.
    pub(crate) fn can_start_dpc(&self, thread_irql: impl Fn(ThreadId) -> KIRQL) -> bool {
        let irql = self.thread.get().map_or(PASSIVE_LEVEL, thread_irql);
        self.interrupts_enabled()
            && !self.in_dpc.get()
            && !self.in_isr.get()
            && irql < DISPATCH_LEVEL
            && !self.dpcs.borrow().is_empty()
    }

    /// Points `gs` of this host thread at the block.
    pub(crate) fn load_gs(&self) {
        if has_fsgsbase() {
            // SAFETY: host code on Linux never uses gs, so changing its base affects driver code only;
            // the kernel announced that the instruction is enabled.
            unsafe {
                std::arch::asm!("wrgsbase {}", in(reg) self.block, options(nostack, preserves_flags))
            };
        } else {
            const ARCH_SET_GS: libc::c_long = 0x1001;
            // SAFETY: as above, by system call.
            let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, self.block) };
            assert!(result == 0, "arch_prctl(ARCH_SET_GS) failed");
        }
    }
}

/// Whether the kernel lets programs write the gs base themselves
/// (`HWCAP2_FSGSBASE`, Linux 5.9).
fn has_fsgsbase() -> bool {
    use std::sync::OnceLock;
    static FSGSBASE: OnceLock<bool> = OnceLock::new();
    *FSGSBASE.get_or_init(|| {
        // SAFETY: getauxval has no preconditions.
        let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
        hwcap2 & 2 != 0
    })
}

impl Drop for Cpu {
    fn drop(&mut self) {
        // SAFETY: the block is ours; gs may still point at it, but only driver code uses gs,
        // and none runs on a machine that is being dropped.
        unsafe { libc::munmap(self.block.cast(), BLOCK) };
    }
}
