//! Mutexes, resources and push locks.

use core::ffi::c_void;
use core::ptr;

use nt::ex::{
    ERESOURCE, ExAcquireFastMutex, ExAcquireResourceExclusiveLite, ExAcquireResourceSharedLite,
    ExDeleteResourceLite, ExInitializeResourceLite, ExReleaseFastMutex, ExReleaseResourceLite,
    FAST_MUTEX,
};
use nt::ke::{
    KEVENT, KMUTANT, KeEnterCriticalRegion, KeInitializeMutex, KeLeaveCriticalRegion,
    KeReleaseMutex, KeSetEvent,
};
use nt::lock::{
    EX_PUSH_LOCK, ExAcquirePushLockExclusiveEx, ExAcquirePushLockSharedEx,
    ExReleasePushLockExclusiveEx, ExReleasePushLockSharedEx,
};

use crate::rules::tools::{
    Shared, event, fast_mutex, free, join, keep, pool, start_thread, wait, zeroed_event,
};

const fn zeroed_mutex() -> KMUTANT {
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() }
}

static MUTEX: Shared<KMUTANT> = Shared::new(zeroed_mutex());
static OTHER: Shared<KMUTANT> = Shared::new(zeroed_mutex());
static HELD: Shared<KEVENT> = Shared::new(zeroed_event());
static ENOUGH: Shared<KEVENT> = Shared::new(zeroed_event());

unsafe fn release(mutex: *mut KMUTANT) {
    unsafe { keep(KeReleaseMutex(mutex, 0)) }
}

#[inline(never)]
pub(super) unsafe fn lock_held_at_return() {
    unsafe {
        KeInitializeMutex(MUTEX.get(), 0);
        keep(nt::ke::KeWaitForSingleObject(
            MUTEX.get().cast(),
            0,
            0,
            0,
            ptr::null(),
        ));
    }
}

pub(super) unsafe fn mutex_released() {
    unsafe {
        lock_held_at_return();
        release(MUTEX.get());
    }
}

#[inline(never)]
pub(super) unsafe fn lock_recursive() {
    unsafe {
        let mut mutex = core::mem::zeroed::<FAST_MUTEX>();
        fast_mutex(&mut mutex);
        ExAcquireFastMutex(&mut mutex);
        ExAcquireFastMutex(&mut mutex);
        ExReleaseFastMutex(&mut mutex);
    }
}

/// A mutex of the dispatcher nests.
pub(super) unsafe fn mutex_twice() {
    unsafe {
        KeInitializeMutex(MUTEX.get(), 0);
        wait(MUTEX.get().cast());
        wait(MUTEX.get().cast());
        release(MUTEX.get());
        release(MUTEX.get());
    }
}

#[inline(never)]
pub(super) unsafe fn lock_not_owned() {
    unsafe {
        KeInitializeMutex(MUTEX.get(), 0);
        release(MUTEX.get());
        keep(0);
    }
}

unsafe extern "efiapi" fn hold_mutex(_: *mut c_void) {
    unsafe {
        wait(MUTEX.get().cast());
        keep(KeSetEvent(HELD.get(), 0, 0));
        wait(ENOUGH.get().cast());
        release(MUTEX.get());
    }
}

/// A thread that holds the mutex until it is told.
unsafe fn holder() -> *mut c_void {
    unsafe {
        KeInitializeMutex(MUTEX.get(), 0);
        event(HELD.get());
        event(ENOUGH.get());
        let thread = start_thread(hold_mutex);
        wait(HELD.get().cast());
        thread
    }
}

unsafe fn end(thread: *mut c_void) {
    unsafe {
        keep(KeSetEvent(ENOUGH.get(), 0, 0));
        join(thread);
    }
}

#[inline(never)]
pub(super) unsafe fn lock_wrong_thread() {
    unsafe {
        let thread = holder();
        release(MUTEX.get());
        end(thread);
    }
}

pub(super) unsafe fn mutex_beside_another() {
    unsafe {
        let thread = holder();
        KeInitializeMutex(OTHER.get(), 0);
        wait(OTHER.get().cast());
        release(OTHER.get());
        end(thread);
    }
}

#[inline(never)]
pub(super) unsafe fn lock_freed() {
    unsafe {
        let mutex = pool::<FAST_MUTEX>();
        fast_mutex(mutex);
        ExAcquireFastMutex(mutex);
        free(mutex);
        nt::ke::KeLowerIrql(0);
    }
}

pub(super) unsafe fn lock_released_and_freed() {
    unsafe {
        let mutex = pool::<FAST_MUTEX>();
        fast_mutex(mutex);
        ExAcquireFastMutex(mutex);
        ExReleaseFastMutex(mutex);
        free(mutex);
    }
}

unsafe fn resource() -> *mut ERESOURCE {
    unsafe {
        let resource = pool::<ERESOURCE>();
        keep(ExInitializeResourceLite(resource));
        resource
    }
}

unsafe fn delete(resource: *mut ERESOURCE) {
    unsafe {
        keep(ExDeleteResourceLite(resource));
        free(resource);
    }
}

#[inline(never)]
pub(super) unsafe fn resource_initialized_twice() {
    unsafe {
        let resource = resource();
        keep(ExInitializeResourceLite(resource));
        delete(resource);
    }
}

#[inline(never)]
pub(super) unsafe fn resource_uninitialized() {
    unsafe {
        let resource = pool::<ERESOURCE>();
        KeEnterCriticalRegion();
        keep(ExAcquireResourceExclusiveLite(resource, 1));
        ExReleaseResourceLite(resource);
        KeLeaveCriticalRegion();
    }
}

#[inline(never)]
pub(super) unsafe fn resource_deleted_twice() {
    unsafe {
        let resource = resource();
        keep(ExDeleteResourceLite(resource));
        delete(resource);
    }
}

#[inline(never)]
pub(super) unsafe fn resource_freed() {
    unsafe { free(resource()) }
}

pub(super) unsafe fn resource_in_pool() {
    unsafe { delete(resource()) }
}

#[inline(never)]
pub(super) unsafe fn resource_apcs_enabled() {
    unsafe {
        let resource = resource();
        keep(ExAcquireResourceExclusiveLite(resource, 1));
        ExReleaseResourceLite(resource);
        delete(resource);
    }
}

/// Write, write again, read as the writer; then two readers.
pub(super) unsafe fn resource_used() {
    unsafe {
        let resource = resource();
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
        delete(resource);
    }
}

static PUSH_LOCK: Shared<EX_PUSH_LOCK> = Shared::new(0);

#[inline(never)]
pub(super) unsafe fn push_lock_apcs_enabled() {
    unsafe {
        ExAcquirePushLockExclusiveEx(PUSH_LOCK.get(), 0);
        ExReleasePushLockExclusiveEx(PUSH_LOCK.get(), 0);
        keep(0);
    }
}

pub(super) unsafe fn push_lock_used() {
    unsafe {
        KeEnterCriticalRegion();
        ExAcquirePushLockExclusiveEx(PUSH_LOCK.get(), 0);
        ExReleasePushLockExclusiveEx(PUSH_LOCK.get(), 0);
        ExAcquirePushLockSharedEx(PUSH_LOCK.get(), 0);
        ExReleasePushLockSharedEx(PUSH_LOCK.get(), 0);
        KeLeaveCriticalRegion();
    }
}
