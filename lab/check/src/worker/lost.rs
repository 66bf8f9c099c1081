//! A process that ran a driver and is gone.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use lab_verifier::RuleId;

use crate::found::{Found, Spot};

/// The signal of a refused system call.
const SIGSYS: i32 = rustix::process::Signal::SYS.as_raw();

/// A worker that was lost, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// What happened to it.
    pub end: End,
    /// What it wrote to its standard error last.
    pub last_words: String,
}

/// What happened to a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal ended it.
    Signal(i32),
    /// It ended by itself.
    Exit(i32),
    /// It did not answer in time.
    Silent(Duration),
    /// It said something that makes no sense.
    Nonsense,
    /// It was ended because the check is to end early.
    Interrupted,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => Self::Exit(status.code().unwrap_or(-1)),
        }
    }
}

impl Lost {
    /// Whether it may have been whoever ended the check who ended the worker.
    pub(crate) fn is_interrupted(&self) -> bool {
        use rustix::process::Signal;
        let asks = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
        match self.end {
            End::Interrupted => true,
            End::Signal(signal) => asks.contains(&signal),
            _ => false,
        }
    }

    /// The rule that it broke, and the parameters of the stop.
    #[must_use]
    pub fn broken(&self) -> (RuleId, [u64; 4]) {
        match self.end {
            // The filter refused a system call of driver code, in a place from which no report could be made.
            End::Signal(signal) if signal == SIGSYS => (RuleId::SystemCall, [0xC000_0096, 0, 0, 0]),
            End::Signal(signal) => (
                RuleId::WorkerLost,
                [1, u64::from(signal.unsigned_abs()), 0, 0],
            ),
            End::Exit(code) => (
                RuleId::WorkerLost,
                [2, u64::from(code.unsigned_abs()), 0, 0],
            ),
            End::Silent(limit) => (RuleId::WorkerLost, [3, limit.as_secs(), 0, 0]),
            End::Nonsense => (RuleId::WorkerLost, [4, 0, 0, 0]),
            End::Interrupted => (RuleId::WorkerLost, [5, 0, 0, 0]),
        }
    }

    /// As a finding.
    pub(crate) fn finding(&self) -> Found {
        let (rule, parameters) = self.broken();
        let what = format!("the worker was lost: {self}");
        Found::by_check(rule.rule(), parameters, what, Spot::default())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Signal(signal) => {
                let name = rustix::process::Signal::from_named_raw(signal);
                match name {
                    Some(name) => write!(f, "signal {signal} ({name:?}) ended it")?,
                    None => write!(f, "signal {signal} ended it")?,
                }
            }
            End::Exit(code) => write!(f, "it ended with exit code {code}")?,
            End::Silent(limit) => write!(f, "it did not answer within {limit:?}")?,
            End::Nonsense => write!(f, "it answered what makes no sense")?,
            End::Interrupted => write!(f, "the check was interrupted")?,
        }
        match self.last_words.trim() {
            "" => Ok(()),
            words => write!(f, "; its last words: {words}"),
        }
    }
}
