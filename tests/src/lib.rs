//! End-to-end tests over built drivers: what they share.
#![forbid(unsafe_code)]

pub mod flavours;
pub mod scene;
pub mod served;
pub mod tmf;
pub mod wperf;

use std::path::{Path, PathBuf};

use lab_dock::{Dock, Options, Read, read_driver};
use lab_ntos::{Client, Machine, Privilege};

/// An administrator's process.
pub const ADMINISTRATOR: Client = Client {
    process: 1000,
    privilege: Privilege::Administrator,
};
/// `GENERIC_READ | GENERIC_WRITE`.
pub const READ_WRITE: u32 = 0xC000_0000;

/// Cargo's target folder.
#[must_use]
pub fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}

/// A built x86-64 driver.
#[must_use]
pub fn driver_path(name: &str) -> PathBuf {
    let path = target_folder()
        .join("drivers/x86_64")
        .join(name)
        .with_extension("sys");
    assert!(
        path.exists(),
        "{} is not built: run `cargo xtask drivers`",
        path.display()
    );
    path
}

/// A command line built for this machine.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let path = target_folder().join("lab").join(name);
    assert!(
        path.exists(),
        "{} is not built: run `cargo build --profile lab -p drydock -p wperf`",
        path.display()
    );
    path
}

/// A built driver, read.
#[must_use]
pub fn read(name: &str) -> Read {
    read_driver(&driver_path(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// A built driver on a machine.
#[must_use]
pub fn dock(name: &str, options: Options) -> Dock {
    Dock::new(&read(name).driver, options, |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a device that must open.
pub fn open(machine: &Machine, path: &str) -> lab_ntos::FileId {
    match machine.open(path, READ_WRITE, ADMINISTRATOR) {
        Ok(Ok(file)) => file,
        other => panic!("{path}: {other:?}"),
    }
}

/// Checks the codes that were found in `wperf-driver`: its own, those of tracing, and nothing else, but
/// for what the compiler compares with to tell the latter apart.
///
/// # Panics
/// If they are not.
pub fn check_codes_of_wperf(found: &[u32]) {
    use trace_format::request::{Call, FIRST_FUNCTION};
    let is_of_tracing = |code: &u32| {
        let device = Call::Query.code() >> 16;
        code >> 16 == device && code >> 2 & 0xFFF >= u32::from(FIRST_FUNCTION)
    };
    let (tracing, own): (Vec<u32>, Vec<u32>) = found.iter().partition(|code| is_of_tracing(code));
    let calls = wperf_abi::Ioctl::ALL.iter();
    let mut expected: Vec<u32> = calls.map(|call| call.code()).collect();
    expected.sort_unstable();
    assert_eq!(own, expected);
    for call in Call::ALL {
        assert!(
            tracing.contains(&call.code()),
            "{call:?} is not in {tracing:x?}"
        );
    }
}
