//! Where IRPs live.
//!
//! ```text
//!  page: the lab's record of the IRP | page: the IRP and its stack locations
//! ```
//! The second page is taken from the driver while the record stays: so a
//! touch after completion faults at the instruction, or, where the page is
//! only poisoned, a write is found when the memory is used again.
//! [`PoolLevel::Strict`] takes it away for the first completions at each
//! place of the driver, and for some of the later ones.
#![expect(unsafe_code, reason = "maps and protects the memory that IRPs live in")]

use std::cell::Cell;
use std::collections::VecDeque;

use nt::irp::{IO_STACK_LOCATION, IO_STATUS_BLOCK, IRP};
use nt::mm::MDL;

use super::{Origin, Phase};
use crate::guest::{self, field, get, set};
use crate::memory;
use crate::pool::PoolLevel;

/// Stack locations of an IRP, at most.
pub(super) const MAX_STACK: usize = 16;
const PAGE: usize = 4096;
/// Bytes of the record before its padding.
const RECORD: usize = 0x160;
/// Blocks that are mapped at once.
const CHUNK: usize = 32;
/// Blocks that rest before they are used again, at least.
const RESTING: usize = 64;
const POISON: u8 = 0xDE;
/// Places in drivers that are told apart where IRPs are counted.
const PLACES: usize = 256;
/// IRPs that become inaccessible when they are completed at a place, and of later ones one in so many.
const EACH: u32 = 64;

/// What a driver above asked to be called with at completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Asked {
    pub(super) routine: u64,
    pub(super) context: u64,
}

/// How an IRP's memory was taken from the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Seal {
    /// It was not; so is new memory.
    Open = 0,
    /// Filled with [`POISON`].
    Poisoned,
    /// Inaccessible.
    Closed,
}

/// An IRP and the lab's record of it.
#[repr(C)]
pub(crate) struct IrpBlock {
    pub(crate) phase: Phase,
    pub(crate) origin: Origin,
    /// Dispatch calls into drivers under way for it.
    pub(crate) depth: u32,
    /// The location whose driver has it: that of the dispatch or completion routine called last.
    pub(super) owned: i8,
    /// The location from which it was sent: behind the last, or one that its maker has of its own.
    pub(super) sent_from: i8,
    /// Whether it is on its way through a device stack.
    pub(super) in_flight: bool,
    /// A completion routine has taken it back: it may be anything by now.
    pub(super) taken_back: bool,
    /// How it was taken from the driver.
    seal: Seal,
    /// Bytes of the IRP and its locations, while it is poisoned.
    poisoned: usize,
    pub(super) pending_returned: bool,
    /// Where it was allocated, and where completed.
    pub(crate) allocated_at: u64,
    pub(crate) completed_at: u64,
    /// What it was completed with.
    pub(crate) outcome: IO_STATUS_BLOCK,
    pub(crate) mdl: *mut MDL,
    /// The dispatch routine that was called last.
    pub(super) dispatch: u64,
    /// What each location asked for when it was handed to its driver.
    pub(super) asked: [Asked; MAX_STACK + 1],
    _pad: [u8; PAGE - RECORD],
    pub(crate) irp: IRP,
    pub(super) stack: [IO_STACK_LOCATION; MAX_STACK],
}

const _: () = assert!(std::mem::offset_of!(IrpBlock, irp) == PAGE);
const _: () = assert!(size_of::<IrpBlock>() <= 2 * PAGE);

/// All IRPs of a machine.
pub(crate) struct Irps {
    level: PoolLevel,
    /// First blocks of the mapped chunks.
    chunks: Vec<*mut u8>,
    free: Vec<*mut IrpBlock>,
    resting: VecDeque<*mut IrpBlock>,
    /// IRPs taken from the driver so far, by place in the driver, folded.
    taken: [Cell<u32>; PLACES],
}

impl Irps {
    pub(crate) fn new(level: PoolLevel) -> Self {
        Self {
            level,
            chunks: Vec::new(),
            free: Vec::new(),
            resting: VecDeque::new(),
            taken: [const { Cell::new(0) }; PLACES],
        }
    }

    /// A block to use; with it the former owner's, where the driver wrote to it meanwhile.
    pub(super) fn take(&mut self) -> std::io::Result<(*mut IrpBlock, bool)> {
        if self.free.is_empty() && self.resting.len() <= RESTING {
            self.grow()?;
        }
        if let Some(block) = self.free.pop() {
            return Ok((block, false));
        }
        let Some(block) = self.resting.pop_front() else {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        };
        let touched = self.unseal(block);
        Ok((block, touched))
    }

    fn grow(&mut self) -> std::io::Result<()> {
        let chunk = memory::map(CHUNK * 2 * PAGE, memory::READ_WRITE)?;
        self.chunks.push(chunk);
        let blocks = (0..CHUNK).map(|index| chunk.wrapping_add(index * 2 * PAGE).cast());
        self.free.extend(blocks);
        Ok(())
    }

    pub(super) fn put(&mut self, block: *mut IrpBlock) {
        if self.level == PoolLevel::Off {
            return self.free.push(block);
        }
        self.seal(block);
        self.resting.push_back(block);
    }

    /// Takes an IRP's memory from the driver.
    pub(super) fn seal(&self, block: *mut IrpBlock) {
        if get!(block, seal) != Seal::Open || self.level == PoolLevel::Off {
            return;
        }
        let irp: *mut IRP = field!(block, irp);
        if self.level == PoolLevel::Strict && self.closes_at(get!(block, completed_at)) {
            set!(block, seal = Seal::Closed);
            return protect(block, libc::PROT_NONE);
        }
        let locations = usize::try_from(get!(irp, StackCount)).unwrap_or(0);
        let used = size_of::<IRP>() + locations.min(MAX_STACK) * size_of::<IO_STACK_LOCATION>();
        set!(block, seal = Seal::Poisoned);
        set!(block, poisoned = used);
        guest::set_bytes(irp.cast(), POISON, used);
    }

    /// Whether this IRP of those completed at a place becomes inaccessible: the first ones, and of the
    /// others one in so many, because a system call each is dear.
    fn closes_at(&self, place: u64) -> bool {
        let taken = &self.taken[guest::size(place >> 2) % PLACES];
        let count = taken.get();
        taken.set(count.wrapping_add(1));
        count < EACH || count.is_multiple_of(EACH)
    }

    /// Makes the memory usable; true if it was written to while it was sealed.
    fn unseal(&self, block: *mut IrpBlock) -> bool {
        let seal = get!(block, seal);
        set!(block, seal = Seal::Open);
        match seal {
            Seal::Open => false,
            Seal::Closed => {
                protect(block, memory::READ_WRITE);
                false
            }
            Seal::Poisoned => {
                let words: *const u64 = field!(block, irp).cast_const().cast();
                let count = get!(block, poisoned) / size_of::<u64>();
                (0..count).any(|word| {
                    guest::read(words.wrapping_add(word)) != u64::from_ne_bytes([POISON; 8])
                })
            }
        }
    }

    /// Whether an address is one of the memory that IRPs live in.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let bytes = (CHUNK * 2 * PAGE) as u64;
        self.chunks
            .iter()
            .any(|chunk| (*chunk as u64..*chunk as u64 + bytes).contains(&address))
    }

    /// Whether an address is where an IRP can start.
    pub(super) fn is_place(&self, irp: u64) -> bool {
        self.chunks.iter().any(|chunk| {
            let offset = irp.wrapping_sub(*chunk as u64);
            offset < (CHUNK * 2 * PAGE) as u64 && offset % (2 * PAGE) as u64 == PAGE as u64
        })
    }

    /// IRPs in use that have this origin.
    pub(crate) fn live(&self, origin: Origin) -> impl Iterator<Item = *mut IrpBlock> {
        let blocks = self.chunks.iter().flat_map(|chunk| {
            (0..CHUNK).map(|index| chunk.wrapping_add(index * 2 * PAGE).cast::<IrpBlock>())
        });
        blocks.filter(move |block| {
            get!(*block, phase) != Phase::Free && get!(*block, origin) == origin
        })
    }
}

fn protect(block: *mut IrpBlock, protection: i32) {
    let page: *mut IRP = field!(block, irp);
    // SAFETY: the page is in a chunk of ours, and holds nothing but the IRP and its stack locations,
    // to which no Rust reference exists. It can't fail for a page that is mapped; if it does, touches
    // go unnoticed.
    unsafe { libc::mprotect(page.cast(), PAGE, protection) };
}

impl Drop for Irps {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: the chunk is ours; the machine that used it is being dropped.
            unsafe { libc::munmap(chunk.cast(), CHUNK * 2 * PAGE) };
        }
    }
}

/// The block an IRP lies in.
pub(crate) fn block_of(irp: *mut IRP) -> *mut IrpBlock {
    irp.wrapping_byte_sub(PAGE).cast()
}
