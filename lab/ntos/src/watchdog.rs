//! Stops a driver that never gives control back.
//!
//! A timer on the host thread's processor time looks a few times per limit
//! whether the scheduler has switched meanwhile. It fires into driver code as
//! a signal, so that a loop without any kernel call is caught too.
#![expect(unsafe_code, reason = "timers and signals")]

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use crate::fault;
use crate::machine::try_current;

/// The watchdog's signal: nothing else in the lab uses it.
const SIGNAL: i32 = libc::SIGVTALRM;
/// How often per limit it looks.
const LOOKS: u32 = 4;

/// What the watchdog remembers of a machine.
#[derive(Default)]
pub(crate) struct Watch {
    seen: Cell<u64>,
    looks: Cell<u32>,
}

impl Watch {
    /// Whether so many looks in a row have seen the same number of switches.
    fn is_stuck(&self, switches: u64) -> bool {
        if self.seen.replace(switches) != switches {
            self.looks.set(0);
            return false;
        }
        self.looks.set(self.looks.get().saturating_add(1));
        self.looks.get() >= LOOKS
    }
}

/// Starts the timer of this host thread, once, with this limit of processor time.
pub(crate) fn start(limit: Duration) {
    thread_local! { static STARTED: Cell<bool> = const { Cell::new(false) }; }
    if STARTED.replace(true) {
        return;
    }
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| fault::install_handler(SIGNAL, on_timer));
    // SAFETY: an all-zero sigevent is a valid value.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    // SAFETY: gettid has no preconditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both pointers are to locals that outlive the call.
    let made = unsafe {
        libc::timer_create(
            libc::CLOCK_THREAD_CPUTIME_ID,
            &raw mut event,
            &raw mut timer,
        )
    };
    if made != 0 {
        // A host without processor-time timers: a driver that hangs then hangs the lab, as it says in the documentation.
        return;
    }
    let look = limit / LOOKS;
    let look = libc::timespec {
        tv_sec: libc::time_t::try_from(look.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(look.subsec_nanos()),
    };
    let period = libc::itimerspec {
        it_interval: look,
        it_value: look,
    };
    // SAFETY: the timer was just made; the period is a local.
    unsafe { libc::timer_settime(timer, 0, &raw const period, std::ptr::null_mut()) };
}

unsafe extern "C" fn on_timer(
    signal: i32,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(machine) = try_current() else { return };
    if !machine.watch.is_stuck(machine.switches.get()) {
        return;
    }
    // SAFETY: the kernel passes a valid context to an SA_SIGINFO handler; it is ours until we return.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    machine.on_watchdog(signal, context);
}
