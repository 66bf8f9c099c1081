//! Reads, analyses and maps driver images (PE32+) on Linux.
//!
//! Three steps, each a value that the next one needs:
//!
//! ```text
//! bytes ──Image::parse──▶ Image ─Analysis::for_loading─▶ Analysis
//!                           │                        │
//!                           └──── MappedImage::map ──┴──▶ MappedImage (relocated, bound, patched, protected)
//! ```
//! [`Image`] and [`Analysis`] depend on the file alone and are meant to be computed once per file; mapping is the
//! part that is repeated for every load. Nothing here knows what an import means: the caller supplies addresses.
//!
//! Source: Microsoft PE/COFF specification (revision 12), cited as "PE" with the section's title.

mod analysis;
mod error;
mod image;
mod map;
mod parse;
mod symbols;

pub use analysis::{Analysis, KusdReference, Refusal, Site, SiteKind, Treatment};
pub use error::{ImageError, ImageFault, Place};
pub use image::{
    Export, ExportTarget, FunctionRange, Header, Image, Import, ImportName, LoadConfig,
    MAX_IMAGE_SIZE, Machine, PdbReference, Section, Signature, VersionInfo,
};
pub use map::{Loader, MapError, MapOptions, MappedImage, Paged, Protection};
pub use symbols::{Frame, Location, Symbols, SymbolsError, statics};
