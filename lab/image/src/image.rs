//! A parsed driver image: plain checked values.

use core::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::error::ImageError;
use crate::parse;

/// Largest image that is accepted, in bytes.
///
/// The largest drivers known (graphics) are near 100 MiB; the limit bounds what a hostile header can make us map.
pub const MAX_IMAGE_SIZE: u64 = 256 << 20;

/// The processor an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Machine {
    /// x86-64 (`IMAGE_FILE_MACHINE_AMD64`, 0x8664).
    #[serde(rename = "x86-64")]
    X64,
    /// Arm64 (`IMAGE_FILE_MACHINE_ARM64`, 0xaa64).
    #[serde(rename = "arm64")]
    Arm64,
}

/// The header fields that a loader or a reader needs.
///
/// Source: PE, "Optional Header".
#[derive(Clone, Debug, Serialize)]
pub struct Header {
    /// The processor the code is for.
    pub machine: Machine,
    /// File characteristics (`IMAGE_FILE_*`).
    pub characteristics: u16,
    /// DLL characteristics (`IMAGE_DLLCHARACTERISTICS_*`).
    pub dll_characteristics: u16,
    /// Link time in seconds since 1970, or a hash of the contents in reproducible builds.
    pub time_date_stamp: u32,
    /// Linker version, major and minor.
    pub linker_version: (u8, u8),
    /// Oldest operating system version, major and minor.
    pub os_version: (u16, u16),
    /// Rva of `DriverEntry`; in an executable section.
    pub entry: u32,
    /// Address the image was linked for.
    pub preferred_base: u64,
    /// Bytes from base to end, a multiple of the section alignment rounded up to 4096.
    pub image_size: u32,
    /// Bytes of headers that are mapped at the base.
    pub headers_size: u32,
    /// Alignment of sections in memory.
    pub section_alignment: u32,
    /// Checksum stored in the header.
    pub checksum: u32,
    /// File offset of the checksum field.
    pub(crate) checksum_offset: usize,
}

/// A section: a range of the image with one protection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// Name, at most eight bytes.
    pub name: String,
    /// First byte, from the image base.
    pub rva: u32,
    /// Bytes in memory.
    pub virtual_size: u32,
    /// First byte in the file.
    pub file_offset: u32,
    /// Bytes taken from the file, at most `virtual_size`; the rest is zero.
    pub file_size: u32,
    /// `IMAGE_SCN_*`.
    pub flags: u32,
}

impl Section {
    /// The rvas that the section covers.
    pub fn range(&self) -> Range<u32> {
        self.rva..self.rva + self.virtual_size
    }

    /// Whether it holds or may be run as code.
    pub fn is_executable(&self) -> bool {
        self.flags & object::pe::IMAGE_SCN_MEM_EXECUTE != 0
    }

    /// Whether the driver may write to it.
    pub fn is_writable(&self) -> bool {
        self.flags & object::pe::IMAGE_SCN_MEM_WRITE != 0
    }

    /// Whether the driver may read it.
    pub fn is_readable(&self) -> bool {
        self.flags & object::pe::IMAGE_SCN_MEM_READ != 0
    }

    /// Whether the kernel frees it after `DriverEntry` (INIT sections, relocations).
    pub fn is_discardable(&self) -> bool {
        self.flags & object::pe::IMAGE_SCN_MEM_DISCARDABLE != 0
    }

    /// Whether the kernel may page it out: its name begins with `PAGE` and nothing says otherwise.
    ///
    /// Source: "Making Drivers Pageable", Windows driver documentation.
    pub fn is_pageable(&self) -> bool {
        self.name.starts_with("PAGE")
            && self.flags & object::pe::IMAGE_SCN_MEM_NOT_PAGED == 0
            && !self.is_discardable()
    }
}

/// How an import names what it wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportName {
    /// By name.
    Name(String),
    /// By number in the exporter's table.
    Ordinal(u16),
}

impl core::fmt::Display for ImportName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ordinal(ordinal) => write!(f, "#{ordinal}"),
        }
    }
}

/// One imported function or variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Import {
    /// Exporting image as written in the file (`ntoskrnl.exe`); shared by its imports.
    pub dll: Arc<str>,
    /// What is wanted of it.
    pub name: ImportName,
    /// Rva of the eight bytes that receive the address.
    pub iat_rva: u32,
}

/// What an export leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportTarget {
    /// Code or data of this image.
    Rva(u32),
    /// Another image's export, as `dll.name`.
    Forward(String),
}

/// One exported function or variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Export {
    /// Name, if it has one.
    pub name: Option<String>,
    /// Number, biased by the table's base.
    pub ordinal: u32,
    /// What it leads to.
    pub target: ExportTarget,
}

/// The parts of the load configuration that the lab needs.
///
/// Source: PE, "The Load Configuration Structure".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadConfig {
    /// Rva of the stack cookie, eight writable bytes, if the driver is built with /GS.
    pub cookie_rva: Option<u32>,
    /// `IMAGE_GUARD_*`.
    pub guard_flags: u32,
}

/// A function's extent as the unwinder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionRange {
    /// First byte.
    pub begin: u32,
    /// One past the last byte.
    pub end: u32,
    /// Unwind information: an rva on x86-64; on Arm64 an rva or packed data, as in the file.
    pub unwind: u32,
}

/// The PDB that belongs to an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PdbReference {
    /// File name as the linker wrote it, often with a path of the building machine.
    pub name: String,
    /// Identity, in the byte order of the file.
    pub guid: [u8; 16],
    /// Incremented each time the PDB is rewritten.
    pub age: u32,
}

impl PdbReference {
    /// GUID and age as symbol servers write them: hexadecimal digits, age last.
    pub fn identity(&self) -> String {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.guid;
        let first = u32::from_le_bytes([a, b, c, d]);
        let (second, third) = (u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]));
        let rest: String = rest.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("{first:08X}{second:04X}{third:04X}{rest}{:X}", self.age)
    }
}

/// The fixed part of the version resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VersionInfo {
    /// File version, four parts.
    pub file: [u16; 4],
    /// Product version, four parts.
    pub product: [u16; 4],
}

/// An Authenticode signature that is attached to the file; not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// First byte in the file.
    pub file_offset: u32,
    /// Bytes.
    pub len: u32,
}

/// A driver image whose every offset has been checked.
///
/// # Invariants
/// - Sections are in ascending order, do not overlap, and lie inside the image and, where stored, inside the file.
/// - Each relocation and import slot is eight bytes inside one section; the cookie too, in a writable one.
/// - `functions` is ascending and free of overlaps.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) file: Arc<[u8]>,
    pub(crate) header: Header,
    pub(crate) sections: Vec<Section>,
    pub(crate) relocations: Vec<u32>,
    pub(crate) imports: Vec<Import>,
    pub(crate) exports: Vec<Export>,
    pub(crate) load_config: Option<LoadConfig>,
    pub(crate) functions: Vec<FunctionRange>,
    pub(crate) function_table: u32,
    pub(crate) pdb: Option<PdbReference>,
    pub(crate) version: Option<VersionInfo>,
    pub(crate) signature: Option<Signature>,
}

impl Image {
    /// Reads and checks a driver file.
    ///
    /// Time and memory are bounded by the file's length, whatever it claims.
    ///
    /// Errors: the first thing found wrong, with its place.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        parse::image(bytes)
    }

    /// The header fields.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The processor the code is for.
    pub fn machine(&self) -> Machine {
        self.header.machine
    }

    /// Sections in ascending order of rva.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section that contains `rva`.
    pub fn section_at(&self, rva: u32) -> Option<&Section> {
        section_at(&self.sections, rva)
    }

    /// Rvas of the 64-bit addresses that move with the image.
    pub fn relocations(&self) -> &[u32] {
        &self.relocations
    }

    /// What the driver wants from other images, in the file's order.
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// What the driver offers to others.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Load configuration, if there is one.
    pub fn load_config(&self) -> Option<&LoadConfig> {
        self.load_config.as_ref()
    }

    /// Functions with unwind information (`.pdata`), ascending; leaf functions have none.
    pub fn functions(&self) -> &[FunctionRange] {
        &self.functions
    }

    /// The function entry that covers `rva`.
    pub fn function_at(&self, rva: u32) -> Option<&FunctionRange> {
        let after = self.functions.partition_point(|f| f.begin <= rva);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (rva < function.end).then_some(function)
    }

    /// The rva of the entry of the function table (`.pdata`, 12 bytes an entry on x86-64) that covers an rva.
    pub fn function_entry_at(&self, rva: u32) -> Option<u32> {
        self.function_at(rva)?;
        let index = self.functions.partition_point(|f| f.begin <= rva) - 1;
        let offset = u32::try_from(index).ok()?.checked_mul(12)?;
        self.function_table.checked_add(offset)
    }

    /// The PDB written with this image, if named.
    pub fn pdb(&self) -> Option<&PdbReference> {
        self.pdb.as_ref()
    }

    /// Version resource, if there is one that can be read.
    pub fn version(&self) -> Option<VersionInfo> {
        self.version
    }

    /// Attached signature, if there is one.
    pub fn signature(&self) -> Option<Signature> {
        self.signature
    }

    /// The file's bytes.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// The stored bytes from `rva` to the end of what its section has in the file.
    pub fn stored_from(&self, rva: u32) -> Option<&[u8]> {
        let section = self.section_at(rva)?;
        let bytes = self.stored(section);
        bytes.get((rva - section.rva) as usize..)
    }

    /// The bytes that the file holds for a section of this image.
    pub fn stored(&self, section: &Section) -> &[u8] {
        let start = section.file_offset as usize;
        self.file
            .get(start..start.saturating_add(section.file_size as usize))
            .unwrap_or_default()
    }

    /// The checksum that the header should carry; the loader validates it for every driver.
    ///
    /// Source: PE, "Optional Header Windows-Specific Fields", `CheckSum`; the sum is that of `CheckSumMappedFile`.
    pub fn computed_checksum(&self) -> u32 {
        let field = self.header.checksum_offset;
        let sum = |bytes: &[u8], start: u64| {
            bytes.chunks(2).fold(start, |sum, pair| {
                let low = u64::from(pair[0]);
                let high = u64::from(pair.get(1).copied().unwrap_or(0));
                let sum = sum + (low | high << 8);
                (sum & 0xffff) + (sum >> 16)
            })
        };
        let before = sum(self.file.get(..field).unwrap_or_default(), 0);
        let folded = sum(self.file.get(field + 4..).unwrap_or_default(), before);
        let len = u32::try_from(self.file.len()).unwrap_or(u32::MAX);
        u32::try_from(folded).unwrap_or(u32::MAX).wrapping_add(len)
    }
}

/// The section of a sorted list that contains `rva`.
pub(crate) fn section_at(sections: &[Section], rva: u32) -> Option<&Section> {
    let after = sections.partition_point(|s| s.rva <= rva);
    let section = sections.get(after.checked_sub(1)?)?;
    (rva - section.rva < section.virtual_size).then_some(section)
}
