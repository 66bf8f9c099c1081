//! `Po…`: power IRPs.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::irp::{DEVICE_OBJECT, IRP, IRP_MJ_POWER};
use nt::po::{
    DevicePowerState, IRP_MN_QUERY_POWER, IRP_MN_SET_POWER, IRP_MN_WAIT_WAKE,
    REQUEST_POWER_COMPLETE, SystemPowerState,
};
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER_2, STATUS_NOT_SUPPORTED, STATUS_PENDING,
};

use super::exports;
use crate::guest::{self, field, get, set};
use crate::irp::Origin;
use crate::machine::{Machine, current};

/// Whom to tell when a power IRP is complete.
#[derive(Clone, Copy)]
pub(crate) struct PowerRequest {
    device: u64,
    minor: u8,
    state: i32,
    function: u64,
    context: u64,
}

exports! {
    po;

    fn PoCallDriver(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP) -> NTSTATUS {
        current().check_device(DeviceObject);
        current().call_device(DeviceObject, Irp)
    }
    fn PoStartNextPowerIrp(Irp: *mut IRP) { current().irp_block(Irp); }
    fn PoRequestPowerIrp(DeviceObject: *mut DEVICE_OBJECT, MinorFunction: u8, PowerState: i32, CompletionFunction: Option<REQUEST_POWER_COMPLETE>, Context: *mut c_void, Irp: *mut *mut IRP) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        if ![IRP_MN_WAIT_WAKE, IRP_MN_SET_POWER, IRP_MN_QUERY_POWER].contains(&MinorFunction) {
            return STATUS_INVALID_PARAMETER_2;
        }
        let request = PowerRequest {
            device: DeviceObject as u64,
            minor: MinorFunction,
            state: PowerState,
            function: CompletionFunction.map_or(0, |routine| routine as usize as u64),
            context: Context as u64,
        };
        machine.request_power(request, Irp)
    }
    fn PoSetPowerState(DeviceObject: *mut DEVICE_OBJECT, Type: i32, State: i32) -> i32 {
        let machine = current();
        machine.check_device(DeviceObject);
        // Device objects are aligned: the low bits tell the kinds of state apart.
        let key = DeviceObject as u64 | u64::from(Type == DevicePowerState);
        machine.resources.borrow_mut().power_states.insert(key, State).unwrap_or(0)
    }
}

impl Machine {
    fn request_power(&self, request: PowerRequest, out: *mut *mut IRP) -> NTSTATUS {
        if self.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let top = self.top_of_stack(request.device as *mut DEVICE_OBJECT);
        let irp = self.allocate_irp(get!(top, StackSize), Origin::Threaded, self.call_site());
        if irp.is_null() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        set!(irp, IoStatus.Status = STATUS_NOT_SUPPORTED);
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = IRP_MJ_POWER);
        set!(stack, MinorFunction = request.minor);
        if request.minor != IRP_MN_WAIT_WAKE {
            set!(stack, Parameters.Power.Type = DevicePowerState);
            set!(stack, Parameters.Power.State = request.state);
        } else {
            // The lowest system state from which the device may wake it.
            set!(
                stack,
                Parameters.Power.SystemContext = request.state.cast_unsigned()
            );
            set!(stack, Parameters.Power.Type = SystemPowerState);
        }
        if !out.is_null() {
            guest::write(out, irp);
        }
        self.resources
            .borrow_mut()
            .power_requests
            .insert(irp as u64, request);
        self.call_device(top, irp);
        STATUS_PENDING
    }

    /// Tells whoever requested a power IRP that it is complete.
    pub(crate) fn end_power_request(&self, irp: *mut IRP) {
        let request = self
            .resources
            .borrow_mut()
            .power_requests
            .remove(&(irp as u64));
        let Some(request) = request.filter(|request| request.function != 0) else {
            return;
        };
        let arguments = [
            request.device,
            u64::from(request.minor),
            u64::from(request.state.cast_unsigned()),
            request.context,
        ];
        let outcome = field!(irp, IoStatus) as u64;
        self.call_with(request.function, arguments, [outcome, 0]);
    }
}
