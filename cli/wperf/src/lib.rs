//! Counts and samples hardware events through `wperf-driver`: on Windows, and on Linux through the lab.
//!
//! The command line is made of parts that other programs can use: [`profile`] makes functions, lines and files for other
//! tools out of samples, whoever took them; [`session`] owns cores of the driver, counts and samples; [`plan`] lays out what
//! is counted; [`report`] makes tables and documents.
//!
//! Counting two events on a core for a second:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//! use wperf::{
//!     catalog::Catalog,
//!     device::{self, DriverOptions},
//!     grammar::events,
//!     machine::Machine,
//!     plan::plan,
//!     session::{Session, Take},
//! };
//! use wperf_abi::EventFilter;
//!
//! # fn main() -> wperf::failure::Result<()> {
//! let mut opened = device::open(&DriverOptions::default())?;
//! let driver = &mut opened.client;
//! let machine = Machine::query(driver)?;
//! let catalog = Catalog::new(&machine.product(0, opened.host.as_ref()), &[], Vec::new());
//! let counters = machine.counters(driver, 0, machine.core(0).counters_total.into())?;
//! let wanted = plan(&events::parse("instructions,cpu-cycles")?, &[], &catalog, &counters)?;
//! let mut session = Session::acquire(driver, &[0], Take::Free)?;
//! session.assign(&wanted, EventFilter::EXCLUDE_KERNEL, 0, &counters)?;
//! session.start()?;
//! thread::sleep(Duration::from_secs(1));
//! session.stop()?;
//! let reading = session.read(&wanted)?.remove(0);
//! for ((_, event), count) in wanted.events().zip(&reading.events) {
//!     println!("{} {}", event.name, count.value);
//! }
//! # Ok(())
//! # }
//! ```
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
