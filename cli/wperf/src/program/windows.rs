//! Windows: the process is created suspended, in a job that ends with us.

use super::Program;
use crate::{device::windows_program, failure::Result};
use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{Child, Command},
};

pub(super) fn command(_launcher: &Path, words: &[OsString]) -> Result<Command> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

pub(super) fn spawn(command: &mut Command, cores: &[u32]) -> io::Result<Program> {
    let suspended = windows_program::spawn(command, cores)?;
    Ok(Program {
        child: suspended.child,
        _job: suspended.job,
    })
}

pub(super) fn resume(child: &Child) -> io::Result<()> {
    windows_program::resume(child.id())
}
