//! What is checked at load.

use nt::NTSTATUS;
use nt::base::UNICODE_STRING;
use nt::irp::{
    DEVICE_OBJECT, DRIVER_OBJECT, IRP_MJ_PNP, IRP_MJ_POWER, IRP_MJ_SYSTEM_CONTROL, PDRIVER_DISPATCH,
};
use nt::status::STATUS_SUCCESS;

unsafe extern "efiapi" fn add_device(_: *mut DRIVER_OBJECT, _: *mut DEVICE_OBJECT) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Whether the last part of the service's key is this.
unsafe fn is_called(path: *const UNICODE_STRING, name: &[u8]) -> bool {
    unsafe {
        let len = usize::from((*path).Length / 2);
        let start = (*path).Buffer.add(len.saturating_sub(name.len()));
        len >= name.len()
            && (0..name.len()).all(|index| start.add(index).read() == u16::from(name[index]))
    }
}

/// By the name it is loaded under, the driver is one of a device stack: with the dispatch routines
/// that such a driver needs (`…-stack`), or without (`…-no-handlers`).
pub(crate) unsafe fn set_handlers(
    driver: *mut DRIVER_OBJECT,
    path: *const UNICODE_STRING,
    dispatch: PDRIVER_DISPATCH,
) {
    unsafe {
        let whole = is_called(path, b"-stack");
        if whole || is_called(path, b"-no-handlers") {
            (*(*driver).DriverExtension).AddDevice = Some(add_device);
        }
        if whole {
            for major in [IRP_MJ_PNP, IRP_MJ_POWER, IRP_MJ_SYSTEM_CONTROL] {
                (*driver).MajorFunction[major as usize] = Some(dispatch);
            }
        }
    }
}
