//! Requests that wait: for something, for so long at most, and only as long as somebody wants it.
//!
//! ```text
//!  dispatch: open ─▶ ticket ─▶ Buffer::wait_on ─▶ pending ─┬─▶ signal(ticket)      answer
//!                       │                                 ├─▶ its time is up      answer
//!                       └ signal that comes early: kept   ├─▶ cancel              STATUS_CANCELLED
//!                                                         └─▶ fail                STATUS_CANCELLED
//! ```
//! Whoever takes the request out of the slot completes it; who is first is decided by the slot's lock
//! and, against the I/O manager, by who takes the cancel routine away.
#![expect(unsafe_code, reason = "keeps IRPs, and hands routines to the kernel")]

use crate::alive::Alive;
use crate::irp::Pended;
use crate::pool::{PoolArc, PoolTag};
use crate::sync::SpinLock;
use crate::{NtStatus, Result, status};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use nt::irp::{DEVICE_OBJECT, IRP};
use nt::ke::{KDPC, KTIMER, NotificationTimer};

/// What a waiting request is answered with.
pub type Answer = [u8; ANSWER_BYTES];
/// Its length.
pub const ANSWER_BYTES: usize = 8;

/// A wait; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// As a number, never 0.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// From [`get`](Self::get).
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// Room for one request that waits.
///
/// # Invariants
/// Timer and DPC are initialised, and stay where they are until dropped.
pub struct WaitSlot {
    state: SpinLock<State>,
    timer: UnsafeCell<MaybeUninit<KTIMER>>,
    dpc: UnsafeCell<MaybeUninit<KDPC>>,
    /// Whether the timer was ever set.
    is_timed: AtomicBool,
    _alive: Alive,
}

// SAFETY: the kernel objects are only passed to the kernel, which synchronizes them.
unsafe impl Sync for WaitSlot {}
// SAFETY: they are initialised where they stay.
unsafe impl Send for WaitSlot {}

struct State {
    last: u64,
    wait: Wait,
}

enum Wait {
    /// Nobody waits.
    None,
    /// The request is on its way here; what came before it.
    Open(Option<Answer>),
    /// The request, and what it is answered with when its time is up.
    Pending(Pended, Answer),
}

/// A wait that a request is about to enter.
pub(crate) struct Entry {
    pub(crate) slot: PoolArc<WaitSlot>,
    ticket: Ticket,
    timeout_ms: u32,
    on_timeout: Answer,
}

impl Entry {
    pub(crate) fn new(
        slot: PoolArc<WaitSlot>,
        ticket: Ticket,
        timeout_ms: u32,
        on_timeout: Answer,
    ) -> Self {
        Self {
            slot,
            ticket,
            timeout_ms,
            on_timeout,
        }
    }
}

impl WaitSlot {
    /// A slot that nobody waits in.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub fn try_new(tag: PoolTag) -> Result<PoolArc<Self>> {
        let slot = PoolArc::try_new(
            tag,
            Self {
                state: SpinLock::new(State {
                    last: 0,
                    wait: Wait::None,
                }),
                timer: UnsafeCell::new(MaybeUninit::zeroed()),
                dpc: UnsafeCell::new(MaybeUninit::zeroed()),
                is_timed: AtomicBool::new(false),
                _alive: Alive::new(),
            },
        )?;
        let context = (&raw const *slot).cast_mut().cast::<c_void>();
        // SAFETY: memory for a DPC that is not queued; the slot stays as long as it.
        unsafe { nt::ke::KeInitializeDpc(slot.dpc.get().cast(), time_is_up, context) };
        // SAFETY: memory for a timer that is not set.
        unsafe { nt::ke::KeInitializeTimerEx(slot.timer.get().cast(), NotificationTimer) };
        Ok(slot)
    }

    /// Begins a wait; `None` if there is one. The request follows with
    /// [`Buffer::wait_on`](crate::irp::Buffer::wait_on).
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub fn open(&self) -> Option<Ticket> {
        let mut state = self.state.lock();
        if !matches!(state.wait, Wait::None) {
            return None;
        }
        state.last += 1;
        state.wait = Wait::Open(None);
        Some(Ticket(state.last))
    }

    /// Answers the request of this wait; false if that is over, or answered already.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `IofCompleteRequest`, wdm.h.
    pub fn signal(&self, ticket: Ticket, answer: Answer) -> bool {
        let mut state = self.state.lock();
        if state.last != ticket.0 {
            return false;
        }
        if let Wait::Open(early @ None) = &mut state.wait {
            *early = Some(answer);
            return true;
        }
        let Some(taken) = state.take() else {
            return false;
        };
        drop(state);
        self.stop_timer();
        taken.pended.complete(status::STATUS_SUCCESS, &answer);
        true
    }

    /// Ends a wait, if there is one, with `STATUS_CANCELLED`; also one whose request is on its way here.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub fn fail(&self) {
        let mut state = self.state.lock();
        if matches!(state.wait, Wait::Open(_)) {
            // The request finds nothing to enter.
            state.wait = Wait::None;
        }
        let taken = state.take();
        drop(state);
        if let Some(taken) = taken {
            self.stop_timer();
            taken.pended.complete(status::STATUS_CANCELLED, &[]);
        }
    }

    fn stop_timer(&self) {
        if self.is_timed.load(Ordering::Acquire) {
            // SAFETY: the timer is initialised.
            unsafe { nt::ke::KeCancelTimer(self.timer.get().cast()) };
        }
    }

    fn start_timer(&self, timeout_ms: u32) {
        const UNITS_PER_MS: i64 = 10_000;
        self.is_timed.store(true, Ordering::Release);
        let due = -i64::from(timeout_ms) * UNITS_PER_MS;
        let (timer, dpc) = (self.timer.get().cast(), self.dpc.get().cast());
        // SAFETY: timer and DPC are initialised and stay until `drop` cancels and flushes.
        unsafe { nt::ke::KeSetTimerEx(timer, due, 0, dpc) };
    }
}

impl State {
    /// Takes a pending request out, unless it is being cancelled: then it is the cancel routine's.
    fn take(&mut self) -> Option<Taken> {
        match core::mem::replace(&mut self.wait, Wait::None) {
            Wait::Pending(pended, on_timeout) => match pended.disarm() {
                Some(slot) => Some(Taken {
                    pended,
                    on_timeout,
                    _slot: slot,
                }),
                None => {
                    self.wait = Wait::Pending(pended, on_timeout);
                    None
                }
            },
            kept => {
                self.wait = kept;
                None
            }
        }
    }
}

/// A request that is whoever's has this to complete, without the slot's lock.
struct Taken {
    pended: Pended,
    on_timeout: Answer,
    /// The request's share of the slot; to be let go after the lock.
    _slot: PoolArc<WaitSlot>,
}

/// Lets a request wait; gives the status of its dispatch routine.
///
/// IRQL: `<= DISPATCH_LEVEL`.
pub(crate) fn enter(pended: Pended, entry: Entry) -> NtStatus {
    let Entry {
        slot,
        ticket,
        timeout_ms,
        on_timeout,
    } = entry;
    let mut state = slot.state.lock();
    let early = match state.wait {
        Wait::Open(early) if state.last == ticket.0 => early,
        _ => {
            drop(state);
            return pended.complete(status::STATUS_CANCELLED, &[]);
        }
    };
    if let Some(answer) = early {
        state.wait = Wait::None;
        drop(state);
        return pended.complete(status::STATUS_SUCCESS, &answer);
    }
    pended.mark_pending();
    let was_cancelled = !pended.arm(slot.clone(), cancelled);
    if was_cancelled && let Some(_share) = pended.disarm() {
        state.wait = Wait::None;
        drop(state);
        pended.complete(status::STATUS_CANCELLED, &[]);
        return status::STATUS_PENDING;
    }
    // In either case the request is no longer this thread's when the lock is released.
    state.wait = Wait::Pending(pended, on_timeout);
    if !was_cancelled {
        slot.start_timer(timeout_ms);
    }
    drop(state);
    status::STATUS_PENDING
}

/// Called by the I/O manager, with the cancel lock.
unsafe extern "efiapi" fn cancelled(_: *mut DEVICE_OBJECT, irp: *mut IRP) {
    // SAFETY: the I/O manager passes a request that was armed with this routine, and it is nobody
    // else's to complete: the routine was taken away to call it.
    let Some((pended, slot)) = (unsafe { Pended::of_cancelled(irp) }) else {
        return;
    };
    {
        // Whoever put it in has let go of the lock.
        let mut state = slot.state.lock();
        if matches!(&state.wait, Wait::Pending(other, _) if other.is(&pended)) {
            state.wait = Wait::None;
        }
    }
    slot.stop_timer();
    pended.complete(status::STATUS_CANCELLED, &[]);
}

unsafe extern "efiapi" fn time_is_up(
    _: *mut KDPC,
    slot: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) {
    let Some(slot) = NonNull::new(slot.cast::<WaitSlot>()) else {
        return;
    };
    // SAFETY: the context given to `KeInitializeDpc`: a slot that outlives its DPC.
    let slot = unsafe { slot.as_ref() };
    let taken = slot.state.lock().take();
    if let Some(taken) = taken {
        taken
            .pended
            .complete(status::STATUS_SUCCESS, &taken.on_timeout);
    }
}

impl Drop for WaitSlot {
    /// IRQL: `PASSIVE_LEVEL`, if somebody ever waited.
    fn drop(&mut self) {
        if self.is_timed.load(Ordering::Acquire) {
            self.stop_timer();
            // SAFETY: takes nothing. Callers are at `PASSIVE_LEVEL`; above it, the kernel stops.
            unsafe { nt::ke::KeFlushQueuedDpcs() };
        }
    }
}
