//! Linux: this executable is started again, stops itself, and becomes the program when it is continued.

use super::Program;
use crate::failure::{Failure, Result};
use rustix::{
    process::{
        Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
        waitpid,
    },
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command},
};

/// First word of a command line that asks for [`exec_stopped`]; not for users. The process that waits and the program's
/// words follow.
pub const EXEC_STOPPED: &str = "--exec-stopped";

/// Stops this process; once continued, becomes the program. `words` are the parent's process id and the program's words.
///
/// Returns only when it cannot.
#[must_use]
pub fn exec_stopped(words: &[OsString]) -> io::Error {
    let [parent, name, arguments @ ..] = words else {
        return io::Error::other("no program to execute");
    };
    match stop(parent) {
        Ok(()) => Command::new(name).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Stops this process until it is continued. It does not stay behind, stopped or as the program, when its parent is killed.
fn stop(parent: &OsString) -> io::Result<()> {
    // Outlives `exec`.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let current = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if current.as_deref() != parent.to_str() {
        return Err(io::Error::other("the parent is gone"));
    }
    Ok(kill_process(getpid(), Signal::STOP)?)
}

pub(super) fn command(launcher: &Path, words: &[OsString]) -> Result<Command> {
    find(&words[0])?;
    let mut command = Command::new(launcher);
    command
        .arg(EXEC_STOPPED)
        .arg(std::process::id().to_string())
        .args(words);
    Ok(command)
}

/// A program that does not exist should fail before anything is counted.
fn find(name: &OsString) -> Result<PathBuf> {
    let path = Path::new(name);
    let search = env::var_os("PATH").unwrap_or_default();
    let mut candidates: Box<dyn Iterator<Item = PathBuf>> = if path.components().count() > 1 {
        Box::new([path.to_owned()].into_iter())
    } else {
        Box::new(env::split_paths(&search).map(|folder| folder.join(path)))
    };
    candidates
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Failure::other(format!("there is no program {}", path.display())))
}

pub(super) fn spawn(command: &mut Command, cores: &[u32]) -> io::Result<Program> {
    let child = command.spawn()?;
    let program = Program { child };
    let pid = pid_of(&program.child)?;
    loop {
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => break,
            Some((_, status)) => {
                return Err(io::Error::other(format!("did not start: {status:?}")));
            }
            None => {}
        }
    }
    sched_setaffinity(Some(pid), &processors_of(cores)?)?;
    Ok(program)
}

/// A core of the lab stands for one of the processors we may run on, modulo their number.
fn processors_of(cores: &[u32]) -> io::Result<CpuSet> {
    let allowed = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    let mut chosen = CpuSet::new();
    for &core in cores {
        let index = usize::try_from(core).map_err(io::Error::other)?;
        chosen.set(processors[index % processors.len()]);
    }
    Ok(chosen)
}

pub(super) fn resume(child: &Child) -> io::Result<()> {
    Ok(kill_process(pid_of(child)?, Signal::CONT)?)
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("not a process id"))
}
