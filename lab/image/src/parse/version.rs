//! The fixed part of the version resource.
//!
//! A version that cannot be read is no reason to refuse a driver: everything here answers with `None`.
//! Source: PE, "The .rsrc Section"; `VS_FIXEDFILEINFO`, verrsrc.h.

use object::LittleEndian as LE;
use object::U32Bytes;
use object::pe;

use super::headers::Headers;
use super::view::View;
use crate::image::VersionInfo;

/// `VS_FIXEDFILEINFO.dwSignature`.
const FIXED_SIGNATURE: u32 = 0xfeef_04bd;
/// Entries of one resource directory that are looked at.
const MAX_ENTRIES: usize = 256;

/// Finds `RT_VERSION`, takes its first name and first language.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Option<VersionInfo> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_RESOURCE);
    if directory.rva == 0 || directory.size == 0 {
        return None;
    }
    let types = entry(view, directory.rva, 0, |id| id == u32::from(pe::RT_VERSION))?;
    let names = entry(view, directory.rva, subdirectory(types)?, |_| true)?;
    let language = entry(view, directory.rva, subdirectory(names)?, |_| true)?;
    let data_rva = directory.rva.checked_add(language)?;
    let data: &pe::ImageResourceDataEntry = view.read(data_rva, "resource data").ok()?;
    let len = usize::try_from(data.size.get(LE)).ok()?;
    let bytes = view.rest(data.offset_to_data.get(LE))?;
    fixed(bytes.get(..len)?)
}

/// The `offset` field of the first entry whose id is wanted.
fn entry(view: &View<'_>, root: u32, offset: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
    let at = root.checked_add(offset)?;
    let table: &pe::ImageResourceDirectory = view.read(at, "resource directory").ok()?;
    let named = usize::from(table.number_of_named_entries.get(LE));
    let count = named + usize::from(table.number_of_id_entries.get(LE));
    let entries = at.checked_add(16)?;
    (0..count.min(MAX_ENTRIES)).find_map(|index| {
        let entry: &pe::ImageResourceDirectoryEntry =
            view.read_nth(entries, index, "resource entry").ok()?;
        wanted(entry.name_or_id.get(LE)).then(|| entry.offset_to_data_or_directory.get(LE))
    })
}

fn subdirectory(offset: u32) -> Option<u32> {
    (offset & pe::IMAGE_RESOURCE_DATA_IS_DIRECTORY != 0)
        .then_some(offset & !pe::IMAGE_RESOURCE_DATA_IS_DIRECTORY)
}

/// The fixed information follows a UTF-16 key and is 4-aligned: find it by its signature.
fn fixed(bytes: &[u8]) -> Option<VersionInfo> {
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .take(64)
        .filter_map(|word| object::pod::from_bytes::<U32Bytes<LE>>(word).ok())
        .map(|(word, _)| word.get(LE))
        .collect();
    let start = words.iter().position(|&word| word == FIXED_SIGNATURE)?;
    let [_, _, file_high, file_low, product_high, product_low] =
        *words.get(start..start + 6)?.first_chunk()?;
    Some(VersionInfo {
        file: parts(file_high, file_low),
        product: parts(product_high, product_low),
    })
}

fn parts(high: u32, low: u32) -> [u16; 4] {
    let [a, b, c, d] = high.to_le_bytes();
    let [e, f, g, h] = low.to_le_bytes();
    let word = |low, high| u16::from_le_bytes([low, high]);
    [word(c, d), word(a, b), word(g, h), word(e, f)]
}
