//! Raising: what becomes an exception, and what a stop.

use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::ke::DISPATCH_LEVEL;
use nt::seh::{EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD};
use nt::status::STATUS_ACCESS_VIOLATION;

use super::Pending;
use crate::guest::{self, set};
use crate::layout::Slot;
use crate::machine::{Machine, current};
use crate::memory;
use crate::sched::ThreadId;
use crate::thunk::UNKNOWN;
use crate::unwind::Registers;

/// A fault that host code met on behalf of the driver, and that an exception may be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The address touched.
    pub(crate) address: u64,
    pub(crate) write: bool,
}

/// An exception's record.
pub(crate) fn record(code: NTSTATUS, address: u64, information: &[u64]) -> EXCEPTION_RECORD {
    let mut record = EXCEPTION_RECORD {
        ExceptionCode: code,
        ExceptionFlags: 0,
        ExceptionRecord: ptr::null_mut(),
        ExceptionAddress: address as *mut _,
        NumberParameters: u32::try_from(information.len()).unwrap_or(0),
        ExceptionInformation: [0; nt::seh::EXCEPTION_MAXIMUM_PARAMETERS],
    };
    for (to, from) in record.ExceptionInformation.iter_mut().zip(information) {
        *to = guest::size(*from);
    }
    record
}

/// The record of an access violation.
pub(crate) fn access_violation(rip: u64, kind: u64, address: u64) -> EXCEPTION_RECORD {
    record(STATUS_ACCESS_VIOLATION, rip, &[kind, address])
}

impl Machine {
    /// Has the kernel call under way end in something else than its return: the thunk sees to it.
    pub(crate) fn leave_kernel_to(&self, pending: Pending) {
        if let Some(thread) = self.running.get() {
            self.thread(thread).seh.pending.set(Some(pending));
            self.cpu().request(crate::layout::pending::SCHEDULE);
        }
    }

    /// Raises an exception at the kernel call under way, when that returns.
    pub(crate) fn raise_status(&self, status: NTSTATUS) {
        let mut record = record(status, self.call_site(), &[]);
        record.ExceptionFlags = EXCEPTION_NONCONTINUABLE;
        self.leave_kernel_to(Pending::Raise(record));
    }

    /// Raises the access violation that a kernel call met, when that returns.
    pub(crate) fn raise_fault(&self, fault: Fault) {
        let record = access_violation(self.call_site(), u64::from(fault.write), fault.address);
        self.leave_kernel_to(Pending::Raise(record));
    }

    /// Whether the running thread is to leave its kernel call otherwise than by returning.
    pub(crate) fn has_pending_exception(&self) -> bool {
        self.running
            .get()
            .is_some_and(|thread| self.thread(thread).seh.pending.get().is_some())
    }

    /// Whether a page fault may be made an exception: Windows stops at one on a kernel address, and
    /// at one at `DISPATCH_LEVEL` or above.
    pub(crate) fn may_raise_page_fault(&self, address: u64) -> bool {
        memory::is_user(address) && self.irql() < DISPATCH_LEVEL
    }

    /// Offers a fault of driver code to the driver's handlers; returns if none wants it.
    pub(crate) fn raise_at(&self, registers: &Registers, record: &mut EXCEPTION_RECORD) {
        let Some(thread) = self.running.get() else {
            return;
        };
        let rsp = registers.rsp();
        if !rsp.is_multiple_of(8) || !self.on_kernel_stack(thread, rsp.wrapping_sub(0x100)) {
            return;
        }
        self.enter_kernel_at(registers);
        self.dispatch(thread, registers, record);
    }

    /// Makes driver code look as if it had called the kernel: what the dispatcher calls runs on the
    /// stack below it.
    fn enter_kernel_at(&self, registers: &Registers) {
        let return_address = registers.rsp() - 8;
        // Nothing of the driver's is below its stack pointer: Windows, too, puts the trap frame there.
        guest::write(return_address as *mut u64, registers.rip);
        let gpr = &registers.gpr;
        let slot = Slot {
            rsp: return_address,
            rbx: gpr[3],
            rbp: gpr[5],
            rsi: gpr[6],
            rdi: gpr[7],
            r12: gpr[12],
            r13: gpr[13],
            r14: gpr[14],
            r15: gpr[15],
            api: UNKNOWN + u64::from(u32::MAX),
        };
        set!(self.cpu().area(), slot = slot);
    }

    /// What a thread does instead of returning from its kernel call.
    fn leave_to(&self, thread: ThreadId, registers: &Registers, pending: Pending) -> ! {
        match pending {
            Pending::Unwind(target) => self.unwind_to(thread, registers, target),
            Pending::Raise(mut record) => {
                self.dispatch(thread, registers, &mut record);
                let [first, second, ..] = record.ExceptionInformation;
                let code = record.ExceptionCode;
                self.violate(
                    RuleId::UnhandledException,
                    [
                        u64::from(code.to_u32()),
                        record.ExceptionAddress as u64,
                        first as u64,
                        second as u64,
                    ],
                    format!("exception {code} was raised, and no handler wants it"),
                )
            }
        }
    }
}

/// Where a thunk goes instead of returning, when something is pending: on the host stack, below
/// the frames that are in use. Gets the driver's xmm6 to xmm15.
pub(crate) extern "sysv64" fn enter_raised(vectors: *const [u128; 10]) -> ! {
    let machine = current();
    let mut registers = machine.call_registers();
    registers.xmm[6..].copy_from_slice(&guest::read(vectors));
    let thread = machine.running.get();
    let pending =
        thread.and_then(|thread| Some((thread, machine.thread(thread).seh.pending.take()?)));
    match pending {
        Some((thread, pending)) => machine.leave_to(thread, &registers, pending),
        None => unreachable!("a thunk comes here for a pending exception only"),
    }
}
