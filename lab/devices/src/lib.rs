//! Virtual hardware of the lab.
//!
//! [`Registers`] is what a virtual processor answers; [`VirtualPmu`] is the
//! one with an architectural performance-monitoring unit, counting what a
//! [`Source`] says: [`Model`] (deterministic, from virtual time) or
//! [`HostPerf`] (a process of the host, through `perf_event_open`).
#![forbid(unsafe_code)]

pub mod host_perf;
pub mod model;
pub mod pmu;
pub mod registers;
pub mod source;

pub use host_perf::HostPerf;
pub use model::Model;
pub use pmu::VirtualPmu;
pub use registers::{NoPmu, Overflow, Overflows, Registers};
pub use source::{Architectural, Event, Place, Reached, Source};
