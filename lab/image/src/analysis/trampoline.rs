//! Lays out the trampolines: code beside the image that does a site's work in user mode.
//!
//! ```text
//! image                              trampoline space, page-aligned behind the image
//!   …                                  slots: addresses of the caller's routines, one per kind (8 bytes each)
//!   rdmsr      ┐ window: becomes       …
//!   shl rdx,32 ┘ jmp rel32 ───────▶    call [rip + slot of rdmsr]
//!   or rax,rdx ◀──────────────────┐    shl rdx,32
//!                                 └─   jmp rel32
//! ```
//! Image and space are one mapping, so every distance is the same at every base: the code is made once per file, and
//! mapping only copies it. What faults or is interrupted here is traced back to the driver by `origin_of`.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock,
    MemoryOperand, Register,
};

use super::site::{Refusal, SiteKind};
use super::window::{JUMP_LEN, Window, ends_line};

/// Most bytes that trampolines of one image may take.
const TRAMPOLINE_SPACE: u32 = 64 << 10;
/// Kinds that have a routine, in the order of their slots.
pub(crate) const SLOTS: [SiteKind; 6] = [
    SiteKind::Rdmsr,
    SiteKind::Wrmsr,
    SiteKind::Rdpmc,
    SiteKind::ReadCr8,
    SiteKind::WriteCr8,
    SiteKind::Cpuid,
];
const SLOT_BYTES: usize = 8 * SLOTS.len();
/// Between trampolines, and behind a jump (`int3`).
const FILLER: u8 = 0xcc;

/// The index of a kind's slot.
pub(crate) fn slot_of(kind: SiteKind) -> Option<usize> {
    SLOTS.iter().position(|&slot| slot == kind)
}

/// A jump that mapping writes over a window.
#[derive(Clone, Debug)]
pub(crate) struct Jump {
    /// Index of the routine it needs.
    pub(crate) slot: usize,
    /// First byte of the window.
    pub(crate) rva: u32,
    /// The window's new contents: the jump, then filler.
    pub(crate) bytes: Vec<u8>,
}

/// The finished trampolines of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trampolines {
    /// Contents of the space, beginning with empty slots; empty if there are none.
    pub(crate) code: Vec<u8>,
    /// The jumps that lead there, by ascending rva.
    pub(crate) jumps: Vec<Jump>,
    /// For each instruction in the space (rva, ascending), where it comes from in the image.
    origins: Vec<(u32, u32)>,
}

impl Trampolines {
    /// The instruction of the image that the one at or around `rva`, in the space, stands for.
    pub(crate) fn origin_of(&self, rva: u32) -> Option<u32> {
        let after = self.origins.partition_point(|&(at, _)| at <= rva);
        self.origins
            .get(after.checked_sub(1)?)
            .map(|&(_, origin)| origin)
    }
}

/// Collects trampolines behind an image of a given size.
pub(super) struct Builder {
    space: u32,
    result: Trampolines,
}

impl Builder {
    pub(super) fn new(image_size: u32) -> Self {
        Self {
            space: image_size,
            result: Trampolines::default(),
        }
    }

    /// Adds the trampoline of a site.
    pub(super) fn add(&mut self, kind: SiteKind, window: &Window) -> Result<(), Refusal> {
        let slot = slot_of(kind).ok_or(Refusal::Neighbour)?;
        let start = self.next();
        let slot_rva = u64::from(self.space) + 8 * slot as u64;
        let stand_in = stand_in(kind, &window.site, slot_rva)?;
        let origins = origins(window, stand_in.len());
        let mut block = window.before.clone();
        block.extend(stand_in);
        block.extend_from_slice(&window.after);
        if !window.after.last().is_some_and(ends_line) {
            let back = Instruction::with_branch(Code::Jmp_rel32_64, window.end.into());
            block.push(back.map_err(|_| Refusal::Neighbour)?);
        }
        let encoded = BlockEncoder::encode(
            64,
            InstructionBlock::new(&block, start.into()),
            BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS,
        )
        .map_err(|_| Refusal::Neighbour)?;
        let end = (start - self.space) as usize + encoded.code_buffer.len();
        if end > TRAMPOLINE_SPACE as usize {
            return Err(Refusal::NoSpace);
        }
        let code = &mut self.result.code;
        code.resize(code.len().max(SLOT_BYTES), 0);
        code.resize((start - self.space) as usize, FILLER);
        self.result.code.extend_from_slice(&encoded.code_buffer);
        for (&offset, origin) in encoded.new_instruction_offsets.iter().zip(origins) {
            // An instruction that had to be rewritten has no offset; its bytes count to the one before it.
            if offset != u32::MAX {
                self.result.origins.push((start + offset, origin));
            }
        }
        self.result.jumps.push(jump(slot, window, start));
        Ok(())
    }

    /// Whether a window overlaps one that has its trampoline.
    pub(super) fn collides(&self, window: &Window) -> bool {
        // Sites come in ascending order, and a window reaches a few instructions back: the last few can overlap.
        self.result.jumps.iter().rev().take(8).any(|jump| {
            let end = jump.rva as usize + jump.bytes.len();
            (window.start as usize) < end && jump.rva < window.end
        })
    }

    pub(super) fn finish(mut self) -> Trampolines {
        self.result.jumps.sort_unstable_by_key(|jump| jump.rva);
        self.result
    }

    /// Where the next trampoline begins: 16-aligned behind slots and predecessors.
    fn next(&self) -> u32 {
        let used = self.result.code.len().max(SLOT_BYTES);
        let used = u32::try_from(used).unwrap_or(TRAMPOLINE_SPACE);
        self.space + used.next_multiple_of(16)
    }
}

/// Where each instruction of the block comes from: the site for its stand-in, the next byte for the jump back.
fn origins(window: &Window, stand_in: usize) -> Vec<u32> {
    // Decoded with rvas as addresses, so they fit.
    let rva = |i: &Instruction| u32::try_from(i.ip()).unwrap_or(window.start);
    let before = window.before.iter().map(rva);
    let site = core::iter::repeat_n(rva(&window.site), stand_in);
    let after = window.after.iter().map(rva);
    before
        .chain(site)
        .chain(after)
        .chain([window.end])
        .collect()
}

/// `jmp rel32` from the window to its trampoline, filled up with `int3`.
fn jump(slot: usize, window: &Window, target: u32) -> Jump {
    let distance = target.wrapping_sub(window.start + JUMP_LEN);
    let mut bytes = vec![0xe9];
    bytes.extend_from_slice(&distance.to_le_bytes());
    bytes.resize((window.end - window.start) as usize, FILLER);
    Jump {
        slot,
        rva: window.start,
        bytes,
    }
}

/// The instructions that call the routine in place of the site.
///
/// Win64 has no red zone, so pushing below the stack pointer is harmless, and none of these changes the flags.
fn stand_in(
    kind: SiteKind,
    site: &Instruction,
    slot_rva: u64,
) -> Result<Vec<Instruction>, Refusal> {
    let operand = match kind {
        SiteKind::ReadCr8 => Some((site.op0_register(), Register::RAX)),
        SiteKind::WriteCr8 => Some((site.op1_register(), Register::RCX)),
        _ => None,
    };
    if operand.is_some_and(|(register, _)| register == Register::RSP) {
        return Err(Refusal::StackOperand);
    }
    let build = || -> Result<Vec<Instruction>, IcedError> {
        let call = call(slot_rva)?;
        Ok(match operand {
            Some((register, fixed)) if register != fixed => {
                let (to, from) = match kind {
                    SiteKind::ReadCr8 => (register, fixed),
                    _ => (fixed, register),
                };
                let transfer = Instruction::with2(Code::Mov_r64_rm64, to, from)?;
                let save = Instruction::with1(Code::Push_r64, fixed)?;
                let restore = Instruction::with1(Code::Pop_r64, fixed)?;
                match kind {
                    SiteKind::ReadCr8 => vec![save, call, transfer, restore],
                    _ => vec![save, transfer, call, restore],
                }
            }
            _ => vec![call],
        })
    };
    build().map_err(|_| Refusal::Neighbour)
}

/// `call qword ptr [rip + slot]`.
fn call(slot_rva: u64) -> Result<Instruction, IcedError> {
    let displacement = slot_rva.cast_signed();
    let memory = MemoryOperand::with_base_displ(Register::RIP, displacement);
    Instruction::with1(Code::Call_rm64, memory)
}
