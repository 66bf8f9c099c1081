//! Locks, waits and timers.

use core::ffi::c_void;
use core::ptr;

use nt::ex::{
    ERESOURCE, ExAcquireResourceExclusiveLite, ExAcquireResourceSharedLite, ExDeleteResourceLite,
    ExInitializeResourceLite, ExReleaseResourceLite,
};
use nt::ke::{
    KDPC, KEVENT, KMUTANT, KSPIN_LOCK, KTIMER, KeAcquireSpinLockAtDpcLevel,
    KeAcquireSpinLockRaiseToDpc, KeCancelTimer, KeEnterCriticalRegion, KeFlushQueuedDpcs,
    KeInitializeDpc, KeInitializeMutex, KeInitializeTimer, KeLeaveCriticalRegion, KeReleaseMutex,
    KeReleaseSpinLock, KeReleaseSpinLockFromDpcLevel, KeSetEvent, KeSetTimer,
};

use super::super::tools::{
    Shared, event, free, join, keep, pool, start_thread, wait, zeroed_event,
};

static FIRST: Shared<KSPIN_LOCK> = Shared::new(0);
static SECOND: Shared<KSPIN_LOCK> = Shared::new(0);

/// Hand over hand, along a list: the first lock is released first, and the second lowers the IRQL.
pub(super) unsafe fn spin_locks_handed_over() {
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(FIRST.get());
        KeAcquireSpinLockAtDpcLevel(SECOND.get());
        KeReleaseSpinLockFromDpcLevel(FIRST.get());
        KeReleaseSpinLock(SECOND.get(), old);
    }
}

/// Acquired in the same order by two callers, released in both.
pub(super) unsafe fn spin_locks_in_one_order() {
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(FIRST.get());
        let inner = KeAcquireSpinLockRaiseToDpc(SECOND.get());
        KeReleaseSpinLock(SECOND.get(), inner);
        KeReleaseSpinLock(FIRST.get(), old);
        let old = KeAcquireSpinLockRaiseToDpc(FIRST.get());
        let inner = KeAcquireSpinLockRaiseToDpc(SECOND.get());
        KeReleaseSpinLock(FIRST.get(), inner);
        KeReleaseSpinLock(SECOND.get(), old);
    }
}

/// A resource nests, and its writer may read.
pub(super) unsafe fn resource_nested() {
    unsafe {
        let resource = pool::<ERESOURCE>();
        keep(ExInitializeResourceLite(resource));
        KeEnterCriticalRegion();
        keep(ExAcquireResourceExclusiveLite(resource, 1));
        keep(ExAcquireResourceExclusiveLite(resource, 1));
        keep(ExAcquireResourceSharedLite(resource, 1));
        for _ in 0..3 {
            ExReleaseResourceLite(resource);
        }
        keep(ExAcquireResourceSharedLite(resource, 1));
        keep(ExAcquireResourceSharedLite(resource, 1));
        ExReleaseResourceLite(resource);
        ExReleaseResourceLite(resource);
        KeLeaveCriticalRegion();
        keep(ExDeleteResourceLite(resource));
        free(resource);
    }
}

pub(super) unsafe fn mutex_nested() {
    unsafe {
        let mutex = pool::<KMUTANT>();
        KeInitializeMutex(mutex, 0);
        wait(mutex.cast());
        wait(mutex.cast());
        keep(KeReleaseMutex(mutex, 0));
        keep(KeReleaseMutex(mutex, 0));
        free(mutex);
    }
}

static ON_STACK: Shared<*mut KEVENT> = Shared::new(ptr::null_mut());

unsafe extern "efiapi" fn signals_it(_: *mut c_void) {
    unsafe { keep(KeSetEvent(ON_STACK.read(), 0, 0)) }
}

/// Signalled by another thread, and gone with the routine that waited.
pub(super) unsafe fn event_on_stack() {
    unsafe {
        let mut done = zeroed_event();
        event(&mut done);
        ON_STACK.write(&raw mut done);
        let thread = start_thread(signals_it);
        wait((&raw mut done).cast());
        join(thread);
    }
}

unsafe extern "efiapi" fn nothing(_: *mut KDPC, _: *mut c_void, _: *mut c_void, _: *mut c_void) {}

/// Set while it is set, cancelled, its DPC flushed, its memory freed.
pub(super) unsafe fn timer_set_again() {
    unsafe {
        let (timer, dpc) = (pool::<KTIMER>(), pool::<KDPC>());
        KeInitializeTimer(timer);
        KeInitializeDpc(dpc, nothing, ptr::null_mut());
        keep(KeSetTimer(timer, -10_000, dpc));
        keep(KeSetTimer(timer, -20_000, dpc));
        wait(timer.cast());
        keep(KeSetTimer(timer, -10_000_000, dpc));
        keep(KeCancelTimer(timer));
        KeFlushQueuedDpcs();
        free(dpc);
        free(timer);
    }
}
