//! A value per processor, with a DPC and a timer that run there.
//!
//! ```text
//!  PerCpu ─▶ [ core 0: value │ run DPC │ tick DPC ◀─ timer │ wake DPC ◀─ interrupt ] [ core 1: … ] …
//! ```
//! DPCs are bound to their processor. Slots are in the pool and never move. A kernel whose DPCs do
//! nothing (Wine 8) is found out at the start; there, work runs in the caller's thread.
#![expect(unsafe_code, reason = "hands kernel objects to the kernel")]

pub(crate) mod thread;

use crate::alive::Alive;
use crate::pool::{PoolBox, PoolTag};
use crate::processor::{self, CoreId, CurrentCore};
use crate::sync::{Mutex, Pending};
use crate::{Result, check};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use nt::ke::{HighImportance, KDPC, KTIMER, NotificationTimer};
use pmu::Interrupted;

/// A value that belongs to one processor.
pub trait PerCore: Send + Sync + 'static {
    /// Its timer came due. Runs on its processor.
    ///
    /// IRQL: `DISPATCH_LEVEL`.
    fn tick(&self, here: &CurrentCore);

    /// A counter of its processor overflowed, while a [`ProfileHook`](crate::profile::ProfileHook) is
    /// there. Runs on its processor; true asks for [`woken`](Self::woken).
    ///
    /// IRQL: `PROFILE_LEVEL`.
    fn overflow(&self, here: &CurrentCore, at: &Interrupted) -> bool {
        let _ = (here, at);
        false
    }

    /// What an interrupt asked for. Runs on its processor.
    ///
    /// IRQL: `DISPATCH_LEVEL`.
    fn woken(&self, here: &CurrentCore) {
        let _ = here;
    }
}

/// One value per processor.
///
/// # Invariants
/// Kernel objects of the slots are initialised, and stay where they are until dropped.
pub struct PerCpu<T: PerCore> {
    /// Whoever holds it may queue the run DPCs: each can be queued once at a time.
    turn: Mutex<()>,
    slots: PoolBox<[Slot<T>]>,
    dispatch: Dispatch,
    /// The kernel may call the slots' DPCs.
    _alive: Alive,
}

/// How work gets to a processor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dispatch {
    /// By DPCs, on all at the same time.
    Dpc,
    /// By moving the calling thread to one after the other.
    Thread,
}

struct Slot<T> {
    core: CoreId,
    value: T,
    run: UnsafeCell<MaybeUninit<KDPC>>,
    tick: UnsafeCell<MaybeUninit<KDPC>>,
    wake: UnsafeCell<MaybeUninit<KDPC>>,
    timer: UnsafeCell<MaybeUninit<KTIMER>>,
}

// SAFETY: the kernel objects are only passed to the kernel, which synchronizes them.
unsafe impl<T: Sync> Sync for Slot<T> {}
// SAFETY: a slot only moves before its kernel objects are initialised.
unsafe impl<T: Send> Send for Slot<T> {}

/// Work that runs once on each of some processors.
struct Job<'a, T> {
    work: &'a (dyn Fn(&CurrentCore, &T) + Sync),
    pending: Pending,
}

impl<T: PerCore> PerCpu<T> {
    /// One value per active processor, made by `make`.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`, or what `make` says.
    pub fn try_new(tag: PoolTag, mut make: impl FnMut(CoreId) -> Result<T>) -> Result<Self> {
        let turn = Mutex::try_new(tag, ())?;
        let count = processor::count();
        let slots = PoolBox::try_from_fn(tag, count as usize, |index| {
            let core = CoreId(u32::try_from(index).unwrap_or(u32::MAX));
            Ok(Slot {
                core,
                value: make(core)?,
                run: UnsafeCell::new(MaybeUninit::zeroed()),
                tick: UnsafeCell::new(MaybeUninit::zeroed()),
                wake: UnsafeCell::new(MaybeUninit::zeroed()),
                timer: UnsafeCell::new(MaybeUninit::zeroed()),
            })
        })?;
        slots.iter().try_for_each(Slot::initialise)?;
        // From here on a slot's DPC may be queued: dropping this flushes it.
        let mut this = Self {
            turn,
            slots,
            dispatch: Dispatch::Dpc,
            _alive: Alive::new(),
        };
        this.dispatch = this.slots.first().map_or(Dispatch::Dpc, Slot::probe);
        Ok(this)
    }

    /// Number of processors.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The value of one processor; `None` if there is no such processor.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn get(&self, core: CoreId) -> Option<&T> {
        self.slots.get(core.0 as usize).map(|slot| &slot.value)
    }

    /// All values, in the order of processors.
    ///
    /// IRQL: any.
    pub fn iter(&self) -> impl Iterator<Item = (CoreId, &T)> + Clone {
        self.slots.iter().map(|slot| (slot.core, &slot.value))
    }

    /// Runs `work` on each processor named, at the same time, and waits until all have done it.
    ///
    /// Processors that do not exist are passed over; one that is named twice may do it twice.
    ///
    /// IRQL: `PASSIVE_LEVEL`; `work` runs at `DISPATCH_LEVEL`.
    /// Source: `KeInsertQueueDpc`, `KeSetTargetProcessorDpcEx`, wdm.h.
    pub fn run_on(
        &self,
        cores: impl Iterator<Item = CoreId>,
        work: &(dyn Fn(&CurrentCore, &T) + Sync),
    ) {
        let turn = self.turn.lock();
        if self.dispatch == Dispatch::Thread {
            for slot in cores.filter_map(|core| self.slots.get(core.0 as usize)) {
                thread::run_on(slot.core, |here| work(here, &slot.value));
            }
            return;
        }
        let job = Job {
            work,
            pending: Pending::new(),
        };
        job.pending.begin();
        for slot in cores.filter_map(|core| self.slots.get(core.0 as usize)) {
            job.pending.add();
            let argument = (&raw const job).cast_mut().cast::<c_void>();
            // SAFETY: (1) `run` is initialised. (2) The job outlives it: waited for below.
            let queued = unsafe {
                nt::ke::KeInsertQueueDpc(slot.run.get().cast(), argument, core::ptr::null_mut())
            };
            if queued == 0 {
                // Named twice and still queued: once is enough.
                job.pending.finish_and_wake();
            }
        }
        job.pending.wait();
        drop(turn);
    }

    /// Lets the value's [`tick`](PerCore::tick) run again and again, until stopped.
    ///
    /// Units: ms. IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeSetTimerEx`, wdm.h.
    pub fn start_ticks(&self, core: CoreId, period_ms: u32) {
        const UNITS_PER_MS: i64 = 10_000;
        let Some(slot) = self.slots.get(core.0 as usize) else {
            return;
        };
        let period_ms = period_ms.clamp(1, i32::MAX as u32);
        let due = -i64::from(period_ms) * UNITS_PER_MS;
        let (timer, dpc) = (slot.timer.get().cast(), slot.tick.get().cast());
        // SAFETY: timer and DPC are initialised and stay until `drop` cancels and flushes.
        unsafe { nt::ke::KeSetTimerEx(timer, due, period_ms.cast_signed(), dpc) };
    }

    /// Ends the ticks, and waits for one that is on its way: none comes afterwards.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `KeCancelTimer`, `KeFlushQueuedDpcs`, wdm.h.
    pub fn stop_ticks_and_wait(&self, core: CoreId) {
        self.stop_ticks(core);
        flush_dpcs();
    }

    /// Ends the ticks. One that is on its way may still come.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `KeCancelTimer`, wdm.h.
    pub fn stop_ticks(&self, core: CoreId) {
        if let Some(slot) = self.slots.get(core.0 as usize) {
            // SAFETY: the timer is initialised.
            unsafe { nt::ke::KeCancelTimer(slot.timer.get().cast()) };
        }
    }
}

impl<T: PerCore> PerCpu<T> {
    /// Tells the value of a processor that a counter overflowed there.
    ///
    /// IRQL: `PROFILE_LEVEL`, on that processor.
    pub(crate) fn overflowed(&self, core: CoreId, at: &Interrupted) {
        let Some(slot) = self.slots.get(core.0 as usize) else {
            return;
        };
        if slot.value.overflow(&CurrentCore::new(core), at) {
            let none = core::ptr::null_mut();
            // SAFETY: initialised, and the slot stays until `drop` flushes. One that is queued still
            // will do for both.
            unsafe { nt::ke::KeInsertQueueDpc(slot.wake.get().cast(), none, none) };
        }
    }
}

impl<T: PerCore> Drop for PerCpu<T> {
    /// IRQL: `PASSIVE_LEVEL`.
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            // SAFETY: the timer is initialised.
            unsafe { nt::ke::KeCancelTimer(slot.timer.get().cast()) };
        }
        // A tick that was queued before its timer was cancelled must have run before the slot goes.
        flush_dpcs();
    }
}

/// Waits until every DPC that is queued now has run.
fn flush_dpcs() {
    // SAFETY: takes nothing. Callers are at `PASSIVE_LEVEL`; above it, the kernel stops.
    unsafe { nt::ke::KeFlushQueuedDpcs() };
}

impl<T: PerCore> Slot<T> {
    /// Initialises the kernel objects, where they will stay.
    fn initialise(&self) -> Result<()> {
        let context = (&raw const *self).cast_mut().cast::<c_void>();
        let [run, tick, wake] =
            [&self.run, &self.tick, &self.wake].map(|dpc| dpc.get().cast::<KDPC>());
        // SAFETY: memory for a DPC that is not queued; the slot stays as long as it.
        unsafe { nt::ke::KeInitializeDpc(run, run_dpc::<T>, context) };
        // SAFETY: as above.
        unsafe { nt::ke::KeInitializeDpc(tick, tick_dpc::<T>, context) };
        // SAFETY: as above.
        unsafe { nt::ke::KeInitializeDpc(wake, wake_dpc::<T>, context) };
        // SAFETY: memory for a timer that is not set.
        unsafe { nt::ke::KeInitializeTimerEx(self.timer.get().cast(), NotificationTimer) };
        for dpc in [run, tick, wake] {
            // Of lower importance, one for another processor may wait for that one's next clock tick.
            // SAFETY: `dpc` is initialised and not queued.
            unsafe { nt::ke::KeSetImportanceDpc(dpc, HighImportance) };
            let mut number = processor::number(self.core);
            // SAFETY: `dpc` is initialised and not queued, `number` is of an existing processor.
            check(unsafe { nt::ke::KeSetTargetProcessorDpcEx(dpc, &raw mut number) })?;
        }
        Ok(())
    }
}

impl<T: PerCore> Slot<T> {
    /// Finds out whether this kernel runs DPCs, by one without a job.
    ///
    /// A kernel that queues a DPC keeps its arguments in it, and nobody clears them; Wine 8 claims
    /// success and does nothing at all.
    fn probe(&self) -> Dispatch {
        let dpc = self.run.get().cast::<KDPC>();
        let mark = (&raw const *self).cast_mut().cast::<c_void>();
        // SAFETY: initialised, and the slot stays until `PerCpu::drop` flushes.
        unsafe { nt::ke::KeInsertQueueDpc(dpc, core::ptr::null_mut(), mark) };
        // SAFETY: a place within the DPC.
        let argument = unsafe { &raw const (*dpc).SystemArgument2 };
        // SAFETY: initialised memory; only queueing writes it, and that was before.
        let kept = unsafe { argument.read_volatile() };
        if kept != mark {
            return Dispatch::Thread;
        }
        // Still queued, it could not be queued for a job.
        flush_dpcs();
        Dispatch::Dpc
    }
}

unsafe extern "efiapi" fn run_dpc<T: PerCore>(
    _: *mut KDPC,
    slot: *mut c_void,
    job: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the context given to `KeInitializeDpc`: a slot that outlives its DPCs.
    let slot = unsafe { &*slot.cast::<Slot<T>>() };
    // SAFETY: the argument given to `KeInsertQueueDpc`: a job that waits for this very call, or null.
    let Some(job) = (unsafe { job.cast::<Job<'_, T>>().as_ref() }) else {
        return;
    };
    (job.work)(&CurrentCore::new(slot.core), &slot.value);
    job.pending.finish_and_wake();
}

unsafe extern "efiapi" fn tick_dpc<T: PerCore>(
    _: *mut KDPC,
    slot: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the context given to `KeInitializeDpc`: a slot that outlives its DPCs.
    let slot = unsafe { &*slot.cast::<Slot<T>>() };
    slot.value.tick(&CurrentCore::new(slot.core));
}

unsafe extern "efiapi" fn wake_dpc<T: PerCore>(
    _: *mut KDPC,
    slot: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the context given to `KeInitializeDpc`: a slot that outlives its DPCs.
    let slot = unsafe { &*slot.cast::<Slot<T>>() };
    slot.value.woken(&CurrentCore::new(slot.core));
}
