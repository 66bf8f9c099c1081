//! Why a run ended before its end: what to print, and which exit code.

use crate::{device::DeviceError, exit::Outcome};
use std::{any::Any, error::Error, fmt, path::Path};
use wperf_abi::{Refusal, client::CallError};

/// A failed run: its outcome and what to say on standard error.
///
/// Not an [`Error`] itself, so that every error can become one; what the driver or the lab says keeps its own exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Decides the exit code.
    pub outcome: Outcome,
    /// What to print, without a newline at the end.
    pub message: String,
}

/// What a step of a run gives.
pub type Result<T> = std::result::Result<T, Failure>;

/// Printed when another took the PMU over; WindowsPerf's words, which scripts look for.
const FORCED_OUT: &str =
    "warning: other WindowsPerf process hijacked (forced lock) the wperf-driver, see --force-lock.
Operation terminated, your data was lost!";

impl Failure {
    /// With an outcome.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
        }
    }

    /// The command line is not understood.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Outcome::Usage, message)
    }

    /// No code of its own.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(Outcome::Failure, message)
    }

    /// Another process took the PMU over.
    #[must_use]
    pub fn forced_out() -> Self {
        Self::new(Outcome::ForcedOut, FORCED_OUT)
    }

    /// A file could not be read or written.
    #[must_use]
    pub fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::other(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(call) = any.downcast_ref::<CallError<DeviceError>>() {
            return from_call(call);
        }
        if let Some(device) = any.downcast_ref::<DeviceError>() {
            return Self::new(device.outcome(), device.to_string());
        }
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        Self::other(message)
    }
}

fn from_call(error: &CallError<DeviceError>) -> Failure {
    match error {
        CallError::Transport(device) => Failure::new(device.outcome(), device.to_string()),
        CallError::Refused(_, Refusal::ForcedOut) => Failure::forced_out(),
        CallError::Refused(_, Refusal::NoMemory) => Failure::other(format!(
            "not enough resources available to execute the request ({error})"
        )),
        other => Failure::other(format!("wperf-driver: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wperf_abi::Ioctl;

    #[test]
    fn what_the_driver_says_keeps_its_exit_code() {
        let outcome = |error: CallError<DeviceError>| Failure::from(error).outcome;
        let refused = |refusal| CallError::Refused(Ioctl::Read, refusal);
        assert_eq!(outcome(refused(Refusal::ForcedOut)), Outcome::ForcedOut);
        assert_eq!(outcome(refused(Refusal::WrongState)), Outcome::Failure);
        let stopped = DeviceError::Stopped("stop 0xD1".into());
        assert_eq!(
            outcome(CallError::Transport(stopped)),
            Outcome::DriverStopped
        );
    }

    #[test]
    fn causes_are_appended_once() {
        let error = crate::grammar::metrics::parse("a:{").unwrap_err();
        assert_eq!(
            Failure::from(error).message,
            "line 1: event list '{' has a brace out of place"
        );
    }
}
