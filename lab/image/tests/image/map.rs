//! What is in memory once an image is mapped.
#![expect(unsafe_code, reason = "reads the memory of mapped images")]

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use lab_image::{Image, Loader, MapError, MapOptions, MappedImage, Paged, Protection};

use crate::support::{BASE, DATA, DriverFile, TEXT, ordinary};

const ALIAS: u64 = 0x7000_0000;
const COOKIE: u64 = 0x1234_5678_9abc;

fn map(file: &DriverFile) -> Result<MappedImage, MapError> {
    let image = Arc::new(Image::parse(&file.build()).unwrap());
    let options = MapOptions {
        bind: &mut |import| 0x1000 + u64::from(import.iat_rva),
        routine: &mut |_| None,
        kusd_alias: ALIAS,
        cookie: COOKIE,
    };
    Loader::new(image).map(options)
}

fn read<const N: usize>(mapped: &MappedImage, rva: u32) -> [u8; N] {
    let pointer = std::ptr::with_exposed_provenance::<[u8; N]>(
        usize::try_from(mapped.address_of(rva)).unwrap(),
    );
    // SAFETY: the tests read readable sections of a living mapping.
    unsafe { pointer.read_unaligned() }
}

fn read_u64(mapped: &MappedImage, rva: u32) -> u64 {
    u64::from_le_bytes(read(mapped, rva))
}

#[test]
fn relocations_imports_and_cookie_are_written() {
    let mapped = map(&ordinary()).unwrap();
    assert_eq!(
        read_u64(&mapped, DATA),
        mapped.base() + u64::from(DATA) + 16
    );
    for index in 0..2 {
        let slot = DriverFile::iat(index);
        assert_eq!(read_u64(&mapped, slot), 0x1000 + u64::from(slot));
    }
    assert_eq!(read_u64(&mapped, DATA + 32), COOKIE);
    assert_eq!(read(&mapped, 0), *b"MZ");
    assert_eq!(mapped.entry(), mapped.base() + u64::from(TEXT));
    assert_ne!(mapped.base(), BASE);
}

#[test]
fn shared_data_addresses_lead_to_the_alias() {
    let mut text = vec![0x48, 0xb8];
    text.extend_from_slice(&0xffff_f780_0000_0014_u64.to_le_bytes());
    text.push(0xc3);
    let mapped = map(&DriverFile::new(&text)).unwrap();
    assert_eq!(read_u64(&mapped, TEXT + 2), ALIAS + 0x14);
}

#[test]
fn silent_instructions_become_traps_that_can_be_looked_up() {
    // pushf; cli; sidt [rsp]; cpuid; ret
    let text = [0x9c, 0xfa, 0x0f, 0x01, 0x0c, 0x24, 0x0f, 0xa2, 0xc3];
    let mapped = map(&DriverFile::new(&text)).unwrap();
    assert_eq!(
        read(&mapped, TEXT),
        [0xcc, 0xfa, 0x0f, 0x0b, 0x90, 0x90, 0x0f, 0x0b, 0xc3]
    );
    let site = mapped.site_at(mapped.address_of(TEXT + 2)).unwrap();
    assert_eq!((site.kind, site.len), (lab_image::SiteKind::Sidt, 4));
    assert!(mapped.site_at(mapped.address_of(TEXT + 3)).is_none());
    assert_eq!(
        mapped.image().stored_from(site.rva).unwrap()[..4],
        text[2..6]
    );
}

/// The rights of the kernel's map at an address, as in `r-xp`.
fn rights(address: u64) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let bound = |text| u64::from_str_radix(text, 16).unwrap();
        (bound(start)..bound(end)).contains(&address)
    });
    line.map_or_else(String::new, |line| {
        line.split(' ').nth(1).unwrap().to_owned()
    })
}

#[test]
fn sections_have_their_own_protections() {
    let mapped = map(&ordinary()).unwrap();
    let at = |rva| rights(mapped.address_of(rva));
    assert_eq!(at(0), "r--p");
    assert_eq!(at(TEXT), "r-xp");
    assert_eq!(at(DATA), "rw-p");
    assert_eq!(at(0x4000), "r--p");
    let end = mapped.reserved_range().end;
    assert_eq!(rights(end - 1), "---p");
    let ranges: Vec<(Range<u64>, Protection)> = mapped.protections().collect();
    assert_eq!(ranges.first().unwrap().0.start, mapped.base());
    assert_eq!(ranges.last().unwrap().0.end, end);
    assert!(
        ranges
            .windows(2)
            .all(|pair| pair[0].0.end == pair[1].0.start)
    );
}

#[test]
fn a_writable_code_section_is_mapped_as_it_asks() {
    let mut file = ordinary();
    file.text_flags |= object::pe::IMAGE_SCN_MEM_WRITE;
    let mapped = map(&file).unwrap();
    assert_eq!(rights(mapped.address_of(TEXT)), "rwxp");
    let text = &mapped.image().sections()[0];
    assert!(text.is_executable() && text.is_writable());
}

#[test]
fn init_sections_go_and_pageable_sections_come_back() {
    let code = object::pe::IMAGE_SCN_MEM_EXECUTE | object::pe::IMAGE_SCN_MEM_READ;
    let discardable = object::pe::IMAGE_SCN_MEM_DISCARDABLE;
    let mut file = ordinary();
    file.extra = vec![
        (b"PAGE\0\0\0\0", code, vec![0xc3; 0x1800]),
        (b"INIT\0\0\0\0", code | discardable, vec![0xc3; 16]),
    ];
    let mapped = map(&file).unwrap();
    let section = |name| {
        let section = mapped
            .image()
            .sections()
            .iter()
            .find(|s| s.name == name)
            .unwrap();
        mapped.addresses_of(section)
    };
    let (page, init) = (section("PAGE"), section("INIT"));
    assert_eq!(
        (rights(page.start), rights(init.start)),
        ("r-xp".into(), "r-xp".into())
    );
    mapped.discard_init().unwrap();
    mapped.set_paged_out(Paged::Out).unwrap();
    assert_eq!(
        (rights(page.start), rights(page.end - 1)),
        ("---p".into(), "---p".into())
    );
    assert_eq!(rights(init.start), "---p");
    mapped.set_paged_out(Paged::In).unwrap();
    assert_eq!(
        (rights(page.start), rights(init.start)),
        ("r-xp".into(), "---p".into())
    );
    assert_eq!(rights(mapped.address_of(TEXT)), "r-xp");
}

#[test]
fn dropping_unmaps_everything() {
    let mapped = map(&ordinary()).unwrap();
    let range = mapped.reserved_range();
    drop(mapped);
    assert_eq!(rights(range.start), "");
    assert_eq!(rights(range.end - 1), "");
}

#[test]
fn an_image_without_relocations_is_not_moved() {
    let mut bytes = ordinary().build();
    let nt = u32::from_le_bytes(bytes[0x3c..0x40].try_into().unwrap()) as usize;
    bytes[nt + 22] |= 1;
    let image = Arc::new(Image::parse(&bytes).unwrap());
    let options = MapOptions {
        bind: &mut |_| 0,
        routine: &mut |_| None,
        kusd_alias: 0,
        cookie: 1,
    };
    let error = Loader::new(image).map(options).unwrap_err();
    assert!(matches!(error, MapError::NotRelocatable { base: BASE }));
}

#[test]
fn loading_again_gives_the_same_base_and_pristine_data() {
    let mut file = ordinary();
    file.data[40] = 7;
    let loader = Loader::new(Arc::new(Image::parse(&file.build()).unwrap()));
    let load = |address: u64, cookie| {
        let options = MapOptions {
            bind: &mut |_| address,
            routine: &mut |_| None,
            kusd_alias: ALIAS,
            cookie,
        };
        loader.map(options).unwrap()
    };
    let first = load(0x1111, 5);
    let base = first.base();
    let data = std::ptr::with_exposed_provenance_mut::<u8>(
        usize::try_from(first.address_of(DATA + 40)).unwrap(),
    );
    // SAFETY: the data section is writable and mapped.
    unsafe { data.write(8) };
    drop(first);
    let second = load(0x1111, 6);
    assert_eq!(second.base(), base);
    assert_eq!(read(&second, DATA + 40), [7]);
    assert_eq!(read_u64(&second, DATA + 32), 6);
    // While it is loaded, another instance is elsewhere and correct for its own base and addresses.
    let other = load(0x2222, 7);
    assert_ne!(other.base(), base);
    for (mapped, address, cookie) in [(&second, 0x1111, 6), (&other, 0x2222, 7)] {
        assert_eq!(read_u64(mapped, DATA), mapped.address_of(DATA + 16));
        assert_eq!(read_u64(mapped, DriverFile::iat(0)), address);
        assert_eq!(read_u64(mapped, DATA + 32), cookie);
    }
}
