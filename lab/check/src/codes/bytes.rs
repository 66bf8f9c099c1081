//! Codes that are found in given machine code.

use lab_image::Image;

use super::find;

/// Offset of the code in the image, and in the file.
const TEXT: usize = 0x1000;
const TEXT_IN_FILE: usize = 0x200;
/// Offsets in the file: NT headers, optional header, the section's header.
const NT: usize = 0x40;
const OPTIONAL: usize = NT + 24;
const SECTION: usize = OPTIONAL + 240;

/// A driver file with nothing but code.
fn driver(code: &[u8]) -> Image {
    let mut file = vec![0; TEXT_IN_FILE + 0x200];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3C, &[0x40, 0, 0, 0]);
    // Machine, one section; size of the optional header, executable with large addresses.
    put(NT, b"PE\0\0\x64\x86\x01\0");
    put(NT + 20, &[240, 0, 0x22, 0]);
    put(OPTIONAL, &[0x0B, 0x02]);
    for (at, number) in [
        (16, TEXT),
        (20, TEXT),
        (32, 0x1000),
        (36, 0x200),
        (56, 0x2000),
        (60, TEXT_IN_FILE),
        (108, 16),
    ] {
        put(OPTIONAL + at, &u32::try_from(number).unwrap().to_le_bytes());
    }
    put(OPTIONAL + 24, &0x1_4000_0000_u64.to_le_bytes());
    // Operating system and subsystem version, native.
    put(OPTIONAL + 40, &[10]);
    put(OPTIONAL + 48, &[10]);
    put(OPTIONAL + 68, &[1]);
    put(SECTION, b".text");
    for (at, number) in [
        (8, 0x200),
        (12, TEXT),
        (16, 0x200),
        (20, TEXT_IN_FILE),
        (36, 0x6000_0020),
    ] {
        put(SECTION + at, &u32::try_from(number).unwrap().to_le_bytes());
    }
    put(TEXT_IN_FILE, code);
    Image::parse(&file).unwrap()
}

fn codes(code: &[&[u8]]) -> Vec<u32> {
    find(&driver(&code.concat()), 0x1000)
}

const RET: &[u8] = &[0xC3];
/// `je` to the next instruction.
const JE: &[u8] = &[0x74, 0];
/// `ja` to the next instruction but one byte.
const JA: &[u8] = &[0x77, 1];

#[test]
fn a_base_in_a_register_plus_memory_leads_to_the_jump_table() {
    let found = codes(&[
        &[0xBA, 0x00, 0xE0, 0xDD, 0xFF],    // mov edx, -0x222000
        &[0x03, 0x50, 0x18],                // add edx, [rax+0x18]
        &[0x83, 0xFA, 0x08],                // cmp edx, 8
        &[0x77, 0x10],                      // ja default
        &[0x48, 0x8D, 0x0D, 0x0C, 0, 0, 0], // lea rcx, [rip+table]
        &[0x48, 0x63, 0x14, 0x91],          // movsxd rdx, [rcx+rdx*4]
        &[0x48, 0x01, 0xCA, 0xFF, 0xE2],    // add rdx, rcx; jmp rdx
        RET,                                // default, 3 below the table
        &[0xC3, 0xC3],                      // two cases
        &table([-2, -3, -3, -3, -1, -3, -3, -3, -2]),
    ]);
    assert_eq!(found, [0x22_2000, 0x22_2004, 0x22_2008]);
}

fn table(entries: [i32; 9]) -> Vec<u8> {
    entries
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect()
}

/// `mov eax, -0x222400; add eax, [rdx+0x18]`.
const BASE_PLUS_CODE: &[u8] = &[0xB8, 0x00, 0xDC, 0xDD, 0xFF, 0x03, 0x42, 0x18];

#[test]
fn a_rotated_sum_counts_in_steps_of_four() {
    let rotations: [&[u8]; 2] = [&[0xC1, 0xC0, 0x1E], &[0xC1, 0xC8, 0x02]];
    for rotate in rotations {
        let compares = codes(&[
            BASE_PLUS_CODE,
            rotate,
            &[0x83, 0xF8, 0x01],
            JE,
            &[0x83, 0xF8, 0x04],
            JE,
            RET,
        ]);
        assert_eq!(compares, [0x22_2404, 0x22_2410], "{rotate:x?}");
        let range = codes(&[BASE_PLUS_CODE, rotate, &[0x83, 0xF8, 0x02], JA, RET, RET]);
        assert_eq!(range, [0x22_2400, 0x22_2404, 0x22_2408], "{rotate:x?}");
    }
}

#[test]
fn a_base_in_a_register_is_subtracted_or_added_by_lea() {
    let load: &[u8] = &[0x8B, 0x42, 0x18]; // mov eax, [rdx+0x18]
    let subtracted = codes(&[
        &[0xB9, 0x00, 0x20, 0x22, 0x00], // mov ecx, 0x222000
        load,
        &[0x29, 0xC8], // sub eax, ecx
        JE,
        &[0x83, 0xE8, 0x04], // sub eax, 4
        JE,
        RET,
    ]);
    assert_eq!(subtracted, [0x22_2000, 0x22_2004]);
    let added = codes(&[
        &[0xB9, 0x00, 0xE0, 0xDD, 0xFF], // mov ecx, -0x222000
        load,
        &[0x8D, 0x04, 0x08], // lea eax, [rax+rcx]
        &[0x83, 0xF8, 0x04], // cmp eax, 4
        JE,
        RET,
    ]);
    assert_eq!(added, [0x22_2004]);
}

#[test]
fn a_number_in_a_register_alone_is_no_code() {
    let found = codes(&[
        &[0xB8, 0x00, 0xE0, 0xDD, 0xFF], // mov eax, -0x222000
        &[0x83, 0xF8, 0x04],             // cmp eax, 4
        JE,
        RET,
    ]);
    assert!(found.is_empty(), "{found:x?}");
}
