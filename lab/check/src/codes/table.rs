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
    let bytes = &bytes[..len.unwrap_or(bytes.len()).min(bytes.len())];
    let is_code = |rva| {
        let section = image.section_at(rva);
        section.is_some_and(lab_image::Section::is_executable)
    };
    find(bytes, &|start, word| {
        // Tables of jumps hold distances from their own place to code.
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        is_code(rva.saturating_add(start).wrapping_add(word))
    })
}

/// `leads_to_code` is told of a word, and where the array that it would be of begins.
fn find(bytes: &[u8], leads_to_code: &dyn Fn(usize, u32) -> bool) -> Vec<u32> {
    let starts = (0..MAX_STRIDE).step_by(4);
    let runs = starts.flat_map(|start| {
        (4..=MAX_STRIDE)
            .step_by(4)
            .map(move |stride| run(bytes, start, stride, leads_to_code))
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
fn run(
    bytes: &[u8],
    start: usize,
    stride: usize,
    leads_to_code: &dyn Fn(usize, u32) -> bool,
) -> Vec<u32> {
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
            && !codes.contains(&code)
            && !leads_to_code(start, code);
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
        let never = |_, _| false;
        assert_eq!(find(&table, &never), codes);
        assert!(find(b"the quick brown fox jumps over the lazy dog", &never).is_empty());
        assert!(find(&[], &never).is_empty());
    }

    #[test]
    fn a_table_of_jumps_gives_none() {
        let jumps = [0xFFFE_EE0E_u32, 0xFFFE_EE5D, 0xFFFE_EEBD, 0xFFFE_EEEE];
        let table: Vec<u8> = jumps.iter().flat_map(|jump| jump.to_le_bytes()).collect();
        let place = 0x2_0000_u32;
        let leads_to_code = |start: usize, word: u32| {
            let start = u32::try_from(start).unwrap();
            (0x1000..0x1_F000).contains(&(place + start).wrapping_add(word))
        };
        assert!(find(&table, &leads_to_code).is_empty());
        assert_eq!(
            find(&table, &|_, _| false).len(),
            4,
            "its words look like codes"
        );
    }
}
