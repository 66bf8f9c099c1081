//! What a loaded driver offers, and what whoever exercises it needs besides requests.

use lab_verifier::Frame;
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT, IRP_MJ_MAXIMUM_FUNCTION};

use crate::driver::Driver;
use crate::exports::io::invalid_device_request;
use crate::guest::get;
use crate::machine::Machine;
use crate::sched::ThreadId;

/// In the ready queue while requests are only queued: no thread has this index.
const HELD: ThreadId = ThreadId(usize::MAX);

/// A driver as its driver object describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Offset in the image of each dispatch routine, by major function; `None` where the kernel's own is.
    pub dispatch: [Option<u32>; 28],
    /// Its devices.
    pub devices: Vec<Device>,
    /// Whether plug and play would ask it to add devices.
    pub adds_devices: bool,
    /// Whether it can be unloaded.
    pub unloads: bool,
}

/// A device of a driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Symbolic links that lead to it, as user programs write them.
    pub links: Vec<String>,
    /// `DeviceType`.
    pub device_type: u32,
}

impl Machine {
    /// Describes a loaded driver.
    pub fn survey(&self, driver: Driver) -> Survey {
        let object = driver.object() as *mut DRIVER_OBJECT;
        let default = invalid_device_request() as usize;
        let routines = get!(object, MajorFunction);
        let dispatch = routines.map(|routine| {
            let address = routine.map(|routine| routine as usize)?;
            let own = address != default;
            own.then(|| self.offset_in(driver, address as u64))?
        });
        let mut devices = Vec::new();
        let mut device = get!(object, DeviceObject);
        while !device.is_null() {
            devices.push(self.describe_device(device));
            device = get!(device, NextDevice);
        }
        devices.reverse();
        let extension = get!(object, DriverExtension);
        Survey {
            dispatch,
            devices,
            adds_devices: get!(extension, AddDevice).is_some(),
            unloads: self.can_unload(driver),
        }
    }

    fn offset_in(&self, driver: Driver, address: u64) -> Option<u32> {
        let offset = address.checked_sub(driver.base())?;
        self.with_module(address, |module| module.image.base() == driver.base())?
            .then(|| u32::try_from(offset).ok())?
    }

    fn describe_device(&self, device: *mut DEVICE_OBJECT) -> Device {
        let objects = self.objects.borrow();
        let name = objects
            .get(device as u64)
            .and_then(|object| object.name.clone());
        // An interface leads to the device of the bus, below the driver's.
        let leads_here = |link: &str| {
            let Ok((found, _)) = objects.lookup(link) else {
                return false;
            };
            let found = found as *mut DEVICE_OBJECT;
            found == device || self.is_physical_device(found) && self.top_of_stack(found) == device
        };
        let mut links: Vec<String> = objects
            .links()
            .filter(|(link, ..)| leads_here(link))
            .map(|(link, ..)| match link.strip_prefix(r"\??\") {
                Some(rest) => format!(r"\\.\{rest}"),
                None => link.to_owned(),
            })
            .collect();
        links.sort_unstable();
        Device {
            name,
            links,
            device_type: get!(device, DeviceType),
        }
    }

    /// A place in a loaded driver, by its offset in the image.
    pub fn place(&self, driver: Driver, rva: u32) -> Frame {
        self.frame(driver.base() + u64::from(rva))
    }

    /// Blocks and bytes of pool that the driver holds.
    pub fn pool_in_use(&self) -> (usize, u64) {
        let pool = self.pool.borrow();
        pool.live_of_driver()
            .fold((0, 0), |(blocks, bytes), block| {
                (blocks + 1, bytes + block.size)
            })
    }

    /// Lets requests that are begun meanwhile wait in the queue, so that several are under way when the machine
    /// next runs.
    pub fn queue<R>(&self, begin: impl FnOnce() -> R) -> R {
        // A request runs at once only while nothing else is ready.
        self.ready.borrow_mut().push_back(HELD);
        let result = begin();
        self.ready.borrow_mut().retain(|id| *id != HELD);
        result
    }
}

const _: () = assert!(IRP_MJ_MAXIMUM_FUNCTION as usize + 1 == 28);
