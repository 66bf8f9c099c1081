//! Clocks.
#![expect(
    unsafe_code,
    reason = "calls kernel clocks, reads the time-stamp counter"
)]

use crate::routine::Routine;
use crate::utf16;

type InterruptTimePrecise = unsafe extern "efiapi" fn(*mut u64) -> u64;
type PerformanceCounter = unsafe extern "efiapi" fn(*mut i64) -> i64;
type SystemTime = unsafe extern "efiapi" fn(*mut i64);

static INTERRUPT_TIME_PRECISE: Routine<InterruptTimePrecise> =
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(utf16!("KeQueryInterruptTimePrecise")) };
static PERFORMANCE_COUNTER: Routine<PerformanceCounter> =
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(utf16!("KeQueryPerformanceCounter")) };
static SYSTEM_TIME_PRECISE: Routine<SystemTime> =
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(utf16!("KeQuerySystemTimePrecise")) };
static SYSTEM_TIME: Routine<SystemTime> =
    // SAFETY: the type is that of wdm.h, as `nt::ke` declares it.
    unsafe { Routine::new(utf16!("KeQuerySystemTime")) };

/// Finds the clocks of this kernel; without it they all stand at zero.
///
/// IRQL: `PASSIVE_LEVEL`.
pub(crate) fn find_clocks() {
    if INTERRUPT_TIME_PRECISE.find().is_none() {
        PERFORMANCE_COUNTER.find();
    }
    if SYSTEM_TIME_PRECISE.find().is_none() {
        SYSTEM_TIME.find();
    }
}

/// Time that goes on steadily, from an arbitrary start.
///
/// `KeQueryInterruptTime`, which would be the third choice, counts milliseconds under Wine 8: wall
/// time is what is left there, and differences across a change of the clock are wrong.
///
/// Units: ns; resolution 100 ns or that of the performance counter.
/// IRQL: any.
/// Source: `KeQueryInterruptTimePrecise` (Windows 8.1), `KeQueryPerformanceCounter`, wdm.h.
pub fn monotonic_ns() -> u64 {
    if let Some(query) = INTERRUPT_TIME_PRECISE.found() {
        let mut counter = 0;
        // SAFETY: the argument is a valid place for a u64.
        return unsafe { query(&raw mut counter) }.wrapping_mul(100);
    }
    performance_counter_ns().unwrap_or_else(|| system_time().wrapping_mul(100))
}

fn performance_counter_ns() -> Option<u64> {
    const NS: u64 = 1_000_000_000;
    let query = PERFORMANCE_COUNTER.found()?;
    let mut frequency = 0;
    // SAFETY: the argument is a valid place for a LARGE_INTEGER.
    let ticks = unsafe { query(&raw mut frequency) };
    let (ticks, frequency) = (ticks.cast_unsigned(), frequency.cast_unsigned());
    // In two parts, so that it does not overflow before 584 years.
    let seconds = ticks.checked_div(frequency)?;
    let rest = ticks.checked_rem(frequency)?;
    Some(seconds.wrapping_mul(NS) + rest.wrapping_mul(NS) / frequency)
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
