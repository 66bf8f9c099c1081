//! The NT kernel, safe to call: the only code of a driver that says `unsafe`.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`driver`], [`device`], [`security`] | DriverEntry, the device object, who may open it |
//! | [`irp`], [`ioctl`] | requests, device controls by table |
//! | [`pool`] | allocation that may fail |
//! | [`sync`] | spin locks, mutex, event |
//! | [`work_item`] | work for later at `PASSIVE_LEVEL` |
//! | [`wait`] | requests that wait for something, until it comes, time is up, or nobody wants it any more |
//! | [`per_cpu`] | a value, a DPC and a timer per processor; running code on chosen processors |
//! | [`ticker`] | a value with a timer of its own |
//! | [`uncore`] | PMUs that belong to no core: where they are, and their registers |
//! | [`processor`], [`counters`], [`profile`] | processors, PMU registers, reservation of hardware counters, their interrupt |
//! | [`time`], [`process`], [`routine`] | clocks, the current process, routines that may be absent |
//! | [`tracing`] | the recorder of a driver's events, how clients read it, and how it goes out through ETW |
//! | [`debug`] | notes for the kernel debugger |
//!
//! Everything that comes in pairs is a guard. What the kernel may call back is waited for when it is
//! dropped, and a driver that leaves some behind is stopped at unload (`alive`).
//!
//! What types can't say is the IRQL: a call above its `IRQL:` line (a wait in a DPC, say) stops the
//! system, and the lab names it. Locks are unlocked in the reverse order of locking. Imports are only what every Windows since 7, and
//! Wine, exports; all else is looked up at run time.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod alive;
pub mod counters;
pub mod debug;
pub mod device;
pub mod driver;
pub mod ioctl;
pub mod irp;
pub mod per_cpu;
pub mod pool;
pub mod process;
pub mod processor;
pub mod profile;
pub mod routine;
mod runtime;
pub mod security;
pub mod sync;
mod thread;
pub mod ticker;
pub mod time;
pub mod tracing;
pub mod uncore;
pub mod wait;
pub mod work_item;

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

/// The status of a result. An error that says success, or that a request is pending, is neither: the
/// caller gets nothing, and must not be told otherwise.
fn status_of(result: Result<()>) -> NtStatus {
    match result {
        Ok(()) => status::STATUS_SUCCESS,
        Err(error) if error.is_success() => status::STATUS_INTERNAL_ERROR,
        Err(error) => error,
    }
}
