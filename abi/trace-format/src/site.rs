//! Section `PAGETRC` of a driver file: what its events mean.
//!
//! ```text
//!  PAGETRC$a   directory     where the rest is
//!  PAGETRC$b   provider      in whose name events go out through ETW, if they do
//!  PAGETRC$d   descriptions  one for each call of a macro in the source
//!  PAGETRC$m   events        one for each copy of it in the machine code
//!  PAGETRC$n   tests         one for each copy of the test whether it is switched on
//!  .tren$m    switches      what the tests look at; in memory, as they are written at run time
//! ```
//! A call that is inlined into three functions is three events with one description.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a directory begins with.
pub const DIRECTORY_MAGIC: [u8; 8] = *b"DRYTRACE";

/// What a description begins with.
pub const SITE_MAGIC: [u8; 4] = *b"SITE";

/// Version of everything in this crate.
pub const VERSION: u32 = 1;

/// Name of the section with directory, descriptions and records. The kernel may page out what begins with
/// `PAGE`, and only the relay to ETW reads it, at `PASSIVE_LEVEL`.
pub const SECTION: &str = "PAGETRC";

/// Name of the section with the switches.
pub const SWITCH_SECTION: &str = ".tren";

/// Beginning of section `PAGETRC`: where the rest is.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Directory {
    /// [`DIRECTORY_MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U32,
    /// Rva of the first [`Event`].
    pub events: U32,
    /// Rva behind the last event.
    pub events_end: U32,
    /// Rva of the first [`Test`].
    pub tests: U32,
    /// Rva behind the last test.
    pub tests_end: U32,
    /// Rva of the first switch.
    pub switches: U32,
    /// Rva behind the last switch.
    pub switches_end: U32,
}

/// One copy of a site in the machine code. Its own rva is the id that slots carry.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Event {
    /// Rva of its description.
    pub description: U32,
    /// Rva of an instruction of it.
    pub code: U32,
}

/// One copy of a site's test in the machine code.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Test {
    /// Rva of the switch.
    pub switch: U32,
    /// Rva of the description.
    pub description: U32,
    /// Rva of the test.
    pub code: U32,
}

/// Bytes of a switch: who wants it (on unless 0), [level](Level), bit of the flag, 0.
pub const SWITCH_BYTES: usize = 4;

/// How much it matters; lower matters more.
///
/// Source: `TRACE_LEVEL_CRITICAL` … `TRACE_LEVEL_VERBOSE`, evntrace.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The driver cannot go on.
    Critical = 1,
    /// Something failed.
    Error = 2,
    /// Something may fail.
    Warning = 3,
    /// What happens.
    Information = 4,
    /// Every step.
    Verbose = 5,
}

impl Level {
    /// All, in order.
    pub const ALL: [Self; 5] = [
        Self::Critical,
        Self::Error,
        Self::Warning,
        Self::Information,
        Self::Verbose,
    ];

    /// The level of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|level| *level as u8 == number)
    }

    /// Its name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Verbose => "verbose",
        }
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// A message.
    Message = 0,
    /// A function begins.
    Enter = 1,
    /// A function ends.
    Exit = 2,
    /// The block of an [`Enter`](Self::Enter) ends: as `Exit`, from a destructor of its own.
    ScopeExit = 3,
}

impl Form {
    /// The form of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Message, Self::Enter, Self::Exit, Self::ScopeExit]
            .into_iter()
            .find(|form| *form as u8 == number)
    }
}

/// Which path it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Heat {
    /// One that is rarely taken.
    Cold = 0,
    /// One that costs where it is slow.
    Hot = 1,
}

impl Heat {
    /// The heat of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Cold, Self::Hot]
            .into_iter()
            .find(|heat| *heat as u8 == number)
    }
}

/// What an argument is, and how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A number without sign. One word.
    Unsigned = 1,
    /// A number with sign, extended to a word.
    Signed = 2,
    /// A number shown in hexadecimal. One word.
    Hex = 3,
    /// An address, hidden. One word.
    Pointer = 4,
    /// 0 or 1. One word.
    Bool = 5,
    /// An `NTSTATUS`. One word.
    NtStatus = 6,
    /// A SCSI status byte. One word.
    ScsiStatus = 7,
    /// A device control code. One word.
    ControlCode = 8,
    /// Address of an IRP, hidden. One word.
    Irp = 9,
    /// Address of a SCSI request block, hidden. One word.
    Srb = 10,
    /// A number with a name. One word.
    Enum = 11,
    /// 16 bytes as in memory. Two words.
    Guid = 12,
    /// UTF-8: a word with its length in bytes, then so many bytes, filled up to words.
    Text = 13,
    /// As [`Text`](Self::Text), of any bytes.
    Bytes = 14,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Unsigned,
        Self::Signed,
        Self::Hex,
        Self::Pointer,
        Self::Bool,
        Self::NtStatus,
        Self::ScsiStatus,
        Self::ControlCode,
        Self::Irp,
        Self::Srb,
        Self::Enum,
        Self::Guid,
        Self::Text,
        Self::Bytes,
    ];

    /// The kind of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Most arguments of a site: each takes a word.
pub const MOST_FIELDS: usize = crate::slot::MOST_WORDS;

/// Most bytes of a text or of bytes that are recorded; the rest is cut off.
pub const MOST_BYTES: usize = 64;

/// Set in the length word of a text or of bytes that was cut off.
pub const CUT: u64 = 1 << 63;

/// Fixed part of a description. Behind it: flag's name, module, file, text, each with its length (u16);
/// then each field: name with its length (u16), kind (u8), bits (u8), number of names (u16), and for
/// each of those a value (u64) and a name with its length (u16).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Description {
    /// [`SITE_MAGIC`].
    pub magic: [u8; 4],
    /// Bytes of the description, with what follows.
    pub bytes: U32,
    /// Line in the file, from 1.
    pub line: U32,
    /// [`Level`].
    pub level: u8,
    /// Bit of the flag, 0 to 31.
    pub flag: u8,
    /// [`Form`].
    pub form: u8,
    /// [`Heat`].
    pub heat: u8,
    /// Number of fields.
    pub fields: U32,
}

/// Bytes of the fixed part.
pub const DESCRIPTION_BYTES: usize = size_of::<Description>();
const _: () = assert!(DESCRIPTION_BYTES == 20 && size_of::<Event>() == 8);
const _: () = assert!(size_of::<Directory>() == 36 && size_of::<Test>() == 12);
