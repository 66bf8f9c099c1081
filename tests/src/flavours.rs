//! `wperf-driver` in each flavour of tracing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::target_folder;

const TARGET: &str = "x86_64-pc-windows-msvc";

/// Variables that choose a flavour where drivers are built, and the flavour.
pub const VARIABLES: [(&str, &str); 3] = [
    ("FORCE_RUN_UNCHECKED", "unchecked"),
    ("RUN_WPP_ALL_PATHS", "all"),
    ("FORCE_RUN_DEBUG", "debug"),
];

/// A cargo command with a folder of its own, in which only the variables given choose.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env("CARGO_TARGET_DIR", folder);
    for (variable, _) in VARIABLES {
        cargo.env_remove(variable);
    }
    cargo
}

/// Builds the driver in a flavour; gives the `.sys`, with its PDB beside it.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn flavoured(flavour: &str) -> PathBuf {
    let folder = target_folder().join("flavours");
    let own = folder.join(flavour);
    std::fs::create_dir_all(&own).expect("a folder");
    // Tests are processes that build at the same time: from the build to the copy is one's turn.
    let turn = File::create(folder.join("turn")).expect("a file");
    turn.lock().expect("a lock");
    let mut build = cargo(&folder);
    build.args([
        "build",
        "--release",
        "--quiet",
        "--package",
        "wperf-driver",
        "--target",
        TARGET,
    ]);
    if flavour != "cold" {
        build.args(["--features", flavour]);
    }
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "{flavour}: {status}");
    let built = folder.join(TARGET).join("release");
    let driver = own.join("wperf-driver.sys");
    for (from, to) in [
        ("wperf-driver.exe", "wperf-driver.sys"),
        ("wperf_driver.pdb", "wperf_driver.pdb"),
    ] {
        // Another test may have the former one mapped: it keeps it.
        let fresh = own.join(format!("{to}.{}", std::process::id()));
        std::fs::copy(built.join(from), &fresh).expect("it is built");
        std::fs::rename(&fresh, own.join(to)).expect("a copy");
    }
    driver
}

/// The flavour that one of the variables chooses, as the build says.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn chosen_by(variable: &str, value: &str) -> String {
    let folder = target_folder().join("flavours/variables");
    let mut build = cargo(&folder);
    build
        .args(["build", "--quiet", "--package", "trace"])
        .env(variable, value);
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "{variable}: {status}");
    let outputs = std::fs::read_dir(folder.join("debug/build")).expect("build scripts ran");
    let output = outputs
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("output")).ok())
        .find(|output| output.contains("rustc-cfg=flavour="))
        .expect("the build script of tracing ran");
    let flavour = output
        .lines()
        .find_map(|line| line.strip_prefix("cargo::rustc-cfg=flavour="));
    flavour.expect("it says so").trim_matches('"').to_owned()
}
