//! Loads a driver into the lab, and serves it to other processes.
#![forbid(unsafe_code)]

mod file;

pub use file::{ReadError, Read, read_driver};
