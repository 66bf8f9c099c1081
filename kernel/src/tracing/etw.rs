//! Events for sessions of ETW, in the form of WPP.
//!
//! ```text
//!  session begins ─▶ enabled ─▶ switches, thread ──▶ rounds of `trace::relay` ─▶ WmiTraceMessage
//!  session ends   ─▶ enabled ─▶ switches, last round, the thread ends
//! ```
//! A site writes to its ring as ever and knows nothing of sessions; a thread that lives as long as one
//! takes events from the rings, at `PASSIVE_LEVEL`, where descriptions may be paged in.

use super::{KERNEL, clocks, image};
use crate::alive::Alive;
use crate::pool::{PoolBox, PoolTag};
use crate::routine::Routine;
use crate::sync::{Event, EventKind, Mutex, Waited};
use crate::thread::{Main, Thread};
use crate::{Result, check, status, utf16};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use nt::NTSTATUS;
use nt::base::GUID;
use nt::etw::{
    ETW_CLASSIC_CALLBACK, EVENT_CONTROL_CODE_DISABLE_PROVIDER, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
    TRACE_ENABLE_CONTEXT,
};
use trace::cold;
use trace::format::view::SectionView;
use trace::format::wpp::{self, MOST_PAYLOAD, OPTIONS};
use trace::recorder::{Ring, Wish, select_for};
use trace::relay::{Follower, Relay, Sent, Session};

/// Between two rounds while a session wants events. Units: ms.
const PERIOD_MS: u32 = 10;

/// Between two comparisons of the clocks. Units: 100 ns.
const CLOCKS_EVERY: u64 = 10_000_000;

type RegisterClassicProvider = unsafe extern "efiapi" fn(
    *const GUID,
    u32,
    ETW_CLASSIC_CALLBACK,
    *mut c_void,
    *mut u64,
) -> NTSTATUS;
type Unregister = unsafe extern "efiapi" fn(u64) -> NTSTATUS;
type TraceMessage = unsafe extern "C" fn(u64, u32, *const GUID, u16, ...) -> NTSTATUS;

static REGISTER: Routine<RegisterClassicProvider> =
    // SAFETY: the type is that with which WPP calls it, as `nt::etw` declares it.
    unsafe { Routine::new(utf16!("EtwRegisterClassicProvider")) };
static UNREGISTER: Routine<Unregister> =
    // SAFETY: the type is that of wdm.h, as `nt::sysinfo` declares it.
    unsafe { Routine::new(utf16!("EtwUnregister")) };
static TRACE_MESSAGE: Routine<TraceMessage> =
    // SAFETY: the type is that of wdm.h, as `nt::etw` declares it.
    unsafe { Routine::new(utf16!("WmiTraceMessage")) };

/// The driver as a provider of events; withdrawn when dropped.
///
/// # Invariants
/// `state` stays where it is while `registration` is there, or a thread runs.
pub(super) struct Provider {
    state: PoolBox<State>,
    registration: u64,
    _alive: Alive,
}

/// # Invariants
/// `rings` lives as long as this. `progress` is touched by the thread only; there is at most one.
struct State {
    rings: NonNull<[Ring]>,
    section: SectionView<'static>,
    message: TraceMessage,
    guid: GUID,
    logger: AtomicU64,
    level: AtomicU8,
    flags: AtomicU32,
    stop: Event,
    thread: Mutex<Option<Thread>>,
    progress: UnsafeCell<Progress>,
}

struct Progress {
    followers: PoolBox<[Follower]>,
    payload: PoolBox<[u8]>,
}

// SAFETY: rings are shared by design, and live as long as this; `progress` is one thread's.
unsafe impl Sync for State {}
// SAFETY: as above.
unsafe impl Send for State {}

impl Provider {
    /// Registers the driver under this control GUID. Sessions may be served before this returns.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_NOT_SUPPORTED` where the kernel has no such routines (Wine);
    /// `STATUS_INSUFFICIENT_RESOURCES`, and what else the kernel says.
    /// Source: `EtwRegisterClassicProvider`, as the code that WPP makes calls it since Windows Vista SP1.
    ///
    /// # Safety
    /// `rings` must live until the result has been dropped.
    pub(super) unsafe fn try_new(
        tag: PoolTag,
        control: [u8; 16],
        rings: NonNull<[Ring]>,
    ) -> Result<Self> {
        let message = TRACE_MESSAGE.find().ok_or(status::STATUS_NOT_SUPPORTED)?;
        let register = REGISTER.find().ok_or(status::STATUS_NOT_SUPPORTED)?;
        UNREGISTER.find().ok_or(status::STATUS_NOT_SUPPORTED)?;
        let section = trace::metadata().ok_or(status::STATUS_NOT_SUPPORTED)?;
        let followers = PoolBox::try_from_fn(tag, rings.len(), |_| Ok(Follower::default()))?;
        let payload = PoolBox::try_from_fn(tag, MOST_PAYLOAD, |_| Ok(0))?;
        let (stop, thread) = (
            Event::try_new(tag, EventKind::Notification)?,
            Mutex::try_new(tag, None)?,
        );
        let state = PoolBox::try_new(
            tag,
            State {
                rings,
                section,
                message,
                guid: guid(wpp::message_guid(image::identity())),
                logger: AtomicU64::new(0),
                level: AtomicU8::new(0),
                flags: AtomicU32::new(0),
                stop,
                thread,
                progress: UnsafeCell::new(Progress { followers, payload }),
            },
        )?;
        let context = ptr::from_ref(&*state).cast_mut().cast();
        let control = guid(control);
        let mut registration = 0;
        // SAFETY: (1) the GUID and the place for the handle are valid. (2) The context is what `enabled`
        // takes, and stays until `drop` has withdrawn the provider.
        let registered = unsafe {
            register(
                &raw const control,
                0,
                enabled,
                context,
                &raw mut registration,
            )
        };
        if let Err(status) = check(registered) {
            state.end();
            return Err(status);
        }
        Ok(Self {
            state,
            registration,
            _alive: Alive::new(),
        })
    }
}

impl Drop for Provider {
    /// Withdraws the provider, then relays what a session still wants.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `EtwUnregister`, wdm.h: its callback does not run any more when it returns.
    fn drop(&mut self) {
        if let Some(unregister) = UNREGISTER.found() {
            // SAFETY: what `try_new` registered, once.
            unsafe { unregister(self.registration) };
        }
        self.state.end();
    }
}

/// Called when a session begins to want events, wants others, or none any more.
///
/// IRQL: `PASSIVE_LEVEL`.
unsafe extern "efiapi" fn enabled(
    _: *const GUID,
    code: u8,
    wanted: *mut c_void,
    context: *mut c_void,
) {
    // SAFETY: the context of `try_new`, which is there as long as the provider is registered.
    let state = unsafe { &*context.cast::<State>() };
    match code {
        EVENT_CONTROL_CODE_ENABLE_PROVIDER => {
            // SAFETY: what the callback is given with this code; its eight bytes are the session's handle.
            let handle = unsafe { wanted.cast::<u64>().read_unaligned() };
            // SAFETY: as above.
            let wanted = unsafe { wanted.cast::<TRACE_ENABLE_CONTEXT>().read_unaligned() };
            state.begin(handle, wanted.Level, wanted.EnableFlags);
        }
        EVENT_CONTROL_CODE_DISABLE_PROVIDER => state.end(),
        _ => {}
    }
}

impl State {
    /// A session wants events; of several, the last.
    fn begin(&self, handle: u64, level: u8, flags: u32) {
        let mut thread = self.thread.lock();
        self.level.store(level, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.logger.store(handle, Ordering::Release);
        let (level, flags) = (
            if level == 0 { u8::MAX } else { level },
            if flags == 0 { u32::MAX } else { flags },
        );
        select_for(Wish::Session, level.into(), flags);
        if thread.is_some() {
            return;
        }
        self.stop.reset();
        // SAFETY: this stays where it is until `end` has dropped the thread: invariant of `Provider`.
        match unsafe { Thread::start(self) } {
            Ok(started) => *thread = Some(started),
            Err(status) => {
                select_for(Wish::Session, 0, 0);
                cold!(Error, KERNEL, "a session gets no events: no thread", status: NTSTATUS = status);
            }
        }
    }

    /// No session wants events any more: what is there is relayed before this returns.
    fn end(&self) {
        let mut thread = self.thread.lock();
        select_for(Wish::Session, 0, 0);
        self.stop.set();
        // Waits for its last round.
        *thread = None;
        self.logger.store(0, Ordering::Release);
    }
}

impl Main for State {
    fn run(&self) {
        // SAFETY: invariant of the type: this is the thread.
        let progress = unsafe { &mut *self.progress.get() };
        // SAFETY: invariant of the type.
        let rings = unsafe { self.rings.as_ref() };
        let (followers, payload) = (&mut *progress.followers, &mut *progress.payload);
        let mut relay = Relay::new(rings, self.section, followers, payload);
        let mut session = self;
        let mut compared = 0;
        relay.begin();
        loop {
            let last = self.stop.is_set();
            let now = clocks();
            if last || now.system_time.wrapping_sub(compared) >= CLOCKS_EVERY {
                relay.clocks(now.ticks, now.system_time, &mut session);
                compared = now.system_time;
            }
            let round = relay.round(&mut session, last);
            if last {
                if round.ended != Sent::Taken {
                    cold!(
                        Warning,
                        KERNEL,
                        "a session ended before it had taken all events"
                    );
                }
                return;
            }
            // Whether it was signalled is seen above.
            let _: Waited = self
                .stop
                .wait_for(if round.hurries { 0 } else { PERIOD_MS });
        }
    }
}

impl Session for &State {
    fn wants(&self, level: u8, flag: u8) -> bool {
        let (most, flags) = (
            self.level.load(Ordering::Relaxed),
            self.flags.load(Ordering::Relaxed),
        );
        (most == 0 || level <= most) && (flags == 0 || flags >> (flag & 31) & 1 != 0)
    }

    fn send(&mut self, number: u16, payload: &[u8]) -> Sent {
        let logger = self.logger.load(Ordering::Acquire);
        // SAFETY: as wdm.h has it: pairs of an address and a length, all valid, and a pair of zeros.
        let status = unsafe {
            (self.message)(
                logger,
                OPTIONS,
                &raw const self.guid,
                number,
                payload.as_ptr(),
                payload.len(),
                ptr::null::<u8>(),
                0usize,
            )
        };
        match status {
            status if status.is_success() => Sent::Taken,
            status::STATUS_NO_MEMORY => Sent::Full,
            status::STATUS_INVALID_HANDLE => Sent::Gone,
            _ => Sent::Refused,
        }
    }
}

/// Says in the recorder that there is no ETW here.
#[cold]
pub(super) fn say_absent(status: crate::NtStatus) {
    cold!(Information, KERNEL, "events do not go out through ETW", status: NTSTATUS = status);
}

/// A GUID from its bytes in memory.
fn guid(bytes: [u8; 16]) -> GUID {
    let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = bytes;
    GUID {
        Data1: u32::from_le_bytes([a0, a1, a2, a3]),
        Data2: u16::from_le_bytes([b0, b1]),
        Data3: u16::from_le_bytes([c0, c1]),
        Data4: rest,
    }
}
