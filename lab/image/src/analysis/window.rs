//! Which bytes from a site on may be overwritten by a jump, judged by the function alone.

use core::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::classify;
use super::site::Refusal;

/// Length of `jmp rel32`.
pub(super) const JUMP_LEN: u32 = 5;

/// A site and the neighbours that move with it.
#[derive(Debug)]
pub(super) struct Window {
    /// The site first, then its neighbours, with rvas as addresses.
    pub(super) instructions: Vec<Instruction>,
    /// First byte.
    pub(super) start: u32,
    /// One past the last byte that moves.
    pub(super) end: u32,
}

impl Window {
    /// The bytes that nothing may lead to.
    pub(super) fn inside(&self) -> Range<u32> {
        self.start + 1..self.end
    }

    /// Whether an eight-byte value that mapping rewrites, given by its ascending rvas, touches the window.
    pub(super) fn overlaps_fixed(&self, fixed: &[u32]) -> bool {
        let first = fixed.partition_point(|&rva| rva.saturating_add(8) <= self.start);
        fixed.get(first).is_some_and(|&rva| rva < self.end)
    }
}

/// Takes instructions from the site on until they have room for a jump.
pub(super) fn choose(function: &[Instruction], site: usize) -> Result<Window, Refusal> {
    if function.iter().any(jumps_anywhere) {
        return Err(Refusal::IndirectJump);
    }
    let mut instructions = Vec::with_capacity(4);
    let mut len = 0;
    for (index, instruction) in function.iter().enumerate().skip(site) {
        if index > site && !may_move(instruction) {
            return Err(Refusal::Neighbour);
        }
        instructions.push(*instruction);
        len += u32::try_from(instruction.len()).unwrap_or(15);
        if len >= JUMP_LEN {
            return window(instructions, len);
        }
        if ends_line(instruction) {
            break;
        }
    }
    Err(Refusal::TooShort)
}

fn window(instructions: Vec<Instruction>, len: u32) -> Result<Window, Refusal> {
    let start = instructions.first().map(Instruction::ip);
    let start = start
        .and_then(|ip| u32::try_from(ip).ok())
        .ok_or(Refusal::TooShort)?;
    Ok(Window {
        instructions,
        start,
        end: start + len,
    })
}

/// Whether an indirect jump may lead into this function: through a register or an indexed table.
///
/// A jump through one fixed slot takes an import's address or a relocated one, and those are known.
fn jumps_anywhere(instruction: &Instruction) -> bool {
    if instruction.flow_control() != FlowControl::IndirectBranch {
        return false;
    }
    let fixed_slot = instruction.op0_kind() == OpKind::Memory
        && instruction.is_ip_rel_memory_operand()
        && instruction.memory_index() == Register::None;
    !fixed_slot
}

/// Whether a neighbour does the same anywhere else.
///
/// A call must not move: its return address would be unknown to the unwinder. Counted loops have no long form. A
/// privileged instruction must keep its address, by which the lab knows it.
fn may_move(instruction: &Instruction) -> bool {
    let flow = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Return | FlowControl::UnconditionalBranch => true,
        FlowControl::ConditionalBranch => !is_counted_loop(instruction),
        _ => false,
    };
    flow && !instruction.is_privileged() && classify::kind(instruction, true).is_none()
}

fn is_counted_loop(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Loop
            | Mnemonic::Loope
            | Mnemonic::Loopne
            | Mnemonic::Jcxz
            | Mnemonic::Jecxz
            | Mnemonic::Jrcxz
    )
}

/// Whether control never reaches the next instruction.
pub(super) fn ends_line(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch
    )
}
