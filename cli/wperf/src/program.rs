//! The program behind `--`: started without executing an instruction of its own, on chosen processors, then let run.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(unix)]
pub use unix::{EXEC_STOPPED, exec_stopped};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

use crate::failure::{Failure, Result};
use std::{
    ffi::OsString,
    io::ErrorKind,
    path::Path,
    process::{Child, ExitStatus, Stdio},
};

/// A program under our control; it is ended when this is dropped before it has ended.
pub struct Program {
    child: Child,
    #[cfg(windows)]
    _job: std::os::windows::io::OwnedHandle,
}

/// Where what the program prints goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramOutput {
    /// Where ours goes.
    Shared,
    /// To standard error, because standard output is for a document.
    ToStandardError,
}

/// Starts a program stopped, confined to the processors that `cores` stand for.
///
/// `launcher` is this program's own executable, which stops itself and then becomes the program (Unix only).
///
/// Errors: there is no such program, or the system's.
pub fn spawn(
    launcher: &Path,
    words: &[OsString],
    cores: &[u32],
    output: ProgramOutput,
) -> Result<Program> {
    let (name, _) = words
        .split_first()
        .ok_or_else(|| Failure::usage("no program behind --"))?;
    let mut command = system::command(launcher, words)?;
    if output == ProgramOutput::ToStandardError {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    system::spawn(&mut command, cores).map_err(|error| {
        let name = name.to_string_lossy();
        Failure::other(match error.kind() {
            ErrorKind::NotFound => format!("there is no program {name}"),
            _ => format!("{name}: {error}"),
        })
    })
}

impl Program {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process, to be waited for.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Lets it run.
    ///
    /// Errors: it has gone.
    pub fn resume(&mut self) -> Result<()> {
        Ok(system::resume(&self.child)?)
    }

    /// Ends it if it still runs.
    ///
    /// Errors: the system's.
    pub fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.child.kill()?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Best effort on a failing path: nothing else could be done about it either.
        let _ = self.end();
    }
}

/// How a program ended, in words.
#[must_use]
pub fn status_text(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("program ended with exit code {code}"),
        None => format!("program ended by {status}"),
    }
}
