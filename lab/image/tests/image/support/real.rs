//! A driver compiled and linked as real drivers are, with its PDB.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = include_str!("sample_driver.rs");

/// Files of the driver built for a processor (`x86_64` or `aarch64`).
pub(crate) struct RealDriver {
    pub(crate) image: Vec<u8>,
    pub(crate) pdb: PathBuf,
}

/// Builds the sample driver, or takes it from an earlier build of the same source.
pub(crate) fn real_driver(processor: &str) -> RealDriver {
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let name = format!("sample-{processor}-{:016x}", hasher.finish());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
    if !folder.join("sample.exe").exists() {
        build(processor, &folder);
    }
    RealDriver {
        image: fs::read(folder.join("sample.exe")).unwrap(),
        pdb: folder.join("sample.pdb"),
    }
}

/// Builds aside and moves into place, since tests run in several processes at once.
fn build(processor: &str, folder: &PathBuf) {
    let aside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = aside.path().join("sample.rs");
    fs::write(&source, SOURCE).unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition=2024",
            "-O",
            "-g",
            "-Cpanic=abort",
            "-Clinker=rust-lld",
        ])
        .arg(format!("--target={processor}-pc-windows-msvc"))
        .args(
            [
                "/DRIVER:WDM",
                "/SUBSYSTEM:NATIVE",
                "/ENTRY:DriverEntry",
                "/NODEFAULTLIB",
            ]
            .map(|a| format!("-Clink-arg={a}")),
        )
        .arg("-o")
        .arg(aside.path().join("sample.exe"))
        .arg(&source)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "the sample driver does not build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    if fs::rename(aside.path(), folder).is_ok() {
        // Its new name is not the temporary one; there is nothing left to remove.
        let _ = aside.keep();
    }
}
