//! Base relocations, flattened to a list of rvas.
//!
//! ```text
//! block: page rva (4) │ block size (4) │ entries, 2 bytes each: type in bits 15..12, offset in page in bits 11..0
//! ```
//! Source: PE, "The .reloc Section".

use object::LittleEndian as LE;
use object::pe;

use super::headers::Headers;
use super::view::View;
use crate::error::{ImageError, ImageFault};

/// Reads the relocation table.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Vec<u32>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_BASERELOC);
    let mut relocations = Vec::new();
    if directory.size == 0 {
        return Ok(relocations);
    }
    let table = view.bytes(directory.rva, directory.size as usize, "relocation table")?;
    let mut at = 0;
    while at + 8 <= table.len() {
        // In range: `table` has been read as a whole, so `directory.rva + at` is an rva of the image.
        let rva = directory.rva + u32::try_from(at).unwrap_or(u32::MAX);
        let header: &pe::ImageBaseRelocation = view.read(rva, "relocation block")?;
        let size = header.size_of_block.get(LE);
        let entries = usize::try_from(size)
            .ok()
            .filter(|&size| size >= 8 && size % 2 == 0)
            .and_then(|size| table.get(at + 8..at + size))
            .ok_or_else(|| ImageError::at_rva(rva, ImageFault::RelocationBlock(size)))?;
        block(
            view,
            rva,
            header.virtual_address.get(LE),
            entries,
            &mut relocations,
        )?;
        at += size as usize;
    }
    Ok(relocations)
}

fn block(
    view: &View<'_>,
    block_rva: u32,
    page: u32,
    entries: &[u8],
    relocations: &mut Vec<u32>,
) -> Result<(), ImageError> {
    for (index, entry) in entries.chunks_exact(2).enumerate() {
        let entry = u16::from_le_bytes([entry[0], entry[1]]);
        let offset = u32::try_from(index * 2).unwrap_or(u32::MAX);
        let place = block_rva.saturating_add(8).saturating_add(offset);
        match entry >> 12 {
            pe::IMAGE_REL_BASED_ABSOLUTE => {}
            pe::IMAGE_REL_BASED_DIR64 => {
                let target = u64::from(page) + u64::from(entry & 0xfff);
                let rva = u32::try_from(target)
                    .ok()
                    .filter(|&rva| view.section_of(rva, 8).is_some())
                    .ok_or_else(|| {
                        ImageError::at_rva(place, ImageFault::RelocationOutOfRange(target))
                    })?;
                relocations.push(rva);
            }
            other => {
                return Err(ImageError::at_rva(place, ImageFault::RelocationType(other)));
            }
        }
    }
    Ok(())
}
