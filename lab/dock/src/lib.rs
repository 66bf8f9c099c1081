//! Loads a driver into the lab, and serves it to other processes.
//!
//! [`read_driver`] turns a file into something a machine can load; a
//! [`Dock`] is a machine with the driver in it, for tests too ([`Dock::of`]); [`serve`] answers clients
//! ([`lab_client`]) until it is told to stop.
#![forbid(unsafe_code)]

mod bench;
mod connection;
mod dock;
mod file;
mod serve;

pub use bench::{Builder, CallError, Handle, Ioctl, READ_WRITE};
pub use dock::{Dock, DockError, Options, PmuSource, host_can_count};
pub use file::{Read, ReadError, read_driver};
pub use serve::{Ended, Listener, ServeError, Until, serve};
