//! Processes of this system, seen from outside.

use crate::profile::Mapping;
use std::{io, path::PathBuf};

/// What a process has mapped from files.
///
/// Errors: it is gone, or may not be looked at.
pub fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    system::mappings(pid)
}

/// Name of the program a process runs; `None` when it is gone or may not be looked at.
#[must_use]
pub fn name(pid: u32) -> Option<String> {
    system::name(pid)
}

/// The file of the program a process runs; `None` when it is gone or may not be looked at.
#[must_use]
pub fn executable(pid: u32) -> Option<PathBuf> {
    system::executable(pid)
}

/// The process that started a process, if it is known.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    system::parent(pid)
}

/// Whether a process has not ended yet.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    system::is_running(pid)
}

/// The process with the lowest number whose program's file has this name; case does not matter.
#[must_use]
pub fn running(image: &str) -> Option<u32> {
    let own = std::process::id();
    let mut all = system::all();
    all.retain(|(pid, name)| *pid != own && name.eq_ignore_ascii_case(image));
    all.into_iter().map(|(pid, _)| pid).min()
}

/// Whether `pid` is `ancestor`, or was started by it, or by one started by it.
#[must_use]
pub fn descends(pid: u32, ancestor: u32) -> bool {
    // Process ids are used again: a chain could run in a circle.
    let mut chain = std::iter::successors(Some(pid), |pid| parent(*pid)).take(64);
    chain.any(|pid| pid == ancestor)
}

#[cfg(windows)]
use crate::device::windows_processes as system;

#[cfg(unix)]
mod system {
    use crate::profile::{Mapping, module};
    use std::{fs, io, path::PathBuf};

    pub(super) fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
        let text = fs::read(format!("/proc/{pid}/maps"))?;
        Ok(module::parse_maps(&String::from_utf8_lossy(&text)))
    }

    pub(super) fn name(pid: u32) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// Fields of `/proc/PID/stat` behind the name, which may hold blanks and parentheses: state, parent.
    fn stat(pid: u32) -> Option<(char, u32)> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        Some((state, fields.next()?.parse().ok()?))
    }

    pub(super) fn parent(pid: u32) -> Option<u32> {
        stat(pid).map(|(_, parent)| parent)
    }

    pub(super) fn is_running(pid: u32) -> bool {
        stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
    }

    pub(super) fn all() -> Vec<(u32, String)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| Some((pid, image(pid)?))).collect()
    }

    pub(super) fn executable(pid: u32) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let text = path
            .to_str()
            .and_then(|path| path.strip_suffix(" (deleted)"));
        Some(text.map_or_else(|| path.clone(), PathBuf::from))
    }

    /// The executable's file name, or what the process calls itself when that may not be seen.
    fn image(pid: u32) -> Option<String> {
        let path = executable(pid).map(|path| module::file_name(&path));
        path.or_else(|| name(pid))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_as_it_is() {
        let pid = std::process::id();
        let own = std::env::current_exe().unwrap();
        assert!(is_running(pid));
        assert!(mappings(pid).unwrap().iter().any(|m| m.path == own));
        assert!(descends(pid, pid) && descends(pid, parent(pid).unwrap()));
        assert!(!descends(1, pid));
    }

    #[test]
    fn a_process_is_found_by_the_name_of_its_program() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let sleep = std::fs::read_link(format!("/proc/{}/exe", child.id()));
        let image = crate::profile::module::file_name(&sleep.unwrap());
        let found = running(&image.to_ascii_uppercase());
        child.kill().unwrap();
        assert!(found.is_some(), "{image}");
        // Not waited for yet: a zombie has ended.
        let start = std::time::Instant::now();
        while is_running(child.id()) && start.elapsed().as_secs() < 5 {
            std::thread::yield_now();
        }
        assert!(!is_running(child.id()));
        child.wait().unwrap();
        assert_eq!(running("no such program"), None);
    }
}
