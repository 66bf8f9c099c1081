//! `memcpy` and its kin: without a C run time somebody must have them.
//!
//! In assembly, because a loop in Rust would be compiled into a call of itself. String instructions
//! are the fast way on every x86 since 2013 (ERMS); Arm64 copies sixteen bytes at a time.

use core::arch::asm;

/// Copies forwards.
///
/// # Safety
/// As C's: both regions are valid for `bytes`; if they overlap, `to` is the lower.
#[cfg_attr(windows, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller; the direction flag is clear by convention.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: promised by the caller.
    unsafe {
        asm!(
            "2: cmp {n}, #16", "b.lo 3f",
            "ldp {a}, {b}, [{s}], #16", "stp {a}, {b}, [{d}], #16", "sub {n}, {n}, #16", "b 2b",
            "3: cbz {n}, 4f",
            "ldrb {a:w}, [{s}], #1", "strb {a:w}, [{d}], #1", "sub {n}, {n}, #1", "b 3b",
            "4:",
            n = inout(reg) bytes => _, d = inout(reg) to => _, s = inout(reg) from => _,
            a = out(reg) _, b = out(reg) _, options(nostack));
    }
    to
}

/// Copies in the direction that overlap allows.
///
/// # Safety
/// As C's: both regions are valid for `bytes`.
#[cfg_attr(windows, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= bytes {
        // SAFETY: promised by the caller; `to` is below `from`, or they do not overlap.
        return unsafe { memcpy(to, from, bytes) };
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller; the direction flag is set and cleared again. `bytes` is not 0:
    // the distance would not be below it.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
            inout("rdi") to.wrapping_add(bytes - 1) => _,
            inout("rsi") from.wrapping_add(bytes - 1) => _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: promised by the caller.
    unsafe {
        asm!(
            "2: sub {n}, {n}, #1", "ldrb {a:w}, [{s}, {n}]", "strb {a:w}, [{d}, {n}]",
            "cbnz {n}, 2b",
            n = inout(reg) bytes => _, d = in(reg) to, s = in(reg) from, a = out(reg) _,
            options(nostack));
    }
    to
}

/// Fills.
///
/// # Safety
/// As C's: the region is valid for `bytes`.
#[cfg_attr(windows, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller; the direction flag is clear by convention.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("eax") value,
            options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: promised by the caller.
    unsafe {
        asm!(
            "2: cbz {n}, 3f", "strb {v:w}, [{d}], #1", "sub {n}, {n}, #1", "b 2b", "3:",
            n = inout(reg) bytes => _, d = inout(reg) to => _, v = in(reg) value,
            options(nostack));
    }
    to
}

/// Compares byte by byte, unsigned.
///
/// # Safety
/// As C's: both regions are valid for `bytes`.
#[cfg_attr(windows, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for index in 0..bytes {
        // SAFETY: promised by the caller.
        let left = unsafe { a.wrapping_add(index).read() };
        // SAFETY: promised by the caller.
        let right = unsafe { b.wrapping_add(index).read() };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}
