//! A request that waits, and the cancel routine that goes with it.

use super::Request;
use crate::NtStatus;
use crate::pool::{PoolArc, PoolTag};
use crate::wait::WaitSlot;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use nt::irp::{IRP, PDRIVER_CANCEL, SL_PENDING_RETURNED};

/// A request that a dispatch routine keeps. Completed once: by value.
pub(crate) struct Pended(Request);

// SAFETY: a request under way belongs to the driver, whatever thread it is on.
unsafe impl Send for Pended {}

impl Pended {
    pub(super) const fn new(request: Request) -> Self {
        Self(request)
    }

    const fn irp(&self) -> *mut IRP {
        self.0.irp.as_ptr()
    }

    /// Whether it is the same request.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.irp == other.0.irp
    }

    /// `IoMarkIrpPending`: the dispatch routine returns `STATUS_PENDING`.
    pub(crate) fn mark_pending(&self) {
        // SAFETY: the request is valid until completed: invariant of the type.
        let location = unsafe { (*self.irp()).CurrentStackLocation };
        // SAFETY: the current stack location is the driver's.
        unsafe { (*location).Control |= SL_PENDING_RETURNED };
    }

    /// Has it cancelled by `routine`, which finds the slot by [`of_cancelled`](Self::of_cancelled); false
    /// if somebody wanted that before.
    pub(crate) fn arm(&self, slot: PoolArc<WaitSlot>, routine: PDRIVER_CANCEL) -> bool {
        let (slot, tag) = slot.into_raw();
        // SAFETY: the request is valid, and its context is its driver's.
        let context = unsafe { &mut (*self.irp()).DriverContext };
        let [pointer, tag_place, ..] = context;
        *pointer = slot.as_ptr().cast::<c_void>();
        *tag_place = tag.to_pointer();
        // Before the look at `Cancel`: the I/O manager does it the other way round.
        self.routine()
            .swap(routine as *mut c_void, Ordering::SeqCst);
        // SAFETY: a place within the valid request.
        let cancel = unsafe { &raw const (*self.irp()).Cancel };
        // SAFETY: initialised; the I/O manager writes it whenever it likes.
        unsafe { cancel.read_volatile() == 0 }
    }

    /// Takes the cancel routine away; gives the slot if that was in time, else the request is its.
    pub(crate) fn disarm(&self) -> Option<PoolArc<WaitSlot>> {
        let routine = self.routine().swap(core::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: armed: whoever takes the routine away takes the slot, too, and nobody else does.
        (!routine.is_null()).then(|| unsafe { self.slot() })?
    }

    /// `Irp->CancelRoutine`, as both sides exchange it (`IoSetCancelRoutine`, wdm.h).
    fn routine(&self) -> &AtomicPtr<c_void> {
        // SAFETY: a place within the valid request.
        let place = unsafe { &raw mut (*self.irp()).CancelRoutine };
        // SAFETY: (1) an optional routine has the size and values of a pointer. (2) aligned. (3) from
        // now on it is only accessed atomically, by this driver and the I/O manager.
        unsafe { AtomicPtr::from_ptr(place.cast()) }
    }

    /// # Safety
    /// The request must be armed, and the slot be taken once.
    unsafe fn slot(&self) -> Option<PoolArc<WaitSlot>> {
        // SAFETY: the request is valid, and its context is its driver's.
        let [pointer, tag, ..] = unsafe { (*self.irp()).DriverContext };
        let slot = NonNull::new(pointer.cast::<WaitSlot>())?;
        // SAFETY: both are from `into_raw` in `arm`.
        Some(unsafe { PoolArc::from_raw((slot, PoolTag::from_pointer(tag))) })
    }

    /// The request of a cancel routine, and its slot. Releases the cancel lock.
    ///
    /// # Safety
    /// `irp` must be what the I/O manager passed to the cancel routine given to [`arm`](Self::arm).
    ///
    /// IRQL: `DISPATCH_LEVEL`.
    /// Source: `IoReleaseCancelSpinLock`, wdm.h.
    pub(crate) unsafe fn of_cancelled(irp: *mut IRP) -> Option<(Self, PoolArc<WaitSlot>)> {
        // SAFETY: the caller's request was kept by a dispatch routine, and is not completed yet.
        let pended = Self(unsafe { Request::new(irp) }?);
        // SAFETY: the request is valid.
        let irql = unsafe { (*irp).CancelIrql };
        // SAFETY: the I/O manager took the lock, and left the IRQL there.
        unsafe { nt::io::IoReleaseCancelSpinLock(irql) };
        // SAFETY: armed, and the routine was taken away by the I/O manager.
        let slot = unsafe { pended.slot() }?;
        Some((pended, slot))
    }

    /// Gives it back to the I/O manager with an answer, as far as there is room for it.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    pub(crate) fn complete(self, status: NtStatus, answer: &[u8]) -> NtStatus {
        let mut written = 0;
        if let Some((_, mut buffer)) = self.0.buffered()
            && buffer.push(answer).is_ok()
        {
            written = buffer.written;
        }
        self.0.complete(status, written)
    }
}
