//! Remove locks: how many requests are under way in a device that may go away.

use core::ffi::c_void;

use crate::base::BOOLEAN;
use crate::ke::KEVENT;
use crate::status::NTSTATUS;

/// `IO_REMOVE_LOCK` of a release build; that of a checked one has more behind it.
#[repr(C)]
pub struct IO_REMOVE_LOCK {
    pub Removed: BOOLEAN,
    pub Reserved: [BOOLEAN; 3],
    /// Acquisitions, and one for the device itself.
    pub IoCount: i32,
    pub RemoveEvent: KEVENT,
}
layout!(IO_REMOVE_LOCK, 0x20, IoCount @ 4, RemoveEvent @ 8);

image! {
    /// Initialises a remove lock; `RemlockSize` tells a checked build's from a release build's.
    fn IoInitializeRemoveLockEx(Lock: *mut IO_REMOVE_LOCK, AllocateTag: u32, MaxLockedMinutes: u32, HighWatermark: u32, RemlockSize: u32) where irql == PASSIVE_LEVEL;
    /// Counts a request in; `STATUS_DELETE_PENDING` once the device is being removed.
    fn IoAcquireRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, File: *const u8, Line: u32, RemlockSize: u32) -> NTSTATUS where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Counts a request out.
    fn IoReleaseRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, RemlockSize: u32) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Counts the removal itself out, lets nothing in any more, and waits for the rest.
    fn IoReleaseRemoveLockAndWaitEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, RemlockSize: u32) where irql == PASSIVE_LEVEL, RELEASES, WAITS;
}
