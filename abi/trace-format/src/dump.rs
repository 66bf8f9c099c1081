//! The recorder's block in nonpaged memory, which a crash dump has: as secondary data under a
//! [tag] of the driver's build, and where the dump holds the kernel's memory, there too.
//!
//! ```text
//!  0     [`Head`]
//!  96    [`RingHead`] of ring 0, then its slots
//!        [`RingHead`] of ring 1, …
//! ```
//! As secondary data, the rings come in any order, and what did not fit is missing at the end. Head and
//! ring heads are written when the system stops; before that, the ring's state is in its
//! [control record](RING_POSITION) alone.

use core::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::request::{Clocks, Information};
use crate::slot::SLOT_BYTES;

/// What the block begins with.
pub const BLOCK_MAGIC: [u8; 8] = *b"DRYDUMP1";

/// What each ring begins with.
pub const RING_MAGIC: [u8; 8] = *b"DRYRING1";

/// Beginning of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// [`BLOCK_MAGIC`].
    pub magic: [u8; 8],
    /// Address of this block: tells it from a copy.
    pub address: u64,
    /// Address of the first ring's control record; the others follow.
    pub rings: u64,
    /// Bytes of a control record.
    pub ring_bytes: u32,
    /// 0.
    pub reserved: u32,
    /// Who records; its clocks are those of the beginning.
    pub information: Information,
    /// When the system stopped; zeros before.
    pub stopped: Clocks,
}

/// State of a ring when the system stopped; its slots follow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RingHead {
    /// [`RING_MAGIC`]; zeros before the system stopped.
    pub magic: [u8; 8],
    /// As in [`ReadRequest`](crate::request::ReadRequest).
    pub ring: u32,
    /// Number of slots.
    pub slots: u32,
    /// Position that the next event would have had.
    pub position: u64,
    /// Position from which on events were counted only.
    pub limit: u64,
    /// Position of the first event since recording began anew.
    pub start: u64,
    /// 0.
    pub reserved: [u64; 3],
}

/// Where a ring's control record has its position. Units: bytes, as of the limit.
pub const RING_POSITION: usize = 0;
/// Where it has the position from which on events are counted only.
pub const RING_LIMIT: usize = 8;
/// Where it has the position of the first event.
pub const RING_START: usize = 32;

/// Slots that the head takes the place of.
pub const HEAD_SLOTS: usize = size_of::<Head>() / SLOT_BYTES;
/// Slots that the head of a ring takes the place of.
pub const RING_HEAD_SLOTS: usize = size_of::<RingHead>() / SLOT_BYTES;

const _: () = assert!(size_of::<Head>() == 3 * SLOT_BYTES);
const _: () = assert!(size_of::<RingHead>() == 2 * SLOT_BYTES);

/// What all tags begin with.
pub const TAG_FAMILY: [u8; 10] = [0xD1, 0x0C, 0x7A, 0xCE, 0x5E, 0x9B, 0x3F, 0x8A, 0x9D, 0x42];

/// The `GUID`, as in memory, that the secondary data of a driver file is tagged with.
///
/// `identity` is the file's `TimeDateStamp`, `SizeOfImage` and `CheckSum`: each driver has a tag of its own.
#[must_use]
pub fn tag(identity: [u32; 3]) -> [u8; 16] {
    let [time, bytes, checksum] = identity;
    let folded = checksum ^ checksum >> 16 ^ bytes;
    let [a, b, c, d] = time.to_le_bytes();
    let [e, f, ..] = folded.to_le_bytes();
    let [g, h, i, j, k, l, m, n, o, p] = TAG_FAMILY;
    [g, h, i, j, k, l, m, n, o, p, a, b, c, d, e, f]
}

/// Bytes of the block that are given next as secondary data, after `done` bytes of it were: the head, then
/// ring after ring from `first` on. `None` at the end.
#[must_use]
pub fn next_piece(done: usize, rings: usize, slots: usize, first: usize) -> Option<Range<usize>> {
    let head = size_of::<Head>();
    let Some(behind) = done.checked_sub(head) else {
        return Some(done..head);
    };
    let each = size_of::<RingHead>() + slots * SLOT_BYTES;
    let index = behind / each;
    if index >= rings {
        return None;
    }
    let start = head + (first + index) % rings * each;
    Some(start + behind % each..start + each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_build_has_a_tag_of_its_own_in_the_family() {
        let (one, other) = (tag([1, 2, 3]), tag([1, 2, 4]));
        assert_ne!(one, other);
        assert!(one.starts_with(&TAG_FAMILY) && other.starts_with(&TAG_FAMILY));
        // RFC 9562: version 8, variant 10.
        assert_eq!((one[7] >> 4, one[8] >> 6), (8, 2));
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_cover_the_block_once(
            rings in 1usize..9, slots in 0u32..5, first in 0usize..9, room in 1usize..300,
        ) {
            let slots = 1usize << slots;
            let total = size_of::<Head>() + rings * (size_of::<RingHead>() + slots * SLOT_BYTES);
            let mut seen = [0u8; 8192];
            let mut done = 0;
            while let Some(piece) = next_piece(done, rings, slots, first) {
                prop_assert!(!piece.is_empty() && piece.end <= total);
                let taken = piece.len().min(room);
                for byte in piece.take(taken) {
                    if let Some(times) = seen.get_mut(byte) {
                        *times += 1;
                    }
                }
                done += taken;
            }
            prop_assert_eq!(done, total);
            prop_assert!(seen.iter().take(total).all(|times| *times == 1));
        }
    }
}
