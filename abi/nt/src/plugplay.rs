//! Plug and play: the requests of the PnP manager, and their structures.

use core::ffi::c_void;

/// `IRP_MN_…` of `IRP_MJ_PNP`.
pub const IRP_MN_START_DEVICE: u8 = 0x00;
pub const IRP_MN_QUERY_REMOVE_DEVICE: u8 = 0x01;
pub const IRP_MN_REMOVE_DEVICE: u8 = 0x02;
pub const IRP_MN_CANCEL_REMOVE_DEVICE: u8 = 0x03;
pub const IRP_MN_STOP_DEVICE: u8 = 0x04;
pub const IRP_MN_QUERY_STOP_DEVICE: u8 = 0x05;
pub const IRP_MN_CANCEL_STOP_DEVICE: u8 = 0x06;
pub const IRP_MN_QUERY_DEVICE_RELATIONS: u8 = 0x07;
pub const IRP_MN_QUERY_CAPABILITIES: u8 = 0x09;
pub const IRP_MN_QUERY_ID: u8 = 0x13;
pub const IRP_MN_QUERY_PNP_DEVICE_STATE: u8 = 0x14;
pub const IRP_MN_SURPRISE_REMOVAL: u8 = 0x17;

/// `DEVICE_RELATION_TYPE`.
pub const BusRelations: i32 = 0;
pub const TargetDeviceRelation: i32 = 4;

/// `BUS_QUERY_ID_TYPE`.
pub const BusQueryDeviceID: i32 = 0;
pub const BusQueryHardwareIDs: i32 = 1;
pub const BusQueryInstanceID: i32 = 3;

/// What a device can do.
#[repr(C)]
pub struct DEVICE_CAPABILITIES {
    pub Size: u16,
    pub Version: u16,
    /// Bit fields, from `DeviceD1` on.
    pub _flags: u32,
    pub Address: u32,
    pub UINumber: u32,
    pub DeviceState: [i32; 7],
    pub SystemWake: i32,
    pub DeviceWake: i32,
    /// In units of 100 microseconds.
    pub D1Latency: u32,
    pub D2Latency: u32,
    pub D3Latency: u32,
}
layout!(DEVICE_CAPABILITIES, 0x40, Address @ 8, UINumber @ 0xC, DeviceState @ 0x10, SystemWake @ 0x2C, D3Latency @ 0x3C);

/// Devices that are related to one, with room for one.
#[repr(C)]
pub struct DEVICE_RELATIONS {
    pub Count: u32,
    pub Objects: [*mut c_void; 1],
}
layout!(DEVICE_RELATIONS, 0x10, Objects @ 8);

/// `DEVICE_REGISTRY_PROPERTY`.
pub const DevicePropertyDeviceDescription: i32 = 0;
pub const DevicePropertyHardwareID: i32 = 1;
pub const DevicePropertyCompatibleIDs: i32 = 2;
pub const DevicePropertyClassName: i32 = 5;
pub const DevicePropertyManufacturer: i32 = 8;
pub const DevicePropertyFriendlyName: i32 = 9;
pub const DevicePropertyLocationInformation: i32 = 10;
pub const DevicePropertyPhysicalDeviceObjectName: i32 = 11;
pub const DevicePropertyBusNumber: i32 = 14;
pub const DevicePropertyEnumeratorName: i32 = 15;
pub const DevicePropertyAddress: i32 = 16;
