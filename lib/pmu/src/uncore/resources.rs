//! Resource lists as the registry keeps them: where a device's registers are.
//!
//! ```text
//!  CM_RESOURCE_LIST  Count │ CM_FULL_RESOURCE_DESCRIPTOR …
//!     InterfaceType, BusNumber │ Version, Revision, Count │ CM_PARTIAL_RESOURCE_DESCRIPTOR …
//!        Type, ShareDisposition, Flags │ 16 bytes that depend on the type
//! ```
//! Source: wdm.h; a list is packed, so fields need not be aligned.

/// Bytes of a `CM_PARTIAL_RESOURCE_DESCRIPTOR`.
const PARTIAL: usize = 20;
/// `CmResourceTypeMemory`, `CmResourceTypeDeviceSpecific`, `CmResourceTypeMemoryLarge`.
const MEMORY: u8 = 3;
const DEVICE_SPECIFIC: u8 = 5;
const MEMORY_LARGE: u8 = 7;
/// `CM_RESOURCE_MEMORY_LARGE_40`, `_48`, `_64`, and how far each shifts the length.
const LARGE: [(u16, u32); 3] = [(0x200, 8), (0x400, 16), (0x800, 32)];

/// Physical memory that a device decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Physical address.
    pub start: u64,
    /// Units: bytes.
    pub length: u64,
}

/// The memory of a list, in its order. A list that is cut off ends where it is cut off, and memory that
/// would reach past the end of all addresses, or is none, is not among it.
#[must_use]
pub fn memory(list: &[u8]) -> MemoryOf<'_> {
    let (count, rest) = list.split_first_chunk().unwrap_or((&[0; 4], &[]));
    MemoryOf {
        rest,
        full: u32::from_le_bytes(*count),
        partial: 0,
    }
}

/// Memory of a resource list.
#[derive(Clone, Debug)]
pub struct MemoryOf<'a> {
    rest: &'a [u8],
    /// Full descriptors that are still to come.
    full: u32,
    /// Partial descriptors of the present one that are still to come.
    partial: u32,
}

impl Iterator for MemoryOf<'_> {
    type Item = Memory;

    fn next(&mut self) -> Option<Memory> {
        loop {
            if self.partial == 0 {
                self.full = self.full.checked_sub(1)?;
                // InterfaceType, BusNumber, Version, Revision, Count.
                let (head, rest) = self.rest.split_first_chunk::<16>()?;
                let [.., a, b, c, d] = *head;
                self.partial = u32::from_le_bytes([a, b, c, d]);
                self.rest = rest;
                continue;
            }
            self.partial -= 1;
            let (descriptor, rest) = self.rest.split_first_chunk::<PARTIAL>()?;
            self.rest = rest;
            if descriptor[0] == DEVICE_SPECIFIC {
                // So many bytes follow.
                let length = field(descriptor, 4) as usize;
                self.rest = rest.get(length..)?;
            }
            if let Some(memory) = memory_of(descriptor) {
                return Some(memory);
            }
        }
    }
}

fn memory_of(descriptor: &[u8; PARTIAL]) -> Option<Memory> {
    let flags = u16::from_le_bytes([descriptor[2], descriptor[3]]);
    let shift = match descriptor[0] {
        MEMORY => 0,
        MEMORY_LARGE => LARGE.iter().find(|(flag, _)| flags & flag != 0)?.1,
        _ => return None,
    };
    let start = u64::from(field(descriptor, 4)) | u64::from(field(descriptor, 8)) << 32;
    let length = u64::from(field(descriptor, 12)) << shift;
    let fits = length != 0 && start.checked_add(length).is_some();
    fits.then_some(Memory { start, length })
}

fn field(descriptor: &[u8; PARTIAL], at: usize) -> u32 {
    let bytes = descriptor.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn descriptor(kind: u8, flags: u16, start: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![kind, 0];
        bytes.extend(flags.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    fn list(full: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut bytes = u32::try_from(full.len()).unwrap().to_le_bytes().to_vec();
        for descriptors in full {
            bytes.extend([0; 8]);
            bytes.extend([1, 0, 1, 0]);
            let partial = descriptors.len();
            bytes.extend(u32::try_from(partial).unwrap().to_le_bytes());
            bytes.extend(descriptors.concat());
        }
        bytes
    }

    fn found(list: &[u8]) -> Vec<(u64, u64)> {
        memory(list)
            .map(|memory| (memory.start, memory.length))
            .collect()
    }

    #[test]
    fn memory_is_found_among_other_resources_and_in_every_full_descriptor() {
        let interrupt = descriptor(2, 0, 7, 0);
        let specific = [descriptor(DEVICE_SPECIFIC, 0, 4, 0), vec![0xFF; 4]].concat();
        let bytes = list(&[
            vec![interrupt, descriptor(MEMORY, 0, 0x1_0000_0A00, 0x600)],
            vec![],
            vec![specific, descriptor(MEMORY_LARGE, 0x200, 0x2000, 3)],
        ]);
        assert_eq!(found(&bytes), [(0x1_0000_0A00, 0x600), (0x2000, 0x300)]);
    }

    #[test]
    fn a_list_that_is_cut_off_gives_what_is_whole() {
        let bytes = list(&[vec![
            descriptor(MEMORY, 0, 0x1000, 1),
            descriptor(MEMORY, 0, 0x2000, 2),
        ]]);
        assert_eq!(found(&bytes[..bytes.len() - 1]), [(0x1000, 1)]);
        for length in 0..4 + 16 + PARTIAL {
            assert_eq!(found(&bytes[..length]), []);
        }
    }

    #[test]
    fn memory_that_cannot_be_is_none() {
        let bytes = list(&[vec![
            descriptor(MEMORY, 0, u64::MAX, 2),
            descriptor(MEMORY, 0, 0x1000, 0),
            descriptor(MEMORY_LARGE, 0, 0x1000, 1),
        ]]);
        assert_eq!(found(&bytes), []);
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic_or_go_on_for_ever(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let most = bytes.len() / PARTIAL;
            prop_assert!(memory(&bytes).take(most + 1).count() <= most);
        }
    }
}
