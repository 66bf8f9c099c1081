//! Between the lab's registers and Windows' `CONTEXT`.

use nt::seh::{CONTEXT, CONTEXT_FULL};

use crate::guest::{get, set};
use crate::unwind::Registers;

/// Flags that a driver may change: the arithmetic ones and the direction.
const MUTABLE_FLAGS: u64 = 0xCD5;
const FIXED_FLAGS: u64 = 0x202;

/// The `CONTEXT` of registers.
pub(crate) fn context_of(registers: &Registers) -> CONTEXT {
    CONTEXT {
        Home: [0; 6],
        ContextFlags: CONTEXT_FULL,
        MxCsr: registers.mxcsr,
        Segments: [0x10, 0x2B, 0x2B, 0x53, 0x2B, 0x18],
        EFlags: u32::try_from(registers.flags & 0xFFFF_FFFF).unwrap_or(0),
        Debug: [0; 6],
        Integer: registers.gpr,
        Rip: registers.rip,
        Legacy: [0; 20],
        Xmm: registers.xmm,
        Legacy2: [0; 12],
        Vector: [0; 26],
        VectorControl: 0,
        DebugControl: [0; 5],
    }
}

/// The registers of a `CONTEXT` in memory; flags and floating-point control as far as they are a driver's to set.
pub(crate) fn registers_of(context: *mut CONTEXT) -> Registers {
    let flags = u64::from(get!(context, EFlags));
    Registers {
        rip: get!(context, Rip),
        gpr: get!(context, Integer),
        flags: flags & MUTABLE_FLAGS | FIXED_FLAGS,
        xmm: get!(context, Xmm),
        // The upper half is reserved: loading it would fault.
        mxcsr: get!(context, MxCsr) & 0xFFFF,
    }
}

/// Writes the registers that unwinding gives to a `CONTEXT`.
pub(super) fn update(context: *mut CONTEXT, registers: &Registers) {
    set!(context, Rip = registers.rip);
    set!(context, Integer = registers.gpr);
    set!(context, Xmm = registers.xmm);
}
