//! Why bytes are not a driver image that can be loaded: what is wrong, and where.

use core::fmt;

/// A position in an image, as the reader of a message would look it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bytes from the start of the file.
    File(u64),
    /// Bytes from the image base once mapped.
    Rva(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(offset) => write!(f, "file offset {offset:#x}"),
            Self::Rva(rva) => write!(f, "rva {rva:#x}"),
        }
    }
}

/// What is wrong with an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageFault {
    /// The file does not begin with `MZ`.
    #[error("not a PE image (no `MZ` signature)")]
    NotPe,
    /// The DOS header leads to something that is not a PE header.
    #[error("not a PE image (no `PE\\0\\0` signature)")]
    NoPeSignature,
    /// A structure goes past the end of the file.
    #[error("{what} is cut short: {needed} bytes are needed, the file ends after {present}")]
    Truncated {
        /// The structure being read.
        what: &'static str,
        /// Bytes it takes.
        needed: u64,
        /// Bytes there are.
        present: u64,
    },
    /// The optional header is of another kind.
    #[error("not PE32+ (optional header magic {0:#x}, PE32+ has 0x20b)")]
    NotPe32Plus(u16),
    /// The optional header is too short for its own fields.
    #[error("the optional header has {0} bytes, PE32+ needs at least 112")]
    ShortOptionalHeader(u16),
    /// Neither x86-64 nor Arm64.
    #[error("machine {0:#06x} is neither x86-64 (0x8664) nor Arm64 (0xaa64)")]
    WrongMachine(u16),
    /// Not a driver's subsystem.
    #[error("subsystem {0} is not native (1): this is no kernel driver")]
    NotNative(u16),
    /// The file characteristics deny that it can run.
    #[error("not an executable image (characteristics {0:#06x} lack EXECUTABLE_IMAGE)")]
    NotExecutable(u16),
    /// No sections, or more than the loader accepts.
    #[error("{0} sections: a driver has 1 to 96")]
    SectionCount(u16),
    /// A section or file alignment that is not a power of two in range.
    #[error("{what} alignment {value:#x} is not a power of two from {least:#x} to {most:#x}")]
    Alignment {
        /// Which alignment.
        what: &'static str,
        /// The value found.
        value: u32,
        /// Smallest legal value.
        least: u32,
        /// Largest legal value.
        most: u32,
    },
    /// The image is larger than this crate maps.
    #[error("the image is {0} bytes large, at most {max} are accepted", max = crate::image::MAX_IMAGE_SIZE)]
    TooLarge(u64),
    /// The preferred base is not a multiple of 64 KiB, or the image would wrap around the address space.
    #[error("preferred base {0:#x} is not usable")]
    Base(u64),
    /// The headers claim more than there is before the first section.
    #[error("the headers claim {size:#x} bytes, at most {limit:#x} are possible")]
    HeaderSize {
        /// Claimed size.
        size: u32,
        /// Largest possible size.
        limit: u64,
    },
    /// No entry point.
    #[error("no entry point: a driver has DriverEntry")]
    NoEntry,
    /// The entry point is not in code.
    #[error("entry point {0:#x} is not in an executable section")]
    EntryNotInCode(u32),
    /// A section that begins before its predecessor ends.
    #[error("section `{name}` begins at {rva:#x}, before the end {end:#x} of what precedes it")]
    SectionOverlap {
        /// The later section.
        name: String,
        /// Where it begins.
        rva: u32,
        /// End of its predecessor.
        end: u64,
    },
    /// A section that is not aligned as the header says.
    #[error("section `{name}` begins at {rva:#x}, not a multiple of the alignment {alignment:#x}")]
    SectionMisaligned {
        /// The section.
        name: String,
        /// Where it begins.
        rva: u32,
        /// The header's section alignment.
        alignment: u32,
    },
    /// A section's bytes are not all in the file.
    #[error(
        "section `{name}` takes file bytes {start:#x}..{end:#x}, the file ends at {file_len:#x}"
    )]
    SectionOutOfFile {
        /// The section.
        name: String,
        /// First file byte.
        start: u64,
        /// One past the last file byte.
        end: u64,
        /// File length.
        file_len: u64,
    },
    /// A section that goes past the image's end.
    #[error("section `{name}` ends at {end:#x}, the image at {image_size:#x}")]
    SectionOutOfImage {
        /// The section.
        name: String,
        /// One past its last byte.
        end: u64,
        /// Image size.
        image_size: u32,
    },
    /// A pointer into the image that meets no bytes of the file.
    #[error("{what} ({len} bytes) is not in any section's stored data")]
    NotInImage {
        /// The structure pointed at.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
    },
    /// A name without an end.
    #[error("{what} has no terminating zero within {limit} bytes")]
    UnterminatedName {
        /// The name being read.
        what: &'static str,
        /// Bytes searched.
        limit: usize,
    },
    /// More entries of something than any driver has.
    #[error("more than {limit} {what}")]
    TooMany {
        /// The entries.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A relocation block with an impossible size.
    #[error(
        "relocation block of {0} bytes: a block has an even size of at least 8, inside the table"
    )]
    RelocationBlock(u32),
    /// A relocation type that 64-bit images do not use.
    #[error("relocation type {0} (64-bit images use 0 and 10)")]
    RelocationType(u16),
    /// A relocation that would write outside the sections.
    #[error("a relocation of 8 bytes at {0:#x} is outside every section")]
    RelocationOutOfRange(u64),
    /// Function entries that are not in ascending order, or empty.
    #[error("function entry {begin:#x}..{end:#x} is empty, out of order or outside the image")]
    FunctionRange {
        /// First byte.
        begin: u32,
        /// One past the last byte.
        end: u64,
    },
    /// An address in the load configuration that is outside the image or not writable.
    #[error("{what} {va:#x} is not the address of writable data of this image")]
    LoadConfigAddress {
        /// Which field.
        what: &'static str,
        /// Its value.
        va: u64,
    },
}

/// A malformed or unsuitable image: what is wrong and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at {place})")]
pub struct ImageError {
    fault: ImageFault,
    place: Place,
}

impl ImageError {
    pub(crate) fn new(fault: ImageFault, place: Place) -> Self {
        Self { fault, place }
    }

    pub(crate) fn at_file(offset: u64, fault: ImageFault) -> Self {
        Self::new(fault, Place::File(offset))
    }

    pub(crate) fn at_rva(rva: u32, fault: ImageFault) -> Self {
        Self::new(fault, Place::Rva(rva))
    }

    /// What is wrong.
    pub fn fault(&self) -> &ImageFault {
        &self.fault
    }

    /// Where it was found.
    pub fn place(&self) -> Place {
        self.place
    }
}
