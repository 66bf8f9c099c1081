//! DOS header, file header, optional header, data directories.
//!
//! ```text
//! 0     'M' 'Z' …
//! 0x3c  e_lfanew ──▶ 'P' 'E' 0 0 │ file header (20) │ optional header (112 + 8·directories) │ section headers (40 each)
//! ```

use object::LittleEndian as LE;
use object::pe;

use super::view::{file_bytes, file_struct};
use crate::error::{ImageError, ImageFault};
use crate::image::{Header, MAX_IMAGE_SIZE, Machine, Section, section_at};

/// Size of a page, to which images are rounded.
const PAGE: u32 = 4096;
/// Data directories that the format defines; more are ignored, as Windows does.
const DIRECTORIES: usize = 16;

/// A data directory entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Directory {
    pub(super) rva: u32,
    pub(super) size: u32,
}

/// The headers, and where the section headers are.
pub(super) struct Headers {
    pub(super) header: Header,
    pub(super) section_table: u64,
    pub(super) section_count: u16,
    pub(super) entry_field: u64,
    directories: [Directory; DIRECTORIES],
}

impl Headers {
    /// The directory entry with this index; empty if the file has fewer.
    pub(super) fn directory(&self, index: usize) -> Directory {
        self.directories.get(index).copied().unwrap_or_default()
    }
}

/// Reads everything before the section headers.
pub(super) fn read(file: &[u8]) -> Result<Headers, ImageError> {
    let nt_offset = find_nt_headers(file)?;
    let file_offset = nt_offset + 4;
    let file_header: &pe::ImageFileHeader = file_struct(file, file_offset, "file header")?;
    let machine = machine(file_header, file_offset)?;
    let optional_offset = file_offset + size_of::<pe::ImageFileHeader>() as u64;
    let optional = optional_header(file, file_header, optional_offset)?;
    check_kind(file_header, optional, file_offset, optional_offset)?;
    let image_size = check_layout(optional, optional_offset)?;
    let optional_size = file_header.size_of_optional_header.get(LE);
    let section_table = optional_offset + u64::from(optional_size);
    let section_count = file_header.number_of_sections.get(LE);
    if !(1..=96).contains(&section_count) {
        let fault = ImageFault::SectionCount(section_count);
        return Err(ImageError::at_file(file_offset + 2, fault));
    }
    Ok(Headers {
        header: Header {
            machine,
            characteristics: file_header.characteristics.get(LE),
            dll_characteristics: optional.dll_characteristics.get(LE),
            time_date_stamp: file_header.time_date_stamp.get(LE),
            linker_version: (optional.major_linker_version, optional.minor_linker_version),
            os_version: (
                optional.major_operating_system_version.get(LE),
                optional.minor_operating_system_version.get(LE),
            ),
            entry: optional.address_of_entry_point.get(LE),
            preferred_base: optional.image_base.get(LE),
            image_size,
            headers_size: optional.size_of_headers.get(LE),
            section_alignment: optional.section_alignment.get(LE),
            checksum: optional.check_sum.get(LE),
            checksum_offset: usize::try_from(optional_offset + 64).unwrap_or(usize::MAX),
        },
        section_table,
        section_count,
        entry_field: optional_offset + 16,
        directories: directories(file, optional, optional_offset, optional_size)?,
    })
}

/// Checks that the entry point is code of this image.
pub(super) fn check_entry(headers: &Headers, sections: &[Section]) -> Result<(), ImageError> {
    let entry = headers.header.entry;
    let fault = if entry == 0 {
        ImageFault::NoEntry
    } else if section_at(sections, entry).is_some_and(Section::is_executable) {
        return Ok(());
    } else {
        ImageFault::EntryNotInCode(entry)
    };
    Err(ImageError::at_file(headers.entry_field, fault))
}

fn find_nt_headers(file: &[u8]) -> Result<u64, ImageError> {
    if file.get(..2) != Some(b"MZ") {
        return Err(ImageError::at_file(0, ImageFault::NotPe));
    }
    let dos: &pe::ImageDosHeader = file_struct(file, 0, "DOS header")?;
    let offset = u64::from(dos.e_lfanew.get(LE));
    if file_bytes(file, offset, 4, "PE signature")? != b"PE\0\0" {
        return Err(ImageError::at_file(offset, ImageFault::NoPeSignature));
    }
    Ok(offset)
}

fn machine(header: &pe::ImageFileHeader, offset: u64) -> Result<Machine, ImageError> {
    match header.machine.get(LE) {
        pe::IMAGE_FILE_MACHINE_AMD64 => Ok(Machine::X64),
        pe::IMAGE_FILE_MACHINE_ARM64 => Ok(Machine::Arm64),
        other => Err(ImageError::at_file(offset, ImageFault::WrongMachine(other))),
    }
}

fn optional_header<'f>(
    file: &'f [u8],
    file_header: &pe::ImageFileHeader,
    offset: u64,
) -> Result<&'f pe::ImageOptionalHeader64, ImageError> {
    let magic = file_bytes(file, offset, 2, "optional header")?;
    let magic = u16::from_le_bytes([magic[0], magic[1]]);
    if magic != pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC {
        return Err(ImageError::at_file(offset, ImageFault::NotPe32Plus(magic)));
    }
    let size = file_header.size_of_optional_header.get(LE);
    if usize::from(size) < size_of::<pe::ImageOptionalHeader64>() {
        let fault = ImageFault::ShortOptionalHeader(size);
        return Err(ImageError::at_file(offset, fault));
    }
    file_struct(file, offset, "optional header")
}

fn check_kind(
    file_header: &pe::ImageFileHeader,
    optional: &pe::ImageOptionalHeader64,
    file_offset: u64,
    optional_offset: u64,
) -> Result<(), ImageError> {
    let characteristics = file_header.characteristics.get(LE);
    if characteristics & pe::IMAGE_FILE_EXECUTABLE_IMAGE == 0 {
        let fault = ImageFault::NotExecutable(characteristics);
        return Err(ImageError::at_file(file_offset + 18, fault));
    }
    let subsystem = optional.subsystem.get(LE);
    if subsystem != pe::IMAGE_SUBSYSTEM_NATIVE {
        let fault = ImageFault::NotNative(subsystem);
        return Err(ImageError::at_file(optional_offset + 68, fault));
    }
    Ok(())
}

/// Checks alignments, base and size; returns the size rounded up to pages.
fn check_layout(optional: &pe::ImageOptionalHeader64, offset: u64) -> Result<u32, ImageError> {
    check_alignment(
        "section",
        optional.section_alignment.get(LE),
        16,
        1 << 21,
        offset + 32,
    )?;
    check_alignment(
        "file",
        optional.file_alignment.get(LE),
        16,
        1 << 16,
        offset + 36,
    )?;
    let claimed = u64::from(optional.size_of_image.get(LE));
    let size = claimed.next_multiple_of(PAGE.into());
    if size > MAX_IMAGE_SIZE || size == 0 {
        return Err(ImageError::at_file(
            offset + 56,
            ImageFault::TooLarge(claimed),
        ));
    }
    let base = optional.image_base.get(LE);
    if !base.is_multiple_of(0x1_0000) || base.checked_add(size).is_none() {
        return Err(ImageError::at_file(offset + 24, ImageFault::Base(base)));
    }
    u32::try_from(size).map_err(|_| ImageError::at_file(offset + 56, ImageFault::TooLarge(claimed)))
}

fn check_alignment(
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
    offset: u64,
) -> Result<(), ImageError> {
    if value.is_power_of_two() && (least..=most).contains(&value) {
        return Ok(());
    }
    let fault = ImageFault::Alignment {
        what,
        value,
        least,
        most,
    };
    Err(ImageError::at_file(offset, fault))
}

fn directories(
    file: &[u8],
    optional: &pe::ImageOptionalHeader64,
    optional_offset: u64,
    optional_size: u16,
) -> Result<[Directory; DIRECTORIES], ImageError> {
    let fixed = size_of::<pe::ImageOptionalHeader64>();
    let room = (usize::from(optional_size) - fixed) / size_of::<pe::ImageDataDirectory>();
    let claimed = optional.number_of_rva_and_sizes.get(LE) as usize;
    let count = claimed.min(room).min(DIRECTORIES);
    let mut directories = [Directory::default(); DIRECTORIES];
    for (index, slot) in directories.iter_mut().take(count).enumerate() {
        let offset = optional_offset + (fixed + 8 * index) as u64;
        let entry: &pe::ImageDataDirectory = file_struct(file, offset, "data directory")?;
        *slot = Directory {
            rva: entry.virtual_address.get(LE),
            size: entry.size.get(LE),
        };
    }
    Ok(directories)
}
