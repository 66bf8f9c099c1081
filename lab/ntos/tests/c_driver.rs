//! A driver in C, built with mingw-w64 and its ddk headers, uses the exports
//! as drivers do: other people's declarations and inline functions against
//! the lab's implementations.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lab_image::{Image, Loader};
use lab_ntos::{Config, DriverFile, Loaded, Machine};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const PACKAGE: &str = "gcc-mingw-w64-x86-64";

fn build(source: &str, name: &str, defines: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(name).with_extension("sys");
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
        .args(defines)
        .args(["-I", "/usr/share/mingw-w64/include/ddk"])
        .args([
            "-nostdlib",
            "-shared",
            "-Wl,--subsystem,native",
            "-Wl,--entry,DriverEntry",
        ])
        .arg("-o")
        .args([&output, &input])
        .arg("-lntoskrnl")
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("cannot run {COMPILER}: {error}; it is in Debian's package {PACKAGE}")
    });
    let messages = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{COMPILER} refuses:\n{messages}");
    output
}

fn read(path: &Path) -> DriverFile {
    let bytes = std::fs::read(path).expect("gcc wrote the driver");
    let image = Image::parse(&bytes).expect("a driver");
    DriverFile {
        // The name of its service, which it looks up.
        name: "exports".into(),
        loader: Arc::new(Loader::new(Arc::new(image))),
        symbols: None,
    }
}

#[test]
fn a_driver_in_c_finds_the_exports_as_its_headers_declare_them() {
    let file = read(&build("exports.c", "exports", &[]));
    let machine = Machine::new(Config::default()).expect("a machine");
    let mut before = None;
    for _ in 0..2 {
        let driver = match machine.load(&file) {
            Ok(Loaded::Running(driver)) => driver,
            Ok(Loaded::Failed(status, _)) => {
                panic!("DriverEntry: {status} (line {})", status.to_u32() & 0xFFFF)
            }
            Err(error) => panic!("{error}"),
        };
        let leaks = machine.unload(driver).expect("no rule is broken");
        assert!(leaks.is_empty(), "{leaks:?}");
        // From the second load on, nothing grows.
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}

#[test]
fn whichever_call_fails_the_driver_is_told_and_the_lab_lives_on() {
    let file = read(&build("exports.c", "exports-low", &[]));
    let machine = Machine::new(Config::default()).expect("a machine");
    assert!(matches!(machine.load(&file), Ok(Loaded::Running(_))));
    let calls = machine.fallible_calls();
    assert!(calls > 20, "{calls} calls may fail");
    let mut failed = 0;
    for n in 0..calls {
        let machine = Machine::new(Config::default()).expect("a machine");
        machine.fail_nth(n);
        match machine.load(&file) {
            Ok(Loaded::Failed(..)) => failed += 1,
            other => panic!("call {n} failed and the driver did not: {other:?}"),
        }
    }
    assert_eq!(failed, calls);
}

#[test]
fn what_a_driver_leaves_registered_is_told_by_name() {
    let file = read(&build("exports.c", "exports-leave", &["-DLEAVE"]));
    let machine = Machine::new(Config::default()).expect("a machine");
    let mut before = None;
    for _ in 0..2 {
        let driver = match machine.load(&file) {
            Ok(Loaded::Running(driver)) => driver,
            other => panic!("{other:?}"),
        };
        let leaks = machine.unload(driver).expect("no rule is broken");
        let mut left: Vec<String> = leaks
            .iter()
            .map(|leak| format!("{}: {}", leak.rule, leak.what))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "handle-left: handle to a registry key",
                "lookaside-left: lookaside list",
                "reference-left: reference to a callback object",
                "registration-left: entry of the error log",
                "registration-left: process notify routine",
                "registration-left: registration with a callback object",
                "resource-left: executive resource",
            ]
        );
        assert!(leaks.iter().all(|leak| leak.taken_at.is_some()));
        let after = machine.footprint();
        assert_eq!(before.get_or_insert(after), &after);
    }
}
