//! The frames a client and a dock exchange.
//!
//! A frame on the wire:
//! ```text
//!   0        4                    4 + length
//!   +--------+--------------------+
//!   | length |  postcard message  |     length: u32, little endian, 1 ..= MAX_FRAME
//!   +--------+--------------------+
//! ```
//! The client sends a [`Request`], the dock answers with exactly one [`Reply`], in order.

mod frame;
mod message;

pub use frame::{Decoder, FrameError, MAX_FRAME, decode, encode, read_frame, write_frame};
pub use message::{Access, Completion, Description, Handle, NtStatus, Reply, Request};

/// Version of these messages; both ends must have the same.
pub const PROTOCOL_VERSION: u32 = 1;

#[cfg(test)]
mod tests;
