//! Devices and other named objects that the I/O manager makes.

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::io::{DO_DEVICE_INITIALIZING, DO_EXCLUSIVE, FILE_DEVICE_SECURE_OPEN};
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_TYPE_DEVICE};
use nt::ke::KEVENT;
use nt::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NOT_SUPPORTED};

use crate::guest::{field, get, set};
use crate::machine::Machine;
use crate::object::Kind;

impl Machine {
    pub(in crate::exports) fn create_device(
        &self,
        driver: *mut DRIVER_OBJECT,
        extension: u32,
        name: Option<&str>,
        device_type: u32,
        characteristics: u32,
        exclusive: bool,
    ) -> Result<*mut DEVICE_OBJECT, NTSTATUS> {
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        self.make_device(
            driver,
            extension,
            name,
            device_type,
            characteristics,
            exclusive,
        )
    }

    /// A device object, first in its driver's list.
    pub(crate) fn make_device(
        &self,
        driver: *mut DRIVER_OBJECT,
        extension: u32,
        name: Option<&str>,
        device_type: u32,
        characteristics: u32,
        exclusive: bool,
    ) -> Result<*mut DEVICE_OBJECT, NTSTATUS> {
        let header = size_of::<DEVICE_OBJECT>() as u64;
        let address = self
            .allocate_object(header + u64::from(extension), b"Devi", Kind::Device)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        if let Some(name) = name {
            let named = self.objects.borrow_mut().set_name(address, name);
            if let Err(status) = named {
                self.free_object(address);
                return Err(status);
            }
        }
        let device = address as *mut DEVICE_OBJECT;
        set!(device, Type = IO_TYPE_DEVICE);
        set!(
            device,
            Size = u16::try_from(header + u64::from(extension)).unwrap_or(u16::MAX)
        );
        set!(device, DriverObject = driver);
        set!(device, NextDevice = get!(driver, DeviceObject));
        set!(
            device,
            Flags = DO_DEVICE_INITIALIZING | if exclusive { DO_EXCLUSIVE } else { 0 }
        );
        set!(device, Characteristics = characteristics);
        set!(device, DeviceType = device_type);
        crate::exports::queue::initialize_device_queue(field!(device, DeviceQueue).cast());
        set!(device, StackSize = 1i8);
        if extension != 0 {
            set!(device, DeviceExtension = (address + header) as *mut c_void);
        }
        set!(driver, DeviceObject = device);
        Ok(device)
    }

    /// Stops when an address that should be a device is none.
    pub(crate) fn check_device(&self, device: *mut DEVICE_OBJECT) {
        let is_device = self
            .objects
            .borrow()
            .get(device as u64)
            .is_some_and(|object| object.kind == Kind::Device);
        if !is_device {
            self.violate(
                RuleId::DeviceInvalid,
                [0, device as u64, 0, 0],
                format!("{:#x} is no device object", device as u64),
            );
        }
    }

    pub(crate) fn delete_device(&self, device: *mut DEVICE_OBJECT) {
        self.check_device(device);
        self.check_detached(device);
        self.drop_device_timer(device as u64);
        let driver = get!(device, DriverObject);
        let next = get!(device, NextDevice);
        if get!(driver, DeviceObject) == device {
            set!(driver, DeviceObject = next);
        } else {
            let mut at = get!(driver, DeviceObject);
            while !at.is_null() && get!(at, NextDevice) != device {
                at = get!(at, NextDevice);
            }
            if !at.is_null() {
                set!(at, NextDevice = next);
            }
        }
        set!(device, DriverObject = ptr::null_mut::<DRIVER_OBJECT>());
        self.finish_delete(device as u64);
    }

    /// A device that is deleted is on top of no other.
    fn check_detached(&self, device: *mut DEVICE_OBJECT) {
        let below = self.objects.borrow().all().find_map(|(address, object)| {
            let attached = object.kind == Kind::Device
                && get!(address as *mut DEVICE_OBJECT, AttachedDevice) == device;
            attached.then_some(address)
        });
        if let Some(below) = below {
            self.report(
                RuleId::DeviceDeletedAttached,
                [0, self.call_site(), 0, device as u64],
                format!(
                    "device {:#x} was deleted, which is attached to device {below:#x}",
                    device as u64
                ),
            );
            set!(
                below as *mut DEVICE_OBJECT,
                AttachedDevice = ptr::null_mut()
            );
        }
    }

    /// Frees a deleted device once no file refers to it.
    pub(crate) fn finish_delete(&self, device: u64) {
        let object = device as *mut DEVICE_OBJECT;
        if get!(object, DriverObject).is_null() && get!(object, ReferenceCount) <= 0 {
            let size = self
                .pool
                .borrow()
                .block_at(device)
                .map_or(0, |block| block.size);
            self.check_contents(device, size, "a device was deleted");
            self.free_object(device);
        }
    }

    /// The highest device of a stack.
    pub(crate) fn top_of_stack(&self, device: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let mut top = device;
        while !get!(top, AttachedDevice).is_null() {
            top = get!(top, AttachedDevice);
        }
        top
    }

    /// Warnings, in words, about named devices that anybody may open.
    pub fn insecure_devices(&self) -> Vec<String> {
        let objects = self.objects.borrow();
        let devices = objects
            .all()
            .filter(|(_, object)| object.kind == Kind::Device && object.name.is_some());
        devices
            .filter(|(address, object)| {
                let secure_open = get!(*address as *mut DEVICE_OBJECT, Characteristics)
                    & FILE_DEVICE_SECURE_OPEN
                    != 0;
                !secure_open || object.security.is_none()
            })
            .filter_map(|(_, object)| object.name.as_deref())
            .map(|device| {
                format!("anybody may open {device}: no FILE_DEVICE_SECURE_OPEN, or no security descriptor of its own")
            })
            .collect()
    }

    pub(super) fn open_device(&self, name: &str) -> Result<(u64, *mut DEVICE_OBJECT), NTSTATUS> {
        let (address, _) = self.objects.borrow().lookup(name)?;
        let is_device = self
            .objects
            .borrow()
            .get(address)
            .is_some_and(|object| object.kind == Kind::Device);
        if !is_device {
            return Err(nt::status::STATUS_OBJECT_TYPE_MISMATCH);
        }
        let device = address as *mut DEVICE_OBJECT;
        let file = self
            .allocate_object(size_of::<FILE_OBJECT>() as u64, b"File", Kind::File)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        set!(file as *mut FILE_OBJECT, Type = nt::irp::IO_TYPE_FILE);
        set!(file as *mut FILE_OBJECT, DeviceObject = device);
        set!(device, ReferenceCount = get!(device, ReferenceCount) + 1);
        let site = self.call_site();
        let mut objects = self.objects.borrow_mut();
        objects.reference(file, site);
        objects.dereference(file, false);
        drop(objects);
        Ok((file, self.top_of_stack(device)))
    }

    pub(super) fn named_event(&self, name: &str) -> Result<(u64, u64), NTSTATUS> {
        let found = self.objects.borrow().lookup(name);
        let site = self.call_site();
        if let Ok((event, _)) = found {
            let handle = self
                .objects
                .borrow_mut()
                .open(event, site)
                .ok_or(STATUS_NOT_SUPPORTED)?;
            return Ok((event, handle));
        }
        let event = self
            .allocate_object(size_of::<KEVENT>() as u64, b"Even", Kind::Event)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        set!(event as *mut KEVENT, Header.SignalState = 1);
        let mut objects = self.objects.borrow_mut();
        objects.set_name(event, name)?;
        let handle = objects.open(event, site).ok_or(STATUS_NOT_SUPPORTED)?;
        objects.dereference(event, false);
        Ok((event, handle))
    }
}
