//! What the kernel's services keep for a driver, besides the ledger in [`crate::resources`].

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;

use nt::ke::KEVENT;

use crate::memory::{SectionMemory, UserPages};
use crate::security::Privilege;

/// By service. Nothing here outlives the driver it was made for.
#[derive(Default)]
pub(crate) struct Services {
    /// Events of threads that wait for a lock of one word, by its address.
    pub(crate) parked: HashMap<u64, Box<MaybeUninit<KEVENT>>>,
    /// DPCs of the kernel's own timers: what their routines are called with.
    pub(crate) timer_dpcs: HashMap<u64, [u64; 2]>,
    /// The kernel's timer of a device: its block.
    pub(crate) device_timers: HashMap<u64, u64>,
    /// Extensions of driver objects, by driver and the client's identity.
    pub(crate) driver_extensions: BTreeMap<(u64, u64), u64>,
    /// What `IoGetConfigurationInformation` points to.
    pub(crate) configuration: Option<Box<nt::iomore::CONFIGURATION_INFORMATION>>,
    /// Memory that drivers gave to user programs, by address.
    pub(crate) user_memory: BTreeMap<u64, UserPages>,
    /// Memory of sections, by object.
    pub(crate) sections: HashMap<u64, SectionMemory>,
    /// Mapped views of sections, by address, and where each was mapped.
    pub(crate) views: BTreeMap<u64, (UserPages, u64)>,
    /// Own processes of threads that are attached to another.
    pub(crate) attached_from: HashMap<u64, u64>,
    /// Idle counters of devices.
    pub(crate) idle_counters: HashMap<u64, Box<u32>>,
    /// Identities made so far.
    pub(crate) guids: u64,
    /// Tokens of processes, and what each allows.
    pub(crate) tokens: HashMap<u64, u64>,
    pub(crate) token_rights: HashMap<u64, Privilege>,
    /// Paths of open directories, and targets of open symbolic links.
    pub(crate) paths: HashMap<u64, String>,
    /// Physical device objects of the bus that are there, and how many there have been.
    pub(crate) physical_devices: Vec<u64>,
    pub(crate) devices_made: u32,
    /// Interfaces of devices: link, and the device it leads to.
    pub(crate) interfaces: BTreeMap<String, u64>,
    /// Altitudes of callbacks for handles.
    pub(crate) altitudes: HashMap<u64, String>,
    /// Top-level IRPs of threads.
    pub(crate) top_level: HashMap<u64, u64>,
    /// Threads whose hard errors are not shown.
    pub(crate) quiet_threads: HashMap<u64, bool>,
}

impl Services {
    /// Forgets a driver that is gone.
    pub(crate) fn forget_driver(&mut self) {
        *self = Self::default();
    }
}
