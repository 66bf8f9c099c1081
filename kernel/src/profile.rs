//! The interrupt of the counters.
//!
//! ```text
//!  counter overflows ─▶ HAL ─▶ entry, at PROFILE_LEVEL ─▶ PerCore::overflow ─▶ wake DPC ─▶ PerCore::woken
//! ```
//! The system has one handler. Whoever had it before does without while the hook is there, so it is
//! held no longer than it is needed.
#![expect(
    unsafe_code,
    reason = "hands a routine to the hardware abstraction layer"
)]

use crate::alive::Alive;
use crate::per_cpu::{PerCore, PerCpu};
use crate::pool::PoolArc;
use crate::processor::CoreId;
use crate::routine::Routine;
use crate::{Result, check, process, status, time, utf16};
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use nt::hal::{
    HAL_DISPATCH, HalProfileSourceInterruptHandler, HalSetSystemInformationFn, PROFILE_HANDLER,
};
use pmu::Interrupted;

/// A variable of the kernel's, of which the address is looked up.
static HAL_DISPATCH_TABLE: Routine<usize> =
    // SAFETY: a plain address of the right size.
    unsafe { Routine::new(utf16!("HalDispatchTable")) };

/// What the handler serves: a `PerCpu<T>`, kept by the one hook that there is.
static SERVED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The handler of the counters' interrupt, for the values of a [`PerCpu`]; given back when dropped.
pub struct ProfileHook<T: PerCore> {
    cores: PoolArc<PerCpu<T>>,
    /// The system may call the handler.
    alive: ManuallyDrop<Alive>,
}

impl<T: PerCore> ProfileHook<T> {
    /// Whether this system has such an interrupt to lend.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    #[must_use]
    pub fn is_lent() -> bool {
        set_information().is_some()
    }

    /// Has the interrupt call [`PerCore::overflow`] of whatever processor it comes on.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_NOT_SUPPORTED` on a system without; `STATUS_RESOURCE_IN_USE` if this driver has a
    /// hook already; or what the hardware abstraction layer says.
    /// Source: `HalSetSystemInformation(HalProfileSourceInterruptHandler)`, ntddk.h.
    pub fn install(cores: PoolArc<PerCpu<T>>) -> Result<Self> {
        let set = set_information().ok_or(status::STATUS_NOT_SUPPORTED)?;
        let served = (&raw const *cores).cast_mut().cast::<c_void>();
        SERVED
            .compare_exchange(null_mut(), served, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| status::STATUS_RESOURCE_IN_USE)?;
        if let Err(error) = set_handler(set, Some(entry::<T>)) {
            SERVED.store(null_mut(), Ordering::Release);
            return Err(error);
        }
        Ok(Self {
            cores,
            alive: ManuallyDrop::new(Alive::new()),
        })
    }
}

impl<T: PerCore> Drop for ProfileHook<T> {
    /// Waits until the handler runs nowhere. A system that does not take it back is stopped before
    /// the driver's code goes.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn drop(&mut self) {
        let set = set_information().ok_or(status::STATUS_NOT_SUPPORTED);
        if set.and_then(|set| set_handler(set, None)).is_err() {
            return;
        }
        // A processor that runs this is at `DISPATCH_LEVEL`: in no interrupt, and none that it begins
        // from now on finds the handler.
        let all = self.cores.iter().map(|(core, _)| core);
        self.cores.run_on(all, &|_, _| {});
        SERVED.store(null_mut(), Ordering::Release);
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.alive) };
    }
}

fn set_information() -> Option<HalSetSystemInformationFn> {
    let table = HAL_DISPATCH_TABLE.find()?;
    let table = core::ptr::with_exposed_provenance::<HAL_DISPATCH>(table);
    // SAFETY: the variable is such a table, or, in Wine 8, code that stands for it; either stays.
    let version = unsafe { (*table).Version };
    if !VERSIONS.contains(&version) {
        return None;
    }
    // SAFETY: a table of a version that has this member.
    unsafe { (*table).HalSetSystemInformation }
}

/// Versions of `HAL_DISPATCH` (ntddk.h); far more than there ever were, and no instruction of a stub.
const VERSIONS: core::ops::RangeInclusive<u32> = 1..=16;

fn set_handler(set: HalSetSystemInformationFn, handler: Option<PROFILE_HANDLER>) -> Result<()> {
    const BYTES: u32 = 8;
    const { assert!(size_of::<Option<PROFILE_HANDLER>>() == BYTES as usize) };
    let mut handler = handler;
    let buffer = (&raw mut handler).cast::<c_void>();
    // SAFETY: the class takes a pointer to a routine, or null, which is copied.
    check(unsafe { set(HalProfileSourceInterruptHandler, BYTES, buffer) })
}

/// Called by the system. IRQL: `PROFILE_LEVEL`.
unsafe extern "efiapi" fn entry<T: PerCore>(frame: *mut c_void) {
    let served = SERVED.load(Ordering::Acquire).cast::<PerCpu<T>>();
    // SAFETY: null, or the `PerCpu<T>` of the hook whose handler this is; the hook keeps it, and waits
    // for this call before it lets go.
    let Some(cores) = (unsafe { served.as_ref() }) else {
        return;
    };
    // SAFETY: the system passes the frame of what it interrupted.
    let (pc, user) = unsafe { place(frame) };
    let at = Interrupted {
        time_ns: time::monotonic_ns(),
        pc,
        pid: process::current_id(),
        tid: process::current_thread_id(),
        user,
    };
    // SAFETY: null asks for the index alone.
    let core = unsafe { nt::ke::KeGetCurrentProcessorNumberEx(null_mut()) };
    cores.overflowed(CoreId(core), &at);
}

/// Where the interrupted code was, and whether in user mode.
///
/// # Safety
/// `frame` must be a `KTRAP_FRAME` of an interrupt, or null.
unsafe fn place(frame: *const c_void) -> (u64, bool) {
    if frame.is_null() {
        return (0, false);
    }
    let word = |offset: usize| {
        // SAFETY: within the frame, as the caller promises.
        let place = unsafe { frame.byte_add(offset) }.cast::<u64>();
        // SAFETY: as above; the frame is aligned, and filled.
        unsafe { place.read() }
    };
    #[cfg(target_arch = "x86_64")]
    {
        use nt::hal::trap_frame::{RIP, SEG_CS};
        // The privilege level is the low bits of the code segment.
        (word(RIP), word(SEG_CS) & 3 != 0)
    }
    #[cfg(target_arch = "aarch64")]
    {
        use nt::hal::trap_frame_arm64::{PC, SPSR};
        // EL0 is mode 0.
        (word(PC), word(SPSR) & 0xF == 0)
    }
}
