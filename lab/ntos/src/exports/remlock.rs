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
        let machine = current();
        machine.check_remove_lock_size(Lock, RemlockSize);
        machine.new_remove_lock(Lock as u64);
        set!(Lock, Removed = 0u8);
        // The device itself counts as one.
        set!(Lock, IoCount = 1);
        super::ke::initialize_header(field!(Lock, RemoveEvent).cast(), EVENT_SYNCHRONIZATION_OBJECT, size_of::<KEVENT>(), 0);
    }
    fn IoAcquireRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, _File: *const u8, _Line: u32, _RemlockSize: u32) -> NTSTATUS {
        if !enter(RemoveLock) {
            return STATUS_DELETE_PENDING;
        }
        current().enter_remove_lock(RemoveLock as u64, Tag as u64);
        STATUS_SUCCESS
    }
    fn IoReleaseRemoveLockEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, _RemlockSize: u32) {
        current().leave_remove_lock(RemoveLock, Tag as u64, 1);
    }
    fn IoReleaseRemoveLockAndWaitEx(RemoveLock: *mut IO_REMOVE_LOCK, Tag: *mut c_void, _RemlockSize: u32) {
        let machine = current();
        set!(RemoveLock, Removed = 1u8);
        // The removal's own acquisition, and the device's.
        machine.leave_remove_lock(RemoveLock, Tag as u64, 2);
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

/// The lab's side of a remove lock.
#[derive(Default)]
pub(crate) struct RemoveLock {
    /// Where it was initialised.
    site: u64,
    /// Tags, and where each was acquired.
    pub(crate) held: Vec<(u64, u64)>,
}

impl Machine {
    fn new_remove_lock(&self, lock: u64) {
        let site = self.call_site();
        let known = self.resources.borrow_mut().remove_locks.insert(
            lock,
            RemoveLock {
                site,
                held: Vec::new(),
            },
        );
        if let Some(known) = known {
            let what = format!(
                "the remove lock at {lock:#x} was initialised, and is since {}",
                self.site_in_words(known.site)
            );
            self.report(RuleId::RemoveLockReinitialized, [0, lock, lock, 0], what);
        }
    }

    fn enter_remove_lock(&self, lock: u64, tag: u64) {
        let site = self.call_site();
        let mut resources = self.resources.borrow_mut();
        let known = resources.remove_locks.entry(lock).or_default();
        known.held.push((tag, site));
    }

    fn leave_remove_lock(&self, lock: *mut IO_REMOVE_LOCK, tag: u64, count: i32) {
        let address = lock as u64;
        let mut resources = self.resources.borrow_mut();
        let known = resources.remove_locks.entry(address).or_default();
        let held = known.held.iter().rposition(|(held, _)| *held == tag);
        let others = known.held.clone();
        if let Some(index) = held {
            known.held.remove(index);
        }
        drop(resources);
        if held.is_none() {
            self.report_remove_lock(address, tag, &others);
            return;
        }
        if leave(lock, count) == Some(0) {
            self.signal(field!(lock, RemoveEvent) as u64, 1);
        }
    }

    fn report_remove_lock(&self, lock: u64, tag: u64, held: &[(u64, u64)]) {
        let others: Vec<String> = held
            .iter()
            .map(|(tag, site)| format!("{tag:#x} acquired at {}", self.site_in_words(*site)))
            .collect();
        let others = match others.is_empty() {
            true => "it is not acquired".into(),
            false => format!("its tags are {}", others.join(", ")),
        };
        let what = format!("the remove lock at {lock:#x} was released with tag {tag:#x}; {others}");
        self.report(RuleId::RemoveLockNotHeld, [0, lock, tag, 0], what);
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
