//! Drivers in C for the tests: built with mingw-w64 and its ddk headers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lab_image::{Image, Loader};
use lab_ntos::{Driver, DriverFile, Loaded, Machine};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const PACKAGE: &str = "gcc-mingw-w64-x86-64";

/// Builds a driver from a file of `tests/data`.
pub(crate) fn build(source: &str, name: &str, options: &[&str]) -> DriverFile {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run at the same time, in one process or several.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let output: PathBuf = folder.join(format!("{name}-{}-{number}.sys", std::process::id()));
    let input = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(source);
    let run = Command::new(COMPILER)
        .args([
            "-O1",
            "-w",
            "-ffreestanding",
            "-fno-builtin",
            "-fshort-wchar",
        ])
        .args(["-D_WIN32_WINNT=0x0A00", "-DNTDDI_VERSION=0x0A000000"])
        .args(options)
        .args(["-I", "/usr/share/mingw-w64/include/ddk"])
        .args([
            "-nostdlib",
            "-shared",
            "-Wl,--subsystem,native",
            "-Wl,--entry,DriverEntry",
        ])
        .arg("-o")
        .args([&output, &input])
        .args(["-lntoskrnl", "-lhal"])
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("cannot run {COMPILER}: {error}; it is in Debian's package {PACKAGE}")
    });
    let messages = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{COMPILER} refuses:\n{messages}");
    let bytes = std::fs::read(&output).expect("gcc wrote the driver");
    std::fs::remove_file(&output).expect("the driver is ours");
    DriverFile {
        name: name.into(),
        loader: Arc::new(Loader::new(Arc::new(
            Image::parse(&bytes).expect("a driver"),
        ))),
        symbols: None,
    }
}

/// Loads a driver that must load; one that checks itself fails with the line in its status.
pub(crate) fn load(machine: &Machine, file: &DriverFile) -> Driver {
    match machine.load(file) {
        Ok(Loaded::Running(driver)) => driver,
        Ok(Loaded::Failed(status, _)) => {
            panic!("DriverEntry: {status} (line {})", status.to_u32() & 0xFFFF)
        }
        Err(error) => panic!("{error}"),
    }
}
