//! Whether anything in an image leads to certain bytes of it.
//!
//! The answer errs on the side of yes. Four bytes of code at any alignment, read as a displacement or an rva, aligned
//! words of data read as an rva, one-byte displacements of branches, and the addresses that relocations mark: if one
//! of these meets the byte, it is taken as referred to. A yes by chance costs a faster patch, nothing else. In functions
//! that were decoded anyway, references are known rather than guessed.

use core::ops::Range;

use iced_x86::{Instruction, OpKind};

use super::code::Function;
use crate::image::{Image, Section};

/// Reach of a branch with a one-byte displacement, and some.
const SHORT_REACH: u32 = 132;

/// The bytes, among those asked about, that something refers to.
pub(super) struct References {
    found: Vec<u32>,
}

/// What a decoded function refers to.
pub(super) struct Decoded {
    /// The function's bytes.
    function: Range<u32>,
    /// Where its direct branches and calls lead, and what it addresses relative to itself.
    targets: Vec<u32>,
}

impl Decoded {
    pub(super) fn of(function: &Function) -> Self {
        let end = function.instructions.last().map(Instruction::next_ip);
        let rva = |ip: u64| u32::try_from(ip).ok();
        Self {
            function: function.start..end.and_then(rva).unwrap_or(function.start),
            targets: function
                .instructions
                .iter()
                .filter_map(|instruction| match instruction.op0_kind() {
                    OpKind::NearBranch64 => Some(instruction.near_branch_target()),
                    _ => instruction
                        .is_ip_rel_memory_operand()
                        .then(|| instruction.ip_rel_memory_address()),
                })
                .filter_map(rva)
                .collect(),
        }
    }
}

impl References {
    /// Searches the image for references into the given ranges; `decoded` are functions in ascending order.
    pub(super) fn collect(image: &Image, questions: Vec<Range<u32>>, decoded: &[Decoded]) -> Self {
        let covered = merged(decoded.iter().map(|d| d.function.clone()).collect());
        let mut search = Search::new(questions, covered);
        if !search.questions.is_empty() {
            for &target in decoded.iter().flat_map(|function| &function.targets) {
                search.note(target);
            }
            search.fixed_points(image);
            for section in image.sections() {
                search.section(section, image.stored(section));
            }
        }
        Self {
            found: sorted(search.found.into_iter()),
        }
    }

    /// Whether anything refers to a byte of `range`, which must be one that was asked about.
    pub(super) fn any_in(&self, range: Range<u32>) -> bool {
        let first = self.found.partition_point(|&rva| rva < range.start);
        self.found.get(first).is_some_and(|&rva| rva < range.end)
    }
}

/// Collects into ascending order.
pub(super) fn sorted(rvas: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut rvas: Vec<u32> = rvas.collect();
    rvas.sort_unstable();
    rvas
}

struct Search {
    /// Ascending and disjoint.
    questions: Vec<Range<u32>>,
    /// Decoded code, ascending and disjoint: its references are known.
    decoded: Vec<Range<u32>>,
    lowest: u32,
    span: u32,
    found: Vec<u32>,
}

impl Search {
    fn new(questions: Vec<Range<u32>>, decoded: Vec<Range<u32>>) -> Self {
        let questions = merged(questions);
        let lowest = questions.first().map_or(0, |range| range.start);
        let highest = questions.last().map_or(0, |range| range.end);
        Self {
            questions,
            decoded,
            lowest,
            span: highest - lowest,
            found: Vec::new(),
        }
    }

    fn note(&mut self, rva: u32) {
        if rva.wrapping_sub(self.lowest) < self.span && covers(&self.questions, rva) {
            self.found.push(rva);
        }
    }

    /// The entry point, exports, and absolute addresses.
    fn fixed_points(&mut self, image: &Image) {
        self.note(image.header().entry);
        for export in image.exports() {
            if let crate::image::ExportTarget::Rva(rva) = export.target {
                self.note(rva);
            }
        }
        for &rva in image.relocations() {
            let value = image
                .stored_from(rva)
                .and_then(|bytes| bytes.first_chunk())
                .map(|bytes| u64::from_le_bytes(*bytes).wrapping_sub(image.header().preferred_base))
                .and_then(|value| u32::try_from(value).ok());
            if let Some(value) = value {
                self.note(value);
            }
        }
    }

    fn section(&mut self, section: &Section, bytes: &[u8]) {
        if section.is_executable() {
            self.words(section, bytes, 1);
            self.short_branches(section, bytes);
        } else {
            self.words(section, bytes, 4);
        }
    }

    /// Every word as an rva; in code also as a displacement from its own end.
    fn words(&mut self, section: &Section, bytes: &[u8], step: usize) {
        let in_code = section.is_executable();
        for (rva, word) in (section.rva..)
            .step_by(step)
            .zip(bytes.windows(4).step_by(step))
        {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let target = rva.wrapping_add(4).wrapping_add(word);
            let near = |rva: u32| rva.wrapping_sub(self.lowest) < self.span;
            let (as_rva, as_displacement) = (near(word), in_code && near(target));
            if (as_rva || as_displacement) && !covers(&self.decoded, rva) {
                self.note(word);
                if in_code {
                    self.note(target);
                }
            }
        }
    }

    /// Branches with a one-byte displacement near each range, where nothing better is known.
    fn short_branches(&mut self, section: &Section, bytes: &[u8]) {
        for question in self.questions.clone() {
            let first = question.start.saturating_sub(SHORT_REACH).max(section.rva);
            let last = question.end.saturating_add(SHORT_REACH);
            for rva in first..last.min(section.rva + section.file_size) {
                let at = (rva - section.rva) as usize;
                let Some(&[opcode, displacement]) = bytes.get(at..).and_then(|b| b.first_chunk())
                else {
                    break;
                };
                let branch = matches!(opcode, 0x70..=0x7f | 0xe0..=0xe3 | 0xeb);
                if branch && !covers(&self.decoded, rva) {
                    let distance = i32::from(displacement.cast_signed());
                    self.note(rva.wrapping_add(2).wrapping_add_signed(distance));
                }
            }
        }
    }
}

/// The same bytes as ascending disjoint ranges.
fn merged(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether one of ascending disjoint ranges contains `rva`.
fn covers(ranges: &[Range<u32>], rva: u32) -> bool {
    let after = ranges.partition_point(|range| range.start <= rva);
    after
        .checked_sub(1)
        .and_then(|index| ranges.get(index))
        .is_some_and(|range| rva < range.end)
}
