//! How a process on Linux talks to a docked driver.
//!
//! A dock is a process that has loaded a driver's `.sys` and listens on a Unix stream socket.
//! [`Client`] opens the driver's device there and sends it I/O control codes, as `CreateFileW` and
//! `DeviceIoControl` do on Windows. [`protocol`] holds the frames both ends exchange; the serving end
//! uses its [`Decoder`](protocol::Decoder). [`socket`] says where the socket is.
//!
//! ```text
//!   client                              dock
//!     | Hello{version} ------------------> |
//!     | <------------- Welcome{version, …} |
//!     | Open{`\\.\Name`, access} --------> |  IRP_MJ_CREATE
//!     | <------------------ Opened{handle} |
//!     | Ioctl{handle, code, input} ------> |  IRP_MJ_DEVICE_CONTROL
//!     | <----- Completed{status, output}   |
//!     x (closed, or the process died)      |  IRP_MJ_CLEANUP, IRP_MJ_CLOSE for every handle
//! ```
#![forbid(unsafe_code)]
#![cfg(unix)]

mod client;
pub mod protocol;
pub mod socket;

pub use client::{Client, ClientError};
