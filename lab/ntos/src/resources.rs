//! What a driver takes and must give back, besides pool and named objects.

use std::collections::{BTreeMap, HashMap, HashSet};

use lab_verifier::RuleId;

use crate::buffers::Buffer;
use crate::exports::data::Variables;
use crate::exports::ex::callback::Callbacks;
use crate::exports::ex::resource::Lock;
use crate::exports::po::PowerRequest;
use crate::exports::remlock::RemoveLock;
use crate::io_space::IoMapping;
use crate::registry::Registry;

/// A work item.
#[derive(Clone, Debug)]
pub(crate) struct WorkItem {
    pub(crate) device: u64,
    pub(crate) routine: u64,
    pub(crate) context: u64,
    /// `IoQueueWorkItemEx`: the routine gets the item too.
    pub(crate) extended: bool,
    pub(crate) queued: bool,
    /// `ExQueueWorkItem`: the item is the driver's, and forgotten once it runs.
    pub(crate) once: bool,
    pub(crate) allocated_at: u64,
}

/// A reservation of hardware counters.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    /// Indices of the general-purpose counters.
    pub(crate) counters: Vec<u32>,
    pub(crate) taken_at: u64,
}

/// What a driver registers with the kernel, or has it keep track of, and must take back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) enum Held {
    LookasideList,
    Resource,
    CallbackRegistration,
    ProcessNotifyRoutine,
    ProcessNotifyRoutineEx,
    ThreadNotifyRoutine,
    ImageNotifyRoutine,
    PnpNotification,
    WmiProvider,
    ErrorLogEntry,
    AttachedProcess,
    SecuredMemory,
    EventProvider,
    BugCheckCallback,
    BugCheckReasonCallback,
    ProcessorCallback,
    SystemState,
    PowerSetting,
    ObjectCallbacks,
    RegistryCallback,
}

impl Held {
    /// The rule that is broken when it is left behind.
    pub(crate) fn left(self) -> RuleId {
        match self {
            Self::LookasideList => RuleId::LookasideLeft,
            Self::Resource => RuleId::ResourceLeft,
            Self::WmiProvider => RuleId::WmiLeft,
            Self::EventProvider => RuleId::EtwLeft,
            Self::AttachedProcess => RuleId::ProcessLeftAttached,
            Self::BugCheckCallback | Self::BugCheckReasonCallback => RuleId::BugCheckCallbackLeft,
            _ => RuleId::RegistrationLeft,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LookasideList => "lookaside list",
            Self::Resource => "executive resource",
            Self::CallbackRegistration => "registration with a callback object",
            Self::ProcessNotifyRoutineEx | Self::ProcessNotifyRoutine => "process notify routine",
            Self::ThreadNotifyRoutine => "thread notify routine",
            Self::ImageNotifyRoutine => "image notify routine",
            Self::PnpNotification => "plug-and-play notification",
            Self::WmiProvider => "WMI provider",
            Self::ErrorLogEntry => "entry of the error log",
            Self::EventProvider => "provider of events",
            Self::BugCheckCallback | Self::BugCheckReasonCallback => "routine for bug checks",
            Self::ProcessorCallback => "routine for new processors",
            Self::SystemState => "interest in the power state",
            Self::PowerSetting => "routine for a power setting",
            Self::ObjectCallbacks => "callbacks for handles",
            Self::RegistryCallback => "callback for the registry",
            Self::SecuredMemory => "memory of a user program that is secured",
            Self::AttachedProcess => "thread that is attached to a process",
        }
    }
}

/// Ledger of a machine, by handle or address, with where each was taken.
#[derive(Default)]
pub(crate) struct Resources {
    pub(crate) work_items: HashMap<u64, WorkItem>,
    pub(crate) reservations: BTreeMap<u64, Reservation>,
    /// MDLs the driver allocated.
    pub(crate) mdls: HashMap<u64, u64>,
    /// Device memory the driver mapped, by where it is.
    pub(crate) mappings: BTreeMap<u64, IoMapping>,
    /// Strings of the kernel's objects, by the object they belong to.
    pub(crate) strings: Vec<Box<[u16]>>,
    /// Devices that asked for an `IRP_MJ_SHUTDOWN`.
    pub(crate) shutdown: HashMap<u64, u64>,
    /// System buffers of IRPs that the driver built.
    pub(crate) threaded_buffers: HashMap<u64, Buffer>,
    /// Counters that somebody outside the driver holds.
    pub(crate) foreign_counters: HashSet<u32>,
    /// What is registered, by kind and address or handle, with where.
    held: BTreeMap<(Held, u64), u64>,
    /// Who holds executive resources, by their address.
    pub(crate) locks: HashMap<u64, Lock>,
    pub(crate) callbacks: Callbacks,
    /// Remove locks, by their address.
    pub(crate) remove_locks: HashMap<u64, RemoveLock>,
    /// Power requests under way, by their IRP.
    pub(crate) power_requests: HashMap<u64, PowerRequest>,
    /// The state drivers recorded for devices.
    pub(crate) power_states: HashMap<u64, i32>,
    pub(crate) registry: Registry,
    /// Registry keys that are open: object → path.
    pub(crate) keys: HashMap<u64, String>,
    /// Files that the driver opened itself.
    pub(crate) driver_files: HashSet<u64>,
    /// Exported variables, filled at first use.
    pub(crate) variables: Variables,
    /// State of the C library's `rand`.
    pub(crate) random: u32,
    next_handle: u64,
}

impl Resources {
    /// A value that names something in this ledger.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 4;
        0xFFFF_FFFF_4000_0000 + self.next_handle
    }

    /// Notes that something is held; false if it was held already.
    pub(crate) fn hold(&mut self, kind: Held, key: u64, site: u64) -> bool {
        self.held.insert((kind, key), site).is_none()
    }

    /// Notes that something was given back; false if it was not held.
    pub(crate) fn drop_held(&mut self, kind: Held, key: u64) -> bool {
        self.held.remove(&(kind, key)).is_some()
    }

    /// Whether something is held.
    pub(crate) fn holds(&self, kind: Held, key: u64) -> bool {
        self.held.contains_key(&(kind, key))
    }

    /// What of a kind is held.
    pub(crate) fn held(&self, kind: Held) -> impl Iterator<Item = u64> {
        self.held
            .range((kind, 0)..=(kind, u64::MAX))
            .map(|((_, key), _)| *key)
    }

    /// Everything that is held: kind, key, and where it was taken.
    pub(crate) fn all_held(&self) -> impl Iterator<Item = (Held, u64, u64)> {
        self.held
            .iter()
            .map(|((kind, key), site)| (*kind, *key, *site))
    }

    /// What of a kind is held in a range of addresses, with where it was taken.
    pub(crate) fn held_within(&self, kind: Held, range: &std::ops::Range<u64>) -> Vec<(u64, u64)> {
        let inside = self.held.range((kind, range.start)..(kind, range.end));
        inside.map(|((_, key), site)| (*key, *site)).collect()
    }

    /// Forgets what a driver that is gone has left.
    pub(crate) fn forget_driver(&mut self) {
        self.work_items.clear();
        self.reservations.clear();
        self.mdls.clear();
        self.mappings.clear();
        self.shutdown.clear();
        self.held.clear();
        self.locks.clear();
        self.callbacks.forget_driver();
        self.remove_locks.clear();
        self.power_requests.clear();
        self.power_states.clear();
        self.keys.clear();
        self.driver_files.clear();
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
