//! Writes a bitmap dump of the kernel's memory.

mod tables;

use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use crate::layout::{
    AMD64, BITMAP_KERNEL, BITMAP_MAGIC, BLOBS_MAGIC, BitmapHeader, BlobHeader, BlobsHeader,
    HEADER_BYTES, Header, MAGIC, PAGE,
};
use tables::{Tables, modules};

/// A page of the kernel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
    /// Its address.
    pub address: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
}

/// The memory that is dumped.
pub trait Memory {
    /// Its pages, in the order of addresses.
    fn pages(&self) -> &[Page];
    /// Reads the n-th of them.
    fn read(&self, index: usize, to: &mut [u8; PAGE]);
}

/// A loaded driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name, with extension.
    pub name: String,
    /// Where it is.
    pub base: u64,
    /// Bytes of its image.
    pub bytes: u32,
    /// Address of `DriverEntry`.
    pub entry: u64,
}

/// What stands in a dump besides memory.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Stop code.
    pub code: u32,
    /// Its parameters.
    pub parameters: [u64; 4],
    /// `CONTEXT` of the processor that stopped, at most 3000 bytes.
    pub context: Vec<u8>,
    /// Address of the instruction it stopped at.
    pub instruction: u64,
    /// Build of Windows.
    pub build: u32,
    /// Processors.
    pub processors: u32,
    /// When. Units: 100 ns since 1601, UTC.
    pub system_time: u64,
    /// How long it had been up. Units: 100 ns.
    pub up_time: u64,
    /// A text for people, at most 127 bytes.
    pub comment: String,
    /// Loaded drivers.
    pub modules: Vec<Module>,
    /// What drivers gave, each with its tag.
    pub blobs: Vec<([u8; 16], Vec<u8>)>,
}

/// `STATUS_BREAKPOINT`: what the exception of every bug check's dump is.
const BREAKPOINT: u32 = 0x8000_0003;

/// Blobs begin at multiples of this.
const BLOB_ALIGNMENT: usize = 8;

/// Writes a dump.
///
/// Physical memory is made up: page 0 is absent, then come the pages in their order, the list of modules and
/// the page tables.
///
/// Errors: those of `to`.
pub fn write(contents: &Contents, memory: &impl Memory, to: &mut impl Write) -> io::Result<()> {
    let tables = Tables::new(memory.pages(), &modules(&contents.modules));
    let pages = tables.physical_pages();
    let bitmap = bitmap(pages);
    let first_page = (HEADER_BYTES + bitmap.len()) as u64;
    let space = first_page + (pages - 1) * PAGE as u64;
    to.write_all(header(contents, &tables, space).as_bytes())?;
    to.write_all(&bitmap)?;
    let mut page = [0; PAGE];
    for index in 0..memory.pages().len() {
        memory.read(index, &mut page);
        to.write_all(&page)?;
    }
    for page in tables.pages() {
        to.write_all(page)?;
    }
    blobs(contents, to)
}

/// The bitmap with its head, in whole pages: every page but page 0 is there.
fn bitmap(pages: u64) -> Vec<u8> {
    let bytes = usize::try_from(pages.div_ceil(8)).unwrap_or(usize::MAX);
    let whole = (size_of::<BitmapHeader>() + bytes).next_multiple_of(PAGE);
    let mut header = BitmapHeader::new_zeroed();
    header.magic = BITMAP_MAGIC[0];
    header.first_page = U64::new((HEADER_BYTES + whole) as u64);
    header.present_pages = U64::new(pages - 1);
    header.pages = U64::new(pages);
    let mut all = header.as_bytes().to_vec();
    let bits = (0..pages.div_ceil(8)).map(|byte| {
        let is_there = |bit: &u64| (1..pages).contains(&(byte * 8 + bit));
        (0..8)
            .filter(is_there)
            .fold(0u8, |bits, bit| bits | 1 << bit)
    });
    all.extend(bits);
    all.resize(whole, 0);
    all
}

fn header(contents: &Contents, tables: &Tables, space: u64) -> Header {
    let mut header = Header::new_zeroed();
    header.magic = MAGIC;
    header.major_version = U32::new(15);
    header.minor_version = U32::new(contents.build);
    header.directory_table_base = U64::new(tables.root());
    header.ps_loaded_module_list = U64::new(tables::MODULES);
    header.machine_image_type = U32::new(AMD64);
    header.number_processors = U32::new(contents.processors);
    header.bug_check_code = U32::new(contents.code);
    header.bug_check_parameters = contents.parameters.map(U64::new);
    let context = &contents.context;
    for (to, from) in header.context.iter_mut().zip(context) {
        *to = *from;
    }
    header.exception[..4].copy_from_slice(&BREAKPOINT.to_le_bytes());
    header.exception[16..24].copy_from_slice(&contents.instruction.to_le_bytes());
    header.dump_type = U32::new(BITMAP_KERNEL);
    header.required_dump_space = U64::new(space);
    header.system_time = U64::new(contents.system_time);
    let room = header.comment.len() - 1;
    for (to, from) in header.comment[..room]
        .iter_mut()
        .zip(contents.comment.bytes())
    {
        *to = from;
    }
    header.system_up_time = U64::new(contents.up_time);
    header.product_type = U32::new(1);
    header
}

fn blobs(contents: &Contents, to: &mut impl Write) -> io::Result<()> {
    if contents.blobs.is_empty() {
        return Ok(());
    }
    let header = BlobsHeader {
        magic: BLOBS_MAGIC,
        header_bytes: U32::new(16),
        build: U32::new(contents.build),
    };
    to.write_all(header.as_bytes())?;
    for (tag, data) in &contents.blobs {
        let padding = data.len().next_multiple_of(BLOB_ALIGNMENT) - data.len();
        let length = u32::try_from(data.len()).map_err(io::Error::other)?;
        let header = BlobHeader {
            header_bytes: U32::new(32),
            tag: *tag,
            data_bytes: U32::new(length),
            padding_before: U32::new(0),
            padding_behind: U32::new(u32::try_from(padding).unwrap_or(0)),
        };
        to.write_all(header.as_bytes())?;
        to.write_all(data)?;
        to.write_all(&[0; BLOB_ALIGNMENT][..padding])?;
    }
    Ok(())
}
