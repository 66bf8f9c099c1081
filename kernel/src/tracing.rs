//! The recorder of a driver's events, and how clients read it.
//!
//! ```text
//!  hot!, cold! ─▶ switch on? ─▶ ring of this processor      (crate `trace`; any IRQL)
//!                    ▲                  │
//!  client ─▶ Select, Switch       Read ─┘                   (here; PASSIVE_LEVEL)
//! ```
//! A client keeps its own place in every ring, so any number may read, and may die. Sessions of ETW get
//! the same events through `etw`.
#![expect(unsafe_code, reason = "owns the memory of the rings")]

mod dump;
mod etw;

use crate::irp::Buffer;
use crate::per_cpu::thread::Raised;
use crate::pool::{PoolBox, PoolTag};
use crate::processor::{self, CurrentCore};
use crate::routine::Routine;
use crate::{Result, status, time, utf16};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use nt::base::PROCESSOR_NUMBER;
use trace::format::request::{
    Call, Clocks, Information, Mode, ReadReply, ReadRequest, Selection, Switch,
};
use trace::format::slot::SLOT_BYTES;
use trace::format::{Level, Slot, site};
use trace::recorder::{self, Lane, MOST_PROCESSORS, Place, Ring};
use trace::{AtDispatch, Flag, Records};
use zerocopy::{FromBytes, IntoBytes};

/// Events of this crate.
pub const KERNEL: Flag = Flag::new(31, "KERNEL");

// SAFETY: made in DPCs and at raised IRQL only, and lent for as long as that lasts; not `Send`.
unsafe impl AtDispatch for CurrentCore {}

/// The rings of this driver. One per driver file.
///
/// # Invariants
/// The rings are over `places`, each over its own part, and are withdrawn before either goes.
pub struct Recorder {
    // Before what it refers to: fields are dropped in their order.
    in_dumps: Option<dump::InDumps>,
    rings: PoolBox<[Ring]>,
    places: PoolBox<[Place]>,
    slots: usize,
    mode: AtomicU32,
    provider: Option<etw::Provider>,
    _records: Records,
}

impl Recorder {
    /// Two rings of so many slots for each processor; nothing is recorded yet.
    ///
    /// In the flavours that record nothing, there is no recorder.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INVALID_PARAMETER` unless `slots` is a power of two; `STATUS_NOT_SUPPORTED` if
    /// there are more than 256 processors, or the processor's block does not say which one it is (Wine 8);
    /// `STATUS_INSUFFICIENT_RESOURCES`.
    ///
    /// When the system stops, the rings go into the crash dump.
    #[inline]
    pub fn try_new(tag: PoolTag, slots: usize) -> Result<Self> {
        let records = trace::records().ok_or(status::STATUS_NOT_SUPPORTED)?;
        Self::with(records, tag, slots)
    }

    fn with(records: Records, tag: PoolTag, slots: usize) -> Result<Self> {
        let processors = processor::count() as usize;
        if processors > MOST_PROCESSORS || !is_numbered() {
            return Err(status::STATUS_NOT_SUPPORTED);
        }
        let now = clocks();
        let somewhere = (&raw const now).addr() as u64;
        trace::argument::hide_addresses_with(
            now.ticks ^ now.system_time.rotate_left(32) ^ somewhere,
        );
        let count = processors * 2;
        let places = PoolBox::try_from_fn(tag, dump::places(count, slots), |_| {
            Ok([const { AtomicU64::new(0) }; 4])
        })?;
        let rings = {
            let mut parts = dump::slots_of(&places, slots);
            PoolBox::try_from_fn(tag, count, |_| {
                let part = parts.next().map(NonNull::from);
                let part = part.ok_or(status::STATUS_INVALID_PARAMETER)?;
                // SAFETY: `places` lives as long as the rings; each ring has a part of its own.
                unsafe { Ring::new(part.cast(), slots) }.ok_or(status::STATUS_INVALID_PARAMETER)
            })?
        };
        let mut this = Self {
            in_dumps: None,
            rings,
            places,
            slots,
            mode: AtomicU32::new(Mode::Overwrite as u32),
            provider: None,
            _records: records,
        };
        this.publish()?;
        let information = this.information();
        // SAFETY: the memory of both goes after what refers to it: see the fields' order.
        this.in_dumps =
            unsafe { dump::InDumps::try_new(tag, &this.places, &this.rings, information) }?;
        Ok(this)
    }

    fn publish(&self) -> Result<()> {
        for (processor, pair) in self.rings.chunks_exact(2).enumerate() {
            for (lane, ring) in [Lane::Any, Lane::Dispatch].into_iter().zip(pair) {
                // SAFETY: withdrawn in `drop`; by then, no code of the driver but that runs.
                if !unsafe { recorder::publish(processor, lane, NonNull::from(ring)) } {
                    return Err(status::STATUS_NOT_SUPPORTED);
                }
            }
        }
        Ok(())
    }

    /// Lets events go out through ETW in the form of WPP, to sessions that want those of this driver:
    /// `recorder.relay(TAG, trace::provider!("Name", "control-guid"))`.
    ///
    /// Where that cannot be had, events are recorded as ever, and one of them says so.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    pub fn relay(&mut self, tag: PoolTag, control: [u8; 16]) {
        // SAFETY: the rings stay in the pool, and are dropped after the provider: see `drop`.
        match unsafe { etw::Provider::try_new(tag, control, NonNull::from(&*self.rings)) } {
            Ok(provider) => self.provider = Some(provider),
            Err(status) => etw::say_absent(status),
        }
    }

    /// Records what is at most at this level, and of one of these flags; nothing else.
    ///
    /// IRQL: any.
    pub fn select(&self, level: Level, flags: u32) {
        recorder::select(level as u32, flags);
    }

    /// Answers a device control, if it is one of [tracing](Call); `None` if it is not.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INFO_LENGTH_MISMATCH`, `STATUS_BUFFER_TOO_SMALL`, `STATUS_INVALID_PARAMETER`.
    pub fn ioctl(&self, code: u32, buffer: &mut Buffer<'_>) -> Option<Result<()>> {
        Some(match Call::from_code(code)? {
            Call::Query => buffer.push(self.information().as_bytes()),
            Call::Select => parse(buffer).and_then(|selection| self.apply(selection)),
            Call::Switch => switch(buffer),
            Call::Read => parse(buffer).and_then(|request| self.read(request, buffer)),
        })
    }

    fn information(&self) -> Information {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let [time_date_stamp, image_bytes, checksum] = image::identity();
        Information {
            version: site::VERSION,
            time_date_stamp,
            image_bytes,
            checksum,
            processors: count(self.rings.len() / 2),
            slots: count(self.slots),
            switches: count(recorder::switches().len()),
            mode: self.mode.load(Ordering::Relaxed),
            clocks: clocks(),
        }
    }

    fn apply(&self, selection: Selection) -> Result<()> {
        let mode = Mode::from_number(selection.mode).ok_or(status::STATUS_INVALID_PARAMETER)?;
        recorder::select(0, 0);
        self.mode.store(mode as u32, Ordering::Relaxed);
        for ring in self.rings.iter() {
            if selection.anew != 0 {
                ring.restart();
            }
            ring.set_mode(mode);
        }
        recorder::select(selection.level, selection.flags);
        Ok(())
    }

    fn read(&self, request: ReadRequest, buffer: &mut Buffer<'_>) -> Result<()> {
        buffer.check_room(size_of::<ReadReply>())?;
        let ring = self
            .rings
            .get(request.ring as usize)
            .ok_or(status::STATUS_INVALID_PARAMETER)?;
        let (view, start) = (ring.view(), ring.start());
        let window = view.window(request.from.max(start));
        let room = (buffer.room() - size_of::<ReadReply>()) / SLOT_BYTES;
        let count = usize::try_from(window.end - window.start).unwrap_or(room);
        let count = count.min(room).min(view.slots.len());
        let reply = ReadReply {
            ring: request.ring,
            slots: u32::try_from(count).unwrap_or(u32::MAX),
            first: window.start,
            position: window.end,
            start,
            clocks: clocks(),
        };
        buffer.push(reply.as_bytes())?;
        window.take(count).try_for_each(|position| {
            let slot = view.read(position).unwrap_or(Slot([0; 4]));
            buffer.push(&slot.to_bytes())
        })
    }
}

impl Drop for Recorder {
    /// IRQL: `PASSIVE_LEVEL`.
    #[inline]
    fn drop(&mut self) {
        self.provider = None;
        recorder::select(0, 0);
        recorder::withdraw();
    }
}

fn parse<T: FromBytes>(buffer: &Buffer<'_>) -> Result<T> {
    T::read_from_bytes(buffer.input()).map_err(|_| status::STATUS_INFO_LENGTH_MISMATCH)
}

fn switch(buffer: &Buffer<'_>) -> Result<()> {
    let (wanted, rest) = buffer.input().as_chunks::<{ size_of::<Switch>() }>();
    if !rest.is_empty() {
        return Err(status::STATUS_INFO_LENGTH_MISMATCH);
    }
    let switches = recorder::switches();
    let wanted = wanted.iter().map(|bytes| zerocopy::transmute!(*bytes));
    if wanted
        .clone()
        .any(|Switch { index, on }| index as usize >= switches.len() || on > 1)
    {
        return Err(status::STATUS_INVALID_PARAMETER);
    }
    for Switch { index, on } in wanted {
        if let Some(switch) = switches.get(index as usize) {
            switch.set(on == 1);
        }
    }
    Ok(())
}

fn clocks() -> Clocks {
    Clocks {
        ticks: trace::thunk::now(),
        system_time: time::system_time(),
    }
}

type ProcessorNumber = unsafe extern "efiapi" fn(*mut PROCESSOR_NUMBER) -> u32;

static PROCESSOR_NUMBER_EX: Routine<ProcessorNumber> =
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(utf16!("KeGetCurrentProcessorNumberEx")) };

/// Whether sites see the number of their processor as the kernel does.
fn is_numbered() -> bool {
    let Some(number) = PROCESSOR_NUMBER_EX.find() else {
        return false;
    };
    let _here = Raised::to_dispatch();
    // SAFETY: group and number are not wanted.
    let index = unsafe { number(core::ptr::null_mut()) };
    trace::thunk::processor() == index as usize
}

/// The driver file in memory.
#[cfg(windows)]
mod image {
    /// `TimeDateStamp`, `SizeOfImage` and `CheckSum` of the headers.
    ///
    /// Source: PE format, COFF file header and optional header.
    pub(super) fn identity() -> [u32; 3] {
        unsafe extern "C" {
            safe static __ImageBase: u8;
        }
        let base = &raw const __ImageBase;
        let at = |offset: usize| {
            // SAFETY: the headers are mapped with the image, and begin on a page.
            unsafe { base.wrapping_add(offset).cast::<u32>().read_unaligned() }
        };
        let header = at(0x3C) as usize;
        [8, 24 + 56, 24 + 64].map(|offset| at(header + offset))
    }
}

/// Off Windows, nothing is a driver file.
#[cfg(not(windows))]
mod image {
    pub(super) fn identity() -> [u32; 3] {
        [0; 3]
    }
}
