//! Decodes the traces of drivers.
//!
//! | module | what |
//! |---|---|
//! | [`catalogue`] | what the sites of a driver file are, with the functions around them |
//! | [`stream`] | from slots to events, and what was lost |
//! | [`dump`] | the same in crash dumps |
//! | [`value`] | what an event carries |
//! | [`filter`] | which events are wanted |
//! | [`etl`], [`message`], [`formats`] | what went out through ETW: the file, its messages, their formats |
//! | [`text`], [`json`], [`perfetto`], [`statistics`], [`tmf`] | what they become |
//!
//! Whatever the bytes are, the answer is events or an error.
#![forbid(unsafe_code)]

pub mod catalogue;
mod cursor;
pub mod dump;
pub mod etl;
pub mod filter;
pub mod formats;
pub mod json;
pub mod message;
pub mod perfetto;
pub mod statistics;
pub mod stream;
pub mod text;
pub mod tmf;
pub mod value;

pub use catalogue::{Catalogue, CatalogueError, Site};
pub use dump::{DumpTrace, DumpTraceError};
pub use filter::Filter;
pub use stream::{Event, Header, Loss, Stream, TraceError};
pub use value::Value;
