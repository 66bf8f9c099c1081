//! A system thread that is waited for.
#![expect(unsafe_code, reason = "hands a routine and its context to the kernel")]

use crate::alive::Alive;
use crate::{Result, check};
use core::ffi::c_void;
use core::ptr;
use nt::base::{HANDLE, OBJ_KERNEL_HANDLE, OBJECT_ATTRIBUTES};

/// `THREAD_ALL_ACCESS`, wdm.h.
const ALL_ACCESS: u32 = 0x1F_FFFF;

#[expect(clippy::cast_possible_truncation, reason = "48")]
const ATTRIBUTES_BYTES: u32 = size_of::<OBJECT_ATTRIBUTES>() as u32;

/// What a thread does.
pub(crate) trait Main: Sync {
    /// Runs on the thread, once.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    fn run(&self);
}

/// A thread; dropping it waits for its end.
///
/// # Invariants
/// The handle is the kernel's, of the thread, and closed when this is dropped.
pub(crate) struct Thread {
    handle: HANDLE,
    _alive: Alive,
}

// SAFETY: a handle of the kernel may be used from any thread.
unsafe impl Send for Thread {}

impl Thread {
    /// Starts a thread of the system process.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES` and what else the kernel says.
    /// Source: `PsCreateSystemThread`, wdm.h.
    ///
    /// # Safety
    /// `main` must stay where it is until the result has been dropped.
    pub(crate) unsafe fn start<T: Main>(main: &T) -> Result<Self> {
        let mut attributes = OBJECT_ATTRIBUTES {
            Length: ATTRIBUTES_BYTES,
            RootDirectory: ptr::null_mut(),
            ObjectName: ptr::null_mut(),
            Attributes: OBJ_KERNEL_HANDLE,
            SecurityDescriptor: ptr::null_mut(),
            SecurityQualityOfService: ptr::null_mut(),
        };
        let mut handle = ptr::null_mut();
        let context = ptr::from_ref(main).cast_mut().cast();
        // SAFETY: (1) `run::<T>` is the routine for such a context. (2) The context outlives the thread, as
        // the caller promises: dropping the result waits.
        check(unsafe {
            nt::ps::PsCreateSystemThread(
                &raw mut handle,
                ALL_ACCESS,
                &raw mut attributes,
                ptr::null_mut(),
                ptr::null_mut(),
                run::<T>,
                context,
            )
        })?;
        // INVARIANT: as the kernel gave it.
        Ok(Self {
            handle,
            _alive: Alive::new(),
        })
    }
}

impl Drop for Thread {
    /// Waits for the thread's end.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Source: `ZwWaitForSingleObject`, ntifs.h.
    fn drop(&mut self) {
        // SAFETY: invariant of the type. A thread ends after its last instruction in this driver.
        unsafe { nt::names::ZwWaitForSingleObject(self.handle, 0, ptr::null_mut()) };
        // SAFETY: invariant of the type.
        unsafe { nt::zw::ZwClose(self.handle) };
    }
}

/// The kernel ends the thread when its routine returns.
unsafe extern "efiapi" fn run<T: Main>(context: *mut c_void) {
    // SAFETY: the context of `start`, which is there until the thread has ended.
    let main = unsafe { &*context.cast::<T>() };
    main.run();
}
