//! Virtual hardware of the lab.
#![forbid(unsafe_code)]

pub mod registers;

pub use registers::{NoPmu, Registers};
