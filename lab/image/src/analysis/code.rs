//! Decoded functions: those of the function table, and leaf functions in the gaps between them.

use core::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::{Depth, scan};
use crate::image::{Image, Section};

/// The filler between functions (`int3`).
const FILLER: u8 = 0xcc;

/// A function's instructions, with rvas as addresses.
pub(super) struct Function {
    pub(super) start: u32,
    /// Whether the function table says that this is code.
    pub(super) in_function_table: bool,
    pub(super) instructions: Vec<Instruction>,
}

/// The functions of a section that are worth a look at this depth.
pub(super) fn functions(image: &Image, section: &Section, depth: Depth) -> Vec<Function> {
    let code = Code {
        image,
        section,
        bytes: image.stored(section),
    };
    match depth {
        Depth::Loading => code.suspicious(),
        Depth::Report => code.all(),
    }
}

struct Code<'a> {
    image: &'a Image,
    section: &'a Section,
    bytes: &'a [u8],
}

/// A stretch of a section: one function of the table, or what is between two of them.
struct Extent {
    range: Range<u32>,
    in_function_table: bool,
}

impl Code<'_> {
    /// Every function, table or not.
    fn all(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        let mut at = self.section.rva;
        while at < self.stored_end() {
            let extent = self.extent_at(at);
            self.decode(&extent, &mut functions);
            at = extent.range.end;
        }
        functions
    }

    /// Functions with a byte pattern of interest.
    fn suspicious(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        let mut done = self.section.rva;
        let mut flag = scan::interrupt_flag(self.bytes).peekable();
        let mut opcode = scan::candidates(self.bytes).into_iter().peekable();
        loop {
            let next_is_flag = match (flag.peek(), opcode.peek()) {
                (Some(flag), Some(opcode)) => flag < opcode,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return functions,
            };
            let next = if next_is_flag {
                flag.next()
            } else {
                opcode.next()
            };
            let Some(rva) = next.map(|offset| self.section.rva + offset) else {
                return functions;
            };
            if rva < done {
                continue;
            }
            let extent = self.extent_at(rva);
            let wanted = !next_is_flag || scan::has_flags_access(self.bytes, self.within(&extent));
            if wanted {
                done = extent.range.end;
                self.decode(&extent, &mut functions);
            }
        }
    }

    fn stored_end(&self) -> u32 {
        self.section.rva + self.section.file_size
    }

    /// The extent that contains `rva`, never empty.
    fn extent_at(&self, rva: u32) -> Extent {
        if let Some(function) = self.image.function_at(rva) {
            let end = function.end.min(self.stored_end()).max(rva + 1);
            return Extent {
                range: function.begin.max(self.section.rva)..end,
                in_function_table: true,
            };
        }
        let functions = self.image.functions();
        let next = functions.partition_point(|f| f.begin <= rva);
        let start = next
            .checked_sub(1)
            .and_then(|previous| functions.get(previous))
            .map_or(0, |f| f.end);
        let end = functions.get(next).map_or(u32::MAX, |f| f.begin);
        Extent {
            range: start.max(self.section.rva)..end.min(self.stored_end()),
            in_function_table: false,
        }
    }

    /// The extent as offsets into the section's bytes.
    fn within(&self, extent: &Extent) -> Range<usize> {
        let offset = |rva: u32| (rva - self.section.rva) as usize;
        offset(extent.range.start)..offset(extent.range.end)
    }

    fn decode(&self, extent: &Extent, functions: &mut Vec<Function>) {
        let Some(bytes) = self.bytes.get(self.within(extent)) else {
            return;
        };
        if extent.in_function_table {
            functions.push(Function {
                start: extent.range.start,
                in_function_table: true,
                instructions: straight(bytes, extent.range.start),
            });
        } else {
            leaves(bytes, extent.range.start, functions);
        }
    }
}

fn decoder(bytes: &[u8], rva: u32) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, rva.into(), DecoderOptions::NONE)
}

/// All instructions up to the first that is none: what follows would be data.
fn straight(bytes: &[u8], rva: u32) -> Vec<Instruction> {
    decoder(bytes, rva)
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
        .collect()
}

/// Splits a gap into leaf functions; bytes that are none are stepped over.
fn leaves(bytes: &[u8], rva: u32, functions: &mut Vec<Function>) {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        let filler = rest.iter().take_while(|&&byte| byte == FILLER).count();
        let Some(code) = rest.get(filler..).filter(|code| !code.is_empty()) else {
            return;
        };
        at += filler;
        let start = rva.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
        match leaf(code, start) {
            Ok((instructions, len)) => {
                functions.push(Function {
                    start,
                    in_function_table: false,
                    instructions,
                });
                at += len;
            }
            // Functions are aligned to 16 bytes; what does not decode as one may be a jump table. Going on behind
            // what was decoded, and not just behind its start, keeps the time linear.
            Err(decoded) => at = (at + decoded.max(1)).next_multiple_of(16),
        }
    }
}

/// One function and its length: up to the return, jump or filler that no earlier branch goes beyond; or else how many
/// bytes were looked at.
fn leaf(code: &[u8], rva: u32) -> Result<(Vec<Instruction>, usize), usize> {
    let mut instructions = Vec::new();
    let mut decoder = decoder(code, rva);
    let mut furthest = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        let ends = instruction.mnemonic() == Mnemonic::Int3
            || matches!(
                instruction.flow_control(),
                FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
        if instruction.flow_control() == FlowControl::ConditionalBranch {
            furthest = furthest.max(instruction.near_branch_target());
        }
        instructions.push(instruction);
        if ends && furthest < decoder.ip() {
            return Ok((instructions, decoder.position()));
        }
    }
    Err(decoder.position())
}
