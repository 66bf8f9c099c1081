//! Arrays of control codes in data.

use lab_image::Image;

use super::{function, plausible};

/// Bytes from one code to the next, at most.
const MAX_STRIDE: usize = 96;
/// Codes of one array, at most.
const MAX_ENTRIES: usize = 256;
/// Fewer in a row are chance.
const MIN_ENTRIES: usize = 3;

/// Codes of an array of structures that begins near `rva`; none if there is no such array.
pub(super) fn at(image: &Image, rva: u32) -> Vec<u32> {
    match image.section_at(rva) {
        Some(section) if !section.is_executable() => {}
        _ => return Vec::new(),
    }
    let bytes = image.stored_from(rva).unwrap_or_default();
    // Until they are bound, imports are the places of their names, which may look like codes.
    let imports = image.imports().iter().map(|import| import.iat_rva);
    let until = imports.filter(|at| at.saturating_add(8) > rva).min();
    let len = until.and_then(|at| usize::try_from(at.saturating_sub(rva)).ok());
    find(&bytes[..len.unwrap_or(bytes.len()).min(bytes.len())])
}

fn find(bytes: &[u8]) -> Vec<u32> {
    let starts = (0..MAX_STRIDE).step_by(4);
    let runs = starts.flat_map(|start| {
        (4..=MAX_STRIDE)
            .step_by(4)
            .map(move |stride| run(bytes, start, stride))
    });
    // Of equally long ones the first: the smallest start.
    runs.fold(
        Vec::new(),
        |best, run| {
            if run.len() > best.len() { run } else { best }
        },
    )
}

/// Codes of one device type, one every `stride` bytes.
fn run(bytes: &[u8], start: usize, stride: usize) -> Vec<u32> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut codes: Vec<u32> = Vec::new();
    while codes.len() < MAX_ENTRIES {
        let Some(code) = word(start + codes.len() * stride) else {
            break;
        };
        let fits = plausible(code)
            && function(code) >= 0x800
            && codes.first().is_none_or(|first| first >> 16 == code >> 16)
            && !codes.contains(&code);
        if !fits {
            break;
        }
        codes.push(code);
    }
    if codes.len() < MIN_ENTRIES {
        codes.clear();
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_structures_gives_its_codes_and_text_gives_none() {
        let row = |code: u32| [&7u64.to_le_bytes()[..], &code.to_le_bytes(), &[0; 12]].concat();
        let codes = [0x22_2000, 0x22_2004, 0x22_6008, 0x22_A00C];
        let table: Vec<u8> = codes.iter().flat_map(|code| row(*code)).collect();
        assert_eq!(find(&table), codes);
        assert!(find(b"the quick brown fox jumps over the lazy dog").is_empty());
        assert!(find(&[]).is_empty());
    }
}
