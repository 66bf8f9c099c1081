//! Whether anything in an image leads to certain bytes of it.
//!
//! The answer errs on the side of yes. Four bytes of code at any alignment, read as a displacement or an rva, aligned
//! words of data read as an rva, one-byte displacements of branches, and the addresses that relocations mark: if one
//! of these meets the byte, it is taken as referred to. A yes by chance costs a faster patch, nothing else.

use core::ops::Range;

use crate::image::{Image, Section};

/// Reach of a branch with a one-byte displacement, and some.
const SHORT_REACH: u32 = 132;

/// The bytes, among those asked about, that something refers to.
pub(super) struct References {
    found: Vec<u32>,
}

impl References {
    /// Searches the image for references into the given ranges.
    pub(super) fn collect(image: &Image, questions: &[Range<u32>]) -> Self {
        let mut search = Search::new(questions);
        if !questions.is_empty() {
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
    questions: Vec<Range<u32>>,
    lowest: u32,
    span: u32,
    found: Vec<u32>,
}

impl Search {
    fn new(questions: &[Range<u32>]) -> Self {
        let mut questions = questions.to_vec();
        questions.sort_unstable_by_key(|range| range.start);
        let lowest = questions.first().map_or(0, |range| range.start);
        let highest = questions.iter().map(|range| range.end).max().unwrap_or(0);
        Self {
            questions,
            lowest,
            span: highest.saturating_sub(lowest),
            found: Vec::new(),
        }
    }

    /// Ranges are short and may overlap only with their neighbours, so looking a few back is enough.
    fn note(&mut self, rva: u32) {
        if rva.wrapping_sub(self.lowest) >= self.span {
            return;
        }
        let after = self.questions.partition_point(|range| range.start <= rva);
        let near = self.questions.get(after.saturating_sub(16)..after);
        if near.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&rva))) {
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
            if word.wrapping_sub(self.lowest) < self.span {
                self.note(word);
            }
            let target = rva.wrapping_add(4).wrapping_add(word);
            if in_code && target.wrapping_sub(self.lowest) < self.span {
                self.note(target);
            }
        }
    }

    /// Branches with a one-byte displacement near each range.
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
                if matches!(opcode, 0x70..=0x7f | 0xe0..=0xe3 | 0xeb) {
                    let distance = i32::from(displacement.cast_signed());
                    self.note(rva.wrapping_add(2).wrapping_add_signed(distance));
                }
            }
        }
    }
}
