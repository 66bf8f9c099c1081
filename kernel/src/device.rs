//! The device object, its symbolic link and the driver's state in its extension.
#![expect(unsafe_code, reason = "owns a device object")]

use crate::driver::Driver;
use crate::routine::counted;
use crate::{Result, alive, check, security};
use core::marker::PhantomData;
use core::ptr::NonNull;
use nt::io::{DO_DEVICE_INITIALIZING, FILE_DEVICE_SECURE_OPEN, FILE_DEVICE_UNKNOWN};
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT};

/// The device object of the driver, while the driver's state is made.
#[derive(Clone, Copy)]
pub struct DeviceRef<'a> {
    object: NonNull<DEVICE_OBJECT>,
    _device: PhantomData<&'a ()>,
}

impl DeviceRef<'_> {
    pub(crate) fn as_ptr(self) -> *mut DEVICE_OBJECT {
        self.object.as_ptr()
    }
}

/// A device object whose extension holds a `D`.
///
/// # Invariants
/// `object` is a device object that this owns, and its extension an initialised `D`.
pub(crate) struct Device<D: Driver> {
    object: NonNull<DEVICE_OBJECT>,
    _owns: PhantomData<D>,
}

/// Most bytes of a driver's state; what is larger goes to the pool.
///
/// Source: `DEVICE_OBJECT.Size`, wdm.h, which counts the object and its extension.
const MOST_STATE_BYTES: usize = 0xF000;

/// A device object that is not a [`Device`] yet; deleted when dropped.
struct Bare(NonNull<DEVICE_OBJECT>);

impl Drop for Bare {
    fn drop(&mut self) {
        alive::require_none();
        // SAFETY: created by `Bare::create`, and deleted once.
        unsafe { nt::io::IoDeleteDevice(self.0.as_ptr()) };
    }
}

impl Bare {
    fn create<D: Driver>(driver: *mut DRIVER_OBJECT) -> Result<Self> {
        // The I/O manager aligns an extension as it does pool, and counts its bytes in 16 bits.
        const { assert!(align_of::<D>() <= 16 && size_of::<D>() <= MOST_STATE_BYTES) };
        // At least one byte: there is no extension of none.
        let bytes = u32::try_from(size_of::<D>().max(1)).unwrap_or(u32::MAX);
        let mut name = counted(D::DEVICE_NAME);
        let mut object = core::ptr::null_mut();
        // SAFETY: (1) `driver` is the driver object of DriverEntry: promised by `try_new`'s caller.
        // (2) `name` is valid for the call. (3) `object` is a valid place for the answer.
        check(unsafe {
            nt::io::IoCreateDevice(
                driver,
                bytes,
                &raw mut name,
                FILE_DEVICE_UNKNOWN,
                FILE_DEVICE_SECURE_OPEN,
                0,
                &raw mut object,
            )
        })?;
        let object = NonNull::new(object).ok_or(crate::status::STATUS_UNSUCCESSFUL)?;
        Ok(Self(object))
    }
}

impl<D: Driver> Device<D> {
    /// Creates the device, closed to all, protects it, makes the driver's state, then links it.
    ///
    /// What fails takes back what was done before it.
    ///
    /// # Safety
    /// `driver` must be the driver object that DriverEntry was given.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    pub(crate) unsafe fn try_new(driver: *mut DRIVER_OBJECT) -> Result<Self> {
        let bare = Bare::create::<D>(driver)?;
        // SAFETY: `bare` owns a valid device object.
        unsafe { security::protect(bare.0.as_ptr(), D::ACCESS) }?;
        let extension = extension::<D>(bare.0).ok_or(crate::status::STATUS_UNSUCCESSFUL)?;
        let state = D::try_new(DeviceRef {
            object: bare.0,
            _device: PhantomData,
        })?;
        // SAFETY: the extension has room for a `D`: `Bare::create` asked for it.
        unsafe { extension.write(state) };
        let device = Self {
            object: bare.0,
            _owns: PhantomData,
        };
        // INVARIANT: from here on `device` owns the object and the state in it.
        core::mem::forget(bare);
        device.link()?;
        Ok(device)
    }

    fn link(&self) -> Result<()> {
        let (mut link, mut name) = (counted(D::LINK_NAME), counted(D::DEVICE_NAME));
        // SAFETY: both names are valid for the call.
        check(unsafe { nt::io::IoCreateSymbolicLink(&raw mut link, &raw mut name) })
    }

    /// Lets clients open the device, and leaves it to the driver object.
    pub(crate) fn publish(self) {
        let object = self.object.as_ptr();
        // SAFETY: a device object that this owns; nobody else changes its flags before this.
        unsafe { (*object).Flags &= !DO_DEVICE_INITIALIZING };
        core::mem::forget(self);
    }

    /// Takes back what [`publish`](Self::publish) left, with its link.
    ///
    /// # Safety
    /// `object` must come from `publish` of a `Device<D>`, and be taken once.
    pub(crate) unsafe fn unpublish(object: NonNull<DEVICE_OBJECT>) -> Self {
        let mut link = counted(D::LINK_NAME);
        // SAFETY: the name is valid for the call. It cannot fail in a way that could be mended.
        unsafe { nt::io::IoDeleteSymbolicLink(&raw mut link) };
        Self {
            object,
            _owns: PhantomData,
        }
    }
}

impl<D: Driver> Drop for Device<D> {
    fn drop(&mut self) {
        if let Some(extension) = extension::<D>(self.object) {
            // SAFETY: an initialised `D`, not used again: invariant of the type.
            unsafe { extension.drop_in_place() };
        }
        drop(Bare(self.object));
    }
}

/// Where the driver's state is.
fn extension<D>(object: NonNull<DEVICE_OBJECT>) -> Option<NonNull<D>> {
    // SAFETY: callers own the device object or were given it by the I/O manager.
    let pointer = unsafe { (*object.as_ptr()).DeviceExtension };
    NonNull::new(pointer.cast())
}

/// The driver's state behind a published device.
///
/// # Safety
/// `object` must be a published `Device<D>`, which lives as long as `'a`.
pub(crate) unsafe fn state<'a, D: Driver>(object: *mut DEVICE_OBJECT) -> &'a D {
    // SAFETY: the object is valid: promised by the caller.
    let extension = unsafe { (*object).DeviceExtension };
    // SAFETY: the extension is an initialised `D` that lives as long: promised by the caller.
    unsafe { &*extension.cast::<D>() }
}
