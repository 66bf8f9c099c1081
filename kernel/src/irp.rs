//! Requests: from the I/O manager to the driver, and back.
//!
//! The file object's `FsContext` owns the driver's `File` from create to close:
//!
//! ```text
//!  CreateFile ─▶ IRP_MJ_CREATE   open, FsContext ─▶ [ File │ cleaned up? ]
//!  last CloseHandle ─▶ IRP_MJ_CLEANUP   cleanup; requests on their way still find the File
//!  last request done ─▶ IRP_MJ_CLOSE    cleanup, if there was none; the File is dropped
//! ```
#![expect(unsafe_code, reason = "reads and completes IRPs")]

mod pended;

use crate::device::state;
use crate::driver::Driver;
use crate::pool::{PoolArc, PoolBox};
use crate::tracing::KERNEL;
use crate::wait::{self, Answer, Entry, Ticket, WaitSlot};
use crate::{NtStatus, Result, status, status_of};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use nt::io::{IO_NO_INCREMENT, METHOD_BUFFERED};
use nt::irp::{
    DEVICE_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IRP, IRP_MJ_CLEANUP, IRP_MJ_CLOSE,
    IRP_MJ_CREATE, IRP_MJ_DEVICE_CONTROL,
};
pub(crate) use pended::Pended;
use trace::format::request::Call;
use trace::{Irp, hot_enter, hot_exit};

trace::names! {
    /// A major function, as events show it.
    Major {
        IRP_MJ_CREATE as u64 => "IRP_MJ_CREATE",
        IRP_MJ_CLOSE as u64 => "IRP_MJ_CLOSE",
        IRP_MJ_DEVICE_CONTROL as u64 => "IRP_MJ_DEVICE_CONTROL",
        IRP_MJ_CLEANUP as u64 => "IRP_MJ_CLEANUP",
    }
}

/// The system buffer of a buffered device control: the input, then, in its place, the output.
pub struct Buffer<'a> {
    start: *mut u8,
    input_bytes: usize,
    room: usize,
    written: usize,
    wait: Option<Entry>,
    _irp: PhantomData<&'a mut [u8]>,
}

impl Buffer<'_> {
    /// What the client sent.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn input(&self) -> &[u8] {
        if self.start.is_null() || self.written > 0 {
            return &[];
        }
        // SAFETY: the I/O manager copied so many bytes here; nothing was written over them, and the
        // borrow keeps it so.
        unsafe { core::slice::from_raw_parts(self.start, self.input_bytes) }
    }

    /// Bytes of output that the client has room for.
    ///
    /// IRQL: any.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Whether the client has room for an answer of so many bytes.
    ///
    /// Errors: `STATUS_BUFFER_TOO_SMALL`.
    /// IRQL: any.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        if bytes <= self.room {
            Ok(())
        } else {
            Err(status::STATUS_BUFFER_TOO_SMALL)
        }
    }

    /// Lets the request wait in a slot, once its call has returned without an error. What was appended
    /// is dropped: the answer is that of whoever signals the ticket, or `on_timeout`.
    ///
    /// Units: ms. IRQL: any.
    pub fn wait_on(
        &mut self,
        slot: PoolArc<WaitSlot>,
        ticket: Ticket,
        timeout_ms: u32,
        on_timeout: Answer,
    ) {
        self.wait = Some(Entry::new(slot, ticket, timeout_ms, on_timeout));
    }

    /// Appends to the output; the input is gone from then on.
    ///
    /// Errors: `STATUS_BUFFER_TOO_SMALL`; nothing is written then.
    /// IRQL: any.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self
            .written
            .checked_add(bytes.len())
            .ok_or(status::STATUS_BUFFER_TOO_SMALL)?;
        self.check_room(end)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `written <= room` bytes from `start`, which is not null if there is room.
        let to = unsafe { self.start.add(self.written) };
        // SAFETY: (1) `end <= room`: checked. (2) `bytes` is not the buffer: a borrow of the input
        // would still hold `self`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.written = end;
        Ok(())
    }
}

/// A request under way. Completed once: by value.
struct Request {
    irp: NonNull<IRP>,
}

impl Request {
    /// # Safety
    /// `irp` must be a request that the I/O manager passed to a dispatch routine, not completed yet.
    unsafe fn new(irp: *mut IRP) -> Option<Self> {
        NonNull::new(irp).map(|irp| Self { irp })
    }

    fn location(&self) -> &IO_STACK_LOCATION {
        // SAFETY: the request is valid until completed: invariant of the type.
        let location = unsafe { (*self.irp.as_ptr()).CurrentStackLocation };
        // SAFETY: a dispatched request has a current stack location.
        unsafe { &*location }
    }

    /// Whether it asks for the trace: that must not fill the trace itself.
    #[inline(always)]
    fn is_of_tracing(&self) -> bool {
        let location = self.location();
        if location.MajorFunction != IRP_MJ_DEVICE_CONTROL {
            return false;
        }
        // SAFETY: a device control has this arm of the union.
        let parameters = unsafe { location.Parameters.DeviceIoControl };
        Call::from_code(parameters.IoControlCode).is_some()
    }

    fn file(&self) -> Result<NonNull<FILE_OBJECT>> {
        NonNull::new(self.location().FileObject).ok_or(status::STATUS_INVALID_PARAMETER)
    }

    /// The driver's part of the file object, with the driver's own type.
    ///
    /// # Safety
    /// The request must be for a device of `D`.
    unsafe fn context<D: Driver>(&self) -> Result<&Opened<D::File>> {
        let file = self.file()?;
        // SAFETY: the file object lives as long as the request.
        let context = unsafe { (*file.as_ptr()).FsContext }.cast::<Opened<D::File>>();
        // SAFETY: null, or put there by `create::<D>` and left until close.
        unsafe { context.as_ref() }.ok_or(status::STATUS_INVALID_PARAMETER)
    }

    /// Code and buffer of a device control, if its method is buffered.
    fn buffered(&self) -> Option<(u32, Buffer<'_>)> {
        // SAFETY: a device control has this arm of the union.
        let parameters = unsafe { self.location().Parameters.DeviceIoControl };
        if parameters.IoControlCode & 3 != METHOD_BUFFERED {
            return None;
        }
        // SAFETY: the request is valid until completed: invariant of the type.
        let start = unsafe { (*self.irp.as_ptr()).SystemBuffer }.cast::<u8>();
        let bytes = |length: u32| if start.is_null() { 0 } else { length as usize };
        let buffer = Buffer {
            start,
            input_bytes: bytes(parameters.InputBufferLength),
            room: bytes(parameters.OutputBufferLength),
            written: 0,
            wait: None,
            _irp: PhantomData,
        };
        Some((parameters.IoControlCode, buffer))
    }

    /// Gives the request back to the I/O manager.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    fn complete(self, status: NtStatus, information: usize) -> NtStatus {
        let irp = self.irp.as_ptr();
        // SAFETY: the request is valid until completed: invariant of the type.
        let result = unsafe { &mut (*irp).IoStatus };
        result.Status = status;
        result.Information = information;
        if trace::HAS_HOT && !self.is_of_tracing() {
            hot_exit!(KERNEL, irp: Irp = irp.into(), status: NtStatus = status);
        }
        // SAFETY: valid, and not touched again: `self` ends here.
        unsafe { nt::io::IofCompleteRequest(irp, IO_NO_INCREMENT) };
        status
    }
}

/// What a file object owns.
struct Opened<F> {
    file: F,
    is_cleaned_up: AtomicBool,
}

impl<F> Opened<F> {
    /// Cleans up, the first time.
    fn clean_up<D: Driver<File = F>>(&self, driver: &D) {
        if !self.is_cleaned_up.swap(true, Ordering::AcqRel) {
            driver.cleanup(&self.file);
        }
    }
}

/// What every dispatch routine does first: the request, and the driver that it is for.
///
/// # Safety
/// `irp` must be a request that the I/O manager passes to a dispatch routine of `device`, a published
/// device of `D`.
unsafe fn entered<'d, D: Driver>(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
) -> Option<(Request, &'d D)> {
    // SAFETY: as the caller promises.
    let request = unsafe { Request::new(irp) }?;
    if trace::HAS_HOT && !request.is_of_tracing() {
        hot_enter!(KERNEL, irp: Irp = irp.into(), major: Major = Major(request.location().MajorFunction.into()));
    }
    // SAFETY: as the caller promises; the device outlives its requests.
    let driver = unsafe { state::<D>(device) };
    Some((request, driver))
}

/// IRP_MJ_CREATE. IRQL: `PASSIVE_LEVEL`.
pub(crate) unsafe extern "efiapi" fn create<D: Driver>(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
) -> NtStatus {
    // SAFETY: the I/O manager passes a request of this device of `D`.
    let Some((request, driver)) = (unsafe { entered::<D>(device, irp) }) else {
        return status::STATUS_SUCCESS;
    };
    let opened = request.file().and_then(|file| {
        // Room first: what was opened must not be lost for want of it.
        let context = PoolBox::try_new_with(D::TAG, || {
            let file = driver.open()?;
            Ok(Opened {
                file,
                is_cleaned_up: AtomicBool::new(false),
            })
        })?;
        let (pointer, _) = context.into_raw();
        // SAFETY: the file object lives as long as the request, and its context is the driver's.
        unsafe { (*file.as_ptr()).FsContext = pointer.as_ptr().cast::<c_void>() };
        Ok(())
    });
    request.complete(status_of(opened), 0)
}

/// IRP_MJ_CLEANUP. IRQL: `PASSIVE_LEVEL`.
pub(crate) unsafe extern "efiapi" fn cleanup<D: Driver>(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
) -> NtStatus {
    // SAFETY: the I/O manager passes a request of this device of `D`.
    let Some((request, driver)) = (unsafe { entered::<D>(device, irp) }) else {
        return status::STATUS_SUCCESS;
    };
    // SAFETY: the request is for a device of `D`.
    if let Ok(opened) = unsafe { request.context::<D>() } {
        opened.clean_up(driver);
    }
    request.complete(status::STATUS_SUCCESS, 0)
}

/// IRP_MJ_CLOSE. Cleans up, too, unless that was done: Wine 8 sends nothing but this when the last
/// handle is closed (observed: a driver that counts both). IRQL: `PASSIVE_LEVEL`.
pub(crate) unsafe extern "efiapi" fn close<D: Driver>(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
) -> NtStatus {
    // SAFETY: the I/O manager passes a request of this device of `D`.
    let Some((request, driver)) = (unsafe { entered::<D>(device, irp) }) else {
        return status::STATUS_SUCCESS;
    };
    if let Ok(file) = request.file() {
        // SAFETY: the file object lives as long as the request, and its context is the driver's.
        let context =
            unsafe { core::mem::replace(&mut (*file.as_ptr()).FsContext, core::ptr::null_mut()) };
        if let Some(pointer) = NonNull::new(context.cast::<Opened<D::File>>()) {
            // SAFETY: from `into_raw` in `create::<D>`, with this tag; close comes once.
            let context = unsafe { PoolBox::from_raw((pointer, D::TAG)) };
            context.clean_up(driver);
        }
    }
    request.complete(status::STATUS_SUCCESS, 0)
}

/// IRP_MJ_DEVICE_CONTROL. IRQL: `PASSIVE_LEVEL`.
pub(crate) unsafe extern "efiapi" fn device_control<D: Driver>(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
) -> NtStatus {
    // SAFETY: the I/O manager passes a request of this device of `D`.
    let Some((request, driver)) = (unsafe { entered::<D>(device, irp) }) else {
        return status::STATUS_SUCCESS;
    };
    let Some((code, mut buffer)) = request.buffered() else {
        return request.complete(status::STATUS_INVALID_DEVICE_REQUEST, 0);
    };
    // SAFETY: the request is for a device of `D`.
    let file = unsafe { request.context::<D>() };
    let result = file.and_then(|opened| driver.ioctl(&opened.file, code, &mut buffer));
    if let (Ok(()), Some(entry)) = (result, buffer.wait.take()) {
        return wait::enter(Pended::new(request), entry);
    }
    let status = status_of(result);
    let information = if status.is_error() { 0 } else { buffer.written };
    request.complete(status, information)
}
