//! Section headers: names, ranges, flags; and the rules that keep sections apart.

use object::LittleEndian as LE;
use object::pe;

use super::headers::Headers;
use super::view::{file_bytes, file_struct};
use crate::error::{ImageError, ImageFault};
use crate::image::Section;

/// Reads all section headers and checks them against each other, the image and the file.
pub(super) fn read(file: &[u8], headers: &Headers) -> Result<Vec<Section>, ImageError> {
    check_headers_size(file, headers)?;
    let mut sections: Vec<Section> = Vec::with_capacity(headers.section_count.into());
    let mut end = u64::from(headers.header.headers_size);
    for index in 0..u64::from(headers.section_count) {
        let offset = headers.section_table + index * size_of::<pe::ImageSectionHeader>() as u64;
        let section = section(file_struct(file, offset, "section header")?);
        check(&section, end, file, headers, offset)?;
        end = end_of(&section);
        sections.push(section);
    }
    Ok(sections)
}

fn check_headers_size(file: &[u8], headers: &Headers) -> Result<(), ImageError> {
    let size = headers.header.headers_size;
    let limit = (file.len() as u64).min(headers.header.image_size.into());
    let table = u64::from(headers.section_count) * size_of::<pe::ImageSectionHeader>() as u64;
    file_bytes(file, headers.section_table, table, "section headers")?;
    if u64::from(size) > limit {
        let fault = ImageFault::HeaderSize { size, limit };
        return Err(ImageError::at_file(headers.entry_field + 44, fault));
    }
    Ok(())
}

fn section(header: &pe::ImageSectionHeader) -> Section {
    let stored = header.size_of_raw_data.get(LE);
    let virtual_size = match header.virtual_size.get(LE) {
        0 => stored,
        size => size,
    };
    let flags = header.characteristics.get(LE);
    let has_data = header.pointer_to_raw_data.get(LE) != 0;
    Section {
        name: name(&header.name),
        rva: header.virtual_address.get(LE),
        virtual_size,
        file_offset: header.pointer_to_raw_data.get(LE),
        file_size: if has_data {
            stored.min(virtual_size)
        } else {
            0
        },
        flags,
    }
}

/// Names are padded with zeros; anything unprintable is escaped so that a name cannot disturb a terminal.
fn name(raw: &[u8; 8]) -> String {
    let len = memchr::memchr(0, raw).unwrap_or(raw.len());
    raw[..len].escape_ascii().to_string()
}

fn end_of(section: &Section) -> u64 {
    u64::from(section.rva) + u64::from(section.virtual_size)
}

fn check(
    section: &Section,
    previous_end: u64,
    file: &[u8],
    headers: &Headers,
    header_offset: u64,
) -> Result<(), ImageError> {
    let name = || section.name.clone();
    let (start, file_len) = (u64::from(section.file_offset), file.len() as u64);
    let file_end = start + u64::from(section.file_size);
    let alignment = headers.header.section_alignment;
    let image_size = headers.header.image_size;
    let (field, fault) = if !section.rva.is_multiple_of(alignment) {
        let (name, rva) = (name(), section.rva);
        let fault = ImageFault::SectionMisaligned {
            name,
            rva,
            alignment,
        };
        (12, fault)
    } else if u64::from(section.rva) < previous_end {
        let (name, rva, end) = (name(), section.rva, previous_end);
        (12, ImageFault::SectionOverlap { name, rva, end })
    } else if end_of(section) > u64::from(image_size) {
        let (name, end) = (name(), end_of(section));
        let fault = ImageFault::SectionOutOfImage {
            name,
            end,
            image_size,
        };
        (8, fault)
    } else if section.file_size > 0 && file_end > file_len {
        let (name, end) = (name(), file_end);
        let fault = ImageFault::SectionOutOfFile {
            name,
            start,
            end,
            file_len,
        };
        (16, fault)
    } else {
        return Ok(());
    };
    Err(ImageError::at_file(header_offset + field, fault))
}
