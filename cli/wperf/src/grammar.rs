//! What may be typed behind an option: durations, core lists, event lists, extra events, user metrics.

pub mod cores;
pub mod duration;
pub mod events;
pub mod extra;
pub mod metrics;
pub mod sampling;
