//! Reads dumps, which may be anything, and larger than memory.

mod blobs;
mod memory;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use zerocopy::FromBytes;

use crate::layout::{HEADER_BYTES, Header, MAGIC};
pub use blobs::Blob;
use memory::Runs;

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// Something else.
    #[error("not a dump of 64-bit Windows: it does not begin with `PAGEDU64`")]
    NoDump,
    /// It ends too early.
    #[error("the dump is cut off at byte {0}")]
    CutOff(u64),
    /// What it says of itself cannot be.
    #[error("malformed dump: {0}")]
    Malformed(&'static str),
    /// It is of a kind whose memory is laid out otherwise.
    #[error("the memory in a dump of type {0} cannot be read")]
    Kind(u32),
    /// The operating system refused.
    #[error("cannot read the dump: {0}")]
    Io(#[from] io::Error),
}

/// Bytes by their place.
pub trait Source {
    /// How many there are.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads as many as fit; they are there.
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(to, at)
    }
}

impl Source for &[u8] {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at)
            .ok()
            .and_then(|at| self.get(at..)?.get(..to.len()));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Whether bytes begin as a dump does.
#[must_use]
pub fn is_dump(beginning: &[u8]) -> bool {
    beginning.starts_with(&MAGIC)
}

/// A dump.
#[derive(Debug)]
pub struct Dump<S> {
    source: S,
    bytes: u64,
    header: Box<Header>,
    /// Physical memory; or the kind of dump, if it is not known how it has that.
    memory: Result<Runs, u32>,
}

impl<S: Source> Dump<S> {
    /// Reads its header, and where memory is.
    ///
    /// Errors: [`DumpError`].
    pub fn open(source: S) -> Result<Self, DumpError> {
        let bytes = source.bytes()?;
        let mut beginning = [0; 8];
        if bytes < 8 {
            return Err(DumpError::NoDump);
        }
        source.read_at(0, &mut beginning)?;
        if !is_dump(&beginning) {
            return Err(DumpError::NoDump);
        }
        if bytes < HEADER_BYTES as u64 {
            return Err(DumpError::CutOff(bytes));
        }
        let mut header = vec![0; HEADER_BYTES];
        source.read_at(0, &mut header)?;
        let header = Header::read_from_bytes(&header)
            .map_err(|_| DumpError::Malformed("a header of another size"))?;
        let memory = Runs::read(&source, bytes, &header)?;
        Ok(Self {
            source,
            bytes,
            header: Box::new(header),
            memory,
        })
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads a part of the file.
    fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DumpError> {
        let end = at.checked_add(to.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(DumpError::CutOff(self.bytes));
        }
        Ok(self.source.read_at(at, to)?)
    }

    /// Looks for bytes in a part of the file; `found` gets each place, and says whether to go on.
    fn search(
        &self,
        needle: &[u8],
        part: std::ops::Range<u64>,
        mut found: impl FnMut(u64) -> Result<bool, DumpError>,
    ) -> Result<(), DumpError> {
        const WINDOW: u64 = 1 << 20;
        let finder = memchr::memmem::Finder::new(needle);
        let overlap = (needle.len() as u64).saturating_sub(1);
        let mut window = Vec::new();
        let (mut at, end) = (part.start, part.end.min(self.bytes));
        while at.saturating_add(overlap) < end {
            let length = (end - at).min(WINDOW + overlap);
            window.resize(usize::try_from(length).unwrap_or(0), 0);
            self.read(at, &mut window)?;
            for place in finder.find_iter(&window) {
                if !found(at + place as u64)? {
                    return Ok(());
                }
            }
            at += length - overlap;
        }
        Ok(())
    }
}
