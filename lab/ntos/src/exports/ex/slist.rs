//! Interlocked singly linked lists.
//!
//! ```text
//!  SLIST_HEADER: | sequence : 48  depth : 16 | first entry : 60  kernel's : 4 |
//!  entry:        | next entry | the driver's …
//! ```
//! One context runs at a time, so nothing here needs to be interlocked.

use nt::ex::SLIST_HEADER;

use crate::guest::{self, get, set};

/// What one change adds: an entry, and a step of the sequence.
const SEQUENCE: u64 = 1 << 16;
/// Entries are 16-byte aligned; the low bits of the pointer are the kernel's.
const ALIGNED: u64 = !15;

pub(super) fn initialize(head: *mut SLIST_HEADER) {
    set!(head, Alignment = 0u64);
    set!(head, Region = 0u64);
}

/// Number of entries, modulo 65536.
pub(super) fn depth(head: *mut SLIST_HEADER) -> u16 {
    let bytes = get!(head, Alignment).to_le_bytes();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

fn change(head: *mut SLIST_HEADER, first: u64, depth: u16) {
    let sequence = get!(head, Alignment) & !0xFFFF;
    set!(
        head,
        Alignment = sequence.wrapping_add(SEQUENCE) | u64::from(depth)
    );
    set!(head, Region = first);
}

/// Puts an entry first; returns the former first one.
pub(super) fn push(head: *mut SLIST_HEADER, entry: u64) -> u64 {
    let first = get!(head, Region) & ALIGNED;
    guest::write(entry as *mut u64, first);
    change(head, entry, depth(head).wrapping_add(1));
    first
}

/// Takes the first entry; 0 when there is none.
pub(super) fn pop(head: *mut SLIST_HEADER) -> u64 {
    let first = get!(head, Region) & ALIGNED;
    if first != 0 {
        let next = guest::read(first as *const u64);
        change(head, next, depth(head).wrapping_sub(1));
    }
    first
}

/// Takes all entries; returns the first.
pub(super) fn flush(head: *mut SLIST_HEADER) -> u64 {
    let first = get!(head, Region) & ALIGNED;
    change(head, 0, 0);
    first
}

/// Whether an address can be an entry's.
pub(super) fn is_aligned(entry: u64) -> bool {
    entry & !ALIGNED == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Entry([u64; 2]);

    #[test]
    fn the_last_pushed_is_popped_first_and_the_depth_follows() {
        let mut head = SLIST_HEADER {
            Alignment: 0,
            Region: 0,
        };
        let head = &raw mut head;
        let mut entries = [Entry([9; 2]), Entry([9; 2])];
        let [a, b] = entries.each_mut().map(|entry| &raw mut entry.0 as u64);
        initialize(head);
        assert_eq!(pop(head), 0);
        assert_eq!(push(head, a), 0);
        assert_eq!(push(head, b), a);
        assert_eq!(depth(head), 2);
        assert_eq!([pop(head), pop(head), pop(head)], [b, a, 0]);
        assert_eq!(depth(head), 0);
        push(head, a);
        push(head, b);
        assert_eq!(flush(head), b);
        assert_eq!((depth(head), pop(head)), (0, 0));
        assert_eq!(get!(head, Alignment) >> 16, 7, "every change is counted");
    }
}
