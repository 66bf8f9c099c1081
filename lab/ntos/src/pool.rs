//! Pool, strictly checked.
//!
//! Every block has pages of its own and a guard page behind them:
//!
//! ```text
//! | head: 64 bytes of pattern before the block | block | tail pattern | guard |
//!                                               ^ 16-byte aligned      ^ page boundary
//! ```
//! An access past the end faults at the instruction; one into the pattern is
//! found when the block is freed. Freed pages stay inaccessible
//! ([`PoolLevel::Strict`]) or poisoned ([`PoolLevel::Poison`], which needs no
//! system call per block) until enough others have been freed.
//!
//! With [`Guard::Front`] it is the other way round: a block starts where its
//! pages do, behind the guard of the ones before, and an access before its
//! start faults.
//!
//! Paged pool is an arena of its own: see [`crate::paged`].
#![expect(unsafe_code, reason = "maps and protects pages")]

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::memory::READ_WRITE;
use crate::{guest, memory};

const PAGE: u64 = 4096;
/// Address space for pool; pages are committed when used.
const ARENA: u64 = 1 << 36;
/// Freed spans that are kept from reuse, per size.
const QUARANTINE: usize = 64;
/// Pages that a freed span may keep.
const KEPT_PAGES: u64 = 4;
const HEAD: u64 = 64;
const PATTERN: u8 = 0xEF;
/// What new blocks hold: eight bytes that no driver writes by chance.
pub(crate) const FRESH: [u8; 8] = [0xA5, 0x93, 0xB9, 0xC7, 0xEB, 0x8B, 0xD7, 0x9D];
const FREED: u8 = 0xDD;

/// How much pool checking costs and finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolLevel {
    /// Freed memory is inaccessible: every use after free is found at the access. 5–8 µs a pair.
    #[default]
    Strict,
    /// Freed memory is poisoned: writes after free are found when the block is reused. About 0.3 µs a pair.
    Poison,
    /// Nothing about memory is checked, of IRPs and of what requests return neither: what the checks
    /// cost is measured against this.
    Off,
}

/// Which side of a pool block ends at a guard page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Guard {
    /// Its end: an access past the end is found at the access, one before the start when it is freed.
    #[default]
    End,
    /// Its start: the reverse.
    Front,
}

/// Who a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Driver,
    /// The driver, by `MmAllocateContiguousMemory`.
    Contiguous,
    /// Objects the kernel made for the driver: devices, files, threads.
    Kernel,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) tag: u32,
    pub(crate) paged: bool,
    pub(crate) owner: Owner,
    pub(crate) allocated_at: u64,
    /// Where it was freed; 0 while live.
    pub(crate) freed_at: u64,
    /// MDLs that have it locked in memory.
    pub(crate) locked: u32,
    pages: u64,
}

impl Block {
    /// Fills the block, and what is before and behind it up to the end of its pages.
    fn lay_out(&self, end: u64) {
        let fill = |from: u64, to: u64, with: u8| {
            guest::set_bytes(from as *mut u8, with, guest::size(to - from));
        };
        fill(self.head(), self.address, PATTERN);
        let words = guest::size(self.size.div_ceil(FRESH.len() as u64));
        for word in 0..words {
            // What goes too far is covered by the pattern behind the block; its pages end later.
            guest::write((self.address as *mut [u8; 8]).wrapping_add(word), FRESH);
        }
        fill(self.address + self.size, end, PATTERN);
    }

    /// `64 bytes of nonpaged pool, tag 'WPrf'`.
    pub(crate) fn describe(&self) -> String {
        let kind = match (self.owner, self.paged) {
            (Owner::Contiguous, _) => "contiguous memory",
            (_, true) => "paged pool",
            (_, false) => "nonpaged pool",
        };
        format!(
            "{} bytes of {kind}, tag '{}'",
            self.size,
            tag_text(self.tag)
        )
    }
}

/// A tag as it is written in sources: four characters, first byte first.
pub(crate) fn tag_text(tag: u32) -> String {
    tag.to_le_bytes()
        .iter()
        .map(|byte| {
            if byte.is_ascii_graphic() || *byte == b' ' {
                char::from(*byte)
            } else {
                '.'
            }
        })
        .collect()
}

/// What is wrong with a free.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FreeError {
    NotPool,
    Twice(Block),
    WrongTag(Block),
    /// Bytes around the block changed; the first one's address.
    Corrupted(Block, u64),
}

/// What is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    Live,
    BeforeStart,
    PastEnd,
    Freed,
}

/// Address space that blocks are cut from.
struct Arena {
    base: u64,
    next: u64,
    /// Freed spans by their number of pages, oldest first.
    free: HashMap<u64, VecDeque<u64>>,
}

impl Arena {
    fn new() -> std::io::Result<Self> {
        let base = memory::map(guest::size(ARENA), libc::PROT_NONE)? as u64;
        Ok(Self {
            base,
            // The first page is the guard in front of the first block.
            next: base + PAGE,
            free: HashMap::new(),
        })
    }

    /// Pages for a block, with a guard behind them, and whether they were used before.
    fn take(&mut self, pages: u64) -> Option<(u64, bool)> {
        let free = self.free.entry(pages).or_default();
        if free.len() > QUARANTINE {
            return free.pop_front().map(|start| (start, true));
        }
        let start = self.next;
        let next = start.checked_add((pages + 1) * PAGE)?;
        if next > self.base + ARENA {
            return None;
        }
        self.next = next;
        Some((start, false))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        memory::unmap(self.base, guest::size(ARENA));
    }
}

pub(crate) struct Pool {
    level: PoolLevel,
    guard: Guard,
    nonpaged: Arena,
    paged: Arena,
    /// Spans by their first page, live and freed.
    spans: BTreeMap<u64, Block>,
    live: usize,
    /// Where paged pool may be accessible: from the first page to behind the last.
    resident: Option<(u64, u64)>,
}

impl Pool {
    pub(crate) fn new(level: PoolLevel, guard: Guard) -> std::io::Result<Self> {
        Ok(Self {
            level,
            guard,
            nonpaged: Arena::new()?,
            paged: Arena::new()?,
            spans: BTreeMap::new(),
            live: 0,
            resident: None,
        })
    }

    /// Allocates; `None` when the address space or the host's memory is used up.
    pub(crate) fn allocate(
        &mut self,
        size: u64,
        tag: u32,
        paged: bool,
        owner: Owner,
        site: u64,
    ) -> Option<u64> {
        let pages = size.max(1).checked_next_multiple_of(PAGE)? / PAGE;
        let start = self.take_span(pages, paged)?;
        let end = start + pages * PAGE;
        let address = if size >= PAGE || self.guard == Guard::Front {
            start
        } else {
            end - size.max(1).next_multiple_of(16)
        };
        let block = Block {
            address,
            size,
            tag,
            paged,
            owner,
            allocated_at: site,
            freed_at: 0,
            locked: 0,
            pages,
        };
        if self.level != PoolLevel::Off {
            block.lay_out(end);
        }
        self.spans.insert(start, block);
        self.live += 1;
        Some(address)
    }

    fn take_span(&mut self, pages: u64, paged: bool) -> Option<u64> {
        let arena = if paged {
            &mut self.paged
        } else {
            &mut self.nonpaged
        };
        let (start, used) = arena.take(pages)?;
        if (self.level == PoolLevel::Strict || !used || paged) && !protect(start, pages, READ_WRITE)
        {
            return None;
        }
        if paged {
            self.note_resident(start, pages);
        }
        Some(start)
    }

    /// Frees a block; tag 0 matches any.
    pub(crate) fn free(&mut self, address: u64, tag: u32, site: u64) -> Result<Block, FreeError> {
        let block = self.block_at(address).ok_or(FreeError::NotPool)?;
        if block.address != address {
            return Err(FreeError::NotPool);
        }
        if block.freed_at != 0 {
            return Err(FreeError::Twice(block));
        }
        if tag != 0 && tag != block.tag {
            return Err(FreeError::WrongTag(block));
        }
        self.page_in(&block);
        let changed = (self.level != PoolLevel::Off).then(|| block.changed_byte());
        if let Some(changed) = changed.flatten() {
            return Err(FreeError::Corrupted(block, changed));
        }
        self.release(block, site);
        Ok(block)
    }

    fn release(&mut self, block: Block, site: u64) {
        let start = block.start();
        match self.level {
            PoolLevel::Strict => {
                // Small blocks keep their pages: the next user fills them anyway, and fewer faults are faster.
                if block.pages > KEPT_PAGES {
                    // SAFETY: the pages belong to this span, which no one may use any more.
                    unsafe {
                        libc::madvise(
                            start as *mut _,
                            guest::size(block.pages * PAGE),
                            libc::MADV_DONTNEED,
                        )
                    };
                }
                protect(start, block.pages, libc::PROT_NONE);
            }
            PoolLevel::Poison => {
                guest::set_bytes(block.address as *mut u8, FREED, guest::size(block.size))
            }
            PoolLevel::Off => {}
        }
        self.spans.insert(
            start,
            Block {
                freed_at: site,
                ..block
            },
        );
        let arena = if block.paged {
            &mut self.paged
        } else {
            &mut self.nonpaged
        };
        arena.free.entry(block.pages).or_default().push_back(start);
        self.live -= 1;
    }

    /// The block, live or freed, that an address is in or whose guard it is in.
    pub(crate) fn block_at(&self, address: u64) -> Option<Block> {
        let (start, block) = self.spans.range(..=address).next_back().unzip();
        let inside = block.filter(|block| address < block.end());
        if inside.is_some() || self.guard == Guard::Front {
            let next = || {
                self.spans
                    .range(address..=address.checked_add(PAGE)?)
                    .next()
            };
            return inside.or_else(|| Some(next()?.1)).copied();
        }
        let behind = start? + (block?.pages + 1) * PAGE;
        block.filter(|_| address < behind).copied()
    }

    /// What is at an address of the arena.
    pub(crate) fn region(&self, block: &Block, address: u64) -> Region {
        if block.freed_at != 0 {
            Region::Freed
        } else if address < block.address {
            Region::BeforeStart
        } else if address >= block.address + block.size {
            Region::PastEnd
        } else {
            Region::Live
        }
    }

    /// Live blocks of drivers.
    pub(crate) fn live_of_driver(&self) -> impl Iterator<Item = &Block> {
        self.spans
            .values()
            .filter(|block| block.freed_at == 0 && block.owner != Owner::Kernel)
    }

    /// Pages of live blocks, and whether they are paged.
    pub(crate) fn live_pages(&self) -> impl Iterator<Item = (std::ops::Range<u64>, bool)> {
        let live = self.spans.values().filter(|block| block.freed_at == 0);
        live.map(|block| (block.start()..block.end(), block.paged))
    }

    /// Whether an address is one of pool.
    pub(crate) fn holds(&self, address: u64) -> bool {
        [&self.nonpaged, &self.paged]
            .iter()
            .any(|arena| (arena.base..arena.next).contains(&address))
    }

    /// Number of live blocks, of any owner.
    pub(crate) fn live_count(&self) -> usize {
        self.live
    }

    /// Gives back what a driver that is gone has left.
    pub(crate) fn free_all_of_driver(&mut self) {
        let left: Vec<Block> = self.live_of_driver().copied().collect();
        for block in left {
            self.page_in(&block);
            self.release(block, u64::MAX);
        }
    }

    /// Takes away paged pool as far as it has been accessible since the last time.
    pub(crate) fn page_out(&mut self) {
        if let Some((start, end)) = self.resident.take() {
            protect(start, (end - start) / PAGE, libc::PROT_NONE);
        }
    }

    /// Gives back a block of paged pool; does nothing for another.
    pub(crate) fn page_in(&mut self, block: &Block) -> bool {
        if !block.paged || block.freed_at != 0 {
            return false;
        }
        self.note_resident(block.start(), block.pages);
        protect(block.start(), block.pages, READ_WRITE)
    }

    /// The live block of paged pool whose pages an address is in.
    pub(crate) fn paged_block_at(&self, address: u64) -> Option<Block> {
        self.block_at(address).filter(|block| {
            block.paged && block.freed_at == 0 && (block.start()..block.end()).contains(&address)
        })
    }

    /// Notes that an MDL locks or unlocks a block.
    pub(crate) fn lock(&mut self, address: u64, lock: bool) {
        let start = self.paged_block_at(address).map(|block| block.start());
        if let Some(block) = start.and_then(|start| self.spans.get_mut(&start)) {
            block.locked = if lock {
                block.locked + 1
            } else {
                block.locked.saturating_sub(1)
            };
        }
    }

    fn note_resident(&mut self, start: u64, pages: u64) {
        let end = start + pages * PAGE;
        let (first, last) = self.resident.unwrap_or((start, end));
        self.resident = Some((first.min(start), last.max(end)));
    }
}

impl Block {
    fn start(&self) -> u64 {
        (self.address + self.size.max(1)).next_multiple_of(PAGE) - self.pages * PAGE
    }

    fn end(&self) -> u64 {
        self.start() + self.pages * PAGE
    }

    /// First byte of the pattern before the block.
    fn head(&self) -> u64 {
        self.start().max(self.address.saturating_sub(HEAD))
    }

    /// Address of the first byte around the block that was changed.
    fn changed_byte(&self) -> Option<u64> {
        let around = (self.head()..self.address).chain(self.address + self.size..self.end());
        around
            .into_iter()
            .find(|byte| guest::read(*byte as *const u8) != PATTERN)
    }
}

fn protect(start: u64, pages: u64, protection: i32) -> bool {
    memory::protect(start, guest::size(pages * PAGE), protection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool::new(PoolLevel::Strict, Guard::End).expect("address space")
    }

    fn allocate(pool: &mut Pool, size: u64) -> u64 {
        pool.allocate(
            size,
            u32::from_le_bytes(*b"Test"),
            false,
            Owner::Driver,
            0x1000,
        )
        .expect("memory")
    }

    #[test]
    fn a_block_ends_at_its_guard_page() {
        let mut pool = pool();
        for size in [1, 15, 16, 17, 4095, 4096] {
            let address = allocate(&mut pool, size);
            assert_eq!(address % 16, 0);
            let end = (address + size).next_multiple_of(16);
            assert_eq!(end % PAGE, 0, "size {size}");
            let block = pool.block_at(end).expect("the guard belongs to the block");
            assert_eq!(
                (block.address, pool.region(&block, end)),
                (address, Region::PastEnd)
            );
        }
    }

    #[test]
    fn writes_next_to_a_block_are_found_when_it_is_freed() {
        for offset in [-1i64, 20] {
            let mut pool = pool();
            let address = allocate(&mut pool, 20);
            guest::write(address.wrapping_add_signed(offset) as *mut u8, 0u8);
            match pool.free(address, 0, 1) {
                Err(FreeError::Corrupted(_, at)) => {
                    assert_eq!(at, address.wrapping_add_signed(offset))
                }
                other => panic!("offset {offset}: {other:?}"),
            }
        }
    }

    #[test]
    fn wrong_frees_are_told_apart() {
        let mut pool = pool();
        let address = allocate(&mut pool, 32);
        assert!(matches!(
            pool.free(address + 16, 0, 1),
            Err(FreeError::NotPool)
        ));
        assert!(matches!(pool.free(0x1234, 0, 1), Err(FreeError::NotPool)));
        assert!(matches!(
            pool.free(address, 7, 1),
            Err(FreeError::WrongTag(_))
        ));
        assert!(pool.free(address, 0, 1).is_ok());
        assert!(matches!(pool.free(address, 0, 1), Err(FreeError::Twice(_))));
        assert_eq!(pool.live_count(), 0);
    }

    #[test]
    fn a_freed_block_is_not_reused_at_once_and_memory_does_not_grow_for_ever() {
        let mut pool = pool();
        let first = allocate(&mut pool, 64);
        pool.free(first, 0, 1).expect("live");
        assert_ne!(allocate(&mut pool, 64), first);
        let before = pool.nonpaged.next;
        for _ in 0..10 * QUARANTINE {
            let address = allocate(&mut pool, 64);
            pool.free(address, 0, 1).expect("live");
        }
        assert!(pool.nonpaged.next - before <= (QUARANTINE as u64 + 2) * 2 * PAGE);
    }

    #[test]
    fn with_the_guard_in_front_a_block_starts_behind_one() {
        let mut pool = Pool::new(PoolLevel::Strict, Guard::Front).expect("address space");
        for size in [1, 15, 4095, 4096, 5000] {
            let address = allocate(&mut pool, size);
            assert_eq!(address % PAGE, 0, "size {size}");
            for before in [1, PAGE] {
                let at = address - before;
                let block = pool.block_at(at).expect("the guard belongs to the block");
                assert_eq!(
                    (block.address, pool.region(&block, at)),
                    (address, Region::BeforeStart)
                );
            }
            pool.free(address, 0, 1).expect("nothing has changed");
        }
    }

    #[test]
    fn paged_pool_is_taken_away_and_given_back_by_the_block() {
        let mut pool = pool();
        let tag = u32::from_le_bytes(*b"Test");
        let mut paged = || {
            pool.allocate(5000, tag, true, Owner::Driver, 1)
                .expect("memory")
        };
        let (first, second) = (paged(), paged());
        guest::write(first as *mut u8, 7);
        pool.page_out();
        assert_eq!(pool.resident, None);
        let block = pool.paged_block_at(first + 4999).expect("a block");
        assert!(pool.page_in(&block));
        assert_eq!(guest::read(first as *const u8), 7);
        // Freeing looks at all of it.
        pool.page_out();
        for address in [first, second] {
            pool.free(address, 0, 1)
                .expect("nothing around it has changed");
        }
    }
}
