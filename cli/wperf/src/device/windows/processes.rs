//! Processes of this Windows system, seen from outside.

use super::{Plain, owned, zeroed};
use crate::profile::Mapping;
use std::{
    ffi::OsString,
    io,
    os::windows::{
        ffi::OsStringExt,
        io::{AsRawHandle, OwnedHandle},
    },
    path::PathBuf,
};
use windows_sys::Win32::{
    Foundation::WAIT_TIMEOUT,
    System::{
        Diagnostics::ToolHelp::{
            CREATE_TOOLHELP_SNAPSHOT_FLAGS, CreateToolhelp32Snapshot, MODULEENTRY32W,
            Module32FirstW, Module32NextW, PROCESSENTRY32W, Process32FirstW, Process32NextW,
            TH32CS_SNAPMODULE, TH32CS_SNAPMODULE32, TH32CS_SNAPPROCESS,
        },
        Threading::{
            OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
            QueryFullProcessImageNameW, WaitForSingleObject,
        },
    },
};

// SAFETY: a structure of integers, pointers and a handle.
unsafe impl Plain for MODULEENTRY32W {}
// SAFETY: a structure of integers.
unsafe impl Plain for PROCESSENTRY32W {}

fn snapshot(flags: CREATE_TOOLHELP_SNAPSHOT_FLAGS, pid: u32) -> io::Result<OwnedHandle> {
    // SAFETY: the call takes no pointers.
    let handle = unsafe { CreateToolhelp32Snapshot(flags, pid) };
    owned(handle).ok_or_else(io::Error::last_os_error)
}

fn text(units: &[u16]) -> OsString {
    let end = units.iter().position(|&unit| unit == 0);
    OsString::from_wide(&units[..end.unwrap_or(units.len())])
}

/// The modules of a process.
///
/// Errors: it is gone, has not begun, or may not be looked at.
pub(crate) fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let snapshot = snapshot(TH32CS_SNAPMODULE | TH32CS_SNAPMODULE32, pid)?;
    let mut entry: MODULEENTRY32W = zeroed();
    entry.dwSize = u32::try_from(size_of_val(&entry)).map_err(io::Error::other)?;
    let mut mappings = Vec::new();
    // SAFETY: the snapshot is open; `entry` says its size.
    let mut more = unsafe { Module32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while more != 0 {
        let start = u64::try_from(entry.modBaseAddr.addr()).map_err(io::Error::other)?;
        mappings.push(Mapping {
            start,
            end: start + u64::from(entry.modBaseSize),
            offset: 0,
            path: text(&entry.szExePath).into(),
        });
        // SAFETY: the snapshot is open; `entry` says its size.
        more = unsafe { Module32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    Ok(mappings)
}

struct Entry {
    pid: u32,
    parent: u32,
    image: String,
}

fn entries() -> Vec<Entry> {
    let mut entry: PROCESSENTRY32W = zeroed();
    let (Ok(snapshot), Ok(size)) = (
        snapshot(TH32CS_SNAPPROCESS, 0),
        u32::try_from(size_of_val(&entry)),
    ) else {
        return Vec::new();
    };
    entry.dwSize = size;
    let mut entries = Vec::new();
    // SAFETY: the snapshot is open; `entry` says its size.
    let mut more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while more != 0 {
        entries.push(Entry {
            pid: entry.th32ProcessID,
            parent: entry.th32ParentProcessID,
            image: text(&entry.szExeFile).to_string_lossy().into_owned(),
        });
        // SAFETY: the snapshot is open; `entry` says its size.
        more = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    entries
}

/// Every process with the file name of its program.
pub(crate) fn all() -> Vec<(u32, String)> {
    let named = |entry: Entry| (entry.pid, entry.image);
    entries().into_iter().map(named).collect()
}

/// The process that started a process, if it is known.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let own = entries().into_iter().find(|entry| entry.pid == pid)?;
    Some(own.parent).filter(|&parent| parent != 0)
}

/// The file of a process's program; `None` when it is gone or may not be looked at.
pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    // SAFETY: the call takes no pointers.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    let process = owned(handle)?;
    let mut path = [0_u16; 1024];
    let mut len = u32::try_from(path.len()).ok()?;
    // SAFETY: (1) The handle is open and has the right to query. (2) `path` has `len` elements. (3) `len` is writable.
    let succeeded = unsafe {
        QueryFullProcessImageNameW(process.as_raw_handle(), 0, path.as_mut_ptr(), &raw mut len)
    };
    (succeeded != 0).then(|| PathBuf::from(text(&path)))
}

/// Name of the program a process runs; `None` when it is gone or may not be looked at.
pub(crate) fn name(pid: u32) -> Option<String> {
    executable(pid).map(|path| crate::profile::module::file_name(&path))
}

/// Whether a process has not ended yet.
pub(crate) fn is_running(pid: u32) -> bool {
    // SAFETY: the call takes no pointers.
    let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid) };
    let Some(process) = owned(handle) else {
        // One that may not be waited for is there still.
        return all().iter().any(|(other, _)| *other == pid);
    };
    // SAFETY: the handle is open, with the right to wait.
    let waited = unsafe { WaitForSingleObject(process.as_raw_handle(), 0) };
    waited == WAIT_TIMEOUT
}
