//! Bounded access to a file, by file offset and by rva.

use object::pod::{Pod, from_bytes, slice_from_bytes};

use super::headers::Headers;
use crate::error::{ImageError, ImageFault};
use crate::image::{Section, section_at};

/// `len` bytes of the file from `offset`.
pub(super) fn file_bytes<'f>(
    file: &'f [u8],
    offset: u64,
    len: u64,
    what: &'static str,
) -> Result<&'f [u8], ImageError> {
    let cut_short = || {
        ImageError::at_file(
            offset,
            ImageFault::Truncated {
                what,
                needed: len,
                present: (file.len() as u64).saturating_sub(offset),
            },
        )
    };
    let start = usize::try_from(offset).map_err(|_| cut_short())?;
    let len = usize::try_from(len).map_err(|_| cut_short())?;
    start
        .checked_add(len)
        .and_then(|end| file.get(start..end))
        .ok_or_else(cut_short)
}

/// The structure at `offset` in the file.
pub(super) fn file_struct<'f, T: Pod>(
    file: &'f [u8],
    offset: u64,
    what: &'static str,
) -> Result<&'f T, ImageError> {
    let len = size_of::<T>() as u64;
    let bytes = file_bytes(file, offset, len, what)?;
    from_bytes(bytes)
        .map(|(value, _)| value)
        .map_err(|()| ImageError::at_file(offset, ImageFault::NotInImage { what, len }))
}

/// The image as it will be mapped, read straight from the file.
///
/// Only stored bytes can be read: a table in the zero-filled part of a section is a malformed image.
pub(super) struct View<'a> {
    file: &'a [u8],
    sections: &'a [Section],
    headers_size: u32,
}

impl<'a> View<'a> {
    pub(super) fn new(file: &'a [u8], headers: &Headers, sections: &'a [Section]) -> Self {
        Self {
            file,
            sections,
            headers_size: headers.header.headers_size,
        }
    }

    /// The stored bytes from `rva` to the end of its section's data, or of the headers.
    pub(super) fn rest(&self, rva: u32) -> Option<&'a [u8]> {
        if rva < self.headers_size {
            return self.file.get(rva as usize..self.headers_size as usize);
        }
        let section = section_at(self.sections, rva)?;
        let within = rva - section.rva;
        let start = section.file_offset as usize;
        let stored = self
            .file
            .get(start..start.checked_add(section.file_size as usize)?)?;
        stored.get(within as usize..)
    }

    /// `len` bytes at `rva`.
    pub(super) fn bytes(
        &self,
        rva: u32,
        len: usize,
        what: &'static str,
    ) -> Result<&'a [u8], ImageError> {
        self.rest(rva)
            .and_then(|rest| rest.get(..len))
            .ok_or_else(|| missing(rva, len, what))
    }

    /// The structure at `rva`.
    pub(super) fn read<T: Pod>(&self, rva: u32, what: &'static str) -> Result<&'a T, ImageError> {
        let bytes = self.bytes(rva, size_of::<T>(), what)?;
        from_bytes(bytes)
            .map(|(value, _)| value)
            .map_err(|()| missing(rva, bytes.len(), what))
    }

    /// The structure number `index` of the table at `rva`.
    pub(super) fn read_nth<T: Pod>(
        &self,
        rva: u32,
        index: usize,
        what: &'static str,
    ) -> Result<&'a T, ImageError> {
        let at = u32::try_from(index * size_of::<T>())
            .ok()
            .and_then(|offset| rva.checked_add(offset))
            .ok_or_else(|| missing(rva, size_of::<T>(), what))?;
        self.read(at, what)
    }

    /// A table of `count` structures at `rva`.
    pub(super) fn table<T: Pod>(
        &self,
        rva: u32,
        count: usize,
        what: &'static str,
    ) -> Result<&'a [T], ImageError> {
        let len = count.saturating_mul(size_of::<T>());
        let bytes = self.bytes(rva, len, what)?;
        slice_from_bytes(bytes, count)
            .map(|(table, _)| table)
            .map_err(|()| missing(rva, len, what))
    }

    /// The zero-terminated name at `rva`, at most `limit` bytes long.
    pub(super) fn name(
        &self,
        rva: u32,
        limit: usize,
        what: &'static str,
    ) -> Result<String, ImageError> {
        let rest = self.rest(rva).ok_or_else(|| missing(rva, 1, what))?;
        let window = rest.get(..limit).unwrap_or(rest);
        let len = memchr::memchr(0, window)
            .ok_or_else(|| ImageError::at_rva(rva, ImageFault::UnterminatedName { what, limit }))?;
        Ok(String::from_utf8_lossy(&window[..len]).into_owned())
    }

    /// The section that has all of `len` bytes at `rva`, stored or not.
    pub(super) fn section_of(&self, rva: u32, len: u32) -> Option<&'a Section> {
        let section = section_at(self.sections, rva)?;
        (len <= section.virtual_size - (rva - section.rva)).then_some(section)
    }
}

fn missing(rva: u32, len: usize, what: &'static str) -> ImageError {
    let len = len as u64;
    ImageError::at_rva(rva, ImageFault::NotInImage { what, len })
}
