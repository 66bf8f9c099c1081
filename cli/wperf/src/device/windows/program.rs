//! Starting a program suspended, on chosen processors, in a job that does not outlive us.

use super::{Plain, owned, zeroed};
use std::{
    io,
    os::windows::{
        io::{AsRawHandle, OwnedHandle},
        process::CommandExt,
    },
    process::{Child, Command},
    ptr,
};
use windows_sys::Win32::{
    Foundation::HANDLE,
    System::{
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
        },
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
            JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
            SetInformationJobObject,
        },
        Threading::{
            CREATE_SUSPENDED, OpenThread, ResumeThread, SetProcessAffinityMask,
            THREAD_SUSPEND_RESUME,
        },
    },
};

// SAFETY: a structure of integers.
unsafe impl Plain for THREADENTRY32 {}
// SAFETY: a structure of integers.
unsafe impl Plain for JOBOBJECT_EXTENDED_LIMIT_INFORMATION {}

/// A program that has not yet executed an instruction.
pub(crate) struct Suspended {
    /// The process.
    pub(crate) child: Child,
    /// The process ends when this is closed.
    pub(crate) job: OwnedHandle,
}

/// Starts a program suspended, and confines it to processors of the first group.
///
/// Errors: the system's; a core past the first group of 64 cannot be chosen for a process.
pub(crate) fn spawn(command: &mut Command, cores: &[u32]) -> io::Result<Suspended> {
    let mut mask = 0_usize;
    for core in cores {
        let outside = || io::Error::other(format!("core {core} is not in processor group 0"));
        mask |= 1_usize.checked_shl(*core).ok_or_else(outside)?;
    }
    let job = job()?;
    let mut child = command.creation_flags(CREATE_SUSPENDED).spawn()?;
    let confined = confine(&job, &child, mask);
    if let Err(error) = confined {
        // It has not run; it must not be left behind suspended.
        child.kill()?;
        return Err(error);
    }
    Ok(Suspended { child, job })
}

fn confine(job: &OwnedHandle, child: &Child, mask: usize) -> io::Result<()> {
    let process: HANDLE = child.as_raw_handle();
    // SAFETY: both handles are open.
    check(unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) })?;
    // SAFETY: the handle is open.
    check(unsafe { SetProcessAffinityMask(process, mask) })
}

fn job() -> io::Result<OwnedHandle> {
    // SAFETY: neither attributes nor a name are given.
    let handle = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
    let job = owned(handle).ok_or_else(io::Error::last_os_error)?;
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = zeroed();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let size = u32::try_from(size_of_val(&limits)).map_err(io::Error::other)?;
    // SAFETY: (1) The handle is open. (2) Class, structure and size belong together.
    check(unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size,
        )
    })?;
    Ok(job)
}

/// Lets the program run.
///
/// Errors: the system's; the process has gone.
pub(crate) fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    let snapshot = owned(snapshot).ok_or_else(io::Error::last_os_error)?;
    let mut entry: THREADENTRY32 = zeroed();
    entry.dwSize = u32::try_from(size_of_val(&entry)).map_err(io::Error::other)?;
    // SAFETY: the snapshot is open; `entry` says its size.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    let mut resumed = false;
    while more != 0 {
        if entry.th32OwnerProcessID == pid {
            resume_thread(entry.th32ThreadID)?;
            resumed = true;
        }
        // SAFETY: the snapshot is open; `entry` says its size.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    if resumed {
        Ok(())
    } else {
        Err(io::Error::other(format!("process {pid} has no thread")))
    }
}

fn resume_thread(id: u32) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, id) };
    let thread = owned(thread).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the handle is open, with the right to resume.
    match unsafe { ResumeThread(thread.as_raw_handle()) } {
        u32::MAX => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
