//! Walks the stack of a driver by its unwind tables.
//!
//! Source: "x64 exception handling", Microsoft's description of `.pdata` and
//! `.xdata` for x86-64.

mod codes;
mod epilogue;

/// Registers of driver code; general-purpose ones in the order of their encoding.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Registers {
    pub(crate) rip: u64,
    pub(crate) gpr: [u64; 16],
    pub(crate) flags: u64,
    pub(crate) xmm: [u128; 16],
    pub(crate) mxcsr: u32,
}

/// Flags and floating-point control as code finds them that did not change them.
const DEFAULT_FLAGS: u64 = 0x202;
const DEFAULT_MXCSR: u32 = 0x1F80;

impl Registers {
    /// All zero, with default flags and floating-point control.
    pub(crate) const NONE: Self = Self {
        rip: 0,
        gpr: [0; 16],
        flags: DEFAULT_FLAGS,
        xmm: [0; 16],
        mxcsr: DEFAULT_MXCSR,
    };
}

impl Default for Registers {
    fn default() -> Self {
        Self::NONE
    }
}

const RSP: usize = 4;

impl Registers {
    pub(crate) fn rsp(&self) -> u64 {
        self.gpr[RSP]
    }

    pub(crate) fn set_rsp(&mut self, rsp: u64) {
        self.gpr[RSP] = rsp;
    }
}

/// What the walker reads: an image's tables and a thread's stack.
pub(crate) trait Memory {
    /// The function that covers an address: its start and its unwind information, as addresses.
    fn function(&self, rip: u64) -> Option<Function>;
    /// A byte of the image.
    fn image_byte(&self, address: u64) -> Option<u8>;
    /// Up to 15 bytes of code.
    fn code(&self, rip: u64) -> Option<Vec<u8>>;
    /// A word of the stack, if that address is on it.
    fn stack_word(&self, address: u64) -> Option<u64>;
}

/// An entry of `.pdata`, as addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) image_base: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) unwind: u64,
}

/// A function's language handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handler {
    /// Address of the routine.
    pub(crate) routine: u64,
    /// Address of its data.
    pub(crate) data: u64,
    /// Whether it is for the search for a handler.
    pub(crate) for_exceptions: bool,
    /// Whether it is for unwinding.
    pub(crate) for_unwinding: bool,
}

/// What unwinding a frame tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwound {
    /// Where the frame's fixed allocation begins: its identity.
    pub(crate) establisher: u64,
    /// The handler, unless the frame is in its prologue or epilogue.
    pub(crate) handler: Option<Handler>,
}

/// Makes the registers those of the caller; `None` at the end of the stack.
pub(crate) fn step(memory: &impl Memory, registers: &mut Registers) -> Option<()> {
    unwind(memory, registers).map(drop)
}

/// Makes the registers those of the caller, and tells of the frame left; `None` where the stack or
/// the tables can't be read.
pub(crate) fn unwind(memory: &impl Memory, registers: &mut Registers) -> Option<Unwound> {
    let mut unwound = Unwound {
        establisher: registers.rsp(),
        handler: None,
    };
    let mut at_caller = false;
    if let Some(function) = memory.function(registers.rip) {
        let info = codes::Info::read(memory, function.unwind)?;
        let offset = registers.rip.wrapping_sub(function.begin);
        if offset >= u64::from(info.prolog)
            && let Some(done) = epilogue::finish(memory, registers, &function, info.frame_register)
        {
            *registers = done;
            return Some(unwound);
        }
        unwound.establisher = codes::establisher(memory, registers, &info, offset)?;
        let frame = unwound.establisher;
        let root = codes::undo(memory, registers, function, frame, &mut at_caller)?;
        unwound.handler = root.handler;
    }
    if !at_caller {
        registers.rip = memory.stack_word(registers.rsp())?;
        registers.set_rsp(registers.rsp() + 8);
    }
    Some(unwound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One function at 0x1000 with the given unwind information; a stack at 0x8000.
    struct Fake {
        unwind: Vec<u8>,
        code: Vec<u8>,
        stack: Vec<u64>,
    }

    impl Memory for Fake {
        fn function(&self, rip: u64) -> Option<Function> {
            (0x1000..0x2000).contains(&rip).then_some(Function {
                image_base: 0,
                begin: 0x1000,
                end: 0x2000,
                unwind: 0x5000,
            })
        }
        fn code(&self, rip: u64) -> Option<Vec<u8>> {
            let at = usize::try_from(rip.saturating_sub(0x1800)).ok()?;
            self.code.get(at..).map(<[u8]>::to_vec)
        }
        fn image_byte(&self, address: u64) -> Option<u8> {
            self.unwind
                .get(usize::try_from(address.checked_sub(0x5000)?).ok()?)
                .copied()
        }
        fn stack_word(&self, address: u64) -> Option<u64> {
            self.stack
                .get(usize::try_from(address.checked_sub(0x8000)? / 8).ok()?)
                .copied()
        }
    }

    /// push rbx (done at 1), sub rsp, 0x20 (done at 5).
    fn fake() -> Fake {
        Fake {
            unwind: vec![1, 5, 2, 0, 5, 0x32, 1, 0x30],
            code: vec![0x90],
            stack: vec![0, 0, 0, 0, 0xB, 0x2222, 7],
        }
    }

    #[test]
    fn a_complete_prolog_is_undone() {
        let mut registers = Registers {
            rip: 0x1010,
            ..Registers::default()
        };
        registers.set_rsp(0x8000);
        step(&fake(), &mut registers).expect("has a caller");
        assert_eq!(
            (registers.rip, registers.rsp(), registers.gpr[3]),
            (0x2222, 0x8030, 0xB)
        );
    }

    #[test]
    fn only_what_the_prolog_has_done_is_undone() {
        let mut registers = Registers {
            rip: 0x1001,
            ..Registers::default()
        };
        registers.set_rsp(0x8020);
        step(&fake(), &mut registers).expect("has a caller");
        assert_eq!(
            (registers.rip, registers.rsp(), registers.gpr[3]),
            (0x2222, 0x8030, 0xB)
        );
        let mut registers = Registers {
            rip: 0x1000,
            ..Registers::default()
        };
        registers.set_rsp(0x8028);
        step(&fake(), &mut registers).expect("has a caller");
        assert_eq!((registers.rip, registers.gpr[3]), (0x2222, 0));
    }

    #[test]
    fn tables_that_chain_to_themselves_end_the_walk() {
        let mut memory = fake();
        memory.unwind = vec![0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0];
        let mut registers = Registers {
            rip: 0x1010,
            ..Registers::default()
        };
        registers.set_rsp(0x8000);
        assert!(step(&memory, &mut registers).is_none());
    }

    #[test]
    fn the_rest_of_an_epilogue_is_carried_out() {
        // pop rbx; ret
        let mut memory = fake();
        memory.code = vec![0x5B, 0xC3];
        let mut registers = Registers {
            rip: 0x1800,
            ..Registers::default()
        };
        registers.set_rsp(0x8020);
        step(&memory, &mut registers).expect("has a caller");
        assert_eq!(
            (registers.rip, registers.rsp(), registers.gpr[3]),
            (0x2222, 0x8030, 0xB)
        );
    }

    #[test]
    fn a_handler_is_told_outside_the_prologue_only() {
        let mut memory = fake();
        // Both kinds of handler, at 0x1F00, with data behind it.
        memory.unwind = vec![0x19, 5, 2, 0, 5, 0x32, 1, 0x30, 0, 0x1F, 0, 0, 9];
        let mut registers = Registers {
            rip: 0x1010,
            ..Registers::default()
        };
        registers.set_rsp(0x8000);
        let unwound = unwind(&memory, &mut registers).expect("has a caller");
        let handler = unwound.handler.expect("has a handler");
        assert_eq!((handler.routine, handler.data), (0x1F00, 0x500C));
        assert_eq!(unwound.establisher, 0x8000);
        let mut registers = Registers {
            rip: 0x1001,
            ..Registers::default()
        };
        registers.set_rsp(0x8020);
        assert!(
            unwind(&memory, &mut registers)
                .expect("has a caller")
                .handler
                .is_none()
        );
    }

    #[test]
    fn saved_vector_registers_come_back() {
        let mut memory = fake();
        // movaps [rsp + 0x10], xmm6 (done at 9); sub rsp, 0x28 (done at 4).
        memory.unwind = vec![1, 9, 3, 0, 9, 0x68, 1, 0, 4, 0x42, 0, 0];
        memory.stack = vec![0, 0, 0x66, 0x77, 0, 0x2222];
        let mut registers = Registers {
            rip: 0x1010,
            ..Registers::default()
        };
        registers.set_rsp(0x8000);
        step(&memory, &mut registers).expect("has a caller");
        assert_eq!(registers.rip, 0x2222);
        assert_eq!(registers.xmm[6], 0x77 << 64 | 0x66);
    }
}
