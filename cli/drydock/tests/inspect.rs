//! `drydock inspect` as a user meets it.

#[expect(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../lab/image/tests/image/support.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use support::{DriverFile, ordinary, real_driver};

fn drydock(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drydock"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Inspects a file with these bytes.
fn inspect(bytes: &[u8], options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("driver.sys"), bytes).unwrap();
    let arguments = [&["inspect", "driver.sys"], options].concat();
    drydock(&arguments, folder.path())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn stdout_of(bytes: &[u8]) -> String {
    let output = inspect(bytes, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A driver with something in every part of the report.
fn eventful() -> DriverFile {
    let mut file = ordinary();
    // rdmsr; shl rdx, 32; ret; syscall; mov rax, KUSD + 0x320; ret
    file.text = vec![
        0x0f, 0x32, 0x48, 0xc1, 0xe2, 0x20, 0xc3, 0x0f, 0x05, 0x48, 0xb8,
    ];
    file.text
        .extend_from_slice(&0xffff_f780_0000_0320_u64.to_le_bytes());
    file.text.push(0xc3);
    file.functions = vec![(
        support::TEXT,
        support::TEXT + u32::try_from(file.text.len()).unwrap(),
    )];
    file.text_flags |= object::pe::IMAGE_SCN_MEM_WRITE;
    file.imports = vec!["DbgPrint", "NoSuchExport"];
    file
}

#[test]
fn the_report_begins_with_what_the_lab_lacks() {
    insta::assert_snapshot!(stdout_of(&eventful().build()));
}

#[test]
fn the_same_facts_are_told_as_json() {
    let output = inspect(&eventful().build(), &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    insta::assert_json_snapshot!(report);
}

#[test]
fn symbols_beside_the_driver_name_its_functions() {
    let driver = real_driver("x86_64");
    let folder = driver.pdb.parent().unwrap();
    let output = drydock(&["inspect", "sample.exe"], folder);
    let output = text(&output.stdout);
    assert!(output.contains("sample::DriverEntry"), "{output}");
    assert!(output.contains("sample::read_msr"), "{output}");
    let alone = stdout_of(&driver.image);
    assert!(alone.contains("no PDB found"), "{alone}");
}

#[test]
fn arm64_drivers_are_inspected_without_their_code() {
    let output = stdout_of(&real_driver("aarch64").image);
    assert!(output.contains("Arm64, native subsystem"), "{output}");
    assert!(output.contains("not analysed"), "{output}");
}

#[test]
fn malformed_input_is_told_once_and_has_its_own_exit_code() {
    let whole = ordinary().build();
    for bytes in [&b"#!/bin/sh\n"[..], b"", &whole[..700], &whole[..200]] {
        let output = inspect(bytes, &[]);
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stdout.is_empty());
        let message = text(&output.stderr);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with("drydock: driver.sys: "), "{message}");
        assert!(message.contains("offset"), "{message}");
    }
}

#[test]
fn wrong_usage_and_a_missing_file_have_other_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(drydock(&["inspect"], folder.path()).status.code(), Some(2));
    assert_eq!(
        drydock(&["dock-nothing"], folder.path()).status.code(),
        Some(2)
    );
    let missing = drydock(&["inspect", "none.sys"], folder.path());
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("none.sys"));
}

#[test]
fn names_in_the_file_cannot_disturb_the_terminal() {
    let mut bytes = eventful().build();
    let at = memchr::memmem::find(&bytes, b"NoSuchExport").unwrap();
    bytes[at..at + 4].copy_from_slice(b"\x1b[2J");
    let output = stdout_of(&bytes);
    assert!(!output.contains('\x1b'), "{output:?}");
    assert!(output.contains("\\u{1b}[2J"), "{output}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn changed_headers_end_in_a_report_or_an_explanation(
        changes in prop::collection::vec((0..0x400_usize, any::<u8>()), 1..16),
    ) {
        let mut bytes = eventful().build();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let output = inspect(&bytes, &[]);
        prop_assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    }
}
