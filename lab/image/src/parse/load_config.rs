//! The load configuration: where the stack cookie is, and which guards the code was built with.
//!
//! Source: PE, "The Load Configuration Structure (Image Only)"; offsets of the 64-bit form.

use object::LittleEndian as LE;
use object::pe;
use object::{U32Bytes, U64Bytes};

use super::headers::Headers;
use super::view::View;
use crate::error::{ImageError, ImageFault};
use crate::image::{LoadConfig, Section};

const SECURITY_COOKIE: u32 = 0x58;
const GUARD_FLAGS: u32 = 0x90;

/// Reads the fields that the structure is long enough to have.
pub(super) fn read(view: &View<'_>, headers: &Headers) -> Result<Option<LoadConfig>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
    if directory.rva == 0 || directory.size == 0 {
        return Ok(None);
    }
    let what = "load configuration";
    let size: &U32Bytes<LE> = view.read(directory.rva, what)?;
    let size = size.get(LE);
    view.bytes(directory.rva, size as usize, what)?;
    let field = |offset: u32, len: u32| {
        let fits = offset + len <= size;
        fits.then(|| directory.rva.saturating_add(offset))
    };
    let mut config = LoadConfig::default();
    if let Some(rva) = field(GUARD_FLAGS, 4) {
        config.guard_flags = view.read::<U32Bytes<LE>>(rva, what)?.get(LE);
    }
    if let Some(rva) = field(SECURITY_COOKIE, 8) {
        let va = view.read::<U64Bytes<LE>>(rva, what)?.get(LE);
        config.cookie_rva = cookie(view, headers, rva, va)?;
    }
    Ok(Some(config))
}

fn cookie(
    view: &View<'_>,
    headers: &Headers,
    field_rva: u32,
    va: u64,
) -> Result<Option<u32>, ImageError> {
    if va == 0 {
        return Ok(None);
    }
    va.checked_sub(headers.header.preferred_base)
        .and_then(|rva| u32::try_from(rva).ok())
        .filter(|&rva| view.section_of(rva, 8).is_some_and(Section::is_writable))
        .map(Some)
        .ok_or_else(|| {
            let what = "stack cookie";
            ImageError::at_rva(field_rva, ImageFault::LoadConfigAddress { what, va })
        })
}
