//! Reads, analyses and maps driver images (PE32+) on Linux.
//!
//! Source: Microsoft PE/COFF specification (revision 12), cited as "PE" with the section's title.

mod error;
mod image;
mod parse;

pub use error::{ImageError, ImageFault, Place};
pub use image::{
    Export, ExportTarget, FunctionRange, Header, Image, Import, ImportName, LoadConfig,
    MAX_IMAGE_SIZE, Machine, PdbReference, Section, Signature, VersionInfo,
};
