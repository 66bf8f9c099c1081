//! I/O manager: hardware resources, device interfaces, notifications, the error log.
//!
//! A device that its driver made, and no bus enumerated, is refused what needs
//! one, with the status that Windows gives for a device like that.

use core::ffi::c_void;

use crate::base::{BOOLEAN, GUID, LARGE_INTEGER, UNICODE_STRING};
use crate::irp::{DEVICE_OBJECT, DRIVER_OBJECT};
use crate::status::NTSTATUS;

/// `IoWMIRegistrationControl`'s action.
pub const WMIREG_ACTION_REGISTER: u32 = 1;
pub const WMIREG_ACTION_DEREGISTER: u32 = 2;
pub const WMIREG_ACTION_REREGISTER: u32 = 3;
pub const WMIREG_ACTION_UPDATE_GUIDS: u32 = 4;
pub const WMIREG_ACTION_BLOCK_IRPS: u32 = 5;

/// `IO_NOTIFICATION_EVENT_CATEGORY`.
pub const EventCategoryReserved: i32 = 0;
pub const EventCategoryHardwareProfileChange: i32 = 1;
pub const EventCategoryDeviceInterfaceChange: i32 = 2;
pub const EventCategoryTargetDeviceChange: i32 = 3;

/// Bytes of an entry of the error log, at most (wdm.h).
pub const ERROR_LOG_MAXIMUM_SIZE: u32 = 0xF0;

/// An entry of the error log, as the driver fills it.
#[repr(C)]
pub struct IO_ERROR_LOG_PACKET {
    pub MajorFunctionCode: u8,
    pub RetryCount: u8,
    /// Bytes.
    pub DumpDataSize: u16,
    pub NumberOfStrings: u16,
    pub StringOffset: u16,
    pub EventCategory: u16,
    pub ErrorCode: NTSTATUS,
    pub UniqueErrorValue: u32,
    pub FinalStatus: NTSTATUS,
    pub SequenceNumber: u32,
    pub IoControlCode: u32,
    pub DeviceOffset: LARGE_INTEGER,
    pub DumpData: [u32; 1],
}
layout!(IO_ERROR_LOG_PACKET, 0x30, ErrorCode @ 0xC, FinalStatus @ 0x14, DeviceOffset @ 0x20, DumpData @ 0x28);

pub type DRIVER_NOTIFICATION_CALLBACK_ROUTINE =
    unsafe extern "efiapi" fn(NotificationStructure: *mut c_void, Context: *mut c_void) -> NTSTATUS;

image! {
    /// The DMA adapter of an enumerated device; null: no device here is on a bus.
    fn IoGetDmaAdapter(PhysicalDeviceObject: *mut DEVICE_OBJECT, DeviceDescription: *mut c_void, NumberOfMapRegisters: *mut u32) -> *mut c_void where irql == PASSIVE_LEVEL;
    /// A property of an enumerated device; others have none (`STATUS_INVALID_DEVICE_REQUEST`).
    fn IoGetDeviceProperty(DeviceObject: *mut DEVICE_OBJECT, DeviceProperty: i32, BufferLength: u32, PropertyBuffer: *mut c_void, ResultLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Registers an interface of an enumerated device; others have none (`STATUS_INVALID_DEVICE_REQUEST`).
    fn IoRegisterDeviceInterface(PhysicalDeviceObject: *mut DEVICE_OBJECT, InterfaceClassGuid: *const GUID, ReferenceString: *mut UNICODE_STRING, SymbolicLinkName: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Enables or disables an interface by its link.
    fn IoSetDeviceInterfaceState(SymbolicLinkName: *mut UNICODE_STRING, Enable: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks to be told of devices that come and go; none do on this machine.
    fn IoRegisterPlugPlayNotification(EventCategory: i32, EventCategoryFlags: u32, EventCategoryData: *mut c_void, DriverObject: *mut DRIVER_OBJECT, CallbackRoutine: DRIVER_NOTIFICATION_CALLBACK_ROUTINE, Context: *mut c_void, NotificationEntry: *mut *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a notification.
    fn IoUnregisterPlugPlayNotification(NotificationEntry: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Tells the PnP manager that a device's relations changed; it has nobody to ask here.
    fn IoInvalidateDeviceRelations(DeviceObject: *mut DEVICE_OBJECT, Type: i32) where irql <= DISPATCH_LEVEL;
    /// Tells the PnP manager that a device's state changed; it has nobody to ask here.
    fn IoInvalidateDeviceState(PhysicalDeviceObject: *mut DEVICE_OBJECT) where irql <= DISPATCH_LEVEL;
    /// Registers a device, or a callback, as a provider of WMI, or withdraws it.
    fn IoWMIRegistrationControl(DeviceObject: *mut DEVICE_OBJECT, Action: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Allocates an entry of the error log; null when there is no room.
    fn IoAllocateErrorLogEntry(IoObject: *mut c_void, EntrySize: u8) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Writes an entry to the error log, which frees it.
    fn IoWriteErrorLogEntry(ElEntry: *mut c_void) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Frees an entry unwritten.
    fn IoFreeErrorLogEntry(ElEntry: *mut c_void) where irql <= DISPATCH_LEVEL, RELEASES;
}
