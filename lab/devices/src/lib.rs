//! Virtual hardware of the lab.
//!
//! [`Registers`] is what a virtual processor answers; [`VirtualPmu`] is the
//! one with an architectural performance-monitoring unit, counting what a
//! [`Source`] says: [`Model`] (deterministic, from virtual time) or
//! [`HostPerf`] (a process of the host, through `perf_event_open`).
//! [`Platform`] is what has registers in memory: uncore PMUs, with the ACPI
//! tables and boot resources by which a driver finds them.
#![forbid(unsafe_code)]

pub mod host_perf;
pub mod model;
pub mod platform;
pub mod pmu;
pub mod registers;
pub mod source;

pub use host_perf::HostPerf;
pub use model::Model;
pub use platform::{Devices, Platform};
pub use pmu::VirtualPmu;
pub use registers::{NoPmu, Overflow, Overflows, Registers};
pub use source::{Architectural, Event, Place, Reached, Source};
