//! What the recorder in a driver and the decoder of its trace agree on.
//!
//! | module | what lies where |
//! |---|---|
//! | [`slot`] | a ring's slots: the events as they are recorded |
//! | [`site`] | section `PAGETRC` of the driver file: what the events mean |
//! | [`view`] | the same, read where it lies |
//! | [`wpp`] | events as they go out through ETW |
//! | [`request`] | device controls that start, choose and read |
//! | [`dump`] | the recorder's memory in a crash dump |
//!
//! All numbers are little endian. docs/tracing.md shows the same byte by byte.
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod dump;
pub mod request;
pub mod site;
pub mod slot;
pub mod view;
pub mod wpp;

pub use site::{Form, Heat, Kind, Level};
pub use slot::Slot;
