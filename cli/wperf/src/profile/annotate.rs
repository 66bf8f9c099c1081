//! Which lines and instructions of a function the samples lie at.

use super::{
    Symbols,
    disassemble::{self, Instruction},
    hot::HotFunction,
    symbols::File,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    rc::Rc,
};

/// Longest function that is disassembled. Units: bytes.
const LONGEST: u64 = 1 << 20;

/// A source line, and the samples at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file, as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub number: u32,
    /// How many samples.
    pub hits: u64,
    /// First address of the line with a sample, in the image.
    pub address: u64,
    /// The line itself, if the file is there.
    pub text: Option<String>,
    /// The instructions that the line became in this function, if asked for.
    pub instructions: Vec<Instruction>,
}

/// Source files, each read once.
#[derive(Default)]
pub struct Sources {
    files: HashMap<PathBuf, Option<Vec<String>>>,
}

impl Sources {
    /// A line of a file, from 1; `None` when it is not there.
    pub fn line(&mut self, file: &str, number: u32) -> Option<&str> {
        let path = Path::new(file);
        let lines = self.files.entry(path.to_owned()).or_insert_with(|| {
            let bytes = fs::read(path).ok()?;
            let text = String::from_utf8_lossy(&bytes);
            Some(text.lines().map(str::to_owned).collect())
        });
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        lines.as_ref()?.get(index).map(String::as_str)
    }
}

/// The lines of a function at which samples lie, the one with most first. Empty when no line is known.
///
/// A line of an inlined function is the line in that function, not the one of the call.
#[must_use]
pub fn function(
    hot: &HotFunction,
    symbols: &mut Symbols,
    sources: &mut Sources,
    disassembled: bool,
) -> Vec<Line> {
    let Some(file) = hot.image.as_deref().and_then(|path| symbols.file(path)) else {
        return Vec::new();
    };
    let mut lines: BTreeMap<(String, u32), Line> = BTreeMap::new();
    for (&address, &count) in &hot.hits {
        let resolved = symbols.within(&file, address);
        let Some((name, number)) = resolved.line() else {
            continue;
        };
        let line = lines.entry((name.to_owned(), number));
        let line = line.or_insert_with(|| Line {
            file: name.to_owned(),
            number,
            hits: 0,
            address,
            text: sources.line(name, number).map(str::to_owned),
            instructions: Vec::new(),
        });
        line.hits += count;
    }
    if disassembled {
        for instruction in code(hot, symbols, &file) {
            let resolved = symbols.within(&file, instruction.address);
            let line = resolved
                .line()
                .and_then(|(name, number)| lines.get_mut(&(name.to_owned(), number)));
            if let Some(line) = line {
                line.instructions.push(instruction);
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by(|a, b| b.hits.cmp(&a.hits).then(a.address.cmp(&b.address)));
    lines
}

/// The function's instructions; empty when it is not known where it ends.
fn code(hot: &HotFunction, symbols: &mut Symbols, file: &Rc<File>) -> Vec<Instruction> {
    let Some((&address, _)) = hot.hits.first_key_value() else {
        return Vec::new();
    };
    let resolved = symbols.within(file, address);
    let range = resolved.range.clone();
    let Some(range) = range.filter(|range| range.end.saturating_sub(range.start) <= LONGEST) else {
        return Vec::new();
    };
    let start = range.start;
    match file.image.bytes(range) {
        Some(bytes) => disassemble::decode(file.image.architecture, bytes, start),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
