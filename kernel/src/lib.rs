//! The NT kernel, safe to call: the only code of a driver that says `unsafe`.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`driver`], [`device`], [`irp`] | DriverEntry, the device object, requests |
//! | [`pool`] | allocation that may fail |
//! | [`sync`] | spin lock, mutex, one-shot event |
//! | [`per_cpu`] | a value, a DPC and a timer per processor; running code on chosen processors |
//! | [`processor`], [`counters`] | processors, PMU registers, reservation of hardware counters |
//! | [`time`], [`process`], [`routine`] | clocks, the current process, routines that may be absent |
//! | [`debug`] | notes for the kernel debugger |
//!
//! Everything that comes in pairs is a guard. Imports are only what every Windows since 7, and
//! Wine, exports; all else is looked up at run time.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod counters;
pub mod debug;
pub mod device;
pub mod driver;
pub mod irp;
pub mod per_cpu;
pub mod pool;
pub mod process;
pub mod processor;
pub mod routine;
mod runtime;
mod security;
pub mod sync;
pub mod time;

pub use nt::irp::DRIVER_OBJECT as DriverObject;
pub use nt::status;
/// The driver object, as DriverEntry is given it, and statuses of the kernel.
pub use nt::status::NTSTATUS as NtStatus;

/// What a fallible call gives.
pub type Result<T> = core::result::Result<T, NtStatus>;

/// `Ok` for success and informational statuses, else the status as an error.
fn check(status: NtStatus) -> Result<()> {
    if status.is_success() {
        Ok(())
    } else {
        Err(status)
    }
}
