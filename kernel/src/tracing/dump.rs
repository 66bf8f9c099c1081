//! The rings in a crash dump: the system asks for them when it stops.
//!
//! ```text
//!  bug check ─▶ callback (HIGH_LEVEL, other processors stand still)
//!                 │ writes the state of the rings into the block
//!                 ▼
//!               block, piece by piece: the rings of this processor first
//! ```
//! Nothing is copied or allocated: what the system writes to the dump is the rings' own memory.

use super::clocks;
use crate::Result;
use crate::alive::Alive;
use crate::pool::{PoolBox, PoolTag};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use nt::base::{GUID, LIST_ENTRY};
use nt::sysinfo::{
    KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA, KB_SECONDARY_DATA_FLAG_NO_DEVICE_ACCESS,
    KBUGCHECK_REASON_CALLBACK_RECORD, KBUGCHECK_SECONDARY_DUMP_DATA_EX,
    KbCallbackSecondaryMultiPartDumpData, KeDeregisterBugCheckReasonCallback,
    KeRegisterBugCheckReasonCallback,
};
use trace::format::dump::{
    BLOCK_MAGIC, HEAD_SLOTS, Head, RING_HEAD_SLOTS, RING_MAGIC, RingHead, next_piece, tag,
};
use trace::format::request::{Clocks, Information};
use trace::recorder::{Place, Ring};

/// Bytes of a ring's control record.
const RING_BYTES: u32 = 128;
const _: () = assert!(size_of::<Ring>() == RING_BYTES as usize);

/// Places of a block for so many rings of so many slots.
pub(super) fn places(rings: usize, slots: usize) -> usize {
    rings
        .saturating_mul(slots.saturating_add(RING_HEAD_SLOTS))
        .saturating_add(HEAD_SLOTS)
}

/// The slots of each ring in a block.
pub(super) fn slots_of(block: &[Place], slots: usize) -> impl Iterator<Item = &[Place]> {
    let rings = block.get(HEAD_SLOTS..).unwrap_or_default();
    rings
        .chunks_exact(RING_HEAD_SLOTS.saturating_add(slots))
        .filter_map(|ring| ring.get(RING_HEAD_SLOTS..))
}

/// A recorder that is to be in dumps, until dropped.
pub(super) struct InDumps {
    registered: PoolBox<Registered>,
    _alive: Alive,
}

/// What the callback gets.
///
/// # Invariants
/// `block` and `rings` live as long as the record is registered. `record` is first.
#[repr(C)]
struct Registered {
    record: UnsafeCell<KBUGCHECK_REASON_CALLBACK_RECORD>,
    block: NonNull<[Place]>,
    rings: NonNull<[Ring]>,
    slots: usize,
    tag: GUID,
    /// The ring that is given first.
    first: AtomicUsize,
}

// SAFETY: what it points to is atomic; the record is the system's while it is registered.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl InDumps {
    /// Tells the system that it is to ask for the block when it stops; `None` if it does not want to.
    ///
    /// # Safety
    /// `block` and `rings` must live until the result is dropped.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    /// Source: `KeRegisterBugCheckReasonCallback`, wdm.h.
    pub(super) unsafe fn try_new(
        pool: PoolTag,
        block: &[Place],
        rings: &[Ring],
        information: Information,
    ) -> Result<Option<Self>> {
        begin(block, rings, information);
        let identity = [
            information.time_date_stamp,
            information.image_bytes,
            information.checksum,
        ];
        // INVARIANT: as the caller promises.
        let registered = PoolBox::try_new(
            pool,
            Registered {
                record: UnsafeCell::new(empty_record()),
                block: NonNull::from(block),
                rings: NonNull::from(rings),
                slots: information.slots as usize,
                tag: guid(tag(identity)),
                first: AtomicUsize::new(0),
            },
        )?;
        // SAFETY: (1) the record is in nonpaged pool until it is withdrawn in `drop`. (2) so is the
        // routine, in the driver's code. (3) the name is a static C string.
        let accepted = unsafe {
            KeRegisterBugCheckReasonCallback(
                record_of(&registered),
                on_stop as *mut c_void,
                KbCallbackSecondaryMultiPartDumpData,
                c"DrydockTrace".as_ptr().cast::<u8>().cast_mut(),
            )
        };
        Ok((accepted != 0).then(|| Self {
            registered,
            _alive: Alive::new(),
        }))
    }
}

impl Drop for InDumps {
    /// IRQL: any.
    fn drop(&mut self) {
        // SAFETY: registered in `try_new`, and withdrawn once.
        unsafe { KeDeregisterBugCheckReasonCallback(record_of(&self.registered)) };
    }
}

/// The record as the system knows it: the callback finds the rest behind it.
fn record_of(registered: &PoolBox<Registered>) -> *mut KBUGCHECK_REASON_CALLBACK_RECORD {
    (&raw const **registered).cast_mut().cast()
}

/// As `KeInitializeCallbackRecord` leaves it.
fn empty_record() -> KBUGCHECK_REASON_CALLBACK_RECORD {
    KBUGCHECK_REASON_CALLBACK_RECORD {
        Entry: LIST_ENTRY {
            Flink: core::ptr::null_mut(),
            Blink: core::ptr::null_mut(),
        },
        CallbackRoutine: core::ptr::null_mut(),
        Component: core::ptr::null_mut(),
        Checksum: 0,
        Reason: 0,
        State: 0,
    }
}

fn guid(bytes: [u8; 16]) -> GUID {
    let [a, b, c, d, e, f, g, h, tail @ ..] = bytes;
    GUID {
        Data1: u32::from_le_bytes([a, b, c, d]),
        Data2: u16::from_le_bytes([e, f]),
        Data3: u16::from_le_bytes([g, h]),
        Data4: tail,
    }
}

fn store(places: &[Place], words: &[u64]) {
    for (place, word) in places.iter().flatten().zip(words) {
        place.store(*word, Ordering::Relaxed);
    }
}

/// Writes the head, by which the block is found in memory.
fn begin(block: &[Place], rings: &[Ring], information: Information) {
    let head = Head {
        magic: BLOCK_MAGIC,
        address: block.as_ptr().addr() as u64,
        rings: rings.as_ptr().addr() as u64,
        ring_bytes: RING_BYTES,
        reserved: 0,
        information,
        stopped: Clocks::default(),
    };
    let words: [u64; size_of::<Head>() / 8] = zerocopy::transmute!(head);
    store(block, &words);
}

impl Registered {
    /// Writes when it stopped, and the state of the rings.
    fn end(&self) {
        // SAFETY: invariant of the type.
        let block = unsafe { self.block.as_ref() };
        // SAFETY: invariant of the type.
        let rings = unsafe { self.rings.as_ref() };
        let Clocks { ticks, system_time } = clocks();
        let head = block.iter().flatten();
        for (word, value) in head
            .skip(offset_of!(Head, stopped) / 8)
            .zip([ticks, system_time])
        {
            word.store(value, Ordering::Relaxed);
        }
        let each = RING_HEAD_SLOTS.saturating_add(self.slots);
        let parts = block
            .get(HEAD_SLOTS..)
            .unwrap_or_default()
            .chunks_exact(each);
        for ((index, ring), part) in (0..).zip(rings).zip(parts) {
            let head = RingHead {
                magic: RING_MAGIC,
                ring: index,
                slots: u32::try_from(self.slots).unwrap_or(u32::MAX),
                position: ring.position(),
                limit: ring.limit(),
                start: ring.start(),
                reserved: [0; 3],
            };
            let words: [u64; size_of::<RingHead>() / 8] = zerocopy::transmute!(head);
            store(part, &words);
        }
        let first = trace::thunk::processor().saturating_mul(2);
        let first = first.checked_rem(rings.len()).unwrap_or(0);
        self.first.store(first, Ordering::Relaxed);
    }

    /// The next piece of at most `room` bytes, and whether there is more.
    fn piece(&self, done: usize, room: usize) -> Option<(*const u8, usize, bool)> {
        let first = self.first.load(Ordering::Relaxed);
        let next = |done| next_piece(done, self.rings.len(), self.slots, first);
        let range = next(done)?;
        let length = range.len().min(room);
        let start = self.block.as_ptr().cast::<u8>().wrapping_add(range.start);
        let more = next(done.saturating_add(length)).is_some();
        Some((start.cast_const(), length, more))
    }
}

/// Gives the next piece. `Context` is how many bytes were given before.
///
/// IRQL: `HIGH_LEVEL`, in a system that is stopping: no call but for the time, no lock, nothing paged.
unsafe extern "efiapi" fn on_stop(
    reason: i32,
    record: *mut KBUGCHECK_REASON_CALLBACK_RECORD,
    data: *mut c_void,
    length: u32,
) {
    let expected = size_of::<KBUGCHECK_SECONDARY_DUMP_DATA_EX>();
    if reason != KbCallbackSecondaryMultiPartDumpData || (length as usize) < expected {
        return;
    }
    // SAFETY: the system passes the record that was registered, which is the first field, and lives.
    let registered = unsafe { &*record.cast::<Registered>() };
    // SAFETY: the system passes such a structure for this reason, as long as it says; nobody else has it.
    let data = unsafe { &mut *data.cast::<KBUGCHECK_SECONDARY_DUMP_DATA_EX>() };
    let done = data.Context.addr();
    if done == 0 {
        registered.end();
    }
    data.Guid = registered.tag;
    data.Flags = KB_SECONDARY_DATA_FLAG_NO_DEVICE_ACCESS;
    let room = data.MaximumAllowed as usize;
    let Some((start, length, more)) = registered.piece(done, room).filter(|piece| piece.1 > 0)
    else {
        data.OutBuffer = core::ptr::null_mut();
        data.OutBufferLength = 0;
        return;
    };
    data.OutBuffer = start.cast_mut().cast();
    data.OutBufferLength = u32::try_from(length).unwrap_or(0);
    data.Context = core::ptr::without_provenance_mut(done.saturating_add(length));
    if more {
        data.Flags |= KB_SECONDARY_DATA_FLAG_ADDITIONAL_DATA;
    }
}
