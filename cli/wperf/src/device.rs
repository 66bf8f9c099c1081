//! The open device: how control codes reach `wperf-driver`.
//!
//! On Windows `\\.\WperfDriver` is opened directly. Elsewhere the driver is docked in the lab, and reached over a
//! socket; when nobody has docked it, it is docked for the length of this run.

#[cfg(unix)]
mod dock;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(unix)]
mod lab;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use lab::{open, open_running};
#[cfg(windows)]
pub use windows::{open, open_running};
#[cfg(windows)]
pub(crate) use windows::{processes as windows_processes, program as windows_program};

use crate::exit::Outcome;
use std::path::PathBuf;
use wperf_abi::client::{Client, Reply, Transport};

/// Carries one buffered control code to the driver.
pub trait Device {
    /// Sends `code` with `input`; the driver's answer fills the front of `output`.
    ///
    /// A refusal by the driver is a [`Reply`], not an error: the busy answer carries output.
    ///
    /// Errors: the driver could not be reached.
    fn ioctl(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, DeviceError>;
}

/// What stands around the driver: which processor a core is, and whose instructions it executes.
pub trait Host {
    /// One line about where the driver runs; `None` when it is simply this system.
    fn describe(&self) -> Option<String>;

    /// What there is to say against its counts, if they are not what a processor counts of a process.
    fn caveat(&self) -> Option<&'static str>;

    /// Whether its PMU counts events of the host beside the processor's.
    fn counts_host_events(&self) -> bool;

    /// Whether its PMU sees nothing but the process it was told of and what that starts. Otherwise it sees whatever runs on
    /// the core.
    fn samples_only_attached(&self) -> bool;

    /// Lets core `core` count process `pid`, if the host needs to be told.
    ///
    /// Errors: the host cannot do so; counts are then not the process's.
    fn attach(&mut self, core: u32, pid: u32) -> Result<(), DeviceError>;

    /// Ends [`attach`](Self::attach).
    ///
    /// Errors: the host is gone.
    fn detach(&mut self, core: u32) -> Result<(), DeviceError>;
}

/// An open driver.
pub struct Opened {
    /// Typed calls.
    pub client: Client<Box<dyn Device>>,
    /// What is around it.
    pub host: Box<dyn Host>,
}

/// Why the driver cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is none.
    #[error("No active device interfaces found. Is the driver loaded? {0}")]
    NoDriver(String),
    /// It is there, but cannot be used.
    #[error("{0}")]
    Failed(String),
    /// It was docked, and stopped the lab.
    #[error("the driver stopped the lab:\n{0}")]
    Stopped(String),
}

impl DeviceError {
    /// The exit code it leads to.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::NoDriver(_) | Self::Failed(_) => Outcome::Failure,
            Self::Stopped(_) => Outcome::DriverStopped,
        }
    }
}

/// Where to look for the driver, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverOptions {
    /// `--driver`: the `.sys` to dock when none is docked; unused on Windows.
    pub driver: Option<PathBuf>,
}

impl Transport for Box<dyn Device> {
    type Error = DeviceError;

    fn call(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, DeviceError> {
        self.ioctl(code, input, output)
    }
}
