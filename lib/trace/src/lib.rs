//! Tracing for drivers: hot and cold sites, recorded at any IRQL without locks.
//!
//! ```
//! use trace::{Flag, Hex, cold, hot};
//! const QUEUE: Flag = Flag::new(0, "QUEUE");
//!
//! fn submit(used: u32, address: u64) {
//!     hot!(Verbose, QUEUE, "submit", used: u32 = used, address: Hex = Hex(address));
//!     if used > 64 {
//!         cold!(Warning, QUEUE, "more than the queue holds", used: u32 = used);
//!     }
//! }
//! # submit(1, 2);
//! ```
//! | module | what |
//! |---|---|
//! | `macros` | what stands at the call site, and what the flavour makes of it |
//! | [`argument`] | what an event may carry |
//! | [`site`] | descriptions, which stay in the driver file |
//! | [`thunk`] | what a site runs when it is switched on |
//! | [`ring`] | where events go, whoever interrupts whom |
//! | [`relay`], [`payload`], [`mod@provider`] | what goes out through ETW, and in whose name |
//! | `host` | a thread of Linux as a processor, for tests and benchmarks |
//! | [`recorder`] | the rings and switches of this driver |
//!
//! An event is an id, a time stamp and raw words; texts, names, types, file and line are in section
//! `PAGETRC` of the driver file, and never in memory that is not paged. docs/tracing.md has the format.
#![cfg_attr(not(test), no_std)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")
)]

pub mod argument;
pub mod debug;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
pub mod host;
mod macros;
pub mod payload;
pub mod provider;
pub mod recorder;
pub mod relay;
pub mod ring;
mod sections;
pub mod site;
pub mod thunk;

pub use argument::{Argument, ControlCode, Guid, Hex, Irp, Pointer, ScsiStatus, Srb, Words};
pub use nt::status::NTSTATUS;
pub use sections::metadata;
pub use site::{Field, Flag, Site};
pub use trace_format as format;

/// There is one in the flavours that record; in the others, what has one cannot be made, and leaves no
/// code.
#[cfg(any(flavour = "cold", flavour = "all"))]
#[derive(Clone, Copy, Debug)]
pub struct Records(());
/// There is none in a flavour that records nothing.
#[cfg(not(any(flavour = "cold", flavour = "all")))]
#[derive(Clone, Copy, Debug)]
pub enum Records {}

/// Whether this flavour records anything.
#[must_use]
pub const fn records() -> Option<Records> {
    #[cfg(any(flavour = "cold", flavour = "all"))]
    return Some(Records(()));
    #[cfg(not(any(flavour = "cold", flavour = "all")))]
    return None;
}

/// Whether this flavour has hot paths: what only they need can ask, and is gone where they are.
pub const HAS_HOT: bool = cfg!(any(flavour = "all", flavour = "debug"));

/// Name of the flavour.
pub const FLAVOUR: &str = if cfg!(flavour = "unchecked") {
    "unchecked"
} else if cfg!(flavour = "debug") {
    "debug"
} else if cfg!(flavour = "all") {
    "all"
} else {
    "cold"
};

/// Something that exists at `DISPATCH_LEVEL` and above only, and stays on its processor.
///
/// # Safety
/// Below `DISPATCH_LEVEL`, and on another processor, safe code must not be able to use a value of the
/// type: two writers of one ring could take the same slot.
#[expect(unsafe_code, reason = "a promise")]
pub unsafe trait AtDispatch {}

#[expect(unsafe_code, reason = "a promise kept by another")]
// SAFETY: where there is a reference, there is the value.
unsafe impl<T: AtDispatch + ?Sized> AtDispatch for &T {}

/// Takes a proof.
#[doc(hidden)]
#[inline(always)]
pub const fn require_dispatch<T: AtDispatch + ?Sized>(_: &T) {}
