//! The function table (`.pdata`): where functions begin and end.
//!
//! ```text
//! x86-64: begin (4) │ end (4) │ unwind information (4)
//! Arm64:  begin (4) │ bits 1..0 = 0: rva of a record whose bits 17..0 are the length in instructions
//!                   │          else: packed, bits 12..2 are the length in instructions
//! ```
//! Source: PE, "The .pdata Section"; "ARM64 exception handling", Microsoft C++ documentation.

use object::LittleEndian as LE;
use object::U32Bytes;
use object::pe;

use super::headers::Headers;
use super::view::View;
use crate::error::{ImageError, ImageFault};
use crate::image::{FunctionRange, Machine};

/// Reads all entries; they must ascend without overlap, as the unwinder searches them by bisection.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Vec<FunctionRange>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    if directory.rva == 0 || directory.size == 0 {
        return Ok(Vec::new());
    }
    let what = "function table";
    let words = directory.size as usize / 4;
    let table: &[U32Bytes<LE>] = view.table(directory.rva, words, what)?;
    let per_entry = match headers.header.machine {
        Machine::X64 => 3,
        Machine::Arm64 => 2,
    };
    let mut functions = Vec::with_capacity(words / per_entry);
    let mut previous_end = 0;
    for (index, entry) in table.chunks_exact(per_entry).enumerate() {
        let offset = u32::try_from(index * per_entry * 4).unwrap_or(u32::MAX);
        let place = directory.rva.saturating_add(offset);
        let begin = entry[0].get(LE);
        let (end, unwind) = match entry {
            [_, end, unwind] => (u64::from(end.get(LE)), unwind.get(LE)),
            _ => arm64_end(view, begin, entry[1].get(LE))?,
        };
        let ordered = begin >= previous_end && u64::from(begin) < end;
        if !ordered || end > u64::from(headers.header.image_size) {
            let fault = ImageFault::FunctionRange { begin, end };
            return Err(ImageError::at_rva(place, fault));
        }
        // In range: the image size is a u32.
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        functions.push(FunctionRange { begin, end, unwind });
        previous_end = end;
    }
    Ok(functions)
}

fn arm64_end(view: &View<'_>, begin: u32, unwind: u32) -> Result<(u64, u32), ImageError> {
    let instructions = if unwind & 3 == 0 {
        let record: &U32Bytes<LE> = view.read(unwind, "unwind record")?;
        record.get(LE) & 0x3_ffff
    } else {
        (unwind >> 2) & 0x7ff
    };
    Ok((u64::from(begin) + 4 * u64::from(instructions), unwind))
}
