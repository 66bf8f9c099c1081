//! `Rtl…Bit…`: bitmaps in the driver's memory.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest::{self, get};
use crate::machine::current;
use lab_verifier::RuleId;
use nt::base::BOOLEAN;
use nt::bitmap::RTL_BITMAP;

exports! {
    bitmap;

    fn RtlInitializeBitMap(BitMapHeader: *mut RTL_BITMAP, BitMapBuffer: *mut u32, SizeOfBitMap: u32) {
        guest::write(BitMapHeader, RTL_BITMAP { SizeOfBitMap, Buffer: BitMapBuffer });
    }
    fn RtlClearAllBits(BitMapHeader: *mut RTL_BITMAP) { fill(BitMapHeader, 0) }
    fn RtlSetAllBits(BitMapHeader: *mut RTL_BITMAP) { fill(BitMapHeader, u32::MAX) }
    fn RtlClearBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) { change(BitMapHeader, BitNumber, 1, false) }
    fn RtlSetBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) { change(BitMapHeader, BitNumber, 1, true) }
    fn RtlTestBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) -> BOOLEAN { u8::from(test(BitMapHeader, BitNumber)) }
    fn RtlClearBits(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, NumberToClear: u32) { change(BitMapHeader, StartingIndex, NumberToClear, false) }
    fn RtlSetBits(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, NumberToSet: u32) { change(BitMapHeader, StartingIndex, NumberToSet, true) }
    fn RtlAreBitsClear(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, Length: u32) -> BOOLEAN { u8::from(are(BitMapHeader, StartingIndex, Length, false)) }
    fn RtlAreBitsSet(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, Length: u32) -> BOOLEAN { u8::from(are(BitMapHeader, StartingIndex, Length, true)) }
    fn RtlNumberOfSetBits(BitMapHeader: *mut RTL_BITMAP) -> u32 { count(BitMapHeader, true) }
    fn RtlNumberOfClearBits(BitMapHeader: *mut RTL_BITMAP) -> u32 { count(BitMapHeader, false) }
    fn RtlFindClearBits(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 { find(BitMapHeader, NumberToFind, HintIndex, false) }
    fn RtlFindSetBits(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 { find(BitMapHeader, NumberToFind, HintIndex, true) }
    fn RtlFindClearBitsAndSet(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 { find_and_change(BitMapHeader, NumberToFind, HintIndex, true) }
    fn RtlFindSetBitsAndClear(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 { find_and_change(BitMapHeader, NumberToFind, HintIndex, false) }
}

/// No run was found.
const NONE: u32 = u32::MAX;

fn fill(map: *mut RTL_BITMAP, word: u32) {
    let buffer = get!(map, Buffer);
    for index in 0..get!(map, SizeOfBitMap).div_ceil(32) as usize {
        guest::write(buffer.wrapping_add(index), word);
    }
}

fn test(map: *mut RTL_BITMAP, bit: u32) -> bool {
    let word = guest::read(get!(map, Buffer).wrapping_add(bit as usize / 32));
    word >> (bit % 32) & 1 != 0
}

fn change(map: *mut RTL_BITMAP, start: u32, length: u32, set: bool) {
    let size = get!(map, SizeOfBitMap);
    if start.checked_add(length).is_none_or(|end| end > size) {
        let what = format!("bits {start} to {start}+{length} of a bitmap of {size} bits");
        current().violate(
            RuleId::BadObject,
            [map as u64, u64::from(start), u64::from(length), 0],
            what,
        );
    }
    for bit in start..start + length {
        let word = get!(map, Buffer).wrapping_add(bit as usize / 32);
        let mask = 1 << (bit % 32);
        let old = guest::read(word);
        guest::write(word, if set { old | mask } else { old & !mask });
    }
}

fn are(map: *mut RTL_BITMAP, start: u32, length: u32, set: bool) -> bool {
    let inside = start
        .checked_add(length)
        .is_some_and(|end| end <= get!(map, SizeOfBitMap));
    inside && (start..start + length).all(|bit| test(map, bit) == set)
}

fn count(map: *mut RTL_BITMAP, set: bool) -> u32 {
    let bits = (0..get!(map, SizeOfBitMap)).filter(|bit| test(map, *bit) == set);
    u32::try_from(bits.count()).unwrap_or(u32::MAX)
}

fn find(map: *mut RTL_BITMAP, length: u32, hint: u32, set: bool) -> u32 {
    let size = get!(map, SizeOfBitMap);
    let hint = if hint < size { hint } else { 0 };
    if length == 0 {
        return hint & !7;
    }
    if length > size {
        return NONE;
    }
    let mut run = 0;
    // From the hint to the end, then from the start to where a run could reach the hint.
    let (tail, head) = (hint..size, 0..(hint + length - 1).min(size));
    for bit in tail.chain(head) {
        if bit == 0 {
            run = 0;
        }
        run = if test(map, bit) == set { run + 1 } else { 0 };
        if run == length {
            return bit + 1 - length;
        }
    }
    NONE
}

fn find_and_change(map: *mut RTL_BITMAP, length: u32, hint: u32, set: bool) -> u32 {
    let start = find(map, length, hint, !set);
    if start != NONE {
        change(map, start, length, set);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_behind_the_hint_and_then_before_it() {
        let mut words = [0xFFFF_00FFu32, 0xFFFF_FFF0];
        let mut map = RTL_BITMAP {
            SizeOfBitMap: 64,
            Buffer: words.as_mut_ptr(),
        };
        let map = &raw mut map;
        assert_eq!(find(map, 8, 0, false), 8);
        assert_eq!(find(map, 8, 40, false), 8, "before the hint");
        assert_eq!(find(map, 4, 20, false), 32, "behind it");
        assert_eq!(find(map, 9, 0, false), NONE);
        assert_eq!(find(map, 65, 0, true), NONE);
        assert_eq!(count(map, false), 12);
        assert_eq!(find_and_change(map, 8, 0, true), 8);
        assert!(are(map, 0, 32, true) && !are(map, 0, 33, true) && !are(map, 60, 5, true));
    }
}
