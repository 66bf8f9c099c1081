//! What a site runs when it is switched on.
//!
//! On x86-64 a site of up to two words calls a routine in assembly that changes no register but those
//! it takes: the id in eax, the words in r10 and r11. No argument of a function is in these, so what is
//! around a site stays as it was: no stack frame, and nothing moved out of the way of an event.
#![expect(unsafe_code, reason = "writes slots in assembly")]

use crate::recorder::{self, Lane};
#[cfg(target_arch = "x86_64")]
use crate::ring::STEP;

/// The routines' code: time stamp, ring of this processor, reservation, slot, its first word last.
///
/// A function in assembly is in every driver, whether it is called or not: only where something records.
///
/// `gs:[0x1A4]` is `KPCR.Prcb.Number`, what `KeGetCurrentProcessorIndex` of wdm.h reads inline; its low
/// byte is within the table. Turns and offsets are those of `trace_format::slot` and `recorder`.
#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
macro_rules! routine {
    ($(#[$doc:meta])* $name:ident, time: [$($time:literal),*], stored: [$($stored:literal),*],
        folded: [$($folded:literal),*],
        restored: [$($restored:literal),*], lock: $lock:literal, rings: $lane:literal) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rcx",
                "push r8",
                "push r9",
                "mov r8d, eax",
                $($time,)*
                "movzx eax, byte ptr gs:[0x1A4]",
                "lea rcx, [rip + {rings}]",
                concat!("mov rcx, [rcx + rax * 8 + ", $lane, "]"),
                "mov eax, {step}",
                concat!($lock, " xadd qword ptr [rcx + {position}], rax"),
                "cmp rax, [rcx + {limit}]",
                "jae 2f",
                // From here to the first store it must be short: the next reservation waits for its address.
                "mov r9, rax",
                "and rax, [rcx + {mask}]",
                "mov rcx, [rcx + {slots}]",
                "mov [rcx + rax + 16], r10",
                "mov [rcx + rax + 24], r11",
                $($stored,)*
                "add rcx, rax",
                "rol r10, 23",
                "rol r11, 47",
                "xor r10, r11",
                $($folded,)*
                "mov eax, r10d",
                "shr r10, 32",
                "xor eax, r10d",
                // With the position, in slots; then the id below.
                "shr r9, 5",
                "xor eax, r9d",
                "shl rax, 32",
                "or rax, r8",
                "mov [rcx], rax",
                "2:",
                $($restored,)*
                "pop r9",
                "pop r8",
                "pop rcx",
                "ret",
                step = const STEP,
                rings = sym recorder::RINGS,
                position = const recorder::POSITION,
                limit = const recorder::LIMIT,
                mask = const recorder::MASK,
                slots = const recorder::SLOTS,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
const _: () = {
    let [turn, other] = trace_format::slot::TURNS;
    assert!(turn == 23 && other == 47 && STEP == 1 << 5 && recorder::MOST_PROCESSORS == 256);
};

#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
routine!(
    /// Records an event at any IRQL. The time is taken first: between it and the reservation, which
    /// locks, nothing waits for it.
    ///
    /// # Safety
    /// For the macros only: registers are as the module says.
    any, time: ["push rdx", "rdtsc", "shl rdx, 32", "or rdx, rax"],
    stored: ["mov [rcx + rax + 8], rdx"], folded: ["xor r10, rdx"], restored: ["pop rdx"], lock: "lock", rings: "0"
);

#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
routine!(
    /// Records an event at `DISPATCH_LEVEL` or above: one instruction is atomic against interrupts.
    ///
    /// # Safety
    /// As [`any`].
    dispatch, time: ["push rdx", "rdtsc", "shl rdx, 32", "or rdx, rax"],
    stored: ["mov [rcx + rax + 8], rdx"], folded: ["xor r10, rdx"], restored: ["pop rdx"], lock: "", rings: "2048"
);

#[cfg(all(target_arch = "x86_64", any(flavour = "cold", flavour = "all")))]
routine!(
    /// As [`dispatch`], with the time of the event before.
    ///
    /// # Safety
    /// As [`any`].
    burst, time: [], stored: ["mov qword ptr [rcx + rax + 8], 0"], folded: [], restored: [], lock: "", rings: "2048"
);

/// How an event is recorded when no routine in assembly does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// At any IRQL.
    Any,
    /// At `DISPATCH_LEVEL` or above.
    Dispatch,
    /// At `DISPATCH_LEVEL` or above, with the time of the event before.
    Burst,
}

/// Records an event with any number of words.
///
/// Above `DISPATCH_LEVEL` the lock of the exchange-add is not needed, and does no harm to the other
/// writers of that ring, which run on the same processor.
#[cold]
#[inline(never)]
pub fn record(id: u32, how: How, words: &[u64]) {
    let (lane, time) = match how {
        How::Any => (Lane::Any, now()),
        How::Dispatch => (Lane::Dispatch, now()),
        How::Burst => (Lane::Dispatch, 0),
    };
    // SAFETY: this code runs, so the driver is loaded, and its rings are there: see `publish`.
    let ring = unsafe { recorder::ring(processor(), lane) };
    ring.view().write(id, time, words);
}

/// The processor that this runs on, as the routines see it. It may be another one any time below
/// `DISPATCH_LEVEL`.
///
/// Source: `KeGetCurrentProcessorIndex`, wdm.h.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn processor() -> usize {
    let index: u32;
    // SAFETY: gs points at the KPCR in every kernel; in tests, at something as long.
    unsafe {
        core::arch::asm!("mov {:e}, gs:[0x1A4]", out(reg) index, options(nostack, preserves_flags, readonly));
    }
    index as usize
}

/// The processor that this runs on.
///
/// Source: `KeGetCurrentProcessorNumberEx`, wdm.h.
#[cfg(all(target_arch = "aarch64", windows))]
#[must_use]
pub fn processor() -> usize {
    // SAFETY: the group and number are not wanted.
    unsafe { nt::ke::KeGetCurrentProcessorNumberEx(core::ptr::null_mut()) as usize }
}

/// The constant-rate counter of this processor.
///
/// Source: Intel SDM vol. 2, RDTSC.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: RDTSC is there on every 64-bit x86, and allowed in the kernel and on every host.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The constant-rate counter of this processor.
///
/// Source: Arm ARM D24.10, CNTVCT_EL0.
#[cfg(target_arch = "aarch64")]
#[must_use]
#[inline(always)]
pub fn now() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 may be read at EL1 and changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// The id of an event from the address of its record: an instruction of Arm64 cannot hold it.
#[cfg(all(target_arch = "aarch64", windows))]
#[must_use]
pub fn id_of(address: usize) -> u32 {
    unsafe extern "C" {
        safe static __ImageBase: u8;
    }
    let rva = address.wrapping_sub((&raw const __ImageBase).addr());
    u32::try_from(rva).unwrap_or(0)
}
