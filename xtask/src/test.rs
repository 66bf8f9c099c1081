//! Every check and every test; the last thing printed is the test runner's summary.

use std::process::{Command, Stdio};

use anyhow::Context;

use crate::build::{self, Processor, WINDOWS_PROGRAMS, cargo};
use crate::packages;

/// Packages that Miri can run.
const PURE: [&str; 5] = ["nt", "wperf-abi", "pmu", "trace", "trace-format"];
/// Packages that also build for Windows.
const ON_WINDOWS: [&str; 6] = ["nt", "wperf-abi", "pmu", "trace", "kernel", "wperf-driver"];

/// Runs them.
pub(crate) fn run() -> anyhow::Result<()> {
    packages::install()?;
    build::drivers(&Processor::ALL)?;
    step("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
    step(
        "clippy",
        &mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    for target in ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"] {
        let mut clippy = cargo(&["clippy", "--release", "--quiet", "--target", target]);
        clippy.args(ON_WINDOWS.iter().flat_map(|package| ["--package", package]));
        step(
            &format!("clippy for {target}"),
            clippy.args(["--", "-D", "warnings"]),
        )?;
    }
    let mut clippy = cargo(&[
        "clippy",
        "--release",
        "--quiet",
        "--target",
        "x86_64-pc-windows-msvc",
    ]);
    clippy.args(["--package", "kernel-test-driver", "--", "-D", "warnings"]);
    step("clippy for the test driver", &mut clippy)?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    step("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    miri()?;
    build::programs()?;
    step(
        "wperf.exe",
        &mut cargo(&[
            "build",
            "--release",
            "--quiet",
            "--package",
            "wperf",
            "--target",
            WINDOWS_PROGRAMS,
        ]),
    )?;
    tests()
}

fn step(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("== {name}");
    build::run(command)
}

/// Pure logic under Miri, on a nightly toolchain, which rustup adds if it is missing.
fn miri() -> anyhow::Result<()> {
    println!("== Miri");
    let has_miri = Command::new("rustup")
        .args(["run", "nightly", "cargo-miri", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !has_miri.context("cannot run rustup")?.success() {
        let have_nightly = Command::new("rustup")
            .args(["run", "nightly", "rustc", "--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if have_nightly.success() {
            build::run(Command::new("rustup").args([
                "component",
                "add",
                "miri",
                "rust-src",
                "--toolchain",
                "nightly",
            ]))?;
        } else {
            build::run(Command::new("rustup").args([
                "toolchain",
                "install",
                "nightly",
                "--profile",
                "minimal",
                "--component",
                "miri,rust-src",
            ]))?;
        }
    }
    let mut miri = Command::new("rustup");
    miri.args(["run", "nightly", "cargo", "miri", "test", "--quiet"])
        .args(PURE.iter().flat_map(|package| ["--package", package]));
    // Property tests read their seed file relative to the current folder.
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation")
        .env("PROPTEST_CASES", "1")
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC");
    miri.env("CARGO_TARGET_DIR", build::target_folder().join("miri"));
    build::run(&mut miri)
}

/// All tests, with nextest if it is there.
fn tests() -> anyhow::Result<()> {
    println!("== tests");
    let nextest = cargo(&["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if nextest.is_ok_and(|status| status.success()) {
        step(
            "documentation tests",
            &mut cargo(&["test", "--workspace", "--doc", "--quiet"]),
        )?;
        build::run(&mut cargo(&[
            "nextest",
            "run",
            "--workspace",
            "--profile",
            "ci",
        ]))
    } else {
        build::run(&mut cargo(&["test", "--workspace"]))
    }
}
