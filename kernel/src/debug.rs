//! Notes for whoever watches the kernel debugger's output.
#![cfg_attr(windows, expect(unsafe_code, reason = "calls the kernel"))]

use core::ffi::CStr;

/// Prints a text and three numbers on a line.
///
/// Kept this plain on purpose: a format of the caller's could read what is not there.
///
/// IRQL: any.
/// Source: `DbgPrint`, wdm.h.
#[cfg(windows)]
pub fn note(text: &'static CStr, [a, b, c]: [u64; 3]) {
    let format = c"%s %llu %llu %llu\n".as_ptr().cast::<u8>();
    let text = text.as_ptr().cast::<u8>();
    // SAFETY: one terminated string and three 64-bit numbers, as the format says.
    unsafe { nt::dbg::DbgPrint(format, text, a, b, c) };
}

/// Off Windows, where nothing is linked, a variadic import has no type.
///
/// IRQL: any.
#[cfg(not(windows))]
pub fn note(_: &'static CStr, _: [u64; 3]) {}
