//! Stops a driver that takes too long: never gives control back, or stays at
//! raised IRQL.
//!
//! A timer on the host thread's processor time looks every [`LOOK`]. It fires
//! into driver code as a signal, so that a loop without any kernel call is
//! caught too. Processor time does not pass while the host runs others, so a
//! loaded host brings no false alarm; the limits at raised IRQL are thousands
//! of times what Windows asks of drivers, as are those of its own watchdog.
//! A driver that is stepped instruction by instruction is slow for the lab's
//! reasons: its time is not counted.
#![expect(unsafe_code, reason = "timers and signals")]

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab_verifier::RuleId;
use nt::ke::DISPATCH_LEVEL;

use crate::clock::ClockKind;
use crate::fault;
use crate::layout::pending;
use crate::machine::{Machine, try_current};
use crate::parallel::Interrupted;
use crate::sched::ThreadId;

/// The watchdog's signal: nothing else in the lab uses it.
const SIGNAL: i32 = libc::SIGVTALRM;
/// Processor time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How many times as long as one context all of them together may go on, in virtual time, without any rest.
const BUSY: u32 = 3;

/// Processor time that a driver may take at raised IRQL in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// One call of a DPC routine.
    pub dpc: Duration,
    /// One call of an interrupt routine.
    pub isr: Duration,
    /// A thread at `DISPATCH_LEVEL` or above.
    pub raised: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            dpc: Duration::from_secs(2),
            isr: Duration::from_secs(1),
            raised: Duration::from_secs(4),
        }
    }
}

/// What the watchdog remembers of a machine.
pub(crate) struct Watch {
    /// Number of the machine, different for each of the process.
    machine: u64,
    hang: u32,
    dpc: u32,
    isr: u32,
    raised: u32,
    /// The limit that ran out.
    broken: Cell<RuleId>,
    /// How often nothing was left to run.
    rests: Cell<u64>,
    /// Looks in a row that saw the same number of rests, and that number.
    busy: Cell<(u64, u32)>,
    /// The spin lock acquired last, while it is held.
    pub(crate) last_lock: Cell<u64>,
}

impl Watch {
    pub(crate) fn new(hang: Duration, limits: Limits) -> Self {
        let looks = |limit: Duration| {
            let looks = limit.as_nanos().div_ceil(LOOK.as_nanos());
            // The first look comes at any time of its interval.
            u32::try_from(looks).unwrap_or(u32::MAX).saturating_add(1)
        };
        static MACHINES: AtomicU64 = AtomicU64::new(1);
        Self {
            machine: MACHINES.fetch_add(1, Ordering::Relaxed),
            hang: looks(hang),
            dpc: looks(limits.dpc),
            isr: looks(limits.isr),
            raised: looks(limits.raised),
            broken: Cell::new(RuleId::Hang),
            rests: Cell::new(0),
            busy: Cell::new((0, 0)),
            last_lock: Cell::new(0),
        }
    }

    /// Everything waits, or is done.
    #[inline]
    pub(crate) fn rest(&self) {
        self.rests.set(self.rests.get().wrapping_add(1));
    }

    /// Whether contexts have kept the machine busy for so long that they never will let it rest: a loop
    /// that gives way now and then is one, too. Several host threads look more often.
    fn never_rests(&self, host_threads: u32) -> bool {
        let (seen, looks) = self.busy.get();
        let rests = self.rests.get();
        let looks = if seen == rests { looks + 1 } else { 0 };
        self.busy.set((rests, looks));
        looks >= self.hang.saturating_mul(BUSY).saturating_mul(host_threads)
    }

    /// Whether so many looks in a row of this host thread have seen the same number of switches.
    fn is_stuck(&self, switches: u64) -> bool {
        thread_local! { static SEEN: Cell<(u64, u64, u32)> = const { Cell::new((0, 0, 0)) }; }
        let (machine, seen, looks) = SEEN.get();
        let same = (machine, seen) == (self.machine, switches);
        let looks = if same { looks.saturating_add(1) } else { 0 };
        SEEN.set((self.machine, switches, looks));
        looks >= self.hang
    }
}

/// Starts the timer of this host thread, once.
pub(crate) fn start() {
    thread_local! { static STARTED: Cell<bool> = const { Cell::new(false) }; }
    if !STARTED.replace(true) {
        // For as long as the thread lives, which is its owner's business.
        std::mem::forget(Timer::start());
    }
}

/// The timer of a host thread.
pub(crate) struct Timer(Option<libc::timer_t>);

/// This host thread's id.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// Makes a host thread of this process look after its machine.
pub(crate) fn signal_thread(thread: i32) {
    let process = std::process::id();
    // SAFETY: at worst the thread is gone and nothing happens; the handler is installed before workers start.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
}

impl Timer {
    /// On a host without processor-time timers there is none: a driver that hangs then hangs the
    /// lab, as it says in the documentation.
    pub(crate) fn start() -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| fault::install_handler(SIGNAL, on_timer));
        // SAFETY: an all-zero sigevent is a valid value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = thread_id();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        let clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: both pointers are to locals that outlive the call.
        let made = unsafe { libc::timer_create(clock, &raw mut event, &raw mut timer) };
        if made != 0 {
            return Self(None);
        }
        let look = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::c_long::from(LOOK.subsec_nanos()),
        };
        let period = libc::itimerspec {
            it_interval: look,
            it_value: look,
        };
        // SAFETY: the timer was just made; the period is a local.
        unsafe { libc::timer_settime(timer, 0, &raw const period, std::ptr::null_mut()) };
        Self(Some(timer))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(timer) = self.0 {
            // SAFETY: the timer is ours and not yet deleted.
            unsafe { libc::timer_delete(timer) };
        }
    }
}

unsafe extern "C" fn on_timer(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(machine) = try_current() else { return };
    // SAFETY: the kernel passes a valid context to an SA_SIGINFO handler; it is ours until we return.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    // SAFETY: likewise the information.
    let by_timer = unsafe { (*info).si_code } == libc::SI_TIMER;
    let interrupted = machine.enter_from_signal();
    // The lab's own code, with several host threads: it is not ours to look at.
    if interrupted == Interrupted::Kernel {
        return;
    }
    if interrupted == Interrupted::Driver {
        machine.on_reminder(&mut context.gregs);
    }
    if by_timer && !machine.is_redirected(&context.gregs) {
        machine.look(signal, context);
    }
    machine.leave_from_signal(interrupted, machine.is_redirected(&context.gregs));
}

impl Machine {
    /// A look of the watchdog at what the timer interrupted.
    fn look(&self, signal: i32, context: &mut libc::mcontext_t) {
        let Some(rule) = self.overdue_rule() else {
            return;
        };
        self.watch.broken.set(rule);
        if !self.on_watchdog(signal, context) && self.running.get().is_some() {
            self.cpu().request(pending::OVERDUE);
        }
    }
}

impl Machine {
    /// The rule that a look of the watchdog finds broken.
    fn overdue_rule(&self) -> Option<RuleId> {
        if self.stepper.is_on() {
            return None;
        }
        let raised = self.running.get().and_then(|id| self.overdue_at_irql(id));
        let stuck = self.watch.is_stuck(self.switches_here());
        let busy = self.clock.kind() == ClockKind::Virtual
            && self.watch.never_rests(self.parallel.host_threads());
        raised.or((stuck || busy).then_some(RuleId::Hang))
    }

    fn overdue_at_irql(&self, id: ThreadId) -> Option<RuleId> {
        if self.irql() < DISPATCH_LEVEL {
            return None;
        }
        let ticks = &self.thread(id).ticks;
        ticks.set(ticks.get().saturating_add(1));
        let cpu = self.cpu();
        let (limit, rule) = if cpu.in_isr.get() {
            (self.watch.isr, RuleId::IsrTooLong)
        } else if cpu.in_dpc.get() {
            (self.watch.dpc, RuleId::DpcWatchdog)
        } else if self.holds_lock(self.watch.last_lock.get()) {
            (self.watch.raised, RuleId::SpinLockTooLong)
        } else {
            (self.watch.raised, RuleId::IrqlTooLong)
        };
        (ticks.get() >= limit).then_some(rule)
    }

    /// Switches of the host thread at hand.
    fn switches_here(&self) -> u64 {
        if self.parallel.is_on() {
            self.parallel.my_switches()
        } else {
            self.switches.get()
        }
    }

    /// The running context's time at raised IRQL starts anew.
    pub(crate) fn restart_raised_time(&self) {
        if let Some(id) = self.running.get() {
            self.thread(id).ticks.set(0);
        }
    }

    /// The limit that ran out: rule, parameters as Windows has them, and words.
    pub(crate) fn overdue_words(&self, rip: u64) -> (RuleId, [u64; 4], String) {
        let rule = self.watch.broken.get();
        let ms = |looks: u32| u64::from(looks - 1) * 20;
        let watch = &self.watch;
        let lock = watch.last_lock.get();
        match rule {
            RuleId::DpcWatchdog => (
                rule,
                [0, ms(watch.dpc), ms(watch.dpc), rip],
                format!(
                    "a DPC routine ran for {} ms of processor time",
                    ms(watch.dpc)
                ),
            ),
            RuleId::IsrTooLong => (
                rule,
                [0, ms(watch.isr), ms(watch.isr), rip],
                format!(
                    "an interrupt routine ran for {} ms of processor time",
                    ms(watch.isr)
                ),
            ),
            RuleId::IrqlTooLong => (
                rule,
                [1, ms(watch.raised), rip, 0],
                format!(
                    "{} ms of processor time at DISPATCH_LEVEL or above",
                    ms(watch.raised)
                ),
            ),
            RuleId::SpinLockTooLong => (
                rule,
                [1, ms(watch.raised), rip, lock],
                format!(
                    "spin lock {lock:#x} held for {} ms of processor time",
                    ms(watch.raised)
                ),
            ),
            _ => (
                RuleId::Hang,
                [rip, 0, 0, 0],
                "the driver ran for longer than the limit without giving control back, or waiting for anything"
                    .into(),
            ),
        }
    }

    /// Stops at a limit that ran out during the kernel call under way.
    pub(crate) fn overdue(&self) -> ! {
        let (rule, parameters, what) = self.overdue_words(self.call_site());
        self.violate(rule, parameters, what)
    }
}
