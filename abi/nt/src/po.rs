//! Power manager.

use core::ffi::c_void;

use crate::irp::{DEVICE_OBJECT, IO_STATUS_BLOCK, IRP};
use crate::status::NTSTATUS;

/// `IRP_MN_…` of `IRP_MJ_POWER`.
pub const IRP_MN_WAIT_WAKE: u8 = 0;
pub const IRP_MN_POWER_SEQUENCE: u8 = 1;
pub const IRP_MN_SET_POWER: u8 = 2;
pub const IRP_MN_QUERY_POWER: u8 = 3;

/// `POWER_STATE_TYPE`.
pub const SystemPowerState: i32 = 0;
pub const DevicePowerState: i32 = 1;

/// `DEVICE_POWER_STATE` and `SYSTEM_POWER_STATE`, in the union the WDK passes them in.
pub type POWER_STATE = i32;
pub const PowerDeviceUnspecified: POWER_STATE = 0;
pub const PowerDeviceD0: POWER_STATE = 1;
pub const PowerDeviceD1: POWER_STATE = 2;
pub const PowerDeviceD2: POWER_STATE = 3;
pub const PowerDeviceD3: POWER_STATE = 4;
pub const PowerSystemWorking: POWER_STATE = 1;

pub type REQUEST_POWER_COMPLETE = unsafe extern "efiapi" fn(
    DeviceObject: *mut DEVICE_OBJECT,
    MinorFunction: u8,
    PowerState: POWER_STATE,
    Context: *mut c_void,
    IoStatus: *mut IO_STATUS_BLOCK,
);

image! {
    /// Sends a power IRP to a device; the same as `IoCallDriver` since Windows Vista.
    fn PoCallDriver(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP) -> NTSTATUS where irql <= DISPATCH_LEVEL;
    /// Tells that the next power IRP may come; does nothing since Windows Vista.
    fn PoStartNextPowerIrp(Irp: *mut IRP) where irql <= DISPATCH_LEVEL;
    /// Sends a power IRP to the top of a device's stack and calls back when it is complete.
    fn PoRequestPowerIrp(DeviceObject: *mut DEVICE_OBJECT, MinorFunction: u8, PowerState: POWER_STATE, CompletionFunction: Option<REQUEST_POWER_COMPLETE>, Context: *mut c_void, Irp: *mut *mut IRP) -> NTSTATUS where irql <= DISPATCH_LEVEL, FAILS;
    /// Records a device's power state; returns the former one.
    fn PoSetPowerState(DeviceObject: *mut DEVICE_OBJECT, Type: i32, State: POWER_STATE) -> POWER_STATE where irql <= DISPATCH_LEVEL;
}
