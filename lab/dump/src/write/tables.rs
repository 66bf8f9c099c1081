//! What a dump needs that the dumped machine has not: page tables, and the list of modules.

use std::collections::BTreeMap;

use super::{Module, Page};
use crate::layout::PAGE;

/// Where the list of modules is: Windows has its images below.
pub(super) const MODULES: u64 = 0xFFFF_F800_0000_0000;

/// Entries of a table.
const ENTRIES: usize = 512;
/// Bits of an address that the tables look at, as a page number.
const PAGE_NUMBER: u64 = (1 << 36) - 1;
/// Bits of a page table entry.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const NO_EXECUTE: u64 = 1 << 63;

/// Page tables of four levels over pages whose physical numbers begin at 1.
pub(super) struct Tables {
    /// Pages that are somebody's memory.
    dumped: u64,
    /// Pages behind those: of the list of modules, then the tables.
    made: Vec<[u8; PAGE]>,
    root: u64,
}

impl Tables {
    /// Tables for the dumped pages, and for others that are made here and are at [`MODULES`].
    pub(super) fn new(dumped: &[Page], more: &[[u8; PAGE]]) -> Self {
        let list = (0..more.len() as u64).map(|index| Page {
            address: MODULES + index * PAGE as u64,
            writable: true,
            executable: false,
        });
        let mut tables = Self {
            dumped: dumped.len() as u64,
            made: more.to_vec(),
            root: 0,
        };
        let mut level: BTreeMap<u64, u64> = (1..)
            .zip(dumped.iter().copied().chain(list))
            .map(|(frame, page)| ((page.address >> 12) & PAGE_NUMBER, entry(frame, page)))
            .collect();
        for _ in 0..4 {
            level = tables.add_level(&level);
        }
        // Without any page there is one empty table at the top.
        tables.root = match level.get(&0) {
            Some(entry) => entry & !NO_EXECUTE & !0xFFF,
            None => tables.push([0; PAGE]) << 12,
        };
        tables
    }

    /// Makes the tables that hold these entries; gives the entries that point to them.
    fn add_level(&mut self, entries: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
        let mut tables: BTreeMap<u64, [u8; PAGE]> = BTreeMap::new();
        for (number, entry) in entries {
            let table = tables.entry(number / ENTRIES as u64).or_insert([0; PAGE]);
            let (places, _) = table.as_chunks_mut::<8>();
            let index = usize::try_from(number % ENTRIES as u64).unwrap_or(0);
            places[index] = entry.to_le_bytes();
        }
        let mut above = BTreeMap::new();
        for (number, table) in tables {
            let frame = self.push(table);
            above.insert(number, frame << 12 | PRESENT | WRITABLE);
        }
        above
    }

    /// Adds a page; gives its number.
    fn push(&mut self, page: [u8; PAGE]) -> u64 {
        self.made.push(page);
        self.dumped + self.made.len() as u64
    }

    /// Physical address of the top table.
    pub(super) fn root(&self) -> u64 {
        self.root
    }

    /// Number of physical pages, page 0 included.
    pub(super) fn physical_pages(&self) -> u64 {
        1 + self.dumped + self.made.len() as u64
    }

    /// The pages behind the dumped ones.
    pub(super) fn pages(&self) -> &[[u8; PAGE]] {
        &self.made
    }
}

fn entry(frame: u64, page: Page) -> u64 {
    let writable = if page.writable { WRITABLE } else { 0 };
    let executable = if page.executable { 0 } else { NO_EXECUTE };
    frame << 12 | PRESENT | writable | executable
}

/// Bytes of a `KLDR_DATA_TABLE_ENTRY`, as far as it is filled, with room for a name behind it.
const ENTRY: usize = 0x200;
/// UTF-16 units of a name, at most.
const MOST_UNITS: usize = 128;
/// Where its name is.
const NAME: usize = 0x100;

/// `PsLoadedModuleList` with its entries.
///
/// Source: public symbols, `_KLDR_DATA_TABLE_ENTRY`.
pub(super) fn modules(modules: &[Module]) -> Vec<[u8; PAGE]> {
    // One slot for the head of the list.
    let slots = modules.len() + 1;
    let mut bytes = vec![0u8; (slots * ENTRY).next_multiple_of(PAGE)];
    let address = |slot: usize| MODULES + (slot % slots * ENTRY) as u64;
    for slot in 0..slots {
        let place = &mut bytes[slot * ENTRY..][..ENTRY];
        put(place, 0, &address(slot + 1).to_le_bytes());
        put(place, 8, &address(slot + slots - 1).to_le_bytes());
        let Some(module) = slot.checked_sub(1).map(|index| &modules[index]) else {
            continue;
        };
        put(place, 0x30, &module.base.to_le_bytes());
        put(place, 0x38, &module.entry.to_le_bytes());
        put(place, 0x40, &module.bytes.to_le_bytes());
        let units: Vec<u8> = module
            .name
            .encode_utf16()
            .take(MOST_UNITS)
            .flat_map(u16::to_le_bytes)
            .collect();
        let length = u16::try_from(units.len()).unwrap_or(0).to_le_bytes();
        // FullDllName, BaseDllName.
        for string in [0x48, 0x58] {
            put(place, string, &length);
            put(place, string + 2, &length);
            put(
                place,
                string + 8,
                &(address(slot) + NAME as u64).to_le_bytes(),
            );
        }
        put(place, NAME, &units);
    }
    bytes.as_chunks().0.to_vec()
}

fn put(place: &mut [u8], at: usize, bytes: &[u8]) {
    place[at..at + bytes.len()].copy_from_slice(bytes);
}
