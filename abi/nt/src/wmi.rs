//! The WMI library (`wmilib.sys`): requests of WMI for a driver's data.

use core::ffi::c_void;

use crate::irp::{DEVICE_OBJECT, IRP};
use crate::status::NTSTATUS;

/// What a WMI IRP was (`SYSCTL_IRP_DISPOSITION`).
pub const IrpProcessed: i32 = 0;
pub const IrpNotCompleted: i32 = 1;
pub const IrpNotWmi: i32 = 2;
pub const IrpForward: i32 = 3;

image! {
    /// Handles an `IRP_MJ_SYSTEM_CONTROL`, or says that it is not WMI's (2) or another device's (3).
    /// The lab does not go on to the driver's routines: a request for its own data is failed.
    fn WmiSystemControl(WmiLibInfo: *mut c_void, DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, IrpDisposition: *mut i32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Completes a request of WMI.
    fn WmiCompleteRequest(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, Status: NTSTATUS, BufferUsed: u32, PriorityBoost: i8) -> NTSTATUS where irql <= DISPATCH_LEVEL;
}
