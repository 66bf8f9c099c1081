//! The export table of drivers that serve others (port drivers, class drivers, libraries).
//!
//! Source: PE, "The .edata Section".

use object::LittleEndian as LE;
use object::U16Bytes;
use object::U32Bytes;
use object::pe;

use super::headers::{Directory, Headers};
use super::view::View;
use crate::error::{ImageError, ImageFault};
use crate::image::{Export, ExportTarget};

/// Ordinals are 16 bits wide.
const MAX_EXPORTS: usize = 1 << 16;
/// Length of a name; decorated C++ names are the longest.
const MAX_NAME: usize = 512;

/// Reads all exports, in order of ordinal.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Vec<Export>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_EXPORT);
    if directory.rva == 0 || directory.size == 0 {
        return Ok(Vec::new());
    }
    let table: &pe::ImageExportDirectory = view.read(directory.rva, "export directory")?;
    let count = |value: u32| {
        usize::try_from(value)
            .ok()
            .filter(|&count| count <= MAX_EXPORTS)
            .ok_or_else(|| {
                let (what, limit) = ("exports", MAX_EXPORTS);
                ImageError::at_rva(directory.rva, ImageFault::TooMany { what, limit })
            })
    };
    let functions: &[U32Bytes<LE>] = view.table(
        table.address_of_functions.get(LE),
        count(table.number_of_functions.get(LE))?,
        "export address table",
    )?;
    let mut names = names(
        view,
        table,
        count(table.number_of_names.get(LE))?,
        functions.len(),
    )?;
    let base = table.base.get(LE);
    let mut exports = Vec::with_capacity(functions.len());
    for ((index, function), name) in (0..).zip(functions).zip(&mut names) {
        let rva = function.get(LE);
        if rva != 0 {
            exports.push(Export {
                name: name.take(),
                ordinal: base.wrapping_add(index),
                target: target(view, directory, rva)?,
            });
        }
    }
    Ok(exports)
}

/// The name of each function, by index.
fn names(
    view: &View<'_>,
    table: &pe::ImageExportDirectory,
    count: usize,
    functions: usize,
) -> Result<Vec<Option<String>>, ImageError> {
    let mut by_index = vec![None; functions];
    let pointers: &[U32Bytes<LE>] =
        view.table(table.address_of_names.get(LE), count, "export name table")?;
    let ordinals: &[U16Bytes<LE>] = view.table(
        table.address_of_name_ordinals.get(LE),
        count,
        "export ordinal table",
    )?;
    for (pointer, ordinal) in pointers.iter().zip(ordinals) {
        let name = view.name(pointer.get(LE), MAX_NAME, "export name")?;
        if let Some(slot) = by_index.get_mut(usize::from(ordinal.get(LE))) {
            *slot = Some(name);
        }
    }
    Ok(by_index)
}

/// An address inside the export directory is not code but the name of another image's export.
fn target(view: &View<'_>, directory: Directory, rva: u32) -> Result<ExportTarget, ImageError> {
    if rva.wrapping_sub(directory.rva) < directory.size {
        return view
            .name(rva, MAX_NAME, "forwarded export")
            .map(ExportTarget::Forward);
    }
    let (what, len) = ("exported symbol", 1);
    view.section_of(rva, 1)
        .map(|_| ExportTarget::Rva(rva))
        .ok_or_else(|| ImageError::at_rva(rva, ImageFault::NotInImage { what, len }))
}
