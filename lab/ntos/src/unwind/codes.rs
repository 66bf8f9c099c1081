//! Unwind codes: what a prologue did, and undoing it.

use super::{Function, Handler, Memory, Registers};

/// A frame register and its distance from the frame's begin, in the word's two halves.
const SET_FRAME: u8 = 3;
const MACHINE_FRAME: u8 = 10;
const CHAINED: u8 = 4;

/// The head of a function's unwind information.
pub(super) struct Info {
    flags: u8,
    pub(super) prolog: u8,
    count: u8,
    pub(super) frame_register: u8,
    frame_offset: u8,
    codes_at: u64,
}

impl Info {
    pub(super) fn read(memory: &impl Memory, at: u64) -> Option<Self> {
        let frame = memory.image_byte(at + 3)?;
        Some(Self {
            flags: memory.image_byte(at)? >> 3,
            prolog: memory.image_byte(at + 1)?,
            count: memory.image_byte(at + 2)?,
            frame_register: frame & 15,
            frame_offset: frame >> 4,
            codes_at: at + 4,
        })
    }

    /// Where the codes end: the chained entry, or the handler.
    fn end(&self) -> u64 {
        self.codes_at + 2 * u64::from(self.count.next_multiple_of(2))
    }

    fn frame(&self, registers: &Registers) -> u64 {
        let base = registers.gpr[usize::from(self.frame_register)];
        base.wrapping_sub(16 * u64::from(self.frame_offset))
    }

    fn handler(&self, memory: &impl Memory, image_base: u64) -> Option<Handler> {
        if self.flags & CHAINED != 0 || self.flags & 3 == 0 {
            return None;
        }
        Some(Handler {
            routine: image_base + u64::from(read_u32(memory, self.end())?),
            data: self.end() + 4,
            for_exceptions: self.flags & 1 != 0,
            for_unwinding: self.flags & 2 != 0,
        })
    }
}

/// The root of a chain of unwind information.
pub(super) struct Root {
    /// Its handler, if control left behind its prologue.
    pub(super) handler: Option<Handler>,
}

fn read_u16(memory: &impl Memory, at: u64) -> Option<u16> {
    let bytes = [memory.image_byte(at)?, memory.image_byte(at + 1)?];
    Some(u16::from_le_bytes(bytes))
}

fn read_u32(memory: &impl Memory, at: u64) -> Option<u32> {
    Some(u32::from(read_u16(memory, at)?) | u32::from(read_u16(memory, at + 2)?) << 16)
}

/// Where the frame's fixed allocation begins.
pub(super) fn establisher(
    memory: &impl Memory,
    registers: &Registers,
    info: &Info,
    offset: u64,
) -> Option<u64> {
    if info.frame_register == 0 {
        return Some(registers.rsp());
    }
    if offset >= u64::from(info.prolog) || info.flags & CHAINED != 0 {
        return Some(info.frame(registers));
    }
    let mut slot = 0;
    while slot < u64::from(info.count) {
        let code = Code::read(memory, info, slot)?;
        if code.operation == SET_FRAME && code.done_at <= offset {
            return Some(info.frame(registers));
        }
        slot += code.slots();
    }
    Some(registers.rsp())
}

/// Undoes what the prologue of a function has done, and of those it is chained to.
pub(super) fn undo(
    memory: &impl Memory,
    registers: &mut Registers,
    mut function: Function,
    establisher: u64,
    at_caller: &mut bool,
) -> Option<Root> {
    let rip = registers.rip;
    let mut offset = rip.wrapping_sub(function.begin);
    // Chains are short; a cycle in hostile tables must not hang the walk.
    for _ in 0..32 {
        let info = Info::read(memory, function.unwind)?;
        undo_codes(memory, registers, &info, offset, establisher, at_caller)?;
        if info.flags & CHAINED == 0 {
            let behind_prolog = rip.wrapping_sub(function.begin) >= u64::from(info.prolog);
            let handler = info.handler(memory, function.image_base);
            return Some(Root {
                handler: handler.filter(|_| behind_prolog),
            });
        }
        let parent = info.end();
        function.begin = function.image_base + u64::from(read_u32(memory, parent)?);
        function.unwind = function.image_base + u64::from(read_u32(memory, parent + 8)?);
        // The parent's prologue is complete.
        offset = u64::MAX;
    }
    None
}

struct Code {
    /// Offset behind the instruction that did it.
    done_at: u64,
    operation: u8,
    operand: u8,
    at: u64,
}

impl Code {
    fn read(memory: &impl Memory, info: &Info, slot: u64) -> Option<Self> {
        let at = info.codes_at + 2 * slot;
        let code = memory.image_byte(at + 1)?;
        Some(Self {
            done_at: u64::from(memory.image_byte(at)?),
            operation: code & 15,
            operand: code >> 4,
            at,
        })
    }

    /// Slots it takes, its arguments included.
    fn slots(&self) -> u64 {
        match (self.operation, self.operand) {
            (1, 0) | (4 | 6 | 8, _) => 2,
            (1, _) | (5 | 7 | 9, _) => 3,
            _ => 1,
        }
    }

    /// Its argument in bytes: scaled if it has one slot, plain if two.
    fn argument(&self, memory: &impl Memory, scale: u64) -> Option<u64> {
        if self.slots() == 2 {
            Some(scale * u64::from(read_u16(memory, self.at + 2)?))
        } else {
            Some(u64::from(read_u32(memory, self.at + 2)?))
        }
    }
}

fn undo_codes(
    memory: &impl Memory,
    registers: &mut Registers,
    info: &Info,
    offset: u64,
    establisher: u64,
    at_caller: &mut bool,
) -> Option<()> {
    let mut slot = 0;
    while slot < u64::from(info.count) {
        let code = Code::read(memory, info, slot)?;
        slot += code.slots();
        if code.done_at <= offset {
            undo_code(memory, registers, info, &code, establisher, at_caller)?;
        }
    }
    Some(())
}

fn undo_code(
    memory: &impl Memory,
    registers: &mut Registers,
    info: &Info,
    code: &Code,
    establisher: u64,
    at_caller: &mut bool,
) -> Option<()> {
    let rsp = registers.rsp();
    let register = usize::from(code.operand);
    match code.operation {
        0 => {
            registers.gpr[register] = memory.stack_word(rsp)?;
            registers.set_rsp(rsp + 8);
        }
        1 => registers.set_rsp(rsp.wrapping_add(code.argument(memory, 8)?)),
        2 => registers.set_rsp(rsp + 8 * (u64::from(code.operand) + 1)),
        SET_FRAME => registers.set_rsp(info.frame(registers)),
        4 | 5 => {
            let place = establisher.wrapping_add(code.argument(memory, 8)?);
            registers.gpr[register] = memory.stack_word(place)?;
        }
        8 | 9 => {
            let place = establisher.wrapping_add(code.argument(memory, 16)?);
            let low = u128::from(memory.stack_word(place)?);
            let high = u128::from(memory.stack_word(place.wrapping_add(8))?);
            registers.xmm[register] = high << 64 | low;
        }
        MACHINE_FRAME => {
            let frame = rsp + 8 * u64::from(code.operand & 1);
            registers.rip = memory.stack_word(frame)?;
            registers.set_rsp(memory.stack_word(frame + 24)?);
            *at_caller = true;
        }
        // Marks an epilogue, which is recognised by its instructions.
        _ => {}
    }
    Some(())
}
