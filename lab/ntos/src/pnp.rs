//! A bus with one kind of device, and what the PnP manager does with it: the life of a function driver.
//!
//! The bus driver is the lab's. A device it enumerates has an identity and
//! no hardware resources, as one that software enumerates; the driver under
//! test gets it through `AddDevice`.

mod bus;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::KernelMode;
use nt::irp::{
    DEVICE_OBJECT, DRIVER_EXTENSION, DRIVER_OBJECT, IO_STACK_LOCATION, IO_TYPE_DRIVER, IRP_MJ_PNP,
    IRP_MJ_POWER,
};
use nt::plugplay::{
    BusRelations, DEVICE_CAPABILITIES, IRP_MN_CANCEL_REMOVE_DEVICE, IRP_MN_CANCEL_STOP_DEVICE,
    IRP_MN_QUERY_CAPABILITIES, IRP_MN_QUERY_DEVICE_RELATIONS, IRP_MN_QUERY_PNP_DEVICE_STATE,
    IRP_MN_QUERY_REMOVE_DEVICE, IRP_MN_QUERY_STOP_DEVICE, IRP_MN_REMOVE_DEVICE,
    IRP_MN_START_DEVICE, IRP_MN_STOP_DEVICE, IRP_MN_SURPRISE_REMOVAL,
};
use nt::po::{IRP_MN_QUERY_POWER, IRP_MN_SET_POWER, SystemPowerState};
use nt::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NOT_SUPPORTED};

use crate::driver::Driver;
use crate::findings::Stopped;
use crate::guest::{get, set};
use crate::irp::Origin;
use crate::machine::Machine;
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::request::Completion;

pub(crate) use bus::bus_routine;

/// A device of the lab's bus, with the driver's on top.
pub struct DeviceNode<'m> {
    machine: &'m Machine,
    /// Address of the physical device object.
    device: u64,
    driver: Driver,
}

/// A system power state (`SYSTEM_POWER_STATE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum SystemPower {
    /// S0: working.
    Working = 1,
    /// S3: asleep.
    Sleeping = 4,
}

impl Machine {
    /// Whether a driver has an `AddDevice` routine: it is for devices that a bus enumerates.
    pub fn has_add_device(&self, driver: Driver) -> bool {
        let extension = get!(driver.object as *mut DRIVER_OBJECT, DriverExtension);
        get!(extension, AddDevice).is_some()
    }

    /// Enumerates a device and offers it to a driver (`AddDevice`).
    ///
    /// Errors: the status with which the driver, or the kernel, refuses.
    pub fn add_device(&self, driver: Driver) -> Result<Result<DeviceNode<'_>, NTSTATUS>, Stopped> {
        self.check_running()?;
        let extension = get!(driver.object as *mut DRIVER_OBJECT, DriverExtension);
        let Some(add) = get!(extension, AddDevice) else {
            return Ok(Err(STATUS_NOT_SUPPORTED));
        };
        let device = match self.make_physical_device() {
            Ok(device) => device,
            Err(status) => return Ok(Err(status)),
        };
        let result = self.run_call(add as usize as u64, [driver.object, device, 0, 0])?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an NTSTATUS is the low half of rax"
        )]
        let status = NTSTATUS::from_u32(result as u32);
        let node = DeviceNode {
            machine: self,
            device,
            driver,
        };
        if status.is_success() {
            return Ok(Ok(node));
        }
        node.forget();
        Ok(Err(status))
    }

    /// Whether an address is a physical device object of the bus.
    pub(crate) fn is_physical_device(&self, device: *mut DEVICE_OBJECT) -> bool {
        self.services
            .borrow()
            .physical_devices
            .contains(&(device as u64))
    }

    fn make_physical_device(&self) -> Result<u64, NTSTATUS> {
        let bus = self.bus_driver()?;
        let number = {
            let mut services = self.services.borrow_mut();
            services.devices_made += 1;
            services.devices_made
        };
        let name = format!(r"\Device\{number:08x}");
        let device = self.make_device(bus as *mut DRIVER_OBJECT, 0, Some(&name), 0x22, 0, false)?;
        let flags = get!(device, Flags);
        set!(
            device,
            Flags = flags & !nt::io::DO_DEVICE_INITIALIZING | DO_BUS_ENUMERATED_DEVICE
        );
        self.services
            .borrow_mut()
            .physical_devices
            .push(device as u64);
        Ok(device as u64)
    }

    /// The driver object of the bus, made at first use.
    fn bus_driver(&self) -> Result<u64, NTSTATUS> {
        if self.bus.get() != 0 {
            return Ok(self.bus.get());
        }
        let size = (size_of::<DRIVER_OBJECT>() + size_of::<DRIVER_EXTENSION>()) as u64;
        let address = self
            .allocate_object(size, b"Driv", Kind::Driver)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let object = address as *mut DRIVER_OBJECT;
        set!(object, Type = IO_TYPE_DRIVER);
        let extension = object.wrapping_add(1).cast::<DRIVER_EXTENSION>();
        set!(object, DriverExtension = extension);
        set!(object, DriverName = self.keep_string(BUS_NAME));
        set!(object, MajorFunction = [Some(bus::dispatch_routine()); 28]);
        self.objects.borrow_mut().set_name(address, BUS_NAME)?;
        self.bus.set(address);
        Ok(address)
    }

    /// Takes a physical device object away.
    pub(crate) fn free_physical_device(&self, device: u64) {
        self.services
            .borrow_mut()
            .physical_devices
            .retain(|known| *known != device);
        self.delete_device(device as *mut DEVICE_OBJECT);
    }
}

/// Name of the bus driver's object.
const BUS_NAME: &str = r"\Driver\DrydockBus";
/// `DO_BUS_ENUMERATED_DEVICE` (wdm.h).
const DO_BUS_ENUMERATED_DEVICE: u32 = 0x1000;

impl DeviceNode<'_> {
    /// Starts the device, and asks what the PnP manager asks of a started one.
    pub fn start(&self) -> Result<NTSTATUS, Stopped> {
        let mut capabilities: Box<std::mem::MaybeUninit<DEVICE_CAPABILITIES>> = Box::new_zeroed();
        let capabilities = capabilities.as_mut_ptr();
        set!(capabilities, Size = CAPABILITIES_SIZE);
        set!(capabilities, Version = 1u16);
        set!(capabilities, Address = u32::MAX);
        set!(capabilities, UINumber = u32::MAX);
        self.send(IRP_MN_QUERY_CAPABILITIES, capabilities as u64)?;
        // No resources: both lists are null.
        let started = self.send(IRP_MN_START_DEVICE, 0)?;
        if started.status.is_success() {
            self.send(IRP_MN_QUERY_PNP_DEVICE_STATE, 0)?;
            let relations = self.send(IRP_MN_QUERY_DEVICE_RELATIONS, BusRelations as u64)?;
            self.check_relations(relations);
        }
        Ok(started.status)
    }

    /// Asks whether the device may be stopped, and stops it if so: for new resources, with [`Self::start`] to follow.
    ///
    /// The status is that of the question when the driver says no.
    pub fn stop(&self) -> Result<NTSTATUS, Stopped> {
        let asked = self.send(IRP_MN_QUERY_STOP_DEVICE, 0)?.status;
        if !asked.is_success() {
            self.send(IRP_MN_CANCEL_STOP_DEVICE, 0)?;
            return Ok(asked);
        }
        Ok(self.send(IRP_MN_STOP_DEVICE, 0)?.status)
    }

    /// Asks whether the device may be stopped, and then leaves it as it is.
    pub fn cancel_stop(&self) -> Result<NTSTATUS, Stopped> {
        self.send(IRP_MN_QUERY_STOP_DEVICE, 0)?;
        Ok(self.send(IRP_MN_CANCEL_STOP_DEVICE, 0)?.status)
    }

    /// Asks whether the device may be removed, and then leaves it as it is.
    pub fn cancel_remove(&self) -> Result<NTSTATUS, Stopped> {
        self.send(IRP_MN_QUERY_REMOVE_DEVICE, 0)?;
        Ok(self.send(IRP_MN_CANCEL_REMOVE_DEVICE, 0)?.status)
    }

    /// Asks whether the device may be removed.
    pub fn query_remove(&self) -> Result<NTSTATUS, Stopped> {
        Ok(self.send(IRP_MN_QUERY_REMOVE_DEVICE, 0)?.status)
    }

    /// Removes the device, which the driver can't refuse. It is gone then, and the driver's must be too.
    pub fn remove(self) -> Result<NTSTATUS, Stopped> {
        let removed = self.send(IRP_MN_REMOVE_DEVICE, 0)?.status;
        self.check_removed();
        self.forget();
        Ok(removed)
    }

    /// Tells that the device is gone already. Files may still be open; once they are closed, [`Self::remove`] is due.
    pub fn surprise(&self) -> Result<NTSTATUS, Stopped> {
        Ok(self.send(IRP_MN_SURPRISE_REMOVAL, 0)?.status)
    }

    /// Tells that the device is gone already, and then removes it.
    pub fn surprise_remove(self) -> Result<NTSTATUS, Stopped> {
        self.surprise()?;
        self.remove()
    }

    /// Asks about a system power state, and sets it.
    pub fn set_system_power(&self, state: SystemPower) -> Result<NTSTATUS, Stopped> {
        if state != SystemPower::Working {
            self.send_power(IRP_MN_QUERY_POWER, state)?;
        }
        self.send_power(IRP_MN_SET_POWER, state)
    }

    fn send_power(&self, minor: u8, state: SystemPower) -> Result<NTSTATUS, Stopped> {
        let sent = self.send_irp(IRP_MJ_POWER, minor, |stack| {
            set!(stack, Parameters.Power.Type = SystemPowerState);
            set!(stack, Parameters.Power.State = state as i32);
        });
        Ok(sent?.status)
    }

    fn send(&self, minor: u8, parameter: u64) -> Result<Completion, Stopped> {
        self.send_irp(IRP_MJ_PNP, minor, |stack| {
            let parameters = [
                parameter as *mut _,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            ];
            set!(stack, Parameters.Others = parameters);
        })
    }

    /// Sends an IRP to the top of the stack from the system process, and waits for it.
    fn send_irp(
        &self,
        major: u8,
        minor: u8,
        fill: impl FnOnce(*mut IO_STACK_LOCATION),
    ) -> Result<Completion, Stopped> {
        let machine = self.machine;
        machine.check_running()?;
        let top = machine.top_of_stack(self.device as *mut DEVICE_OBJECT);
        let irp = machine.allocate_irp(get!(top, StackSize), Origin::Request, 0);
        let refused = |status| Completion {
            status,
            information: 0,
        };
        if irp.is_null() {
            return Ok(refused(STATUS_INSUFFICIENT_RESOURCES));
        }
        set!(irp, RequestorMode = KernelMode);
        set!(irp, IoStatus.Status = STATUS_NOT_SUPPORTED);
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = major);
        set!(stack, MinorFunction = minor);
        fill(stack);
        let process = machine.process(SYSTEM_PROCESS);
        match process.and_then(|process| machine.free_thread(process)) {
            Ok(thread) => machine.perform_irp(irp, thread, top as u64),
            Err(status) => {
                machine.free_irp(irp);
                Ok(refused(status))
            }
        }
    }

    /// The children that the driver says its device has: it has none of the lab's, so the list must be empty.
    fn check_relations(&self, relations: Completion) {
        if relations.status.is_success() && relations.information != 0 {
            // The list is pool of the driver's, and the PnP manager's to free.
            let list = relations.information as u64;
            self.machine.pool.borrow_mut().free(list, 0, 0).ok();
        }
    }

    /// Nothing of the driver's may be left on a device that was removed.
    fn check_removed(&self) {
        let above = get!(self.device as *mut DEVICE_OBJECT, AttachedDevice);
        if above.is_null() {
            return;
        }
        let entry = get!(self.driver.object as *mut DRIVER_OBJECT, DriverInit) as u64;
        let raw = self.machine.at_site(
            RuleId::DeviceLeft,
            [above as u64, self.device, 0, 0],
            "a device is still attached to one that was removed".into(),
            entry,
        );
        self.machine.note(&raw);
        set!(
            self.device as *mut DEVICE_OBJECT,
            AttachedDevice = std::ptr::null_mut()
        );
    }

    fn forget(&self) {
        self.machine.free_physical_device(self.device);
    }
}

/// Bytes of `DEVICE_CAPABILITIES`.
const CAPABILITIES_SIZE: u16 = 0x40;
const _: () = assert!(size_of::<DEVICE_CAPABILITIES>() == CAPABILITIES_SIZE as usize);
