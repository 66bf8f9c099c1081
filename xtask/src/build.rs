//! Building drivers and programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// A processor that drivers are built for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processor {
    X64,
    Arm64,
}

impl Processor {
    pub(crate) const ALL: [Self; 2] = [Self::X64, Self::Arm64];

    fn target(self) -> &'static str {
        match self {
            Self::X64 => "x86_64-pc-windows-msvc",
            Self::Arm64 => "aarch64-pc-windows-msvc",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::X64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// Target of the Windows command line: links with Debian's mingw-w64.
pub(crate) const WINDOWS_PROGRAMS: &str = "x86_64-pc-windows-gnu";

/// A driver of the workspace: package, and the processors it is for.
const DRIVERS: [(&str, &[Processor]); 3] = [
    ("wperf-driver", &Processor::ALL),
    ("faulty-driver", &[Processor::X64]),
    ("kernel-test-driver", &[Processor::X64]),
];

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Runs a command in the workspace and fails when it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if status.success() {
        Ok(())
    } else {
        bail!("{name}: {status}")
    }
}

/// A cargo command.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Adds the targets that are missing; rustup does so by itself only for a toolchain that it installs.
pub(crate) fn add_targets() -> anyhow::Result<()> {
    let wanted = [
        Processor::X64.target(),
        Processor::Arm64.target(),
        WINDOWS_PROGRAMS,
    ];
    let installed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .current_dir(root())
        .output();
    let installed = installed.context("cannot run rustup, which adds the Windows targets")?;
    let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
    let missing = wanted
        .into_iter()
        .filter(|target| !installed.lines().any(|line| line == *target));
    for target in missing {
        run(Command::new("rustup").args(["target", "add", target]))?;
    }
    Ok(())
}

/// Builds all drivers for these processors.
pub(crate) fn drivers(processors: &[Processor]) -> anyhow::Result<()> {
    for processor in processors {
        let built = DRIVERS
            .iter()
            .filter(|(_, processors)| processors.contains(processor));
        driver(
            *processor,
            &built.map(|(package, _)| *package).collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

/// Builds drivers and puts `.sys` and `.pdb` side by side under `drivers/`.
pub(crate) fn driver(processor: Processor, packages: &[&str]) -> anyhow::Result<()> {
    add_targets()?;
    let mut build = cargo(&[
        "build",
        "--release",
        "--quiet",
        "--target",
        processor.target(),
    ]);
    run(build.args(packages.iter().flat_map(|package| ["--package", package])))?;
    let from = target_folder().join(processor.target()).join("release");
    let to = target_folder().join("drivers").join(processor.folder());
    std::fs::create_dir_all(&to)?;
    for package in packages {
        copy(
            &from.join(format!("{package}.exe")),
            &to.join(format!("{package}.sys")),
        )?;
        let pdb = format!("{}.pdb", package.replace('-', "_"));
        copy(&from.join(&pdb), &to.join(&pdb))?;
    }
    Ok(())
}

/// Copies a file unless the copy is as new: whoever has it open or mapped is not disturbed.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    if modified(to)
        .zip(modified(from))
        .is_some_and(|(copy, original)| copy >= original)
    {
        return Ok(());
    }
    let fresh = to.with_extension("new");
    std::fs::copy(from, &fresh).with_context(|| format!("cannot copy {}", from.display()))?;
    std::fs::rename(&fresh, to).with_context(|| format!("cannot replace {}", to.display()))
}

/// Builds the command lines for this machine; gives the folder they are in.
pub(crate) fn programs() -> anyhow::Result<PathBuf> {
    run(&mut cargo(&[
        "build",
        "--quiet",
        "--profile",
        "lab",
        "--package",
        "drydock",
        "--package",
        "wperf",
    ]))?;
    Ok(target_folder().join("lab"))
}
