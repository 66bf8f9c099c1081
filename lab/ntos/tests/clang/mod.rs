//! Builds drivers in C with clang, which knows structured exceptions, and the ddk headers of mingw-w64.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lab_image::{Image, Loader};
use lab_ntos::DriverFile;

const COMPILE: &[&str] = &[
    "--target=x86_64-w64-windows-gnu",
    "-c",
    "-O1",
    "-w",
    "-ffreestanding",
    "-fno-builtin",
    "-fshort-wchar",
    "-fms-extensions",
    "-fasynchronous-unwind-tables",
    "-D_WIN32_WINNT=0x0A00",
    "-DNTDDI_VERSION=0x0A000000",
    "-I/usr/x86_64-w64-mingw32/include",
    "-I/usr/share/mingw-w64/include",
    "-I/usr/share/mingw-w64/include/ddk",
];
const LINK: &[&str] = &[
    "/driver",
    "/subsystem:native",
    "/entry:DriverEntry",
    "/nodefaultlib",
    "/usr/x86_64-w64-mingw32/lib/libntoskrnl.a",
];

/// Builds a driver from a source in `tests/data`.
pub(crate) fn build(source: &str, name: &str, defines: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let input = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(source);
    let object = folder.join(name).with_extension("obj");
    let output = folder.join(name).with_extension("sys");
    let mut clang = Command::new("clang");
    clang.args(COMPILE).args(defines).arg("-o");
    run(clang.args([&object, &input]), "clang");
    let mut link = Command::new("lld-link");
    link.args(LINK).arg(format!("/out:{}", output.display()));
    run(link.arg(&object), "lld");
    output
}

fn run(command: &mut Command, package: &str) {
    let run = command.output().unwrap_or_else(|error| {
        panic!("cannot run {package}: {error}; it is in Debian's packages clang, lld and mingw-w64")
    });
    let messages = String::from_utf8_lossy(&run.stderr);
    let more = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{package} refuses:\n{messages}{more}");
}

/// Reads a built driver.
pub(crate) fn read(path: &Path) -> DriverFile {
    let bytes = std::fs::read(path).expect("the linker wrote the driver");
    let image = Image::parse(&bytes).expect("a driver");
    DriverFile {
        name: "driver".into(),
        loader: Arc::new(Loader::new(Arc::new(image))),
        symbols: None,
    }
}
