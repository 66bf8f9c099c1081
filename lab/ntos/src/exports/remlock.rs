//! `Io…RemoveLock…`: counting the requests in a device that may go away.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::ke::{EVENT_SYNCHRONIZATION_OBJECT, KEVENT};
use nt::remlock::IO_REMOVE_LOCK;
use nt::status::{STATUS_DELETE_PENDING, STATUS_SUCCESS};

use super::exports;
use crate::guest::{field, get, set};
use crate::machine::{Machine, current};
use crate::wait::Timeout;

exports! {
    remlock;

    fn IoInitializeRemoveLockEx(Lock: *mut IO_REMOVE_LOCK, _AllocateTag: u32, _MaxLockedMinutes: u32, _HighWatermark: u32, RemlockSize: u32) {
        current().check_remove_lock_size(Lock, RemlockSize);
        set!(Lock, Removed = 0u8);
        // The device itself counts as one.
        set!(Lock, IoCount = 1);
        super::ke::initialize_header(field!(Lock, RemoveEvent).cast(), EVENT_SYNCHRONIZATION_OBJECT, size_of::<KEVENT>(), 0);
    }
    fn IoAcquireRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, _Tag: *mut c_void, _File: *const u8, _Line: u32, _RemlockSize: u32) -> NTSTATUS {
        if enter(RemoveLock) { STATUS_SUCCESS } else { STATUS_DELETE_PENDING }
    }
    fn IoReleaseRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, _Tag: *mut c_void, _RemlockSize: u32) {
        current().leave_remove_lock(RemoveLock, 1);
    }
    fn IoReleaseRemoveLockAndWaitEx(RemoveLock: *mut IO_REMOVE_LOCK, _Tag: *mut c_void, _RemlockSize: u32) {
        let machine = current();
        set!(RemoveLock, Removed = 1u8);
        // The removal's own acquisition, and the device's.
        machine.leave_remove_lock(RemoveLock, 2);
        while get!(RemoveLock, IoCount) > 0 {
            machine.wait(&[field!(RemoveLock, RemoveEvent) as u64], false, Timeout::Never);
        }
    }
}

/// Counts a request in, unless the device is being removed.
fn enter(lock: *mut IO_REMOVE_LOCK) -> bool {
    if get!(lock, Removed) != 0 {
        return false;
    }
    set!(lock, IoCount = get!(lock, IoCount).wrapping_add(1));
    true
}

/// Counts requests out; what is left, or `None` when more leave than are in.
fn leave(lock: *mut IO_REMOVE_LOCK, count: i32) -> Option<i32> {
    let left = get!(lock, IoCount) - count;
    let removed = get!(lock, Removed) != 0;
    // Without a removal, the device's own count stays.
    if left < 0 || (left == 0 && !removed) {
        return None;
    }
    set!(lock, IoCount = left);
    Some(left)
}

impl Machine {
    fn leave_remove_lock(&self, lock: *mut IO_REMOVE_LOCK, count: i32) {
        match leave(lock, count) {
            Some(0) => {
                self.signal(field!(lock, RemoveEvent) as u64, 1);
            }
            Some(_) => {}
            None => self.violate(
                RuleId::BadObject,
                [lock as u64, 0, 0, 0],
                "a remove lock was released more often than acquired".into(),
            ),
        }
    }

    fn check_remove_lock_size(&self, lock: *mut IO_REMOVE_LOCK, size: u32) {
        if (size as usize) < size_of::<IO_REMOVE_LOCK>() {
            self.violate(
                RuleId::BadObject,
                [lock as u64, u64::from(size), 0, 0],
                format!("a remove lock of {size} bytes, which is none of any build"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Box<IO_REMOVE_LOCK> {
        // SAFETY: every field is an integer or a raw pointer, for which zero is a value.
        let mut lock: Box<IO_REMOVE_LOCK> = unsafe { Box::new_zeroed().assume_init() };
        lock.IoCount = 1;
        lock
    }

    #[test]
    fn a_removal_waits_for_those_who_are_in_and_lets_nobody_else_in() {
        let mut lock = lock();
        let lock = &raw mut *lock;
        assert!(enter(lock), "a request");
        assert!(enter(lock), "the removal");
        set!(lock, Removed = 1u8);
        assert_eq!(leave(lock, 2), Some(1), "the request is still in");
        assert!(!enter(lock));
        assert_eq!(leave(lock, 1), Some(0));
        assert_eq!(leave(lock, 1), None, "nobody is in");
    }

    #[test]
    fn a_release_without_an_acquisition_is_noticed() {
        let mut lock = lock();
        let lock = &raw mut *lock;
        assert_eq!(leave(lock, 1), None);
        assert!(enter(lock));
        assert_eq!(leave(lock, 1), Some(1));
        assert_eq!(leave(lock, 1), None);
    }
}
