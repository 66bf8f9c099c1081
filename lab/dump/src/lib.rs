//! Crash dumps of 64-bit Windows.
//!
//! ```text
//!  0        header: stop code, registers, page table        [`layout::Header`]
//!  0x2000   which physical pages follow: a bitmap           (full dumps: runs, in the header)
//!  …        the pages
//!  …        `DumpBlob`, then blobs: data of drivers, each with a tag
//! ```
//! [`write`](mod@write) makes bitmap dumps of the kernel's memory (type 6); [`read`](mod@read) takes these, full ones,
//! and of every other kind what drivers added. Layouts are those of `DUMP_HEADER64` in windows-rs, of the
//! public symbols, and of kdmp-parser, which the tests read dumps with too.
#![forbid(unsafe_code)]

pub mod layout;
pub mod read;
pub mod write;

pub use read::{Blob, Dump, DumpError, Source};
pub use write::{Contents, Memory, Module, Page, write};
