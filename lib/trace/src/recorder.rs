//! The recorder of a driver: its rings, and the switches of its sites.
//!
//! There is one in a driver file. Each processor has two rings: one for events at any IRQL, where a
//! thread may be moved to another processor between two instructions, and exchange-add must lock; one
//! for events that are known to be at `DISPATCH_LEVEL` or above, where only interrupts of the same
//! processor can come in between, and it need not. A ring is never written in both ways.
#![expect(unsafe_code, reason = "shares memory with the routines in assembly")]

use crate::ring::{STEP, View};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use trace_format::dump::{RING_LIMIT, RING_POSITION, RING_START};
use trace_format::request::Mode;
use trace_format::site::SWITCH_BYTES;

/// Most processors that can record.
pub const MOST_PROCESSORS: usize = 256;

/// A slot, in memory.
pub type Place = [AtomicU64; 4];

/// A ring, in memory. So long that no two share a cache line: each is written by one processor.
///
/// `position` and `limit` count in [`STEP`]s, and `mask` takes the place of a slot, in bytes, from a position.
///
/// # Invariants
/// `slots` is to `mask / STEP + 1` places, a power of two, that live as long as the ring is published.
#[repr(C)]
#[derive(Debug)]
pub struct Ring {
    position: AtomicU64,
    limit: AtomicU64,
    mask: u64,
    slots: *const Place,
    start: AtomicU64,
    _apart: [u64; 11],
}

const _: () = assert!(size_of::<Ring>() == 128);
const _: () = assert!(core::mem::offset_of!(Ring, position) == RING_POSITION);
const _: () = assert!(core::mem::offset_of!(Ring, limit) == RING_LIMIT);
const _: () = assert!(core::mem::offset_of!(Ring, start) == RING_START);

// SAFETY: what is behind the pointer is atomic; the rest is, or does not change.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
pub(crate) const POSITION: usize = core::mem::offset_of!(Ring, position);
#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
pub(crate) const LIMIT: usize = core::mem::offset_of!(Ring, limit);
#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
pub(crate) const MASK: usize = core::mem::offset_of!(Ring, mask);
#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
pub(crate) const SLOTS: usize = core::mem::offset_of!(Ring, slots);

static NOWHERE: Place = [const { AtomicU64::new(0) }; 4];

/// Takes events of processors that have no ring, and drops them.
static SINK: Ring = Ring {
    position: AtomicU64::new(STEP),
    limit: AtomicU64::new(0),
    mask: 0,
    slots: &raw const NOWHERE,
    start: AtomicU64::new(1),
    _apart: [0; 11],
};

/// The rings of each processor, by index: those for any IRQL, then those for `DISPATCH_LEVEL`.
pub(crate) static RINGS: [AtomicPtr<Ring>; 2 * MOST_PROCESSORS] =
    [const { AtomicPtr::new((&raw const SINK).cast_mut()) }; 2 * MOST_PROCESSORS];

impl Ring {
    /// An empty ring over places that hold zeros.
    ///
    /// `None` unless their number is a power of two.
    ///
    /// # Safety
    /// The places must live, and be given to no other ring, until the ring is gone.
    #[must_use]
    pub unsafe fn new(places: NonNull<Place>, count: usize) -> Option<Self> {
        let count = count.is_power_of_two().then_some(count as u64)?;
        // INVARIANT: as the caller promises.
        Some(Self {
            position: AtomicU64::new(count.checked_mul(STEP)?),
            limit: AtomicU64::new(u64::MAX),
            mask: count.wrapping_sub(1) * STEP,
            slots: places.as_ptr().cast_const(),
            start: AtomicU64::new(count),
            _apart: [0; 11],
        })
    }

    /// The ring as readers, and writers in Rust, see it.
    #[must_use]
    pub fn view(&self) -> View<'_, AtomicU64> {
        let count = (self.mask / STEP) as usize + 1;
        View {
            position: &self.position,
            limit: &self.limit,
            // SAFETY: invariant of the type.
            slots: unsafe { core::slice::from_raw_parts(self.slots, count) },
        }
    }

    /// Position of the first event since the ring was [begun anew](Self::restart).
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    /// Position from which on events are counted only.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire) / STEP
    }

    /// Position of the next slot that nobody has reserved.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire) / STEP
    }

    /// Chooses what becomes of events when the ring is full.
    pub fn set_mode(&self, mode: Mode) {
        let limit = match mode {
            Mode::Overwrite => u64::MAX,
            Mode::StopWhenFull => (self.start() * STEP).saturating_add(self.mask + STEP),
        };
        self.limit.store(limit, Ordering::Release);
    }

    /// Forgets what the ring holds: events from here on are the first.
    pub fn restart(&self) {
        let position = self.position.load(Ordering::Acquire);
        self.start.store(position / STEP, Ordering::Release);
    }
}

/// Which of a processor's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// For events at any IRQL.
    Any = 0,
    /// For events at `DISPATCH_LEVEL` and above.
    Dispatch = 1,
}

/// Gives a processor a ring.
///
/// `false` if there is no place for so many processors.
///
/// # Safety
/// The ring must live until [`withdraw`] has been called and no code of the driver runs any more that
/// may have found it before.
#[must_use]
pub unsafe fn publish(processor: usize, lane: Lane, ring: NonNull<Ring>) -> bool {
    let place = RINGS.get(lane as usize * MOST_PROCESSORS + processor);
    if processor >= MOST_PROCESSORS {
        return false;
    }
    let Some(place) = place else { return false };
    place.store(ring.as_ptr(), Ordering::Release);
    true
}

/// Takes all rings away: events go nowhere.
#[inline]
pub fn withdraw() {
    if crate::records().is_none() {
        return;
    }
    for place in &RINGS {
        place.store((&raw const SINK).cast_mut(), Ordering::Release);
    }
}

/// The ring of a processor.
///
/// # Safety
/// No ring may go while the result is used.
pub(crate) unsafe fn ring<'a>(processor: usize, lane: Lane) -> &'a Ring {
    let index = lane as usize * MOST_PROCESSORS + processor % MOST_PROCESSORS;
    let ring = RINGS
        .get(index)
        .map_or((&raw const SINK).cast_mut(), |place| {
            place.load(Ordering::Acquire)
        });
    // SAFETY: the sink, or a ring that was published and lives: as both callers promise.
    unsafe { &*ring }
}

/// The switch of one copy of a site.
#[derive(Debug)]
#[repr(C)]
pub struct Switch {
    on: AtomicU8,
    level: u8,
    flag: u8,
    reserved: u8,
}

const _: () = assert!(size_of::<Switch>() == SWITCH_BYTES);

/// Who wants an event: a switch is on while anybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Whoever reads the rings.
    Recorder = 1,
    /// A session of ETW.
    Session = 2,
}

impl Switch {
    /// Switches the copy on or off for whoever reads the rings.
    pub fn set(&self, on: bool) {
        self.set_for(Wish::Recorder, on);
    }

    /// Switches the copy on or off, for one of those who may want it.
    pub fn set_for(&self, wish: Wish, on: bool) {
        if on {
            self.on.fetch_or(wish as u8, Ordering::Relaxed);
        } else {
            self.on.fetch_and(!(wish as u8), Ordering::Relaxed);
        }
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed) != 0
    }

    /// Whether a selection of levels and flags has it.
    #[must_use]
    pub fn is_selected(&self, level: u32, flags: u32) -> bool {
        u32::from(self.level) <= level && flags >> (self.flag & 31) & 1 != 0
    }
}

/// The switches of all copies of all sites of this driver.
#[must_use]
pub fn switches() -> &'static [Switch] {
    let (first, end) = crate::sections::switches();
    let count = end.addr().saturating_sub(first.addr()) / SWITCH_BYTES;
    // SAFETY: the linker puts all switches, and nothing else, between the two labels.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// Switches on what a selection has, and all else off, for whoever reads the rings.
#[inline]
pub fn select(level: u32, flags: u32) {
    select_for(Wish::Recorder, level, flags);
}

/// Switches on what a selection has, and all else off, for one of those who may want it.
#[inline]
pub fn select_for(wish: Wish, level: u32, flags: u32) {
    for switch in switches() {
        switch.set_for(wish, switch.is_selected(level, flags));
    }
}
