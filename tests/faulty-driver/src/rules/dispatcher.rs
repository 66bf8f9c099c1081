//! DPCs and dispatcher objects: initialised, and within their limits.

use core::ptr;

use nt::ke::{
    KDPC, KEVENT, KSEMAPHORE, KeInitializeDpc, KeInitializeEvent, KeInitializeSemaphore,
    KeInsertQueueDpc, KeReleaseSemaphore, KeSetEvent,
};

use super::tools::{Shared, free, keep, pool};

super::pairs! {
    "dpc-uninitialized": Plain dpc_uninitialized, dpc_initialized;
    "dispatcher-uninitialized": Plain dispatcher_uninitialized, dispatcher_initialized;
    "semaphore-limit": Plain semaphore_limit, semaphore_to_its_limit;
}

#[inline(never)]
unsafe fn dpc_uninitialized() {
    unsafe {
        let dpc = pool::<KDPC>();
        keep(KeInsertQueueDpc(dpc, ptr::null_mut(), ptr::null_mut()));
        free(dpc);
    }
}

static DPC: Shared<KDPC> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

unsafe extern "efiapi" fn nothing(
    _: *mut KDPC,
    _: *mut core::ffi::c_void,
    _: *mut core::ffi::c_void,
    _: *mut core::ffi::c_void,
) {
}

unsafe fn dpc_initialized() {
    unsafe {
        KeInitializeDpc(DPC.get(), nothing, ptr::null_mut());
        keep(KeInsertQueueDpc(
            DPC.get(),
            ptr::null_mut(),
            ptr::null_mut(),
        ));
    }
}

#[inline(never)]
unsafe fn dispatcher_uninitialized() {
    unsafe {
        let event = pool::<KEVENT>();
        keep(KeSetEvent(event, 0, 0));
        free(event);
    }
}

unsafe fn dispatcher_initialized() {
    unsafe {
        let event = pool::<KEVENT>();
        KeInitializeEvent(event, 0, 0);
        keep(KeSetEvent(event, 0, 0));
        free(event);
    }
}

unsafe fn semaphore(adjustment: i32) {
    unsafe {
        let mut semaphore = core::mem::zeroed::<KSEMAPHORE>();
        KeInitializeSemaphore(&mut semaphore, 1, 2);
        keep(KeReleaseSemaphore(&mut semaphore, 0, adjustment, 0));
    }
}

#[inline(never)]
unsafe fn semaphore_limit() {
    unsafe { semaphore(2) };
    keep(0);
}

unsafe fn semaphore_to_its_limit() {
    unsafe { semaphore(1) }
}
