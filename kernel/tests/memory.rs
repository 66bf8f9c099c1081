//! The memory routines of drivers, beside those of the standard library.
#![expect(unsafe_code, reason = "calls raw memory routines")]

#[path = "../src/runtime/memory.rs"]
mod memory;

use proptest::prelude::*;

const LEN: usize = 200;

/// Bytes, and a source, a destination and a length within them.
fn region() -> impl Strategy<Value = (Vec<u8>, usize, usize, usize)> {
    let bytes = prop::collection::vec(any::<u8>(), LEN);
    (bytes, 0..LEN / 2, 0..LEN / 2, 0..LEN / 2)
}

proptest! {
    #[test]
    fn memmove_copies_over_any_overlap((mut bytes, from, to, length) in region()) {
        let mut expected = bytes.clone();
        expected.copy_within(from..from + length, to);
        let start = bytes.as_mut_ptr();
        // SAFETY: both regions end within the bytes: offsets and length are below half of them.
        unsafe { memory::memmove(start.wrapping_add(to), start.wrapping_add(from), length) };
        prop_assert_eq!(bytes, expected);
    }

    #[test]
    fn memcpy_copies_so_much_and_no_more((bytes, from, to, length) in region()) {
        let mut copy = vec![0; LEN];
        let mut expected = copy.clone();
        expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
        let destination = copy.as_mut_ptr().wrapping_add(to);
        // SAFETY: both regions end within their bytes, which are different ones.
        unsafe { memory::memcpy(destination, bytes.as_ptr().wrapping_add(from), length) };
        prop_assert_eq!(copy, expected);
    }

    #[test]
    fn memset_fills_with_the_low_byte((mut bytes, _, to, length) in region(), value: i32) {
        let mut expected = bytes.clone();
        expected[to..to + length].fill(value.to_le_bytes()[0]);
        // SAFETY: the region ends within the bytes.
        unsafe { memory::memset(bytes.as_mut_ptr().wrapping_add(to), value, length) };
        prop_assert_eq!(bytes, expected);
    }

    #[test]
    fn memcmp_orders_as_slices_do((bytes, a, b, length) in region()) {
        let (left, right) = (&bytes[a..a + length], &bytes[b..b + length]);
        // SAFETY: both are slices of that length.
        let order = unsafe { memory::memcmp(left.as_ptr(), right.as_ptr(), length) };
        prop_assert_eq!(order.cmp(&0), left.cmp(right));
    }
}
