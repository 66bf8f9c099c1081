//! Clocks.
#![expect(
    unsafe_code,
    reason = "calls kernel clocks, reads the time-stamp counter"
)]

use crate::routine::Routine;
use crate::utf16;

type InterruptTimePrecise = unsafe extern "efiapi" fn(*mut u64) -> u64;
type InterruptTime = unsafe extern "efiapi" fn() -> u64;
type SystemTime = unsafe extern "efiapi" fn(*mut i64);

// SAFETY (of the four): the types are those of wdm.h, as `nt::ke` declares them.
static INTERRUPT_TIME_PRECISE: Routine<InterruptTimePrecise> =
    // SAFETY: see above.
    unsafe { Routine::new(utf16!("KeQueryInterruptTimePrecise")) };
static INTERRUPT_TIME: Routine<InterruptTime> =
    // SAFETY: see above.
    unsafe { Routine::new(utf16!("KeQueryInterruptTime")) };
static SYSTEM_TIME_PRECISE: Routine<SystemTime> =
    // SAFETY: see above.
    unsafe { Routine::new(utf16!("KeQuerySystemTimePrecise")) };
static SYSTEM_TIME: Routine<SystemTime> =
    // SAFETY: see above.
    unsafe { Routine::new(utf16!("KeQuerySystemTime")) };

/// Finds the clocks of this kernel; without it they all stand at zero.
///
/// IRQL: `PASSIVE_LEVEL`.
pub(crate) fn find_clocks() {
    if INTERRUPT_TIME_PRECISE.find().is_none() {
        INTERRUPT_TIME.find();
    }
    if SYSTEM_TIME_PRECISE.find().is_none() {
        SYSTEM_TIME.find();
    }
}

/// Monotonic time since boot.
///
/// Units: ns; resolution 100 ns on Windows 8.1 and later, else one clock tick.
/// IRQL: any.
/// Source: `KeQueryInterruptTimePrecise`, `KeQueryInterruptTime`, wdm.h.
pub fn monotonic_ns() -> u64 {
    let mut performance_counter = 0;
    let ticks = match (INTERRUPT_TIME_PRECISE.found(), INTERRUPT_TIME.found()) {
        // SAFETY: the argument is a valid place for a u64.
        (Some(precise), _) => unsafe { precise(&raw mut performance_counter) },
        // SAFETY: takes nothing and may be called anywhere.
        (None, Some(coarse)) => unsafe { coarse() },
        (None, None) => 0,
    };
    ticks.wrapping_mul(100)
}

/// Wall time.
///
/// Units: 100 ns since 1601, UTC.
/// IRQL: any.
/// Source: `KeQuerySystemTimePrecise`, `KeQuerySystemTime`, wdm.h.
pub fn system_time() -> u64 {
    let mut now = 0i64;
    if let Some(query) = SYSTEM_TIME_PRECISE.found().or_else(|| SYSTEM_TIME.found()) {
        // SAFETY: the argument is a valid place for a LARGE_INTEGER.
        unsafe { query(&raw mut now) };
    }
    now.cast_unsigned()
}

/// The clocks, as the software PMU wants them.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl pmu::backend::software::Clock for SystemClock {
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    fn ticks(&mut self) -> u64 {
        timestamp()
    }
}

/// The constant-rate counter of this processor: TSC.
///
/// IRQL: any.
/// Source: Intel SDM vol. 2, RDTSC.
#[cfg(target_arch = "x86_64")]
fn timestamp() -> u64 {
    // SAFETY: RDTSC is there on every 64-bit x86 and allowed in the kernel.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The constant-rate counter of this processor: CNTVCT_EL0.
///
/// IRQL: any.
/// Source: Arm ARM D24.10.
#[cfg(target_arch = "aarch64")]
fn timestamp() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 may be read at EL1 and changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}
