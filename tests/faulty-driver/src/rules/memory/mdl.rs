//! Memory descriptor lists.

use core::ptr;

use nt::base::KernelMode;
use nt::io::{IoAllocateMdl, IoFreeMdl};
use nt::mm::{
    IoWriteAccess, MDL, MmBuildMdlForNonPagedPool, MmMapLockedPagesSpecifyCache,
    MmProbeAndLockPages, MmUnlockPages, MmUnmapLockedPages,
};

use crate::rules::tools::{Shared, bytes, free, keep, paged};

static MEMORY: Shared<[u8; 256]> = Shared::new([0; 256]);

unsafe fn mdl() -> *mut MDL {
    unsafe { IoAllocateMdl(MEMORY.get().cast(), 256, 0, 0, ptr::null_mut()) }
}

unsafe fn lock(mdl: *mut MDL) {
    unsafe { MmProbeAndLockPages(mdl, KernelMode, IoWriteAccess) }
}

unsafe fn map(mdl: *mut MDL, must_succeed: u32) -> *mut core::ffi::c_void {
    unsafe { MmMapLockedPagesSpecifyCache(mdl, KernelMode, 1, ptr::null_mut(), must_succeed, 16) }
}

#[inline(never)]
pub(super) unsafe fn mdl_mapped_unlocked() {
    unsafe {
        let mdl = mdl();
        MmUnmapLockedPages(map(mdl, 0), mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

pub(super) unsafe fn mdl_locked_and_mapped() {
    unsafe {
        let mdl = mdl();
        lock(mdl);
        MmUnmapLockedPages(map(mdl, 0), mdl);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_unlocked_twice() {
    unsafe {
        let mdl = mdl();
        lock(mdl);
        MmUnlockPages(mdl);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_unlock_nonpaged() {
    unsafe {
        let mdl = mdl();
        MmBuildMdlForNonPagedPool(mdl);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

pub(super) unsafe fn mdl_of_nonpaged_pool() {
    unsafe {
        let block = bytes(64);
        let mdl = IoAllocateMdl(block.cast(), 64, 0, 0, ptr::null_mut());
        MmBuildMdlForNonPagedPool(mdl);
        IoFreeMdl(mdl);
        free(block);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_locked_twice() {
    unsafe {
        let mdl = mdl();
        lock(mdl);
        lock(mdl);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_freed_locked() {
    unsafe {
        let mdl = mdl();
        lock(mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_freed_mapped() {
    unsafe {
        let mdl = mdl();
        MmBuildMdlForNonPagedPool(mdl);
        keep(map(mdl, 0));
        IoFreeMdl(mdl);
        keep(mdl);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_of_paged_pool() {
    unsafe {
        let block = paged(64);
        let mdl = IoAllocateMdl(block.cast(), 64, 0, 0, ptr::null_mut());
        MmBuildMdlForNonPagedPool(mdl);
        IoFreeMdl(mdl);
        free(block);
    }
}

#[inline(never)]
pub(super) unsafe fn mdl_map_must_succeed() {
    unsafe {
        let mdl = mdl();
        lock(mdl);
        MmUnmapLockedPages(map(mdl, 1), mdl);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
        keep(mdl);
    }
}
