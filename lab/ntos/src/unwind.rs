//! Walks the stack of a driver by its unwind tables.
//!
//! Source: "x64 exception handling", Microsoft's description of `.pdata` and
//! `.xdata` for x86-64.

/// General-purpose registers of driver code, in the order of their encoding.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Registers {
    pub(crate) rip: u64,
    pub(crate) gpr: [u64; 16],
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
    /// A word of the stack, if that address is on it.
    fn stack_word(&self, address: u64) -> Option<u64>;
}

/// An entry of `.pdata`, as addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) image_base: u64,
    pub(crate) begin: u64,
    pub(crate) unwind: u64,
}

/// Makes the registers those of the caller; `None` at the end of the stack.
pub(crate) fn step(memory: &impl Memory, registers: &mut Registers) -> Option<()> {
    if let Some(function) = memory.function(registers.rip) {
        let offset = registers.rip - function.begin;
        undo_prolog(memory, registers, function, offset)?;
    }
    registers.rip = memory.stack_word(registers.rsp())?;
    registers.set_rsp(registers.rsp() + 8);
    Some(())
}

fn undo_prolog(
    memory: &impl Memory,
    registers: &mut Registers,
    mut function: Function,
    offset: u64,
) -> Option<()> {
    let mut offset = offset;
    // Chains are short; a cycle in hostile tables must not hang the report.
    for _ in 0..32 {
        let info = Info::read(memory, function.unwind)?;
        undo_codes(memory, registers, &info, offset)?;
        if !info.chained {
            return Some(());
        }
        let next = info.codes_at + 2 * u64::from(info.count.next_multiple_of(2));
        function.unwind = function.image_base + u64::from(read_u32(memory, next + 8)?);
        // The parent's prolog is complete.
        offset = u64::MAX;
    }
    None
}

struct Info {
    chained: bool,
    count: u8,
    frame_register: u8,
    frame_offset: u8,
    codes_at: u64,
}

impl Info {
    fn read(memory: &impl Memory, at: u64) -> Option<Self> {
        let flags = memory.image_byte(at)? >> 3;
        let frame = memory.image_byte(at + 3)?;
        Some(Self {
            chained: flags & 4 != 0,
            count: memory.image_byte(at + 2)?,
            frame_register: frame & 15,
            frame_offset: frame >> 4,
            codes_at: at + 4,
        })
    }
}

fn read_u16(memory: &impl Memory, at: u64) -> Option<u16> {
    Some(u16::from_le_bytes([
        memory.image_byte(at)?,
        memory.image_byte(at + 1)?,
    ]))
}

fn read_u32(memory: &impl Memory, at: u64) -> Option<u32> {
    Some(u32::from(read_u16(memory, at)?) | u32::from(read_u16(memory, at + 2)?) << 16)
}

fn undo_codes(
    memory: &impl Memory,
    registers: &mut Registers,
    info: &Info,
    offset: u64,
) -> Option<()> {
    let mut slot = 0;
    while slot < u64::from(info.count) {
        let at = info.codes_at + 2 * slot;
        let done_at = u64::from(memory.image_byte(at)?);
        let code = memory.image_byte(at + 1)?;
        let (operation, operand) = (code & 15, usize::from(code >> 4));
        let executed = done_at <= offset;
        let argument = |n: u64| read_u16(memory, at + 2 * n).map(u64::from);
        let rsp = registers.rsp();
        slot += 1;
        match operation {
            0 if executed => {
                registers.gpr[operand] = memory.stack_word(rsp)?;
                registers.set_rsp(rsp + 8);
            }
            1 => {
                let size = if operand == 0 {
                    8 * argument(1)?
                } else {
                    argument(1)? | argument(2)? << 16
                };
                slot += if operand == 0 { 1 } else { 2 };
                if executed {
                    registers.set_rsp(rsp.wrapping_add(size));
                }
            }
            2 if executed => registers.set_rsp(rsp + 8 * (operand as u64 + 1)),
            3 if executed => {
                let base = registers.gpr[usize::from(info.frame_register)];
                registers.set_rsp(base.wrapping_sub(16 * u64::from(info.frame_offset)));
            }
            4 | 5 => {
                let place = if operation == 4 {
                    8 * argument(1)?
                } else {
                    argument(1)? | argument(2)? << 16
                };
                slot += u64::from(operation) - 3;
                if executed {
                    registers.gpr[operand] = memory.stack_word(rsp.wrapping_add(place))?;
                }
            }
            // Vector registers do not matter for a stack trace.
            6 | 8 => slot += 1,
            7 | 9 => slot += 2,
            10 if executed => {
                let error_code = 8 * (operand as u64 & 1);
                registers.rip = memory.stack_word(rsp + error_code)?;
                registers.set_rsp(memory.stack_word(rsp + error_code + 24)?);
                return None;
            }
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One function at 0x1000 with the given unwind information; a stack at 0x8000.
    struct Fake {
        unwind: Vec<u8>,
        stack: Vec<u64>,
    }

    impl Memory for Fake {
        fn function(&self, rip: u64) -> Option<Function> {
            (0x1000..0x2000).contains(&rip).then_some(Function {
                image_base: 0,
                begin: 0x1000,
                unwind: 0x5000,
            })
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
}
