//! Resource limits of a worker.

use rustix::process::{Resource, Rlimit, setrlimit};

const GIB: u64 = 1 << 30;

/// Address space: machines reserve much more than they use.
const ADDRESS_SPACE: u64 = 512 * GIB;
/// Writable memory.
const DATA: u64 = 8 * GIB;
/// Processor time, in seconds: workers are replaced long before.
const PROCESSOR_TIME: u64 = 4 * 60 * 60;
/// Open files: the pipes, and images in memory.
const FILES: u64 = 64;

/// What was asked for, in words, if it was refused.
pub(super) fn set() -> Result<(), String> {
    let limits = [
        (Resource::Core, 0, "core files"),
        (Resource::As, ADDRESS_SPACE, "address space"),
        (Resource::Data, DATA, "memory"),
        (Resource::Fsize, GIB, "file sizes"),
        (Resource::Nofile, FILES, "open files"),
        (Resource::Cpu, PROCESSOR_TIME, "processor time"),
    ];
    let mut refused = Vec::new();
    for (resource, most, name) in limits {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        if let Err(error) = setrlimit(resource, limit) {
            refused.push(format!("{name} ({error})"));
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(refused.join(", "))
    }
}

/// No program that this process runs gains rights.
pub(super) fn no_new_privileges() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())
}
