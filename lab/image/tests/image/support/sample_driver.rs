//! A small driver that is built by the tests and read back by the crate under test.
#![no_std]
#![no_main]
#![crate_type = "bin"]

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn DbgPrint(format: *const u8, ...) -> u32;
    fn KeBugCheckEx(code: u32, a: usize, b: usize, c: usize, d: usize) -> !;
    static KdDebuggerNotPresent: u8;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { KeBugCheckEx(0xe2, 0, 0, 0, 0) }
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static CALLS_POINTER: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const CALLS).cast_mut());

#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "system" fn read_msr(number: u32) -> u64 {
    let (low, high): (u32, u32);
    unsafe { asm!("rdmsr", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "system" fn read_msr(_number: u32) -> u64 {
    let value: u64;
    unsafe { asm!("mrs {}, midr_el1", out(reg) value, options(nomem, nostack)) };
    value
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "system" fn tick_count() -> u64 {
    let page = 0xffff_f780_0000_0320 as *const u64;
    unsafe { page.read_volatile() }
}

#[inline(always)]
fn counted(by: u64) -> u64 {
    let calls = unsafe { &*core::hint::black_box(&CALLS_POINTER).load(Ordering::Relaxed) };
    calls.fetch_add(by, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "system" fn DriverEntry(driver: usize, _registry: usize) -> i32 {
    if unsafe { KdDebuggerNotPresent } == 0 {
        unsafe { DbgPrint(c"%p %llx %llx".as_ptr().cast(), driver, read_msr(0x1b), tick_count()) };
    }
    counted(driver as u64) as i32
}
