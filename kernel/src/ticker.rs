//! A value with a timer of its own.
//!
//! ```text
//!  Ticker ──owns──▶ [ timer ─▶ DPC ─▶ value.tick() │ value ]
//! ```
#![expect(unsafe_code, reason = "hands kernel objects to the kernel")]

use crate::alive::Alive;
use crate::pool::{PoolBox, PoolTag};
use crate::processor::{self, CoreId, CurrentCore};
use crate::{Result, check};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use nt::ke::{KDPC, KTIMER, NotificationTimer};

/// Something that is to be done again and again.
pub trait Tick: Send + Sync + 'static {
    /// The timer came due. `here` is the processor, for a ticker that was bound to one.
    ///
    /// IRQL: `DISPATCH_LEVEL`.
    fn tick(&self, here: Option<&CurrentCore>);
}

/// A value in the pool, with a DPC and a timer.
///
/// # Invariants
/// Kernel objects of the state are initialised, and stay where they are until dropped.
pub struct Ticker<T: Tick> {
    state: PoolBox<State<T>>,
}

struct State<T> {
    core: Option<CoreId>,
    value: T,
    dpc: UnsafeCell<MaybeUninit<KDPC>>,
    timer: UnsafeCell<MaybeUninit<KTIMER>>,
    /// The kernel may call the DPC.
    _alive: Alive,
}

// SAFETY: the kernel objects are only passed to the kernel, which synchronizes them.
unsafe impl<T: Sync> Sync for State<T> {}
// SAFETY: a state only moves before its kernel objects are initialised.
unsafe impl<T: Send> Send for State<T> {}

impl<T: Tick> Ticker<T> {
    /// Stands still at first. Ticks on processor `core`, or on whichever the timer expires.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; the value is dropped.
    /// Source: `KeInitializeDpc`, `KeSetTargetProcessorDpcEx`, `KeInitializeTimerEx`, wdm.h.
    pub fn try_new(tag: PoolTag, core: Option<CoreId>, value: T) -> Result<Self> {
        let state = PoolBox::try_new(
            tag,
            State {
                core,
                value,
                dpc: UnsafeCell::new(MaybeUninit::zeroed()),
                timer: UnsafeCell::new(MaybeUninit::zeroed()),
                _alive: Alive::new(),
            },
        )?;
        let context = (&raw const *state).cast_mut().cast::<c_void>();
        let dpc = state.dpc.get().cast::<KDPC>();
        // SAFETY: memory for a DPC that is not queued; the state stays as long as it.
        unsafe { nt::ke::KeInitializeDpc(dpc, tick::<T>, context) };
        // SAFETY: memory for a timer that is not set.
        unsafe { nt::ke::KeInitializeTimerEx(state.timer.get().cast(), NotificationTimer) };
        if let Some(core) = core {
            let mut number = processor::number(core);
            // SAFETY: `dpc` is initialised and not queued, `number` is of an existing processor.
            check(unsafe { nt::ke::KeSetTargetProcessorDpcEx(dpc, &raw mut number) })?;
        }
        Ok(Self { state })
    }

    /// The value.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.state.value
    }

    /// Lets the value's [`tick`](Tick::tick) run again and again, until stopped.
    ///
    /// Units: ms. IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeSetTimerEx`, wdm.h.
    pub fn start(&self, period_ms: u32) {
        const UNITS_PER_MS: i64 = 10_000;
        let period_ms = period_ms.clamp(1, i32::MAX as u32);
        let due = -i64::from(period_ms) * UNITS_PER_MS;
        let (timer, dpc) = (self.state.timer.get().cast(), self.state.dpc.get().cast());
        // SAFETY: timer and DPC are initialised and stay until `drop` cancels and flushes.
        unsafe { nt::ke::KeSetTimerEx(timer, due, period_ms.cast_signed(), dpc) };
    }

    /// Ends the ticks. One that is on its way may still come.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeCancelTimer`, wdm.h.
    pub fn stop(&self) {
        // SAFETY: the timer is initialised.
        unsafe { nt::ke::KeCancelTimer(self.state.timer.get().cast()) };
    }
}

impl<T: Tick> Drop for Ticker<T> {
    /// IRQL: `PASSIVE_LEVEL`.
    fn drop(&mut self) {
        self.stop();
        // A tick that was queued before its timer was cancelled must have run before the state goes.
        // SAFETY: takes nothing. Callers are at `PASSIVE_LEVEL`; above it, the kernel stops.
        unsafe { nt::ke::KeFlushQueuedDpcs() };
    }
}

unsafe extern "efiapi" fn tick<T: Tick>(
    _: *mut KDPC,
    state: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the context given to `KeInitializeDpc`: a state that outlives its DPC.
    let state = unsafe { &*state.cast::<State<T>>() };
    let here = state.core.map(CurrentCore::new);
    state.value.tick(here.as_ref());
}
