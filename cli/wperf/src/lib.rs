//! Counts hardware events through `wperf-driver`: on Windows, and on Linux through the lab.
#![cfg_attr(not(windows), forbid(unsafe_code))]

pub mod catalog;
pub mod exit;
pub mod grammar;
