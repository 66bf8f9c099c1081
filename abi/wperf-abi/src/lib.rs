//! The contract between `wperf-driver` and whoever opens its device.
//!
//! - [`ioctl`]: the one table of calls: code, access, who may call in which state, layouts.
//! - [`record`]: what lies in the buffers, byte by byte.
//! - [`request`]: buffers into typed requests; every length, count, index and flag is checked here.
//! - [`status`]: why a call is refused, as a status and in words.
//! - `client` (feature): the same calls from the other side of the border.
//!
//! All numbers are little-endian: so are both processors that Windows runs on.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "client"))]
extern crate alloc;

#[cfg(any(test, feature = "client"))]
pub mod client;
pub mod core_set;
pub mod event;
pub mod ioctl;
mod markdown;
pub mod record;
pub mod request;
pub mod status;

pub use core_set::CoreSet;
pub use event::{EventCode, EventFilter};
pub use ioctl::{Access, Caller, Ioctl, State, Target};
pub use markdown::markdown;
pub use request::{Request, RequestError};
pub use status::Refusal;

/// Name of the device object in the NT name space.
pub const DEVICE_NAME: &str = r"\Device\WperfDriver";
/// Name of the symbolic link that makes the device reachable by [`CLIENT_PATH`].
pub const LINK_NAME: &str = r"\DosDevices\WperfDriver";
/// What a client gives to `CreateFile`.
pub const CLIENT_PATH: &str = r"\\.\WperfDriver";

/// Version of this contract; a client refuses a driver whose major number differs.
pub const ABI_MAJOR: u16 = 1;
/// Grows when something is added that an older client may ignore.
pub const ABI_MINOR: u16 = 3;

/// Most processors the contract can name (Windows: 32 groups of 64).
pub const MAX_CORES: usize = 2048;
/// Most uncore units the contract can name.
pub const MAX_UNITS: usize = 256;
/// Ranges of a duration histogram.
pub const DURATION_RANGES: usize = 24;
/// Most events one [`Ioctl::Assign`] may carry.
pub const MAX_EVENTS: usize = 128;
/// Most sources one [`Ioctl::SampleAssign`] may carry.
pub const MAX_SOURCES: usize = 32;
/// Shortest distance of two samples of a source. Units: events.
pub const SAMPLE_INTERVAL_MIN: u64 = 1000;
/// Longest distance of two samples of a source. Units: events.
pub const SAMPLE_INTERVAL_MAX: u64 = 1 << 56;
/// Distance of two samples of a source of a client that has no wish. Units: events.
pub const SAMPLE_INTERVAL_DEFAULT: u64 = 0x400_0000;
/// Fewest samples that the ring of a core holds.
pub const RING_SAMPLES_MIN: u32 = 64;
/// Most samples that the ring of a core holds.
pub const RING_SAMPLES_MAX: u32 = 1 << 16;
/// Samples that the ring of a core holds when a client has no wish.
pub const RING_SAMPLES_DEFAULT: u32 = 1 << 12;
/// Longest time that one [`Ioctl::SampleWait`] waits. Units: ms.
pub const WAIT_MAX_MS: u32 = 10_000;
/// Shortest multiplex period. Units: ms.
pub const PERIOD_MIN_MS: u32 = 10;
/// Longest multiplex period. Units: ms.
pub const PERIOD_MAX_MS: u32 = 100;
/// Multiplex period of a client that has no wish. Units: ms.
pub const PERIOD_DEFAULT_MS: u32 = 100;
