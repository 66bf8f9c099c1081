//! What the compiler expects of a C run time, and the end of a panic.
#![cfg_attr(
    windows,
    expect(unsafe_code, reason = "memory routines, the panic handler")
)]
#![cfg(windows)]

mod memory;

use core::ffi::c_void;
use nt::stop::StopCode;

/// Stop code of a panic in driver code: of the range left to drivers.
const RUST_PANIC: StopCode = StopCode(0xE000_0D0C);

/// A panic is a stop: parameters are the file name, its length, line and column. The message goes to
/// the kernel debugger first, if it is a plain text: formatting one could fail in turn.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if let Some(message) = info.message().as_str() {
        note(message);
    }
    let (file, length, line, column) = info.location().map_or((0, 0, 0, 0), |location| {
        let file = location.file();
        (
            file.as_ptr().addr(),
            file.len(),
            location.line() as usize,
            location.column() as usize,
        )
    });
    // SAFETY: may be called anywhere; does not return.
    unsafe { nt::ke::KeBugCheckEx(RUST_PANIC.0, file, length, line, column) }
}

/// Prints a message to the kernel debugger.
///
/// Source: `DbgPrint`, wdm.h, which prints up to 512 bytes.
fn note(message: &str) {
    let format = c"panic: %.*s\n".as_ptr().cast::<u8>();
    let length = i32::try_from(message.len()).unwrap_or(i32::MAX);
    // SAFETY: a length, and a text of that length, as the format says.
    unsafe { nt::dbg::DbgPrint(format, length, message.as_ptr()) };
}

/// Tells the linker that floating point is used; it never is, but the compiler names it.
#[unsafe(no_mangle)]
static _fltused: i32 = 0;

/// Personality of the frames of the precompiled core library, which was built to unwind.
///
/// Nothing unwinds through a driver. An exception that passes such a frame goes on to the next one
/// (`ExceptionContinueSearch`, excpt.h).
#[unsafe(no_mangle)]
extern "C" fn __CxxFrameHandler3(
    _record: *mut c_void,
    _frame: *mut c_void,
    _context: *mut c_void,
    _dispatcher: *mut c_void,
) -> i32 {
    const EXCEPTION_CONTINUE_SEARCH: i32 = 1;
    EXCEPTION_CONTINUE_SEARCH
}
