//! The NT kernel as drivers see it, on Linux.
//!
//! A [`Machine`] is a virtual computer: processors with IRQL and DPC queues,
//! threads, timers, pool, objects, devices. A real driver file is loaded into
//! it and runs natively; every call it makes into the kernel lands in
//! `exports`, and every rule it breaks ends in a finding.
//!
//! - running code: `asm`, `layout`, `fiber`, `thunk`, `cpu`, `sched`
//! - time and waiting: `clock`, `timer`, `dpc`, `interrupt`, `wait`, `affinity`, `latency`
//! - at one instruction: `step`
//! - devices with registers in memory: `io_space`
//! - memory and objects: `memory`, `pool`, `paged`, `buffers`, `user`, `mdl`, `object`, `process`, `security`, `registry`, `resources`
//! - event tracing: `etw`
//! - locks: `locks`, `locks::order`
//! - requests: `irp`, `request`, `disclosure`, `driver`, `integrity`
//! - when things go wrong: `fault`, `seh`, `emulate`, `unwind`, `locate`
//! - after a stop: `crash`, `dump`

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the lab runs x86-64 drivers on x86-64 Linux");

mod affinity;
mod announce;
mod asm;
mod buffers;
mod clock;
mod cpu;
mod crash;
mod disclosure;
mod dpc;
mod driver;
mod dump;
mod emulate;
mod etw;
mod exports;
mod fault;
mod fiber;
mod files;
mod findings;
mod format;
mod gate;
mod guest;
mod integrity;
mod interrupt;
mod io_space;
mod irp;
mod kernel_lock;
mod latency;
mod layout;
mod locate;
mod locks;
mod machine;
mod mdl;
mod memory;
mod object;
mod overflow;
mod paged;
mod parallel;
mod pnp;
mod pool;
mod process;
mod reach;
mod registry;
mod request;
mod resources;
mod sched;
mod security;
mod seh;
mod services;
mod shared_page;
mod step;
mod survey;
mod thunk;
mod timer;
mod unwind;
mod user;
mod wait;
mod watchdog;

pub use clock::ClockKind;
pub use driver::{Driver, DriverFile, Footprint, LoadError, Loaded};
pub use dump::DumpError;
pub use etw::{Message, Sink, TraceSession, Traced};
pub use findings::Stopped;
pub use gate::catch_system_calls;
pub use interrupt::{LineError, Sources};
pub use latency::{Bucket, Distribution, Latency, Longest};
pub use locate::{Symbol, Symbolize};
pub use machine::{Config, MAX_CPUS, Machine, MachineError};
pub use pnp::{DeviceNode, SystemPower};
pub use pool::{Guard, PoolLevel};
pub use request::{Client, Completion, FileId, Request, UserAddresses};
pub use security::Privilege;
pub use shared_page::BUILD as WINDOWS_BUILD;
pub use step::{Action, Event, Hit, MOST_COUNTED, Plan, Steps};
pub use survey::{Device, Survey};
pub use watchdog::Limits;

/// Whether the lab provides an import of a driver.
pub fn provides(dll: &str, name: &str) -> bool {
    let kernel = nt::KERNEL_IMAGES
        .iter()
        .any(|image| image.eq_ignore_ascii_case(dll));
    kernel && (thunk::thunks().address(name).is_some() || nt::Variable::by_name(name).is_some())
}
