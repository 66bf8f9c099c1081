//! A driver on the safe kernel API alone. Each of its calls exercises one part of that API.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(windows)]
pub mod driver;
pub mod protocol;
