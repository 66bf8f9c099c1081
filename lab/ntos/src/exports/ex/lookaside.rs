//! Lookaside lists.
//!
//! A list keeps no free blocks here (its depth is 0): every one goes back to
//! pool at once, where the use of a freed block is noticed.

use lab_verifier::RuleId;
use nt::base::LIST_ENTRY;
use nt::ex::{NPAGED_LOOKASIDE_LIST, NonPagedPool, NonPagedPoolNx};

use super::slist;
use crate::guest::{field, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::resources::Held;

/// `POOL_NX_ALLOCATION`: memory that can't be executed (wdm.h).
const POOL_NX_ALLOCATION: u32 = 512;
/// Free blocks a list may come to keep, at most (Windows' own limit).
const MAXIMUM_DEPTH: u16 = 256;

/// What a driver asks of a new list.
pub(super) struct Wanted {
    pub(super) allocate: u64,
    pub(super) free: u64,
    pub(super) flags: u32,
    pub(super) size: usize,
    pub(super) tag: u32,
}

impl Machine {
    pub(super) fn initialize_lookaside(&self, list: *mut NPAGED_LOOKASIDE_LIST, wanted: &Wanted) {
        let site = self.call_site();
        let new = self
            .resources
            .borrow_mut()
            .hold(Held::LookasideList, list as u64, site);
        if !new {
            self.report(
                RuleId::LookasideInitializedTwice,
                [0, list as u64, 0, 0],
                format!(
                    "the lookaside list at {:#x} was initialised, and is initialised already",
                    list as u64
                ),
            );
        }
        let or_default = |routine: u64, name: &str| match routine {
            0 => current().thunks().address(name).unwrap_or(0),
            routine => routine,
        };
        let nx = wanted.flags & POOL_NX_ALLOCATION != 0;
        slist::initialize(field!(list, ListHead));
        set!(list, Depth = 0u16);
        set!(list, MaximumDepth = MAXIMUM_DEPTH);
        set!(list, TotalAllocates = 0u32);
        set!(list, AllocateMisses = 0u32);
        set!(list, TotalFrees = 0u32);
        set!(list, FreeMisses = 0u32);
        set!(list, Type = if nx { NonPagedPoolNx } else { NonPagedPool });
        set!(list, Tag = wanted.tag);
        // A free block holds the link to the next one.
        let size = wanted.size.max(size_of::<usize>());
        set!(list, Size = u32::try_from(size).unwrap_or(u32::MAX));
        set!(
            list,
            Allocate = or_default(wanted.allocate, "ExAllocatePoolWithTag") as *mut _
        );
        set!(list, Free = or_default(wanted.free, "ExFreePool") as *mut _);
        let entry: *mut LIST_ENTRY = field!(list, ListEntry);
        set!(entry, Flink = entry);
        set!(entry, Blink = entry);
    }

    pub(super) fn delete_lookaside(&self, list: *mut NPAGED_LOOKASIDE_LIST) {
        let known = self
            .resources
            .borrow_mut()
            .drop_held(Held::LookasideList, list as u64);
        if !known {
            self.report(
                RuleId::LookasideUninitialized,
                [0, list as u64, 0, 0],
                format!(
                    "the lookaside list at {:#x} was deleted, and is not initialised",
                    list as u64
                ),
            );
            return;
        }
        let free = get!(list, Free) as u64;
        loop {
            let block = slist::pop(field!(list, ListHead));
            if block == 0 {
                return;
            }
            if current().thunks().contains(free) {
                self.free_pool(block, 0);
            } else {
                self.call(free, [block, 0, 0, 0]);
            }
        }
    }
}
