//! The routines in assembly, interrupted at arbitrary instructions: nothing torn, nothing miscounted.
//!
//! `TRACE_STRESS_EVENTS` says how many events; the default is for every day.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#![expect(unsafe_code, reason = "signals are interrupts here")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a timer is made of several calls over the same local structures"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use trace::host::Processor;
use trace::recorder::{Lane, Ring, select};
use trace::{Flag, cold};

const STRESS: Flag = Flag::new(0, "STRESS");

/// Second word of an event, from its first.
fn second(first: u64) -> u64 {
    first.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5bd1_e995
}

fn events() -> u64 {
    let wanted = std::env::var("TRACE_STRESS_EVENTS").ok();
    wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000_000)
}

/// What a reader found.
#[derive(Debug, Default)]
struct Found {
    whole: u64,
    lost: u64,
    torn: u64,
}

/// Follows a ring until the writers are done and everything is accounted for.
fn follow(ring: &Ring, done: &AtomicBool) -> Found {
    let mut found = Found::default();
    let mut next = ring.start();
    loop {
        let was_done = done.load(Ordering::SeqCst);
        let view = ring.view();
        let window = view.window(next);
        found.lost += window.start - next;
        next = window.start;
        while next < window.end {
            let Some(slot) = view.read(next) else { break };
            let [_, a, b] = slot.words();
            if second(a) == b {
                found.whole += 1;
            } else {
                found.torn += 1;
            }
            next += 1;
        }
        if was_done {
            let end = view.window(next).end;
            found.lost += end - next;
            return found;
        }
    }
}

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// An interrupt: three events, on whichever lane the interrupted test uses.
extern "C" fn interrupt(_: libc::c_int) {
    for _ in 0..3 {
        let number = INTERRUPTS.fetch_add(1, Ordering::Relaxed) | 1 << 62;
        cold!(at Interrupt; Verbose, STRESS, "interrupt", a: u64 = number, b: u64 = second(number));
    }
}

/// As the processor that it interrupts.
struct Interrupt;
// SAFETY: used in the handler only, which runs on the processor's thread and returns before it goes on.
unsafe impl trace::AtDispatch for Interrupt {}

/// Interrupts the calling thread every 20 µs.
fn be_interrupted() {
    // SAFETY: a valid action for a signal that nothing else uses; the handler touches atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupt as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGUSR1;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        assert_eq!(
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer),
            0
        );
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: 20_000,
        };
        let every = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        assert_eq!(
            libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut()),
            0
        );
    }
}

/// No more interrupts.
fn block_interrupts() {
    // SAFETY: blocks one signal of this thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// One processor at `DISPATCH_LEVEL`, interrupted; then two threads on one processor below it.
#[test]
fn every_event_is_whole_or_counted() {
    for (number, slots) in [(0, 256), (1, 4096)] {
        let (ring, written, found) = interrupted(number, slots, events() / 4);
        assert_eq!(ring, written, "reservations and events");
        assert_eq!(found.torn, 0, "{found:?}");
        assert_eq!(found.whole + found.lost, written, "{found:?}");
        println!("dispatch, {slots} slots: {written} written, {found:?}");
    }
    for (number, slots) in [(2, 256), (3, 4096)] {
        let (ring, written, found) = preempted(number, slots, events() / 4);
        assert_eq!(ring, written, "reservations and events");
        assert_eq!(found.torn, 0, "{found:?}");
        assert_eq!(found.whole + found.lost, written, "{found:?}");
        println!("any, {slots} slots: {written} written, {found:?}");
    }
}

/// Runs writers and a reader; gives the ring's reservations, events written, and what was found.
fn interrupted(number: usize, slots: usize, events: u64) -> (u64, u64, Found) {
    let before = INTERRUPTS.load(Ordering::SeqCst);
    let done = AtomicBool::new(false);
    let (give, take) = std::sync::mpsc::channel::<&'static Ring>();
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            let here = &Processor::become_one(number, slots).expect("a processor");
            give.send(here.lane(Lane::Dispatch))
                .expect("the reader waits");
            select(5, STRESS.mask());
            be_interrupted();
            for number in 0..events {
                cold!(at here; Verbose, STRESS, "event", a: u64 = number, b: u64 = second(number));
            }
            block_interrupts();
            done.store(true, Ordering::SeqCst);
        });
        let ring = take.recv().expect("the processor is there");
        (ring, follow(ring, &done))
    });
    let (ring, found) = found;
    let interrupts = INTERRUPTS.load(Ordering::SeqCst) - before;
    (reserved(ring), events + interrupts, found)
}

fn preempted(number: usize, slots: usize, events: u64) -> (u64, u64, Found) {
    let done = AtomicBool::new(false);
    let (give, take) = std::sync::mpsc::channel::<&'static Ring>();
    let write = |thread: u64| {
        for number in 0..events / 2 {
            let number = thread << 56 | number;
            cold!(Verbose, STRESS, "event", a: u64 = number, b: u64 = second(number));
        }
    };
    let found = std::thread::scope(|scope| {
        let writers = scope.spawn(|| {
            let here = Processor::become_one(number, slots).expect("a processor");
            let ring = here.lane(Lane::Any);
            give.send(ring).expect("the reader waits");
            select(5, STRESS.mask());
            let other = scope.spawn(move || {
                assert!(Processor::share(u32::try_from(number).unwrap()));
                write(1);
            });
            write(2);
            other.join().expect("the other writer ends");
        });
        let ring = take.recv().expect("the processor is there");
        let done = &done;
        scope.spawn(move || {
            writers.join().expect("the writers end");
            std::thread::sleep(Duration::from_millis(1));
            done.store(true, Ordering::SeqCst);
        });
        (ring, follow(ring, done))
    });
    (reserved(found.0), events / 2 * 2, found.1)
}

fn reserved(ring: &Ring) -> u64 {
    ring.view().window(0).end - ring.start()
}
