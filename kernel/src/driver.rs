//! What a driver is: its state, made at DriverEntry and dropped at unload.
#![expect(unsafe_code, reason = "called by the I/O manager")]

use crate::device::{Device, DeviceRef};
use crate::irp::{self, Buffer};
use crate::pool::PoolTag;
use crate::security::Access;
use crate::{NtStatus, Result, pool, status, status_of, time};
use core::ptr::NonNull;
use nt::irp::{DRIVER_OBJECT, IRP_MJ_CLEANUP, IRP_MJ_CLOSE, IRP_MJ_CREATE, IRP_MJ_DEVICE_CONTROL};

/// A driver with one device that clients open.
///
/// Requests come at `PASSIVE_LEVEL` in the context of the caller, several at a time.
pub trait Driver: Send + Sync + Sized + 'static {
    /// What belongs to one open handle.
    type File: Send + Sync;

    /// Name of the device in the NT name space, UTF-16.
    const DEVICE_NAME: &'static [u16];
    /// Name of its symbolic link, UTF-16.
    const LINK_NAME: &'static [u16];
    /// Tag of what the kernel API allocates for the driver.
    const TAG: PoolTag;
    /// Who may open the device.
    const ACCESS: Access = Access::Administrators;

    /// Makes the state of the driver. What it takes it gives back when dropped.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn try_new(device: DeviceRef<'_>) -> Result<Self>;

    /// A client opens the device. What is returned is cleaned up and dropped when it is closed.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn open(&self) -> Result<Self::File>;

    /// A client sends a buffered device control. For a warning, the output still reaches the client.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn ioctl(&self, file: &Self::File, code: u32, buffer: &mut Buffer<'_>) -> Result<()>;

    /// The last handle to `file` was closed: what it holds goes back, requests under way fail.
    ///
    /// Called once per file. Requests that were sent before may still come, or be under way; `file`
    /// is dropped when the last of them has been completed.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn cleanup(&self, file: &Self::File);
}

/// DriverEntry of a driver `D`. Use [`driver_entry!`](crate::driver_entry).
///
/// # Safety
/// `driver` must be the driver object that DriverEntry was given.
///
/// IRQL: `PASSIVE_LEVEL`.
pub unsafe fn start<D: Driver>(driver: *mut DRIVER_OBJECT) -> NtStatus {
    pool::find_allocator();
    time::find_clocks();
    // SAFETY: promised by the caller.
    let device = match unsafe { Device::<D>::try_new(driver) } {
        Ok(device) => device,
        Err(error) => return status_of(Err(error)),
    };
    // SAFETY: the driver object is valid, and only DriverEntry touches it while it is loaded.
    let object = unsafe { &mut *driver };
    let dispatch = [
        (IRP_MJ_CREATE, irp::create::<D> as nt::irp::PDRIVER_DISPATCH),
        (IRP_MJ_CLOSE, irp::close::<D>),
        (IRP_MJ_CLEANUP, irp::cleanup::<D>),
        (IRP_MJ_DEVICE_CONTROL, irp::device_control::<D>),
    ];
    for (major, routine) in dispatch {
        if let Some(place) = object.MajorFunction.get_mut(usize::from(major)) {
            *place = Some(routine);
        }
    }
    object.DriverUnload = Some(unload::<D>);
    device.publish();
    status::STATUS_SUCCESS
}

/// Takes everything back: no handle is open any more.
///
/// IRQL: `PASSIVE_LEVEL`.
unsafe extern "efiapi" fn unload<D: Driver>(driver: *mut DRIVER_OBJECT) {
    // SAFETY: the I/O manager passes the driver object.
    let device = unsafe { (*driver).DeviceObject };
    if let Some(device) = NonNull::new(device) {
        // SAFETY: the one device of the driver, published by `start::<D>`; unload comes once.
        drop(unsafe { Device::<D>::unpublish(device) });
    }
}

/// Makes an executable a driver: DriverEntry on Windows, an explanation elsewhere.
#[macro_export]
macro_rules! driver_entry {
    ($driver:ty) => {
        #[cfg(windows)]
        #[expect(unsafe_code, reason = "the loader finds DriverEntry by name")]
        mod entry {
            /// Called by the I/O manager. Its section is discarded when it has returned.
            #[unsafe(no_mangle)]
            #[unsafe(link_section = "INIT")]
            extern "system" fn DriverEntry(
                driver: *mut $crate::DriverObject,
                _registry_path: *const core::ffi::c_void,
            ) -> $crate::NtStatus {
                // SAFETY: the I/O manager passes the driver object.
                unsafe { $crate::driver::start::<$driver>(driver) }
            }
        }

        #[cfg(not(windows))]
        fn main() -> std::process::ExitCode {
            eprintln!(concat!(
                env!("CARGO_PKG_NAME"),
                " is a Windows driver: build it with --target x86_64-pc-windows-msvc or aarch64-pc-windows-msvc"
            ));
            std::process::ExitCode::from(2)
        }
    };
}
