//! Properties, keys and interfaces of devices that the bus enumerated.

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::{GUID, UNICODE_STRING};
use nt::irp::DEVICE_OBJECT;
use nt::plugplay::{
    DevicePropertyAddress, DevicePropertyBusNumber, DevicePropertyCompatibleIDs,
    DevicePropertyDeviceDescription, DevicePropertyEnumeratorName, DevicePropertyFriendlyName,
    DevicePropertyHardwareID, DevicePropertyLocationInformation, DevicePropertyManufacturer,
    DevicePropertyPhysicalDeviceObjectName,
};
use nt::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_EXISTS, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_SUCCESS,
};

use crate::guest;
use crate::machine::Machine;

/// Where the registry has the enumerated devices, and the drivers' own keys of them.
const ENUM: &str = r"\Registry\Machine\System\CurrentControlSet\Enum\DRYDOCK\Device";
const CLASS: &str = r"\Registry\Machine\System\CurrentControlSet\Control\Class\Drydock";
/// `PLUGPLAY_REGKEY_DEVICE` and `PLUGPLAY_REGKEY_DRIVER` (wdm.h).
const KEY_OF_DEVICE: u32 = 1;
const KEY_OF_DRIVER: u32 = 2;

fn terminated(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

impl Machine {
    /// A property of a device; those that its bus or an installation did not set are not found.
    pub(super) fn device_property(
        &self,
        device: *mut DEVICE_OBJECT,
        property: i32,
        len: u32,
        to: *mut c_void,
        needed: *mut u32,
    ) -> NTSTATUS {
        if !self.is_physical_device(device) {
            return STATUS_INVALID_DEVICE_REQUEST;
        }
        let value = match property {
            p if p == DevicePropertyDeviceDescription || p == DevicePropertyFriendlyName => {
                terminated("Drydock device")
            }
            p if p == DevicePropertyHardwareID || p == DevicePropertyCompatibleIDs => {
                terminated("DRYDOCK\\Device\0")
            }
            p if p == DevicePropertyManufacturer => terminated("Drydock"),
            p if p == DevicePropertyEnumeratorName => terminated("DRYDOCK"),
            p if p == DevicePropertyLocationInformation => terminated("the lab"),
            p if p == DevicePropertyPhysicalDeviceObjectName => {
                terminated(&format!(r"\Device\{}", self.instance_of(device)))
            }
            p if p == DevicePropertyBusNumber || p == DevicePropertyAddress => vec![0; 4],
            0..=0x17 => return STATUS_OBJECT_NAME_NOT_FOUND,
            _ => return STATUS_INVALID_PARAMETER,
        };
        guest::write(needed, u32::try_from(value.len()).unwrap_or(u32::MAX));
        if value.len() > len as usize {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(to.cast(), &value);
        STATUS_SUCCESS
    }

    /// Path of the registry key of a device or its driver.
    pub(in crate::exports) fn device_key(
        &self,
        device: *mut DEVICE_OBJECT,
        kind: u32,
    ) -> Result<String, NTSTATUS> {
        if !self.is_physical_device(device) {
            return Err(STATUS_INVALID_DEVICE_REQUEST);
        }
        let instance = self.instance_of(device);
        match kind {
            KEY_OF_DEVICE => Ok(format!(r"{ENUM}\{instance}\Device Parameters")),
            KEY_OF_DRIVER => Ok(format!(r"{CLASS}\{instance}")),
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// Registers an interface of a device; its link is a string that the driver frees.
    pub(super) fn register_interface(
        &self,
        device: *mut DEVICE_OBJECT,
        class: &GUID,
        reference: *mut UNICODE_STRING,
        to: *mut UNICODE_STRING,
    ) -> NTSTATUS {
        if !self.is_physical_device(device) {
            return STATUS_INVALID_DEVICE_REQUEST;
        }
        let reference = if reference.is_null() {
            String::new()
        } else {
            match self.string(reference) {
                Ok(reference) => format!(r"\{reference}"),
                Err(status) => return status,
            }
        };
        let class = super::super::rtl::guid_text(class).to_lowercase();
        let link = format!(
            r"\??\DRYDOCK#Device#{}#{class}{reference}",
            self.instance_of(device)
        );
        let units = terminated(&link);
        let bytes = u16::try_from(units.len()).unwrap_or(0);
        let buffer = self.allocate_string(bytes);
        if buffer == 0 {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        guest::fill(buffer as *mut u8, &units);
        let string = UNICODE_STRING {
            Length: bytes - 2,
            MaximumLength: bytes,
            Buffer: buffer as *mut u16,
        };
        guest::write(to, string);
        self.services
            .borrow_mut()
            .interfaces
            .insert(link.to_lowercase(), device as u64);
        STATUS_SUCCESS
    }

    /// Makes an interface's link lead to its device, or nowhere.
    pub(super) fn enable_interface(&self, link: &str, enable: bool) -> Result<(), NTSTATUS> {
        let device = self
            .services
            .borrow()
            .interfaces
            .get(&link.to_lowercase())
            .copied()
            .ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        if !enable {
            return self.objects.borrow_mut().remove_link(link);
        }
        let target = format!(
            r"\Device\{}",
            self.instance_of(device as *mut DEVICE_OBJECT)
        );
        let site = self.call_site();
        self.objects
            .borrow_mut()
            .add_link(link, &target, site)
            .map_err(|_| STATUS_OBJECT_NAME_EXISTS)
    }
}
