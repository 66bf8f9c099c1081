//! MRS, MSR, and one MRS that may be refused.
#![expect(unsafe_code, reason = "privileged instructions")]

use core::arch::{asm, global_asm};
use pmu::backend::dsu::DsuRegister;

macro_rules! mrs {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: a register of the cluster's PMU that this core may touch: it was tried. Reading changes
        // nothing.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nomem, nostack)) };
        value
    }};
}

macro_rules! msr {
    ($register:literal, $value:expr) => {
        // SAFETY: a register of the cluster's PMU that this core may touch: it was tried. It counts, and
        // reaches no memory.
        unsafe { asm!(concat!("msr ", $register, ", {}"), in(reg) $value, options(nomem, nostack)) }
    };
}

// Reads CLUSTERPMCR_EL1, or gives all ones if that raises an exception: PMCR's upper half is zero.
// The handler is the kernel's for C; its table says that any exception between 1 and 2 goes on at 3.
global_asm!(
    ".text",
    ".p2align 2",
    ".globl kernel_probe_clusterpmcr",
    ".seh_proc kernel_probe_clusterpmcr",
    "kernel_probe_clusterpmcr:",
    "stp x29, x30, [sp, #-16]!",
    ".seh_save_fplr_x 16",
    "mov x29, sp",
    ".seh_set_fp",
    ".seh_endprologue",
    "1: mrs x0, s3_0_c15_c5_0",
    "2: b 4f",
    "3: mov x0, #-1",
    "4:",
    ".seh_startepilogue",
    "ldp x29, x30, [sp], #16",
    ".seh_save_fplr_x 16",
    ".seh_endepilogue",
    "ret",
    ".seh_handler __C_specific_handler, @except",
    ".seh_handlerdata",
    ".long 1",
    ".long (1b)@IMGREL",
    ".long (2b)@IMGREL",
    ".long 1",
    ".long (3b)@IMGREL",
    ".text",
    ".seh_endproc",
);

unsafe extern "system" {
    fn kernel_probe_clusterpmcr() -> u64;
}

/// Has the linker take the import that the handler above is.
#[used]
static HANDLER: unsafe extern "system" fn(
    *mut nt::seh::EXCEPTION_RECORD,
    u64,
    *mut nt::seh::CONTEXT,
    *mut nt::seh::DISPATCHER_CONTEXT,
) -> i32 = nt::seh::__C_specific_handler;

/// MPIDR_EL1 and CLUSTERPMCR_EL1; `None` if the latter is refused.
pub(super) fn probe() -> Option<(u64, u64)> {
    let mpidr: u64;
    // SAFETY: an ID register that may be read at EL1.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) mpidr, options(nomem, nostack)) };
    // SAFETY: reads a register, or returns all ones; IRQL at most `DISPATCH_LEVEL`, where exceptions are
    // dispatched.
    let pmcr = unsafe { kernel_probe_clusterpmcr() };
    (pmcr != u64::MAX).then_some((mpidr, pmcr))
}

/// Source: DSU TRM 100453, B2, table of registers (op0 3, op1 0, CRn 15).
pub(super) fn read(register: DsuRegister) -> u64 {
    match register {
        DsuRegister::Control => mrs!("s3_0_c15_c5_0"),
        DsuRegister::EnableSet => mrs!("s3_0_c15_c5_1"),
        DsuRegister::EnableClear => mrs!("s3_0_c15_c5_2"),
        DsuRegister::OverflowClear => mrs!("s3_0_c15_c5_4"),
        DsuRegister::Select => mrs!("s3_0_c15_c5_5"),
        DsuRegister::InterruptClear => mrs!("s3_0_c15_c5_7"),
        DsuRegister::CycleCounter => mrs!("s3_0_c15_c6_0"),
        DsuRegister::SelectedType => mrs!("s3_0_c15_c6_1"),
        DsuRegister::SelectedCounter => mrs!("s3_0_c15_c6_2"),
        DsuRegister::Announced0 => mrs!("s3_0_c15_c6_4"),
        DsuRegister::Announced1 => mrs!("s3_0_c15_c6_5"),
    }
}

pub(super) fn write(register: DsuRegister, value: u64) {
    match register {
        DsuRegister::Control => msr!("s3_0_c15_c5_0", value),
        DsuRegister::EnableSet => msr!("s3_0_c15_c5_1", value),
        DsuRegister::EnableClear => msr!("s3_0_c15_c5_2", value),
        DsuRegister::OverflowClear => msr!("s3_0_c15_c5_4", value),
        DsuRegister::Select => msr!("s3_0_c15_c5_5", value),
        DsuRegister::InterruptClear => msr!("s3_0_c15_c5_7", value),
        DsuRegister::CycleCounter => msr!("s3_0_c15_c6_0", value),
        DsuRegister::SelectedType => msr!("s3_0_c15_c6_1", value),
        DsuRegister::SelectedCounter => msr!("s3_0_c15_c6_2", value),
        // Read-only.
        DsuRegister::Announced0 | DsuRegister::Announced1 => {}
    }
}

pub(super) fn synchronize() {
    // SAFETY: ISB only orders what this processor does.
    unsafe { asm!("isb", options(nomem, nostack)) };
}
