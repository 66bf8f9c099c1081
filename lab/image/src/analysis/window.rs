//! Which bytes from a site on may be overwritten by a jump, judged by the function alone.

use core::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::classify;
use super::site::Refusal;

/// Length of `jmp rel32`.
pub(super) const JUMP_LEN: u32 = 5;
/// How many instructions before a site may move with it.
const MOST_BEFORE: usize = 3;

/// A site and the neighbours that move with it.
#[derive(Debug)]
pub(super) struct Window {
    /// Instructions before the site, with rvas as addresses.
    pub(super) before: Vec<Instruction>,
    /// The site.
    pub(super) site: Instruction,
    /// Instructions after it.
    pub(super) after: Vec<Instruction>,
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

/// The windows that are possible for a site, best first: reaching forward, or beginning with up to three instructions
/// before it, as where a loop's head follows a `wrmsr`.
pub(super) fn choose(function: &[Instruction], site: usize) -> Result<Vec<Window>, Refusal> {
    if function.iter().any(jumps_anywhere) {
        return Err(Refusal::IndirectJump);
    }
    let mut windows = Vec::new();
    let mut refusal = None;
    for first in (site.saturating_sub(MOST_BEFORE)..=site).rev() {
        match from(function, first, site) {
            Ok(window) => windows.push(window),
            Err(reason) => {
                refusal.get_or_insert(reason);
                // What cannot move now cannot move as part of a longer window either.
                if first < site && reason == Refusal::Neighbour {
                    break;
                }
            }
        }
    }
    match refusal {
        Some(refusal) if windows.is_empty() => Err(refusal),
        _ => Ok(windows),
    }
}

/// The window from instruction `first` over the site to where there is room for a jump.
fn from(function: &[Instruction], first: usize, site: usize) -> Result<Window, Refusal> {
    let mut len = 0;
    for (index, instruction) in function.iter().enumerate().skip(first) {
        if index != site && !may_move(instruction) || index < site && ends_line(instruction) {
            return Err(Refusal::Neighbour);
        }
        len += u32::try_from(instruction.len()).unwrap_or(15);
        if index >= site && len >= JUMP_LEN {
            return window(function, first..index + 1, site, len).ok_or(Refusal::TooShort);
        }
        if index >= site && ends_line(instruction) {
            break;
        }
    }
    Err(Refusal::TooShort)
}

fn window(function: &[Instruction], range: Range<usize>, site: usize, len: u32) -> Option<Window> {
    let start = u32::try_from(function.get(range.start)?.ip()).ok()?;
    Some(Window {
        before: function.get(range.start..site)?.to_vec(),
        site: *function.get(site)?,
        after: function.get(site + 1..range.end)?.to_vec(),
        start,
        end: start.checked_add(len)?,
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
