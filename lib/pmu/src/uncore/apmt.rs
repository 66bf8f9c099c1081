//! The ACPI table APMT: where CoreSight PMUs are.
//!
//! ```text
//!  0        36                                92
//!  ┌────────┬─────────────────────────────────┬───
//!  │ header │ node: length, flags, type, …    │ node …
//!  └────────┴─────────────────────────────────┴───
//! ```
//! The table is firmware's: no length in it is believed.
//!
//! Source: ACPI for the Arm performance monitoring unit architecture, DEN0117.

use wperf_abi::record::UnitOf;

/// Signature of the table.
pub const SIGNATURE: [u8; 4] = *b"APMT";
/// Bytes of the header that every ACPI table has; its length is at offset 4.
const HEADER: usize = 36;
/// Bytes of a node; longer ones are of a later revision, which may only append.
const NODE: usize = 56;
/// Bytes of a page of registers.
pub const PAGE: u64 = 4096;

const DUAL_PAGE: u8 = 1;
const AFFINITY_IS_CONTAINER: u8 = 2;

/// A PMU that the table describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node, which no other has.
    pub id: u32,
    /// What it is of.
    pub of: UnitOf,
    /// Which of those: the first part of its instance.
    pub instance: u64,
    /// Physical address of its registers.
    pub page_0: u64,
    /// Physical address of its counters, if they are in a page of their own.
    pub page_1: Option<u64>,
    /// ACPI processor UID of the processor it is of; `None`: of a container of processors, or of none.
    pub processor: Option<u32>,
    /// What is to be believed of it in place of PMIIDR; 0: PMIIDR itself.
    pub implementation: u32,
}

/// What is wrong with a table, or with one of its nodes. Units: bytes from the start of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApmtError {
    /// It is not of this kind, or shorter than a header.
    NotApmt,
    /// The table says it is longer than what was read of it, or shorter than its header.
    Length(u32),
    /// A node at this offset is shorter than a node, or reaches past the end of the table.
    NodeLength {
        /// Where.
        at: usize,
        /// What it says.
        length: u16,
    },
    /// A node at this offset has registers at no address, at the end of all of them, or not at the start of a page.
    Address {
        /// Where.
        at: usize,
        /// What it says.
        address: u64,
    },
}

/// The nodes of a table, front to back. After a node of a wrong length there is no next one.
///
/// Errors: [`ApmtError`] of the table.
pub fn nodes(table: &[u8]) -> Result<Nodes<'_>, ApmtError> {
    let is_apmt = table.len() >= HEADER && table.starts_with(&SIGNATURE);
    let length = word(table, 4).filter(|_| is_apmt);
    let length = length.ok_or(ApmtError::NotApmt)?;
    let whole = table.get(..length as usize);
    match whole.filter(|whole| whole.len() >= HEADER) {
        Some(whole) => Ok(Nodes {
            table: whole,
            at: HEADER,
        }),
        None => Err(ApmtError::Length(length)),
    }
}

/// Nodes of a table.
#[derive(Clone, Debug)]
pub struct Nodes<'a> {
    table: &'a [u8],
    at: usize,
}

impl Iterator for Nodes<'_> {
    type Item = Result<Node, ApmtError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.table.get(at..).filter(|rest| !rest.is_empty())?;
        let length = half(rest, 0).unwrap_or(0);
        let bytes = rest.get(..usize::from(length));
        let Some(bytes) = bytes.filter(|bytes| bytes.len() >= NODE) else {
            self.at = self.table.len();
            return Some(Err(ApmtError::NodeLength { at, length }));
        };
        self.at = at + bytes.len();
        Some(node(bytes).map_err(|address| ApmtError::Address { at, address }))
    }
}

/// Errors: the address that is none.
fn node(bytes: &[u8]) -> Result<Node, u64> {
    let [flags, kind] = [2, 3].map(|at| bytes.get(at).copied().unwrap_or(0));
    let double = |at| double(bytes, at).unwrap_or(0);
    let single = |at| word(bytes, at).unwrap_or(0);
    let page = |address: u64| match address.checked_add(PAGE) {
        Some(_) if address != 0 && address.is_multiple_of(PAGE) => Ok(address),
        _ => Err(address),
    };
    Ok(Node {
        id: single(4),
        of: UnitOf(kind.into()),
        instance: double(8),
        page_0: page(double(20))?,
        page_1: match flags & DUAL_PAGE {
            0 => None,
            _ => Some(page(double(28))?),
        },
        processor: match (kind, flags & AFFINITY_IS_CONTAINER) {
            (4, 0) => Some(single(48)),
            _ => None,
        },
        implementation: single(52),
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*field))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn table(nodes: &[Vec<u8>]) -> Vec<u8> {
        let mut table = vec![0; HEADER];
        table[..4].copy_from_slice(&SIGNATURE);
        table.extend(nodes.concat());
        let length = u32::try_from(table.len()).unwrap();
        table[4..8].copy_from_slice(&length.to_le_bytes());
        table
    }

    fn node_bytes(flags: u8, kind: u8, pages: [u64; 2]) -> Vec<u8> {
        let mut bytes = vec![0; NODE];
        bytes[..4].copy_from_slice(&[56, 0, flags, kind]);
        bytes[4] = 7;
        bytes[8] = 9;
        bytes[20..28].copy_from_slice(&pages[0].to_le_bytes());
        bytes[28..36].copy_from_slice(&pages[1].to_le_bytes());
        bytes[48] = 3;
        bytes[52] = 0x3B;
        bytes
    }

    #[test]
    fn a_node_says_where_its_pages_are_and_what_it_is_of() {
        let bytes = table(&[
            node_bytes(DUAL_PAGE, 0, [0x1000, 0x9000]),
            node_bytes(0, 4, [0x2000, 0x1234]),
            node_bytes(AFFINITY_IS_CONTAINER, 4, [0x3000, 0]),
        ]);
        let found: Vec<Node> = nodes(&bytes).unwrap().map(Result::unwrap).collect();
        let first = Node {
            id: 7,
            of: UnitOf::MEMORY_CONTROLLER,
            instance: 9,
            page_0: 0x1000,
            page_1: Some(0x9000),
            processor: None,
            implementation: 0x3B,
        };
        assert_eq!(found[0], first);
        assert_eq!(
            (found[1].page_0, found[1].page_1, found[1].processor),
            (0x2000, None, Some(3))
        );
        assert_eq!((found[2].of, found[2].processor), (UnitOf::CPU_CACHE, None));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_table_that_lies_about_a_length_is_told_where() {
        let good = table(&[node_bytes(0, 0, [0x1000, 0])]);
        assert_eq!(nodes(&good[..20]).unwrap_err(), ApmtError::NotApmt);
        assert_eq!(nodes(b"").unwrap_err(), ApmtError::NotApmt);
        assert_eq!(
            nodes(&good[..good.len() - 1]).unwrap_err(),
            ApmtError::Length(92)
        );
        for length in [0u16, 3, 55, 57, u16::MAX] {
            let mut bytes = good.clone();
            bytes[HEADER..HEADER + 2].copy_from_slice(&length.to_le_bytes());
            let all: Vec<_> = nodes(&bytes).unwrap().collect();
            assert_eq!(all, [Err(ApmtError::NodeLength { at: HEADER, length })]);
        }
    }

    #[test]
    fn a_node_whose_registers_are_nowhere_is_refused_and_the_next_one_is_not() {
        for address in [0, 0x1001, 1 << 11, u64::MAX - 0xFFF] {
            let bytes = table(&[
                node_bytes(0, 0, [address, 0]),
                node_bytes(DUAL_PAGE, 0, [0x1000, address]),
                node_bytes(0, 0, [0x2000, 0]),
            ]);
            let all: Vec<_> = nodes(&bytes).unwrap().collect();
            let refused = |at| Err(ApmtError::Address { at, address });
            assert_eq!(all[..2], [refused(HEADER), refused(HEADER + NODE)]);
            assert_eq!(all[2].unwrap().page_0, 0x2000);
        }
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic_or_name_a_page_that_is_none(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400), honest in any::<bool>(),
        ) {
            if honest && bytes.len() >= 8 {
                let length = u32::try_from(bytes.len()).unwrap();
                bytes[..4].copy_from_slice(&SIGNATURE);
                bytes[4..8].copy_from_slice(&length.to_le_bytes());
            }
            for node in nodes(&bytes).into_iter().flatten().flatten() {
                for page in [Some(node.page_0), node.page_1].into_iter().flatten() {
                    prop_assert!(page != 0 && page % PAGE == 0 && page.checked_add(PAGE).is_some());
                }
            }
        }
    }
}
