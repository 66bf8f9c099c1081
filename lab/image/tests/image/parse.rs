//! What is read from good files, and what is said about bad ones.

use lab_image::{Image, ImportName, Machine, Place};

use crate::support::{BASE, DATA, DriverFile, TEXT, ordinary, real_driver};

#[test]
fn an_assembled_driver_is_read_back() {
    let image = Image::parse(&ordinary().build()).unwrap();
    assert_eq!(image.machine(), Machine::X64);
    assert_eq!(image.header().entry, TEXT);
    assert_eq!(image.header().preferred_base, BASE);
    assert_eq!(image.relocations(), [DATA]);
    let names: Vec<String> = image
        .imports()
        .iter()
        .map(|i| format!("{}!{}", i.dll, i.name))
        .collect();
    assert_eq!(
        names,
        ["ntoskrnl.exe!DbgPrint", "ntoskrnl.exe!KeBugCheckEx"]
    );
    assert_eq!(image.imports()[1].iat_rva, DriverFile::iat(1));
    let config = image.load_config().unwrap();
    assert_eq!(
        (config.cookie_rva, config.guard_flags),
        (Some(DATA + 32), 0x100)
    );
    assert_eq!(image.functions().len(), 1);
    assert_eq!(image.function_at(TEXT + 2).unwrap().begin, TEXT);
    assert!(image.function_at(TEXT + 3).is_none());
    let sections: Vec<&str> = image.sections().iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        sections,
        [".text", ".data", ".idata", ".pdata", ".rdata", ".reloc"]
    );
}

#[test]
fn a_linked_driver_is_read_back() {
    for (processor, machine) in [("x86_64", Machine::X64), ("aarch64", Machine::Arm64)] {
        let image = Image::parse(&real_driver(processor).image).unwrap();
        assert_eq!(image.machine(), machine);
        let mut names: Vec<&ImportName> = image.imports().iter().map(|i| &i.name).collect();
        names.sort_by_key(|name| name.to_string());
        let wanted = ["DbgPrint", "KdDebuggerNotPresent"].map(|n| ImportName::Name(n.into()));
        assert!(wanted.iter().all(|name| names.contains(&name)), "{names:?}");
        assert_eq!(image.relocations().len(), 1);
        assert!(image.pdb().unwrap().name.ends_with("sample.pdb"));
        assert!(image.function_at(image.header().entry).is_some());
        assert!(image.signature().is_none());
    }
}

#[test]
fn imports_by_ordinal_keep_their_number() {
    let mut bytes = ordinary().build();
    let image = Image::parse(&bytes).unwrap();
    let idata = image.sections()[2].file_offset as usize;
    bytes[idata + 0x100..][..8].copy_from_slice(&0x8000_0000_0000_002a_u64.to_le_bytes());
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(image.imports()[0].name, ImportName::Ordinal(42));
}

#[test]
fn the_checksum_is_that_of_the_linker() {
    let mut bytes = ordinary().build();
    let nt = u32::from_le_bytes(bytes[0x3c..0x40].try_into().unwrap()) as usize;
    let before = Image::parse(&bytes).unwrap().computed_checksum();
    bytes[nt + 24 + 64..][..4].copy_from_slice(&before.to_le_bytes());
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(
        image.computed_checksum(),
        before,
        "the field itself does not count"
    );
    assert_eq!(image.header().checksum, before);
    *bytes.last_mut().unwrap() ^= 1;
    assert_ne!(Image::parse(&bytes).unwrap().computed_checksum(), before);
}

/// File offsets of the headers of [`ordinary`].
struct Offsets {
    nt: usize,
    optional: usize,
    sections: usize,
}

fn offsets(bytes: &[u8]) -> Offsets {
    let nt = u32::from_le_bytes(bytes[0x3c..0x40].try_into().unwrap()) as usize;
    Offsets {
        nt,
        optional: nt + 24,
        sections: nt + 24 + 240,
    }
}

fn refusal(change: impl FnOnce(&mut Vec<u8>, &Offsets)) -> String {
    let mut bytes = ordinary().build();
    let offsets = offsets(&bytes);
    change(&mut bytes, &offsets);
    Image::parse(&bytes).unwrap_err().to_string()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn unsuitable_headers_are_refused_in_words_with_their_place() {
    let refusals = [
        refusal(|b, _| put(b, 0, b"ZM")),
        refusal(|b, _| b.truncate(20)),
        refusal(|b, o| put(b, o.nt, b"NE")),
        refusal(|b, o| put(b, o.nt + 4, &0x14c_u16.to_le_bytes())),
        refusal(|b, o| put(b, o.nt + 6, &0_u16.to_le_bytes())),
        refusal(|b, o| put(b, o.nt + 20, &100_u16.to_le_bytes())),
        refusal(|b, o| put(b, o.nt + 22, &0_u16.to_le_bytes())),
        refusal(|b, o| put(b, o.optional, &0x10b_u16.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 16, &0_u32.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 16, &DATA.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 24, &0x1234_u64.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 32, &0x1001_u32.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 56, &0x1000_0001_u32.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 60, &0x2000_u32.to_le_bytes())),
        refusal(|b, o| put(b, o.optional + 68, &3_u16.to_le_bytes())),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn sections_that_collide_or_stick_out_are_refused() {
    let second = |o: &Offsets| o.sections + 40;
    let refusals = [
        refusal(|b, o| put(b, second(o) + 12, &0x1000_u32.to_le_bytes())),
        refusal(|b, o| put(b, second(o) + 12, &0x2010_u32.to_le_bytes())),
        refusal(|b, o| put(b, second(o) + 8, &0x1001_u32.to_le_bytes())),
        refusal(|b, o| put(b, second(o) + 8, &0xffff_ffff_u32.to_le_bytes())),
        refusal(|b, o| put(b, second(o) + 20, &0x10_0000_u32.to_le_bytes())),
        refusal(|b, o| put(b, o.sections + 12, &0x200_0000_u32.to_le_bytes())),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn tables_that_lead_out_of_the_image_are_refused() {
    let directory = |o: &Offsets, index: usize| o.optional + 112 + 8 * index;
    let idata = |b: &[u8]| Image::parse(b).unwrap().sections()[2].file_offset as usize;
    let reloc = |b: &[u8]| Image::parse(b).unwrap().sections()[5].file_offset as usize;
    let pdata = |b: &[u8]| Image::parse(b).unwrap().sections()[3].file_offset as usize;
    let refusals = [
        refusal(|b, o| put(b, directory(o, 1), &0x10_0000_u32.to_le_bytes())),
        refusal(|b, _| {
            let at = idata(b);
            put(b, at + 12, &0xffff_fff0_u32.to_le_bytes())
        }),
        refusal(|b, _| {
            let at = idata(b);
            put(b, at + 16, &0x8000_u32.to_le_bytes())
        }),
        refusal(|b, _| {
            let at = idata(b);
            put(b, at + 0x100, &0x7fff_ffff_u64.to_le_bytes())
        }),
        refusal(|b, o| put(b, directory(o, 5) + 4, &0x10_0000_u32.to_le_bytes())),
        refusal(|b, _| {
            let at = reloc(b);
            put(b, at + 4, &7_u32.to_le_bytes())
        }),
        refusal(|b, _| {
            let at = reloc(b);
            put(b, at + 8, &0x3000_u16.to_le_bytes())
        }),
        refusal(|b, _| {
            let at = reloc(b);
            put(b, at, &0x2_0000_u32.to_le_bytes())
        }),
        refusal(|b, _| {
            let at = pdata(b);
            put(b, at + 4, &0x1000_u32.to_le_bytes())
        }),
        refusal(|b, o| put(b, directory(o, 10), &0x40_u32.to_le_bytes())),
        refusal(|b, o| put(b, directory(o, 4) + 4, &0x100_0000_u32.to_le_bytes())),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn an_error_tells_its_place_as_a_value() {
    let error = Image::parse(b"MZ").unwrap_err();
    assert_eq!(error.place(), Place::File(0));
}
