//! Objects that the kernel may still call: all must be gone before the driver's code is.
//!
//! Their owners wait in `Drop`. Safe code may forget to drop (`mem::forget`, a `static`), and then
//! the kernel would call code that is no longer there, some time later. That is stopped at once.
#![expect(unsafe_code, reason = "stops the system")]

use core::sync::atomic::{AtomicUsize, Ordering};
use nt::stop::StopCode;

/// Stop code of a driver that leaves such objects behind; the first parameter is their number.
///
/// Of the range left to drivers.
const LEFT_BEHIND: StopCode = StopCode(0xE000_0D0D);

/// Objects alive in this driver.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// One object that the kernel may call, or that rests on the device object.
pub(crate) struct Alive(());

impl Alive {
    pub(crate) fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        Self(())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops the system if any is left.
///
/// IRQL: any.
pub(crate) fn require_none() {
    let left = ALIVE.load(Ordering::Acquire);
    if left > 0 {
        // SAFETY: may be called anywhere; does not return.
        unsafe { nt::ke::KeBugCheckEx(LEFT_BEHIND.0, left, 0, 0, 0) }
    }
}
