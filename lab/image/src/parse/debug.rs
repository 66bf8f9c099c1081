//! The debug directory: which PDB belongs to the image.
//!
//! ```text
//! CodeView record: 'R' 'S' 'D' 'S' │ GUID (16) │ age (4) │ file name, zero-terminated
//! ```
//! Source: PE, "The .debug Section".

use object::LittleEndian as LE;
use object::U32Bytes;
use object::pe;

use super::headers::Headers;
use super::view::View;
use crate::error::{ImageError, ImageFault};
use crate::image::PdbReference;

/// Entries a debug directory may have; linkers write at most a handful.
const MAX_ENTRIES: usize = 64;
/// Length of the PDB's path.
const MAX_PATH: usize = 1024;

/// Finds the first CodeView record.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Option<PdbReference>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG);
    if directory.rva == 0 || directory.size == 0 {
        return Ok(None);
    }
    let count = directory.size as usize / size_of::<pe::ImageDebugDirectory>();
    if count > MAX_ENTRIES {
        let (what, limit) = ("debug directory entries", MAX_ENTRIES);
        let fault = ImageFault::TooMany { what, limit };
        return Err(ImageError::at_rva(directory.rva, fault));
    }
    let entries: &[pe::ImageDebugDirectory] =
        view.table(directory.rva, count, "debug directory")?;
    entries
        .iter()
        .filter(|entry| entry.typ.get(LE) == pe::IMAGE_DEBUG_TYPE_CODEVIEW)
        .map(|entry| entry.address_of_raw_data.get(LE))
        .find(|&rva| rva != 0)
        .map_or(Ok(None), |rva| code_view(view, rva))
}

fn code_view(view: &View<'_>, rva: u32) -> Result<Option<PdbReference>, ImageError> {
    let what = "CodeView record";
    let record = view.bytes(rva, 24, what)?;
    if record.get(..4) != Some(b"RSDS") {
        return Ok(None);
    }
    let mut guid = [0; 16];
    guid.copy_from_slice(&record[4..20]);
    let at = |offset| rva.saturating_add(offset);
    Ok(Some(PdbReference {
        name: view.name(at(24), MAX_PATH, "PDB file name")?,
        guid,
        age: view.read::<U32Bytes<LE>>(at(20), what)?.get(LE),
    }))
}
