//! What the compiler expects of a C run time, and the end of a panic.
#![cfg_attr(
    windows,
    expect(unsafe_code, reason = "memory routines, the panic handler")
)]
#![cfg(windows)]

use nt::stop::StopCode;

/// Stop code of a panic in driver code: of the range left to drivers.
const RUST_PANIC: StopCode = StopCode(0xE000_0D0C);

/// A panic is a stop: parameters are the file name, its length, line and column.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
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

/// Tells the linker that floating point is used; it never is, but the compiler names it.
#[unsafe(no_mangle)]
static _fltused: i32 = 0;

mod memory;
