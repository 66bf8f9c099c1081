//! `Io…`: interfaces, notifications, WMI, the error log.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

mod interface;

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{GUID, UNICODE_STRING};
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT};
use nt::pnp::{
    DRIVER_NOTIFICATION_CALLBACK_ROUTINE, ERROR_LOG_MAXIMUM_SIZE,
    EventCategoryHardwareProfileChange, EventCategoryTargetDeviceChange, IO_ERROR_LOG_PACKET,
    WMIREG_ACTION_BLOCK_IRPS, WMIREG_ACTION_DEREGISTER, WMIREG_ACTION_REGISTER,
};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_EXISTS,
    STATUS_SUCCESS,
};

use super::exports;
use crate::guest::{self, get};
use crate::machine::{Machine, current};
use crate::object::Kind;
use crate::pool::Owner;
use crate::resources::Held;

/// In `IoWMIRegistrationControl`'s action: the "device" is a callback (wmistr.h).
const WMIREG_FLAG_CALLBACK: u32 = 0x8000_0000;
/// Other flags of the action.
const WMIREG_FLAGS: u32 = 0xFFFF_0000;

exports! {
    pnp;

    fn IoGetDmaAdapter(PhysicalDeviceObject: *mut DEVICE_OBJECT, _DeviceDescription: *mut c_void, _NumberOfMapRegisters: *mut u32) -> *mut c_void {
        // Null is a legal "physical device": that of a bus without enumeration.
        if !PhysicalDeviceObject.is_null() {
            current().check_device(PhysicalDeviceObject);
        }
        ptr::null_mut()
    }
    fn IoGetDeviceProperty(DeviceObject: *mut DEVICE_OBJECT, DeviceProperty: i32, BufferLength: u32, PropertyBuffer: *mut c_void, ResultLength: *mut u32) -> NTSTATUS {
        current().check_device(DeviceObject);
        guest::write(ResultLength, 0);
        current().device_property(DeviceObject, DeviceProperty, BufferLength, PropertyBuffer, ResultLength)
    }
    fn IoRegisterDeviceInterface(PhysicalDeviceObject: *mut DEVICE_OBJECT, InterfaceClassGuid: *const GUID, ReferenceString: *mut UNICODE_STRING, SymbolicLinkName: *mut UNICODE_STRING) -> NTSTATUS {
        current().check_device(PhysicalDeviceObject);
        current().register_interface(PhysicalDeviceObject, &guest::read(InterfaceClassGuid), ReferenceString, SymbolicLinkName)
    }
    fn IoSetDeviceInterfaceState(SymbolicLinkName: *mut UNICODE_STRING, Enable: u8) -> NTSTATUS {
        let machine = current();
        machine.string(SymbolicLinkName).and_then(|link| machine.enable_interface(&link, Enable != 0)).err().unwrap_or(STATUS_SUCCESS)
    }
    fn IoRegisterPlugPlayNotification(EventCategory: i32, _EventCategoryFlags: u32, _EventCategoryData: *mut c_void, _DriverObject: *mut DRIVER_OBJECT, _CallbackRoutine: DRIVER_NOTIFICATION_CALLBACK_ROUTINE, _Context: *mut c_void, NotificationEntry: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        if !(EventCategoryHardwareProfileChange..=EventCategoryTargetDeviceChange).contains(&EventCategory) {
            return STATUS_INVALID_PARAMETER;
        }
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let site = machine.call_site();
        let mut resources = machine.resources.borrow_mut();
        let entry = resources.new_handle();
        resources.hold(Held::PnpNotification, entry, site);
        guest::write(NotificationEntry, entry as *mut c_void);
        STATUS_SUCCESS
    }
    fn IoUnregisterPlugPlayNotification(NotificationEntry: *mut c_void) -> NTSTATUS {
        current().must_hold(Held::PnpNotification, NotificationEntry as u64);
        STATUS_SUCCESS
    }
    fn IoInvalidateDeviceRelations(DeviceObject: *mut DEVICE_OBJECT, _Type: i32) { current().check_device(DeviceObject) }
    fn IoInvalidateDeviceState(PhysicalDeviceObject: *mut DEVICE_OBJECT) { current().check_device(PhysicalDeviceObject) }
    fn IoWMIRegistrationControl(DeviceObject: *mut DEVICE_OBJECT, Action: u32) -> NTSTATUS {
        let machine = current();
        if Action & WMIREG_FLAG_CALLBACK == 0 {
            machine.check_device(DeviceObject);
        }
        machine.control_wmi(DeviceObject as u64, Action & !WMIREG_FLAGS)
    }
    fn IoAllocateErrorLogEntry(IoObject: *mut c_void, EntrySize: u8) -> *mut c_void {
        let machine = current();
        machine.check_log_source(IoObject as u64);
        if machine.must_fail() || u32::from(EntrySize) > ERROR_LOG_MAXIMUM_SIZE || EntrySize == 0 {
            return ptr::null_mut();
        }
        machine.new_log_entry(EntrySize) as *mut c_void
    }
    fn IoWriteErrorLogEntry(ElEntry: *mut c_void) {
        let machine = current();
        machine.must_hold(Held::ErrorLogEntry, ElEntry as u64);
        let entry = ElEntry.cast::<IO_ERROR_LOG_PACKET>();
        let text = format!(
            "error log: {}, final status {}, unique value {:#x}\n",
            get!(entry, ErrorCode),
            get!(entry, FinalStatus),
            get!(entry, UniqueErrorValue)
        );
        (machine.debug_print)(&text);
        machine.free_log_entry(ElEntry as u64);
    }
    fn IoFreeErrorLogEntry(ElEntry: *mut c_void) {
        let machine = current();
        machine.must_hold(Held::ErrorLogEntry, ElEntry as u64);
        machine.free_log_entry(ElEntry as u64);
    }
}

impl Machine {
    /// Notes that something was given back; stops when it was not held.
    pub(crate) fn must_hold(&self, kind: Held, key: u64) {
        let held = self.resources.borrow_mut().drop_held(kind, key);
        if !held {
            self.violate(
                RuleId::BadObject,
                [key, 0, 0, 0],
                format!("{key:#x} is no {} of the driver", kind.name()),
            );
        }
    }

    /// WMI's registrations are kept; no service of this machine asks for what they offer.
    fn control_wmi(&self, provider: u64, action: u32) -> NTSTATUS {
        let site = self.call_site();
        let registered = self.resources.borrow().holds(Held::WmiProvider, provider);
        match action {
            WMIREG_ACTION_REGISTER if registered => STATUS_OBJECT_NAME_EXISTS,
            WMIREG_ACTION_REGISTER if self.must_fail() => STATUS_INSUFFICIENT_RESOURCES,
            WMIREG_ACTION_REGISTER => {
                self.resources
                    .borrow_mut()
                    .hold(Held::WmiProvider, provider, site);
                STATUS_SUCCESS
            }
            _ if !registered => STATUS_INVALID_PARAMETER,
            WMIREG_ACTION_DEREGISTER => {
                self.resources
                    .borrow_mut()
                    .drop_held(Held::WmiProvider, provider);
                STATUS_SUCCESS
            }
            action if action <= WMIREG_ACTION_BLOCK_IRPS => STATUS_SUCCESS,
            _ => STATUS_INVALID_PARAMETER,
        }
    }

    /// Gives back what a driver that is gone has left in the ledger.
    pub(crate) fn reclaim_resources(&self) {
        let entries: Vec<u64> = self.resources.borrow().held(Held::ErrorLogEntry).collect();
        entries
            .into_iter()
            .for_each(|entry| self.free_log_entry(entry));
        self.reclaim_services();
        self.resources.borrow_mut().forget_driver();
        self.tracing.borrow_mut().forget_driver();
    }

    fn check_log_source(&self, object: u64) {
        let kind = self.objects.borrow().get(object).map(|object| object.kind);
        if !matches!(kind, Some(Kind::Device | Kind::Driver)) {
            self.violate(
                RuleId::BadObject,
                [object, 0, 0, 0],
                format!("{object:#x} is neither a device nor a driver"),
            );
        }
    }

    fn new_log_entry(&self, size: u8) -> u64 {
        // The kernel reads the whole packet, also of a driver that asked for less.
        let size = u64::from(size).max(size_of::<IO_ERROR_LOG_PACKET>() as u64);
        let tag = u32::from_le_bytes(*b"IoEr");
        let site = self.call_site();
        let allocated = self
            .pool
            .borrow_mut()
            .allocate(size, tag, false, Owner::Kernel, site);
        let Some(entry) = allocated else { return 0 };
        guest::set_bytes(entry as *mut u8, 0, usize::try_from(size).unwrap_or(0));
        self.resources
            .borrow_mut()
            .hold(Held::ErrorLogEntry, entry, site);
        entry
    }

    fn free_log_entry(&self, entry: u64) {
        // The kernel's own block: it was held, so it is live.
        let _ = self.pool.borrow_mut().free(entry, 0, self.call_site());
    }
}
