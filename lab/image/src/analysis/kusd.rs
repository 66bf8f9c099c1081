//! Addresses of KUSER_SHARED_DATA that the driver carries.
//!
//! The page is at 0xFFFFF780_00000000 for every kernel-mode program on Windows, an address that a Linux process cannot
//! map; so each address is rewritten to an alias. No x86-64 instruction can form it without its eight bytes, either as
//! an immediate (`mov r64, imm64`), as an absolute operand (`mov rax, [moffs64]`) or as data. The 52 fixed bits
//! make a chance match in code as good as impossible, and a match in data is an address too, so no decoding is needed.
//! Source: ntddk.h, `KI_USER_SHARED_DATA`.

use memchr::memmem;

use super::site::KusdReference;
use crate::image::{Image, Section};

/// Bits 32 to 63 of the address, as they are in memory.
const UPPER: [u8; 4] = [0x80, 0xf7, 0xff, 0xff];
/// Size of the shared page.
const PAGE: u32 = 0x1000;

/// Finds all of them, ascending.
pub(super) fn find(image: &Image) -> Vec<KusdReference> {
    let finder = memmem::Finder::new(&UPPER);
    image
        .sections()
        .iter()
        .flat_map(|section| {
            let bytes = image.stored(section);
            finder
                .find_iter(bytes)
                .filter_map(|upper| reference(section, bytes, upper.checked_sub(4)?))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn reference(section: &Section, bytes: &[u8], at: usize) -> Option<KusdReference> {
    let lower = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    let offset = u16::try_from(lower).ok().filter(|_| lower < PAGE)?;
    let in_code = section.is_executable() && follows_opcode(bytes, at);
    let rva = section.rva + u32::try_from(at).ok()?;
    (in_code || rva.is_multiple_of(8)).then_some(KusdReference {
        rva,
        offset,
        in_code,
    })
}

/// Whether the bytes before `at` end with an opcode that takes eight bytes of immediate or absolute address.
fn follows_opcode(bytes: &[u8], at: usize) -> bool {
    let (Some(&opcode), rex) = (
        at.checked_sub(1).and_then(|i| bytes.get(i)),
        at.checked_sub(2).and_then(|i| bytes.get(i)),
    ) else {
        return false;
    };
    let wide = matches!(rex, Some(0x48 | 0x49));
    matches!(opcode, 0xa0..=0xa3) || (wide && matches!(opcode, 0xb8..=0xbf))
}
