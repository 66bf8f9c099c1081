//! House rules that no compiler knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the workspace exists")
}

/// Rust files that git tracks below a folder.
fn sources(folder: &str) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            folder,
        ])
        .current_dir(root())
        .output();
    let output = output.expect("git is installed");
    assert!(output.status.success(), "git ls-files failed");
    let files = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let sources = files
        .lines()
        .filter(|file| file.ends_with(".rs"))
        .map(|file| root().join(file));
    sources.filter(|file| file.exists()).collect()
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Layer of a package: its top folder, with `client` apart, which any program may use.
fn layer(manifest: &str) -> String {
    let path = Path::new(manifest)
        .parent()
        .expect("a manifest is in a folder");
    let inside = path
        .strip_prefix(root())
        .expect("a member is in the workspace");
    match inside.to_str() {
        Some("lab/client") => "lab/client".into(),
        Some("cli/drydock") => "cli/drydock".into(),
        Some("tests/faulty-driver" | "tests/kernel-driver") => "drivers".into(),
        _ => inside
            .components()
            .next()
            .expect("not the root")
            .as_os_str()
            .to_string_lossy()
            .into_owned(),
    }
}

/// Who may depend on whom.
const LAYERS: &[(&str, &[&str])] = &[
    ("abi", &["abi"]),
    ("lib", &["lib", "abi"]),
    ("kernel", &["kernel", "lib", "abi"]),
    ("drivers", &["drivers", "kernel", "lib", "abi"]),
    ("lab", &["lab", "lab/client", "abi"]),
    ("lab/client", &["abi"]),
    ("cli", &["cli", "lib", "abi", "lab/client"]),
    ("cli/drydock", &["cli", "lib", "abi", "lab", "lab/client"]),
    (
        "tests",
        &[
            "abi",
            "lib",
            "lab",
            "lab/client",
            "drivers",
            "cli",
            "cli/drydock",
        ],
    ),
    ("xtask", &[]),
];

#[test]
fn every_crate_depends_only_on_layers_that_it_may() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output();
    let metadata: Value =
        serde_json::from_slice(&metadata.expect("cargo runs").stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let layer_of: BTreeMap<_, _> = packages
        .iter()
        .map(|package| {
            (
                package["name"].as_str().expect("a name"),
                layer(package["manifest_path"].as_str().expect("a path")),
            )
        })
        .collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let (_, allowed) = LAYERS
            .iter()
            .find(|(layer, _)| *layer == layer_of[name])
            .unwrap_or_else(|| panic!("{name} is in no known layer"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("a name");
            let is_forbidden = layer_of
                .get(other)
                .is_some_and(|layer| !allowed.contains(&layer.as_str()));
            if is_forbidden {
                wrong.push(format!(
                    "{name} ({}) must not depend on {other} ({})",
                    layer_of[name], layer_of[other]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lines of a file before its tests.
fn lines_without_tests(text: &str) -> usize {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .count()
}

#[test]
fn no_file_is_longer_than_seven_hundred_lines_without_its_tests() {
    let long: Vec<_> = sources(".")
        .into_iter()
        .filter(|file| !file.components().any(|part| part.as_os_str() == "tests"))
        .map(|file| (lines_without_tests(&text(&file)), file))
        .filter(|(lines, _)| *lines > 700)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn build_logic_stays_under_six_hundred_lines() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines: usize = sources("xtask/src")
        .iter()
        .map(|file| text(file).lines().filter(is_code).count())
        .sum();
    assert!(lines <= 600, "{lines} lines of code in xtask/src");
}

#[test]
fn every_function_of_the_kernel_crate_states_its_irql() {
    let mut missing = Vec::new();
    for file in sources("kernel/src") {
        let text = text(&file);
        let lines: Vec<&str> = text.lines().take(lines_without_tests(&text)).collect();
        for (index, line) in lines.iter().enumerate() {
            let declares = [
                "pub fn ",
                "pub unsafe fn ",
                "pub extern ",
                "pub unsafe extern ",
            ];
            if !declares
                .iter()
                .any(|start| line.trim_start().starts_with(start))
            {
                continue;
            }
            let documentation = lines[..index].iter().rev().take_while(|line| {
                let line = line.trim_start();
                line.starts_with("///") || line.starts_with("#[")
            });
            if !documentation.clone().any(|line| line.contains("IRQL")) {
                missing.push(format!("{}:{}: {}", file.display(), index + 1, line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "no IRQL line:\n{}", missing.join("\n"));
}

/// Folders whose crates forbid `unsafe`, all but the named modules of which the macro of `nt` is one.
#[test]
fn unsafe_code_is_only_where_the_folders_say() {
    let allowed: BTreeSet<&str> = [
        "abi/nt",
        "kernel",
        "lib/trace",
        "lab/ntos",
        "lab/image",
        "cli/wperf",
        "tests/faulty-driver",
        // `defmt` wants a promise of its logger.
        "tests/benches/lab/peers.rs",
    ]
    .into();
    let mut wrong = Vec::new();
    for file in sources(".") {
        let relative = file
            .strip_prefix(root())
            .expect("inside")
            .to_string_lossy()
            .into_owned();
        if allowed.iter().any(|folder| relative.starts_with(folder))
            || relative.starts_with("xtask")
        {
            continue;
        }
        let uses = text(&file).lines().any(|line| {
            let code = line.trim_start();
            !code.starts_with("//")
                && (code.contains("unsafe {")
                    || code.contains("unsafe fn")
                    || code.contains("unsafe impl"))
        });
        if uses {
            wrong.push(relative);
        }
    }
    assert!(wrong.is_empty(), "unsafe in {wrong:?}");
}

#[test]
fn exceptions_to_lints_carry_a_reason() {
    let mut wrong = Vec::new();
    for file in sources(".") {
        let text = text(&file);
        let starts = text.match_indices("expect(").filter(|(at, _)| {
            let before = &text[..*at];
            before.ends_with("#[") || before.ends_with("#![") || before.ends_with(", ")
        });
        for (at, _) in starts {
            let is_lint = text[at..].starts_with("expect(clippy")
                || text[at..].starts_with("expect(unsafe_code")
                || text[at..].starts_with("expect(\n");
            let end = text[at..].find(")]").map_or(text.len(), |end| at + end);
            if is_lint && !text[at..end].contains("reason") {
                wrong.push(format!("{}: {}", file.display(), &text[at..end]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let output = Command::new("git")
        .args([
            "grep",
            "-nIE",
            "/(work|root)/[a-z.]",
            "--",
            ".",
            ":!xtask/tests/house.rs",
        ])
        .current_dir(root())
        .output();
    let found = String::from_utf8_lossy(&output.expect("git is installed").stdout).into_owned();
    assert!(found.is_empty(), "paths of one machine:\n{found}");
}
