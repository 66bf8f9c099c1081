//! Counts and samples hardware events through `wperf-driver`: on Windows, and on Linux through the lab.
//!
//! The command line is made of parts that other programs can use: [`profile`] makes functions, lines and files for other
//! tools out of samples, whoever took them; [`session`] owns cores of the driver, counts and samples; [`plan`] lays out what
//! is counted; [`report`] makes tables and documents.
//!
//! What was typed ([`options`]) → what it means ([`plan`]) → do it ([`command`], over [`session`] and [`device`]) → report
//! ([`report`]). What can be named is in [`catalog`]; how a run may end in [`exit`].
#![cfg_attr(not(windows), forbid(unsafe_code))]

pub mod catalog;
pub mod command;
pub mod device;
pub mod exit;
pub mod failure;
pub mod grammar;
pub mod machine;
pub mod options;
pub mod ownership;
pub mod plan;
pub mod process;
pub mod profile;
pub mod program;
pub mod report;
mod run;
pub mod session;
pub mod uncore;
pub mod wait;

pub use run::run;
