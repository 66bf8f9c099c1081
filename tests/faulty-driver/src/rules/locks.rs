//! Locks, regions and waits.

mod mutex;
mod spin;

use core::ffi::c_void;
use core::ptr;

use nt::base::{KernelMode, UserMode};
use nt::ke::{
    KEVENT, KeEnterCriticalRegion, KeInitializeEvent, KeLeaveCriticalRegion, KeLowerIrql,
    KeRaiseIrqlToDpcLevel, KeWaitForSingleObject,
};
use nt::lock::{KeEnterGuardedRegion, KeLeaveGuardedRegion};
use nt::remlock::{
    IO_REMOVE_LOCK, IoAcquireRemoveLockEx, IoInitializeRemoveLockEx, IoReleaseRemoveLockEx,
};

use super::tools::{free, keep, pool, zeroed_event};
use mutex::{
    lock_freed, lock_held_at_return, lock_not_owned, lock_recursive, lock_released_and_freed,
    lock_wrong_thread, mutex_beside_another, mutex_released, mutex_twice, push_lock_apcs_enabled,
    push_lock_used, resource_apcs_enabled, resource_deleted_twice, resource_freed,
    resource_in_pool, resource_initialized_twice, resource_uninitialized, resource_used,
};
use spin::{
    deadlock, each_lock_its_kind, lock_order, other_order_by_trying, same_order_in_two_threads,
    spin_lock_beside_another, spin_lock_held_at_return, spin_lock_irql, spin_lock_mixed,
    spin_lock_not_owned, spin_lock_owned, spin_lock_raise_irql, spin_lock_recursive,
    spin_lock_release_irql, spin_lock_uninitialized, spin_lock_wrong_function,
    spin_lock_wrong_owner, twins_nested, two_spin_locks,
};

super::pairs! {
    "spin-lock-recursive": Plain spin_lock_recursive, two_spin_locks;
    "spin-lock-not-owned": Plain spin_lock_not_owned, spin_lock_owned;
    "spin-lock-wrong-owner": Plain spin_lock_wrong_owner, spin_lock_beside_another;
    "spin-lock-uninitialized": Plain spin_lock_uninitialized, spin_lock_owned;
    "spin-lock-wrong-function": Plain spin_lock_wrong_function, twins_nested;
    "spin-lock-mixed": Plain spin_lock_mixed, each_lock_its_kind;
    "spin-lock-irql": Plain spin_lock_irql, twins_nested;
    "spin-lock-release-irql": Plain spin_lock_release_irql, twins_nested;
    "spin-lock-raise-irql": Plain spin_lock_raise_irql, twins_nested;
    "spin-lock-held-at-return": Plain spin_lock_held_at_return, spin_lock_owned;
    "lock-order": Plain lock_order, other_order_by_trying;
    "deadlock": Plain deadlock, same_order_in_two_threads;
    "lock-held-at-return": Plain lock_held_at_return, mutex_released;
    "lock-recursive": Plain lock_recursive, mutex_twice;
    "lock-not-owned": Plain lock_not_owned, mutex_twice;
    "lock-wrong-thread": Plain lock_wrong_thread, mutex_beside_another;
    "lock-freed": Plain lock_freed, lock_released_and_freed;
    "resource-initialized-twice": Plain resource_initialized_twice, resource_used;
    "resource-uninitialized": Plain resource_uninitialized, resource_used;
    "resource-deleted-twice": Plain resource_deleted_twice, resource_used;
    "resource-freed": Plain resource_freed, resource_in_pool;
    "resource-apcs-enabled": Plain resource_apcs_enabled, resource_used;
    "push-lock-apcs-enabled": Plain push_lock_apcs_enabled, push_lock_used;
    "critical-region-not-entered": Plain critical_region_not_entered, regions;
    "guarded-region-not-entered": Plain guarded_region_not_entered, regions;
    "region-left-entered": Plain region_left_entered, regions;
    "wait-at-dispatch": Plain wait_at_dispatch, look_at_dispatch;
    "wait-user-mode-on-stack": Plain wait_user_mode_on_stack, wait_in_kernel_mode;
    "remove-lock-not-held": Plain remove_lock_not_held, remove_lock_used;
    "remove-lock-reinitialized": Plain remove_lock_reinitialized, remove_lock_used;
}

#[inline(never)]
unsafe fn critical_region_not_entered() {
    unsafe {
        KeEnterGuardedRegion();
        KeLeaveCriticalRegion();
        KeLeaveGuardedRegion();
        keep(0);
    }
}

#[inline(never)]
unsafe fn guarded_region_not_entered() {
    unsafe {
        KeLeaveGuardedRegion();
        keep(0);
    }
}

unsafe fn region_left_entered() {
    unsafe { KeEnterCriticalRegion() }
}

unsafe fn regions() {
    unsafe {
        KeEnterCriticalRegion();
        KeEnterCriticalRegion();
        KeEnterGuardedRegion();
        KeLeaveCriticalRegion();
        KeLeaveGuardedRegion();
        KeLeaveCriticalRegion();
    }
}

#[inline(never)]
unsafe fn wait_at_dispatch() {
    unsafe {
        let mut event = zeroed_event();
        KeInitializeEvent(&mut event, 0, 0);
        let old = KeRaiseIrqlToDpcLevel();
        let object: *mut c_void = (&raw mut event).cast();
        keep(KeWaitForSingleObject(object, 0, KernelMode, 0, ptr::null()));
        KeLowerIrql(old);
    }
}

unsafe fn look_at_dispatch() {
    unsafe {
        let mut event = zeroed_event();
        KeInitializeEvent(&mut event, 0, 0);
        let old = KeRaiseIrqlToDpcLevel();
        let object: *mut c_void = (&raw mut event).cast();
        keep(KeWaitForSingleObject(object, 0, KernelMode, 0, &0));
        KeLowerIrql(old);
    }
}

unsafe fn wait_for_signalled(event: *mut KEVENT, mode: i8) {
    unsafe {
        KeInitializeEvent(event, 0, 1);
        keep(KeWaitForSingleObject(event.cast(), 0, mode, 0, ptr::null()));
    }
}

#[inline(never)]
unsafe fn wait_user_mode_on_stack() {
    unsafe {
        let mut event = zeroed_event();
        wait_for_signalled(&mut event, UserMode);
        keep(&event);
    }
}

unsafe fn wait_in_kernel_mode() {
    unsafe {
        let mut event = zeroed_event();
        wait_for_signalled(&mut event, KernelMode);
        keep(&event);
        let event = pool::<KEVENT>();
        wait_for_signalled(event, UserMode);
        free(event);
    }
}

unsafe fn remove_lock() -> *mut IO_REMOVE_LOCK {
    unsafe {
        let lock = pool::<IO_REMOVE_LOCK>();
        initialize(lock);
        lock
    }
}

unsafe fn initialize(lock: *mut IO_REMOVE_LOCK) {
    unsafe { IoInitializeRemoveLockEx(lock, 0, 0, 0, size_of::<IO_REMOVE_LOCK>() as u32) }
}

unsafe fn acquire(lock: *mut IO_REMOVE_LOCK, tag: usize) {
    let size = size_of::<IO_REMOVE_LOCK>() as u32;
    unsafe {
        keep(IoAcquireRemoveLockEx(
            lock,
            tag as *mut _,
            ptr::null(),
            0,
            size,
        ))
    }
}

unsafe fn release(lock: *mut IO_REMOVE_LOCK, tag: usize) {
    let size = size_of::<IO_REMOVE_LOCK>() as u32;
    unsafe { IoReleaseRemoveLockEx(lock, tag as *mut _, size) }
}

#[inline(never)]
unsafe fn remove_lock_not_held() {
    unsafe {
        let lock = remove_lock();
        acquire(lock, 1);
        release(lock, 2);
        release(lock, 1);
        free(lock);
    }
}

unsafe fn remove_lock_used() {
    unsafe {
        let lock = remove_lock();
        acquire(lock, 1);
        acquire(lock, 2);
        release(lock, 1);
        release(lock, 2);
        free(lock);
    }
}

#[inline(never)]
unsafe fn remove_lock_reinitialized() {
    unsafe {
        let lock = remove_lock();
        initialize(lock);
        free(lock);
    }
}
