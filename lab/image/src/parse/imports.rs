//! The import table: which names of which images, and where their addresses go.
//!
//! ```text
//! descriptor (20 each, ends with an empty one)
//!   original_first_thunk ──▶ names:     8 bytes each, ends with 0: bit 63 = ordinal, else rva of hint (2) + name
//!   name                 ──▶ "ntoskrnl.exe\0"
//!   first_thunk          ──▶ addresses: 8 bytes each, same order, written by the loader
//! ```
//! Source: PE, "The .idata Section".

use std::sync::Arc;

use object::LittleEndian as LE;
use object::pe;

use super::headers::Headers;
use super::view::View;
use crate::error::{ImageError, ImageFault};
use crate::image::{Import, ImportName};

/// Images a driver may import from; the largest known imports from fewer than thirty.
const MAX_DLLS: usize = 1024;
/// Imports a driver may have; the kernel exports fewer than 4000 names.
const MAX_IMPORTS: usize = 1 << 16;
/// Length of a name; decorated C++ names are the longest.
const MAX_NAME: usize = 512;

/// Reads all imports.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Vec<Import>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_IMPORT);
    let mut imports = Vec::new();
    if directory.rva == 0 || directory.size == 0 {
        return Ok(imports);
    }
    for index in 0..=MAX_DLLS {
        let descriptor: &pe::ImageImportDescriptor =
            view.read_nth(directory.rva, index, "import descriptor")?;
        if descriptor.name.get(LE) == 0 || descriptor.first_thunk.get(LE) == 0 {
            return Ok(imports);
        }
        dll(view, descriptor, &mut imports)?;
    }
    Err(too_many(directory.rva, "imported images", MAX_DLLS))
}

fn dll(
    view: &View<'_>,
    descriptor: &pe::ImageImportDescriptor,
    imports: &mut Vec<Import>,
) -> Result<(), ImageError> {
    let name = view.name(descriptor.name.get(LE), MAX_NAME, "imported image's name")?;
    let dll: Arc<str> = Arc::from(name);
    let addresses = descriptor.first_thunk.get(LE);
    let names = match descriptor.original_first_thunk.get(LE) {
        0 => addresses,
        names => names,
    };
    for index in 0.. {
        let thunk: &pe::ImageThunkData64 = view.read_nth(names, index, "import name entry")?;
        let value = thunk.0.get(LE);
        if value == 0 {
            break;
        }
        if imports.len() == MAX_IMPORTS {
            return Err(too_many(names, "imports", MAX_IMPORTS));
        }
        imports.push(Import {
            dll: Arc::clone(&dll),
            name: import_name(view, names, value)?,
            iat_rva: slot(view, addresses, index)?,
        });
    }
    Ok(())
}

fn import_name(view: &View<'_>, table: u32, value: u64) -> Result<ImportName, ImageError> {
    if value & pe::IMAGE_ORDINAL_FLAG64 != 0 {
        let ordinal = value.to_le_bytes();
        return Ok(ImportName::Ordinal(u16::from_le_bytes([
            ordinal[0], ordinal[1],
        ])));
    }
    let what = "import name";
    let rva = u32::try_from(value)
        .ok()
        .and_then(|hint| hint.checked_add(2))
        .ok_or_else(|| ImageError::at_rva(table, ImageFault::NotInImage { what, len: 8 }))?;
    view.name(rva, MAX_NAME, what).map(ImportName::Name)
}

/// The address slot number `index`; it must be eight bytes of one section.
fn slot(view: &View<'_>, table: u32, index: usize) -> Result<u32, ImageError> {
    u32::try_from(index)
        .ok()
        .and_then(|index| index.checked_mul(8))
        .and_then(|offset| table.checked_add(offset))
        .filter(|&rva| view.section_of(rva, 8).is_some())
        .ok_or_else(|| {
            let what = "import address table";
            ImageError::at_rva(table, ImageFault::NotInImage { what, len: 8 })
        })
}

fn too_many(rva: u32, what: &'static str, limit: usize) -> ImageError {
    ImageError::at_rva(rva, ImageFault::TooMany { what, limit })
}
