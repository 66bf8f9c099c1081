//! Work for later, at `PASSIVE_LEVEL`: what a DPC may not do itself.
//!
//! ```text
//!  WorkItem ──owns──▶ [ IO_WORKITEM │ is it queued? │ runs under way │ the work ]
//!                          │ queue                                  ▲
//!                          ▼                                        │
//!                     system thread ─────────────────── run ────────┘
//! ```
#![expect(unsafe_code, reason = "hands a routine and its context to the kernel")]

use crate::alive::Alive;
use crate::device::DeviceRef;
use crate::pool::{PoolBox, PoolTag};
use crate::sync::Pending;
use crate::{Result, status};
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use nt::io::DelayedWorkQueue;
use nt::irp::DEVICE_OBJECT;

/// What a work item does.
pub trait Work: Send + Sync + 'static {
    /// Runs on a system thread, once per successful [`WorkItem::queue`]. Two runs may overlap: the
    /// item can be queued again as soon as a run begins.
    ///
    /// Must not drop its own work item, which waits for this very run.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn run(&self);
}

/// A work item with its work; freed when dropped, after the runs that are queued or under way.
///
/// # Invariants
/// The state stays where it is in the pool until no run is pending.
pub struct WorkItem<T: Work> {
    state: PoolBox<State<T>>,
}

// SAFETY: item and event may be used from any thread, and stay where they are; the work is `Send`.
unsafe impl<T: Work> Send for WorkItem<T> {}

struct State<T> {
    item: Item,
    /// From queueing to the beginning of the run.
    is_queued: AtomicBool,
    runs: Pending,
    work: T,
    /// The item rests on the device object.
    _alive: Alive,
}

/// An `IO_WORKITEM` that this owns.
struct Item(NonNull<c_void>);

// SAFETY: the item is only passed to the kernel, which synchronizes it.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

impl Drop for Item {
    fn drop(&mut self) {
        // SAFETY: (1) allocated by `WorkItem::try_new`, and freed once. (2) Not queued: never was, or
        // `WorkItem::drop` has waited.
        unsafe { nt::io::IoFreeWorkItem(self.0.as_ptr()) };
    }
}

impl<T: Work> WorkItem<T> {
    /// A work item that is not queued.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; the work is dropped.
    /// Source: `IoAllocateWorkItem`, wdm.h.
    pub fn try_new(device: DeviceRef<'_>, tag: PoolTag, work: T) -> Result<Self> {
        // SAFETY: a device object of this driver. The item may not outlive it, which `Alive` sees to.
        let item = unsafe { nt::io::IoAllocateWorkItem(device.as_ptr()) };
        let item = NonNull::new(item).ok_or(status::STATUS_INSUFFICIENT_RESOURCES)?;
        let state = State {
            item: Item(item),
            is_queued: AtomicBool::new(false),
            runs: Pending::new(),
            work,
            _alive: Alive::new(),
        };
        let state = PoolBox::try_new(tag, state)?;
        // INVARIANT: `state` is where it stays.
        state.runs.begin();
        Ok(Self { state })
    }

    /// Queues it to a system thread.
    ///
    /// Returns `false` if it was queued already and has not begun; one run is enough for both then.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    /// Source: `IoQueueWorkItem`, wdm.h.
    pub fn queue(&self) -> bool {
        let state = &*self.state;
        if state.is_queued.swap(true, Ordering::AcqRel) {
            return false;
        }
        state.runs.add();
        let context = (&raw const *state).cast_mut().cast::<c_void>();
        let item = state.item.0.as_ptr();
        // SAFETY: (1) the item is not queued: `is_queued` was false. (2) The context outlives the run:
        // `drop` waits for it. (3) `run::<T>` is the routine for such a context.
        unsafe { nt::io::IoQueueWorkItem(item, run::<T>, DelayedWorkQueue, context) };
        true
    }

    /// The work.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn work(&self) -> &T {
        &self.state.work
    }
}

impl<T: Work> Drop for WorkItem<T> {
    /// Waits for the runs that are queued or under way, then frees the item.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `IoFreeWorkItem`, wdm.h.
    fn drop(&mut self) {
        self.state.runs.wait();
    }
}

/// The I/O manager holds the device object, and with it this code, until the routine has returned.
unsafe extern "efiapi" fn run<T: Work>(_: *mut DEVICE_OBJECT, context: *mut c_void) {
    // SAFETY: the context of `queue`, which is there until the run has finished.
    let state = unsafe { &*context.cast::<State<T>>() };
    state.is_queued.store(false, Ordering::Release);
    state.work.run();
    state.runs.finish_and_wake();
}
