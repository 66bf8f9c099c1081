//! Performance-monitor logic without a kernel: what can be counted, where, when, and for whom.
//!
//! - [`Model`]: what a core's PMU has, and which counter can take which event.
//! - [`schedule`]: groups of events onto counters, in windows that take turns when they must.
//! - [`Core`]: the run of one core: start, stop, tick, totals, generations.
//! - [`Ownership`]: who holds which core.
//! - [`Sampler`], [`Ring`]: counters that interrupt, and the samples on their way to a reader.
//! - [`Durations`]: how long something took, every time.
//! - [`uncore`]: PMUs that belong to no core: what they have, and where firmware says they are.
//! - [`backend`]: registers behind small traits, each with a fake that is stricter than hardware.
//!
//! Nothing here allocates: storage comes from the caller.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod backend;
mod counting;
mod durations;
mod model;
mod ownership;
mod ring;
mod sampling;
mod schedule;
mod slot;
pub mod uncore;

pub use counting::{Core, Totals};
pub use durations::Durations;
pub use model::{ArmModel, Model, Placement, X86Model};
pub use ownership::{BusyCore, Holder, Ownership, Session, SessionId};
pub use ring::{RawSample, Ring, RingCounts, RingPlace};
pub use sampling::{Interrupted, Sampler, Served, Source, place_sources};
pub use schedule::{Free, Place, Schedule, ScheduleError, ScheduledEvent, schedule};
pub use slot::{Slot, SlotSet};
pub use uncore::{CoreSightModel, DsuModel, UnitModel};
