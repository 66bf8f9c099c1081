//! From bytes to an [`Image`]: the border where every offset of the file is checked, once.

#![forbid(unsafe_code)]

mod debug;
mod exports;
mod functions;
mod headers;
mod imports;
mod load_config;
mod relocations;
mod sections;
mod version;
mod view;

use std::sync::Arc;

use object::pe;

use crate::error::ImageError;
use crate::image::{Image, Signature};
use headers::Headers;
use view::View;

/// Parses a whole file.
pub(crate) fn image(file: &[u8]) -> Result<Image, ImageError> {
    let headers = headers::read(file)?;
    let sections = sections::read(file, &headers)?;
    headers::check_entry(&headers, &sections)?;
    let view = View::new(file, &headers, &sections);
    Ok(Image {
        relocations: relocations::read(&view, &headers)?,
        imports: imports::read(&view, &headers)?,
        exports: exports::read(&view, &headers)?,
        load_config: load_config::read(&view, &headers)?,
        functions: functions::read(&view, &headers)?,
        function_table: headers.directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION).rva,
        pdb: debug::read(&view, &headers)?,
        version: version::read(&view, &headers),
        signature: signature(file, &headers)?,
        file: Arc::from(file),
        header: headers.header,
        sections,
    })
}

/// Where the attached signature is; its directory holds a file offset, not an rva.
fn signature(file: &[u8], headers: &Headers) -> Result<Option<Signature>, ImageError> {
    let directory = headers.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY);
    if directory.size == 0 {
        return Ok(None);
    }
    view::file_bytes(
        file,
        directory.rva.into(),
        directory.size.into(),
        "signature",
    )?;
    Ok(Some(Signature {
        file_offset: directory.rva,
        len: directory.size,
    }))
}
