//! What lies where in a dump. All numbers are little endian.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a dump begins with: `Signature` and `ValidDump`.
pub const MAGIC: [u8; 8] = *b"PAGEDU64";

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 0x2000;

/// `DumpType`: all memory, as runs of pages.
pub const FULL: u32 = 1;
/// `DumpType`: a small dump.
pub const TRIAGE: u32 = 4;
/// `DumpType`: all memory, with a bitmap.
pub const BITMAP_FULL: u32 = 5;
/// `DumpType`: the kernel's memory, with a bitmap.
pub const BITMAP_KERNEL: u32 = 6;

/// `IMAGE_FILE_MACHINE_AMD64`.
pub const AMD64: u32 = 0x8664;

/// `DUMP_HEADER64`, up to where nothing but its comment's like follows.
///
/// Source: windows-rs `Win32::System::Diagnostics::Debug::DUMP_HEADER64`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// 15: a free build.
    pub major_version: U32,
    /// Build of Windows.
    pub minor_version: U32,
    /// Physical address of the top page table.
    pub directory_table_base: U64,
    /// Address of the page frame database.
    pub pfn_data_base: U64,
    /// Address of the list of modules.
    pub ps_loaded_module_list: U64,
    /// Address of the list of processes.
    pub ps_active_process_head: U64,
    /// [`AMD64`].
    pub machine_image_type: U32,
    /// Processors.
    pub number_processors: U32,
    /// Stop code.
    pub bug_check_code: U32,
    /// Padding.
    pub padding: U32,
    /// Its parameters.
    pub bug_check_parameters: [U64; 4],
    /// A text of the user's.
    pub version_user: [u8; 32],
    /// Address of the debugger's data.
    pub kd_debugger_data_block: U64,
    /// Runs of physical memory, in full dumps.
    pub physical_memory: [u8; 700],
    /// Padding.
    pub padding2: U32,
    /// `CONTEXT` of the processor that stopped.
    pub context: [u8; 3000],
    /// `EXCEPTION_RECORD64`: code, flags, nested record, address, …
    pub exception: [u8; 152],
    /// Kind of dump.
    pub dump_type: U32,
    /// Padding.
    pub padding3: U32,
    /// Bytes of the dump without what drivers added.
    pub required_dump_space: U64,
    /// When it stopped. Units: 100 ns since 1601, UTC.
    pub system_time: U64,
    /// A text.
    pub comment: [u8; 128],
    /// How long it had been up. Units: 100 ns.
    pub system_up_time: U64,
    /// Of small dumps.
    pub minidump_fields: U32,
    /// `NTSTATUS` of adding what drivers gave.
    pub secondary_data_state: U32,
    /// 1: a workstation.
    pub product_type: U32,
    /// Suites.
    pub suite_mask: U32,
    /// `NTSTATUS` of whoever wrote it.
    pub writer_status: U32,
    /// Reserved.
    pub reserved: [u8; 0x2000 - 0x104C],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
const _: () = assert!(core::mem::offset_of!(Header, context) == 0x348);
const _: () = assert!(core::mem::offset_of!(Header, exception) == 0xF00);
const _: () = assert!(core::mem::offset_of!(Header, dump_type) == 0xF98);
const _: () = assert!(core::mem::offset_of!(Header, system_up_time) == 0x1030);

/// What the bitmap begins with.
pub const BITMAP_MAGIC: [[u8; 8]; 2] = [*b"SDMPDUMP", *b"FDMPDUMP"];

/// Head of the bitmap of a bitmap dump; the bits follow, one for each physical page.
///
/// Source: kdmp-parser, `BmpHeader64`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BitmapHeader {
    /// One of [`BITMAP_MAGIC`].
    pub magic: [u8; 8],
    /// Unknown.
    pub reserved: [u8; 0x18],
    /// Place of the first page in the file.
    pub first_page: U64,
    /// Bits that are set.
    pub present_pages: U64,
    /// Bits.
    pub pages: U64,
}

const _: () = assert!(size_of::<BitmapHeader>() == 0x38);

/// Head of the runs in a full dump's header; [`Run`]s follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Runs {
    /// Number of runs.
    pub runs: U32,
    /// Padding.
    pub padding: U32,
    /// Pages of them all.
    pub pages: U64,
}

/// Physical pages behind each other.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Run {
    /// Number of the first.
    pub first: U64,
    /// How many.
    pub count: U64,
}

/// What the drivers' data begin with.
pub const BLOBS_MAGIC: [u8; 8] = *b"DumpBlob";

/// Head of the drivers' data; blobs follow.
///
/// Source: public symbols, `_DUMP_BLOB_FILE_HEADER`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlobsHeader {
    /// [`BLOBS_MAGIC`].
    pub magic: [u8; 8],
    /// Its bytes: 16.
    pub header_bytes: U32,
    /// Build of Windows.
    pub build: U32,
}

/// Head of a blob; padding, data and padding follow.
///
/// Source: public symbols, `_DUMP_BLOB_HEADER`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlobHeader {
    /// Its bytes: 32.
    pub header_bytes: U32,
    /// A `GUID`, as in memory.
    pub tag: [u8; 16],
    /// Bytes of data.
    pub data_bytes: U32,
    /// Bytes before them.
    pub padding_before: U32,
    /// Bytes behind them.
    pub padding_behind: U32,
}

const _: () = assert!(size_of::<BlobsHeader>() == 16 && size_of::<BlobHeader>() == 32);
