//! The memory of one virtual processor: its control region as drivers see it
//! through `gs`, and behind it an area of the lab's own.
//!
//! ```text
//! gs + 0x0000  KPCR: Self, CurrentPrcb, Irql, KPRCB.Number, CurrentThread
//!    + 0x2000  HostArea: the driver's registers at its last call into the
//!              kernel, the host stack for the next one, pending work
//!    + 0x3000  end
//! ```

use std::mem::offset_of;

/// Where [`HostArea`] starts.
pub(crate) const HOST: usize = 0x2000;
/// Size of a processor's block.
pub(crate) const BLOCK: usize = 0x3000;

/// The driver's state at its last call into the kernel, as a thunk saves it:
/// enough to name the call site and to unwind the driver's stack.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Slot {
    /// Points at the return address into the driver.
    pub(crate) rsp: u64,
    pub(crate) rbx: u64,
    pub(crate) rbp: u64,
    pub(crate) rsi: u64,
    pub(crate) rdi: u64,
    pub(crate) r12: u64,
    pub(crate) r13: u64,
    pub(crate) r14: u64,
    pub(crate) r15: u64,
    /// Index of the export in the thunk table.
    pub(crate) api: u64,
}

/// The lab's part of a processor's block; naked code reaches it through `gs`.
#[repr(C)]
pub(crate) struct HostArea {
    pub(crate) slot: Slot,
    /// Where a thunk puts the stack pointer: the host stack of the running
    /// fiber, below every host frame that is in use. 16-byte aligned.
    pub(crate) host_rsp: u64,
    /// Not zero: look for work on the way out of the next kernel call.
    pub(crate) pending: u32,
    pub(crate) interrupts_enabled: u32,
    /// Routine of the driver that [`crate::asm::step_entry`] goes to.
    pub(crate) step_target: u64,
}

/// Bits of [`HostArea::pending`].
pub(crate) mod pending {
    /// Other work waits: go through the scheduler.
    pub(crate) const SCHEDULE: u32 = 1;
    /// The driver is being stepped: go on so behind the kernel call.
    pub(crate) const STEP: u32 = 2;
    /// A time limit ran out during the kernel call.
    pub(crate) const OVERDUE: u32 = 4;
}

pub(crate) const SLOT_RSP: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, rsp);
pub(crate) const SLOT_RBX: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, rbx);
pub(crate) const SLOT_RBP: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, rbp);
pub(crate) const SLOT_RSI: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, rsi);
pub(crate) const SLOT_RDI: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, rdi);
pub(crate) const SLOT_R12: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, r12);
pub(crate) const SLOT_R13: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, r13);
pub(crate) const SLOT_R14: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, r14);
pub(crate) const SLOT_R15: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, r15);
pub(crate) const SLOT_API: usize = HOST + offset_of!(HostArea, slot) + offset_of!(Slot, api);
pub(crate) const HOST_RSP: usize = HOST + offset_of!(HostArea, host_rsp);
pub(crate) const STEP_TARGET: usize = HOST + offset_of!(HostArea, step_target);
pub(crate) const PENDING: usize = HOST + offset_of!(HostArea, pending);
