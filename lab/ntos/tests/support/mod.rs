//! Drivers in C, built with mingw-w64 against an import library of all that the lab declares.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use lab_image::{Image, Loader};
use lab_ntos::{DriverFile, Loaded, Machine};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const LIBRARIAN: &str = "x86_64-w64-mingw32-dlltool";

fn run(tool: &str, arguments: &mut Command) -> Output {
    let output = arguments.output().unwrap_or_else(|error| {
        panic!("cannot run {tool}: {error}; it comes with Debian's gcc-mingw-w64-x86-64")
    });
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} refuses:\n{messages}");
    output
}

/// An import library of every declared export: newer than the one that mingw-w64 has.
fn import_library(folder: &Path, name: &str) -> PathBuf {
    let mut exports = String::from("LIBRARY ntoskrnl.exe\nEXPORTS\n");
    for contract in nt::contracts() {
        let _ = writeln!(exports, "{}", contract.name);
    }
    for variable in nt::Variable::ALL {
        let _ = writeln!(exports, "{} DATA", variable.name());
    }
    let (definitions, library) = (
        folder.join(format!("{name}.def")),
        folder.join(format!("{name}.a")),
    );
    std::fs::write(&definitions, exports).expect("the target folder is writable");
    run(
        LIBRARIAN,
        Command::new(LIBRARIAN)
            .arg("-d")
            .arg(&definitions)
            .arg("-l")
            .arg(&library),
    );
    library
}

/// Builds `tests/data/<name>.c`, with more arguments for the compiler.
pub(crate) fn build(name: &str, arguments: &[&str]) -> DriverFile {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(name).with_extension("sys");
    let input = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
        .with_extension("c");
    let library = import_library(folder, name);
    let mut command = Command::new(COMPILER);
    command
        .args([
            "-O1",
            "-w",
            "-ffreestanding",
            "-fno-builtin",
            "-fshort-wchar",
        ])
        .args(["-D_WIN32_WINNT=0x0A00", "-DNTDDI_VERSION=0x0A000000"])
        .args(["-I", "/usr/share/mingw-w64/include/ddk"])
        .args(["-nostdlib", "-shared", "-Wl,--subsystem,native"])
        .arg("-Wl,--entry,DriverEntry")
        .args(arguments)
        .arg("-o")
        .args([&output, &input, &library]);
    run(COMPILER, &mut command);
    let bytes = std::fs::read(&output).expect("gcc wrote the driver");
    let image = Image::parse(&bytes).expect("a driver");
    DriverFile {
        name: name.into(),
        loader: Arc::new(Loader::new(Arc::new(image))),
        symbols: None,
    }
}

/// Loads a driver that checks things in `DriverEntry`; a failure has the number of the line.
pub(crate) fn load(machine: &Machine, file: &DriverFile) -> lab_ntos::Driver {
    match machine.load(file) {
        Ok(Loaded::Running(driver)) => driver,
        Ok(Loaded::Failed(status, _)) => {
            panic!("DriverEntry: {status} (line {})", status.to_u32() & 0xFFFF)
        }
        Err(error) => panic!("{error}"),
    }
}
