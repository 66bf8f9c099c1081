//! `wmilib.sys`. No service of this machine asks for a driver's data, so only what a driver sends itself gets here.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest::{self, get, set};
use crate::machine::current;
use nt::NTSTATUS;
use nt::irp::{DEVICE_OBJECT, IRP};
use nt::status::STATUS_INVALID_DEVICE_REQUEST;
use nt::wmi::{IrpForward, IrpNotCompleted, IrpNotWmi};
use std::ffi::c_void;

exports! {
    wmi;

    fn WmiSystemControl(_WmiLibInfo: *mut c_void, DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, IrpDisposition: *mut i32) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        machine.irp_block(Irp);
        let stack = get!(Irp, CurrentStackLocation);
        let [provider, ..] = get!(stack, Parameters.Others);
        if get!(stack, MinorFunction) > LAST_WMI_REQUEST {
            guest::write(IrpDisposition, IrpNotWmi);
            return get!(Irp, IoStatus.Status);
        }
        if provider as u64 != DeviceObject as u64 {
            guest::write(IrpDisposition, IrpForward);
            return get!(Irp, IoStatus.Status);
        }
        (machine.debug_print)("lab: WmiSystemControl does not ask the driver for its data\n");
        guest::write(IrpDisposition, IrpNotCompleted);
        set!(Irp, IoStatus.Status = STATUS_INVALID_DEVICE_REQUEST);
        STATUS_INVALID_DEVICE_REQUEST
    }
    fn WmiCompleteRequest(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, Status: NTSTATUS, BufferUsed: u32, _PriorityBoost: i8) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        set!(Irp, IoStatus.Status = Status);
        set!(Irp, IoStatus.Information = BufferUsed as usize);
        machine.complete_irp(Irp);
        Status
    }
}

/// `IRP_MN_REGINFO_EX` (wdm.h).
const LAST_WMI_REQUEST: u8 = 0x0B;
