//! Access to memory that belongs to a driver.
//!
//! An address that a driver hands over may be anything. These functions
//! touch it as the driver itself could: if that faults while the driver is
//! calling, the fault is reported against the driver's call site (see
//! [`crate::fault`]) and the fiber never comes back here.
#![expect(
    unsafe_code,
    reason = "the one place that dereferences driver pointers; a bad one faults and is a finding"
)]

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::asm;
use crate::seh::Fault;

thread_local! {
    /// Stack pointer to recover an attempt at, while one is under way.
    static RECOVERY: Cell<u64> = const { Cell::new(0) };
    /// What the last broken-off attempt met.
    static MET: Cell<Fault> = const { Cell::new(Fault { address: 0, write: false }) };
}

/// Lets `body` access memory that may be a user program's: a fault there that Windows would make an
/// exception of comes back as an error.
///
/// The body is broken off at the fault, and what it owns then is leaked: it must own nothing, hold
/// no borrow, and call nothing that does. Attempts do not nest.
pub(crate) fn attempt<R: Copy, F: FnOnce() -> R + Copy>(body: F) -> Result<R, Fault> {
    struct Job<R, F> {
        body: F,
        result: MaybeUninit<R>,
    }
    unsafe extern "sysv64" fn run<R: Copy, F: FnOnce() -> R + Copy>(job: *mut u8) {
        let job = job.cast::<Job<R, F>>();
        let body = read(field!(job, body));
        write(field!(job, result), MaybeUninit::new(body()));
    }
    let mut job = Job {
        body,
        result: MaybeUninit::uninit(),
    };
    let recovery = RECOVERY.with(Cell::as_ptr);
    // SAFETY: `run` gets the job it is for. When it is broken off, only frames are given up that own
    // nothing, as this function demands of the body; all it wrote to is the job. `recovery` is this
    // thread's, and the handler sends nobody but a fault inside this call to where it points.
    let failed = unsafe { asm::attempt(run::<R, F>, (&raw mut job).cast(), recovery) };
    if failed == 0 {
        // SAFETY: `run` came to its end, whose last act is to write the result.
        Ok(unsafe { job.result.assume_init() })
    } else {
        Err(MET.get())
    }
}

/// For the fault handler: the stack pointer at which an attempt under way is to be broken off.
pub(crate) fn break_off_attempt(met: Fault) -> Option<u64> {
    let recovery = RECOVERY.get();
    if recovery == 0 {
        return None;
    }
    MET.set(met);
    Some(recovery)
}

/// For the fault handler: the thread never returns to an attempt under way.
pub(crate) fn forget_attempt() {
    RECOVERY.set(0);
}

/// A length of driver memory as a length of ours: the same on the 64-bit hosts there are.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Reads a value from driver memory.
#[inline]
pub(crate) fn read<T: Copy>(from: *const T) -> T {
    // SAFETY: `T` is a plain C type, for which every bit pattern is a value; the
    // access is one the driver could make, and a fault in it is caught.
    unsafe { from.read_unaligned() }
}

/// Writes a value to driver memory.
#[inline]
pub(crate) fn write<T>(to: *mut T, value: T) {
    // SAFETY: as in `read`; no Rust reference to driver memory exists.
    unsafe { to.write_unaligned(value) }
}

/// Writes a byte of driver memory back to where it is, for the sake of the access.
pub(crate) fn poke(at: *mut u8) {
    // SAFETY: the access is one the driver could make.
    let byte = unsafe { at.read_volatile() };
    // SAFETY: likewise.
    unsafe { at.write_volatile(byte) };
}

/// Copies bytes from driver memory.
pub(crate) fn bytes(from: *const u8, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    // SAFETY: `out` has `len` bytes and is new, so it can't overlap; the read is one the driver could make.
    unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), len) };
    out
}

/// Copies bytes to driver memory.
pub(crate) fn fill(to: *mut u8, data: &[u8]) {
    // SAFETY: a slice of ours can't overlap driver memory; the write is one the driver could make.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
}

/// Copies between places in driver memory, which may overlap.
pub(crate) fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: both accesses are ones the driver could make; `copy` allows overlap.
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), count * size_of::<T>()) };
}

/// Sets bytes of driver memory.
pub(crate) fn set_bytes(to: *mut u8, value: u8, len: usize) {
    // SAFETY: the write is one the driver could make.
    unsafe { std::ptr::write_bytes(to, value, len) };
}

/// Address of a field of a structure in driver memory.
macro_rules! field {
    ($p:expr, $($field:tt)+) => {{
        let p = $p;
        #[expect(unsafe_code, reason = "computes an address")]
        // SAFETY: only an address is computed; nothing is read or written.
        unsafe { &raw mut (*p).$($field)+ }
    }};
}

/// Value of a field of a structure in driver memory.
macro_rules! get {
    ($p:expr, $($field:tt)+) => { $crate::guest::read($crate::guest::field!($p, $($field)+)) };
}

/// Sets a field of a structure in driver memory.
macro_rules! set {
    ($p:expr, $($field:ident).+ = $value:expr) => { $crate::guest::write($crate::guest::field!($p, $($field).+), $value) };
}

pub(crate) use {field, get, set};
