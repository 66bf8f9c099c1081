//! Names and lines for addresses of a linked driver.

use std::fs;

use lab_image::{Image, Symbols, SymbolsError};

use crate::support::{ordinary, real_driver};

#[test]
fn a_linked_drivers_functions_are_named_with_their_lines() {
    for processor in ["x86_64", "aarch64"] {
        let driver = real_driver(processor);
        let image = Image::parse(&driver.image).unwrap();
        let symbols = Symbols::from_pdb(&image, fs::read(&driver.pdb).unwrap()).unwrap();
        let read_msr = symbols.function_named("sample::read_msr").unwrap();
        let location = symbols.location(read_msr + 4).unwrap();
        assert_eq!(
            (location.frame.function.as_str(), location.offset),
            ("sample::read_msr", 4)
        );
        assert!(location.frame.file.unwrap().ends_with("sample.rs"));
        assert!(location.frame.line.is_some());
        let entry = symbols.location(image.header().entry).unwrap();
        assert_eq!(
            (entry.frame.function.as_str(), entry.offset),
            ("sample::DriverEntry", 0)
        );
    }
}

#[test]
fn an_inlined_function_is_named_with_the_one_it_is_in() {
    let driver = real_driver("x86_64");
    let image = Image::parse(&driver.image).unwrap();
    let symbols = Symbols::from_pdb(&image, fs::read(&driver.pdb).unwrap()).unwrap();
    let entry = image.function_at(image.header().entry).unwrap();
    let inlined = (entry.begin..entry.end)
        .filter_map(|rva| symbols.location(rva))
        .find(|location| {
            location
                .inlined
                .iter()
                .any(|f| f.function == "sample::counted")
        })
        .unwrap();
    assert_eq!(inlined.frame.function, "sample::DriverEntry");
}

#[test]
fn a_pdb_of_another_build_is_refused() {
    let driver = real_driver("x86_64");
    let mut bytes = driver.image;
    let pdb = fs::read(&driver.pdb).unwrap();
    let guid = memchr::memmem::find(&bytes, b"RSDS").unwrap() + 4;
    bytes[guid] ^= 1;
    let image = Image::parse(&bytes).unwrap();
    let error = Symbols::from_pdb(&image, pdb.clone()).err().unwrap();
    assert!(matches!(error, SymbolsError::Mismatch { .. }), "{error}");
    bytes[guid] ^= 1;
    bytes[guid + 16] ^= 1;
    let image = Image::parse(&bytes).unwrap();
    assert!(matches!(
        Symbols::from_pdb(&image, pdb),
        Err(SymbolsError::Mismatch { .. })
    ));
}

#[test]
fn missing_symbols_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("driver.sys");
    let image = Image::parse(&real_driver("x86_64").image).unwrap();
    let error = Symbols::beside(&image, &path).err().unwrap();
    assert!(error.to_string().contains("sample.pdb"), "{error}");
    assert!(error.to_string().contains("driver.pdb"), "{error}");
    fs::write(folder.path().join("driver.pdb"), b"not a PDB").unwrap();
    let error = Symbols::beside(&image, &path).err().unwrap();
    assert!(matches!(error, SymbolsError::Malformed(_)), "{error}");
    let without = Image::parse(&ordinary().build()).unwrap();
    assert!(matches!(
        Symbols::beside(&without, &path),
        Err(SymbolsError::NoReference)
    ));
}

#[test]
fn the_pdb_beside_the_image_is_found() {
    let driver = real_driver("x86_64");
    let image = Image::parse(&driver.image).unwrap();
    let symbols = Symbols::beside(&image, &driver.pdb.with_file_name("renamed.sys")).unwrap();
    assert!(symbols.location(image.header().entry).is_some());
}
