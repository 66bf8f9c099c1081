//! Epilogues: recognised by their instructions, as no table describes them.
//!
//! What the x64 convention allows: one `add rsp` or `lea rsp` off the frame
//! register, pops of general-purpose registers, then a return, or a jump out
//! of the function.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::{Function, Memory, Registers};

/// Registers and the pops of an epilogue, at most: one for each register.
const MAX_INSTRUCTIONS: usize = 18;

/// The registers of the caller, if `registers` are in an epilogue.
pub(super) fn finish(
    memory: &impl Memory,
    registers: &Registers,
    function: &Function,
    frame_register: u8,
) -> Option<Registers> {
    let mut done = *registers;
    for index in 0..MAX_INSTRUCTIONS {
        let instruction = decode(memory, done.rip)?;
        done.rip += instruction.len() as u64;
        match instruction.mnemonic() {
            Mnemonic::Add | Mnemonic::Lea if index == 0 => {
                done.set_rsp(released(&instruction, &done, frame_register)?);
            }
            Mnemonic::Pop => pop(memory, &mut done, &instruction)?,
            Mnemonic::Ret => return leave(memory, done),
            Mnemonic::Jmp if leaves(&instruction, function, index) => return leave(memory, done),
            _ => return None,
        }
    }
    None
}

fn decode(memory: &impl Memory, rip: u64) -> Option<Instruction> {
    let bytes = memory.code(rip)?;
    // Most code is no epilogue: look no further than its first byte.
    let first = bytes.first()?;
    if !matches!(first, 0x40..=0x4F | 0x58..=0x5F | 0x81 | 0x83 | 0xC2 | 0xC3 | 0xE9 | 0xEB | 0xF2 | 0xF3 | 0xFF)
    {
        return None;
    }
    let instruction = Decoder::with_ip(64, &bytes, rip, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// The stack pointer after the fixed allocation is given back.
fn released(instruction: &Instruction, registers: &Registers, frame_register: u8) -> Option<u64> {
    if instruction.op0_register() != Register::RSP {
        return None;
    }
    if instruction.mnemonic() == Mnemonic::Add {
        let constant =
            instruction.op1_kind() != OpKind::Register && instruction.op1_kind() != OpKind::Memory;
        return constant.then(|| registers.rsp().wrapping_add(instruction.immediate(1)));
    }
    let base = instruction.memory_base();
    let usable = base != Register::None
        && instruction.memory_index() == Register::None
        && base.number() == usize::from(frame_register)
        && frame_register != 0;
    usable.then(|| registers.gpr[base.number()].wrapping_add(instruction.memory_displacement64()))
}

fn pop(memory: &impl Memory, registers: &mut Registers, instruction: &Instruction) -> Option<()> {
    let register = instruction.op0_register();
    if !register.is_gpr64() {
        return None;
    }
    let rsp = registers.rsp();
    registers.set_rsp(rsp + 8);
    registers.gpr[register.number()] = memory.stack_word(rsp)?;
    Some(())
}

fn leave(memory: &impl Memory, mut registers: Registers) -> Option<Registers> {
    let rsp = registers.rsp();
    registers.rip = memory.stack_word(rsp)?;
    registers.set_rsp(rsp + 8);
    Some(registers)
}

/// Whether a jump is a call of another function in place of a return.
fn leaves(instruction: &Instruction, function: &Function, index: usize) -> bool {
    if instruction.op0_kind() == OpKind::NearBranch64 {
        let target = instruction.near_branch_target();
        return !(function.begin + 1..function.end).contains(&target);
    }
    // A jump through a table looks the same, unless the frame was given back before it.
    index > 0
}
