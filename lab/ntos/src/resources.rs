//! What a driver takes and must give back, besides pool and named objects.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::buffers::Buffer;

/// A work item.
#[derive(Clone, Debug)]
pub(crate) struct WorkItem {
    pub(crate) device: u64,
    pub(crate) routine: u64,
    pub(crate) context: u64,
    /// `IoQueueWorkItemEx`: the routine gets the item too.
    pub(crate) extended: bool,
    pub(crate) queued: bool,
    pub(crate) allocated_at: u64,
}

/// A reservation of hardware counters.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    /// Indices of the general-purpose counters.
    pub(crate) counters: Vec<u32>,
    pub(crate) taken_at: u64,
}

/// Ledger of a machine, by handle or address, with where each was taken.
#[derive(Default)]
pub(crate) struct Resources {
    pub(crate) work_items: HashMap<u64, WorkItem>,
    pub(crate) reservations: BTreeMap<u64, Reservation>,
    /// MDLs the driver allocated.
    pub(crate) mdls: HashMap<u64, u64>,
    /// Device memory the driver mapped: address → (length, site).
    pub(crate) mappings: HashMap<u64, (usize, u64)>,
    /// Strings of the kernel's objects, by the object they belong to.
    pub(crate) strings: Vec<Box<[u16]>>,
    /// Devices that asked for an `IRP_MJ_SHUTDOWN`.
    pub(crate) shutdown: HashMap<u64, u64>,
    /// System buffers of IRPs that the driver built.
    pub(crate) threaded_buffers: HashMap<u64, Buffer>,
    /// Counters that somebody outside the driver holds.
    pub(crate) foreign_counters: HashSet<u32>,
    next_handle: u64,
}

impl Resources {
    /// A value that names something in this ledger.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 4;
        0xFFFF_FFFF_4000_0000 + self.next_handle
    }

    /// Whether another reservation holds one of these counters.
    pub(crate) fn counter_is_taken(&self, counter: u32) -> bool {
        self.foreign_counters.contains(&counter)
            || self
                .reservations
                .values()
                .any(|reservation| reservation.counters.contains(&counter))
    }
}
