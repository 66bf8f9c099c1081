//! Words that host threads wait on: the kernel's lock, and counters of events.
#![expect(unsafe_code, reason = "the futex system call")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Waits until a word changes from `seen`, or for as long as `limit`; may return early.
pub(crate) fn wait(word: &AtomicU32, seen: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the limit outlive the call; a failure is a return at once, which callers allow.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, seen, limit) };
}

/// Wakes `count` of the threads that wait on a word.
pub(crate) fn wake(word: &AtomicU32, count: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
}

/// A lock that one function takes and another releases, also in a signal handler.
#[derive(Default)]
pub(crate) struct KernelLock(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// Looks at a held lock before sleeping: kernel calls are short.
const SPINS: u32 = 200;

impl KernelLock {
    pub(crate) fn lock(&self) {
        for _ in 0..SPINS {
            if self
                .0
                .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            wait(&self.0, CONTENDED, None);
        }
    }

    pub(crate) fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.0, 1);
        }
    }

    /// Whether somebody sleeps on it.
    pub(crate) fn is_contended(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CONTENDED
    }
}
