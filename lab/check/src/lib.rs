//! Checks a driver: runs it in many ways, in processes of their own, and reports what it does wrong.
//!
//! - what is run: [`case`], [`scenario`], [`mod@bench`], [`interface`], [`codes`]
//! - where: [`worker`], [`sandbox`]
//! - in which order: [`engine`]
//! - what comes of it: [`found`], [`report`], [`replay`]
#![forbid(unsafe_code)]

pub mod bench;
pub mod case;
pub mod codes;
pub mod engine;
pub mod found;
pub mod interface;
pub mod replay;
pub mod report;
pub mod sandbox;
pub mod scenario;
pub mod stop;
pub mod worker;

pub use bench::Outcome;
pub use case::Case;
pub use engine::{CheckError, Progress, Request, check};
pub use found::Found;
pub use interface::Interface;
pub use report::CheckReport;
