//! Finds the control codes that a driver handles, in its code.
//!
//! From the dispatch routine on, calls and jumps are followed. What counts:
//! numbers that something is compared with, through any chain of additions
//! and subtractions (how compilers write a `switch`), also of a base in a register; the range of a jump
//! table; and arrays of codes in data that the code refers to. A number must
//! look like a control code. What is found is a guess in both directions: a
//! code too many costs a request that the driver refuses.

#[cfg(test)]
mod bytes;
mod table;
mod walk;

use std::collections::BTreeSet;

use lab_image::Image;

/// Codes that are kept, at most.
const MAX_CODES: usize = 512;

/// The control codes of the dispatch routine at `dispatch`, an offset in the image; ascending.
#[must_use]
pub fn find(image: &Image, dispatch: u32) -> Vec<u32> {
    let seen = walk::from(image, dispatch);
    let mut codes: BTreeSet<u32> = seen
        .compared
        .into_iter()
        .filter(|code| plausible(*code))
        .collect();
    for rva in seen.data {
        codes.extend(table::at(image, rva));
    }
    // Immediate operands that nothing is compared with here count if others of the same device type are.
    let types: BTreeSet<u32> = codes.iter().map(|code| code >> 16).collect();
    let likely =
        |code: &u32| plausible(*code) && function(*code) >= 0x800 && types.contains(&(code >> 16));
    codes.extend(seen.mentioned.into_iter().filter(likely));
    codes.into_iter().take(MAX_CODES).collect()
}

fn function(code: u32) -> u32 {
    code >> 2 & 0xFFF
}

/// Whether a number can be a control code: a device type of Microsoft's or of a vendor, and not an NTSTATUS.
fn plausible(code: u32) -> bool {
    match code >> 16 {
        1..=0x60 => true,
        0x8000..0xFFFF => function(code) >= 0x800,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_status_a_size_or_minus_one_is_no_code() {
        for code in [0x22_2000, 0x7_0000, 0x8D77_2004, 0x9C40_2000] {
            assert!(plausible(code), "{code:#x}");
        }
        for number in [
            0,
            0x1000,
            0xFFFF_FFFF,
            0xC000_0010,
            0x8000_0005,
            0xC000_009A,
        ] {
            assert!(!plausible(number), "{number:#x}");
        }
    }
}
