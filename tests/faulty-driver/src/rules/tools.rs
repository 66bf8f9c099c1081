//! What the pairs share: inline functions of the WDK, pool, threads.

use core::ffi::c_void;
use core::hint::black_box;
use core::ptr;

use nt::NTSTATUS;
use nt::base::{HANDLE, KernelMode, OBJ_KERNEL_HANDLE, OBJECT_ATTRIBUTES};
use nt::ex::{ExAllocatePoolWithTag, ExFreePoolWithTag, FAST_MUTEX, NonPagedPoolNx, PagedPool};
use nt::io::{IoAllocateIrp, IofCallDriver, IofCompleteRequest};
use nt::irp::{
    DEVICE_OBJECT, IO_STACK_LOCATION, IRP, PDRIVER_CANCEL, PIO_COMPLETION_ROUTINE,
    SL_INVOKE_ON_CANCEL, SL_INVOKE_ON_ERROR, SL_INVOKE_ON_SUCCESS, SL_PENDING_RETURNED,
};
use nt::ke::{KEVENT, KeInitializeEvent, KeStallExecutionProcessor, KeWaitForSingleObject};
use nt::lock::KeInitializeGuardedMutex;
use nt::ob::{ObReferenceObjectByHandle, ObfDereferenceObject};
use nt::ps::{KSTART_ROUTINE, PsCreateSystemThread};
use nt::zw::ZwClose;

pub(crate) const TAG: u32 = u32::from_le_bytes(*b"Flty");

/// A static that the driver's code shares with the kernel.
#[repr(transparent)]
pub(crate) struct Shared<T>(core::cell::UnsafeCell<T>);

// SAFETY: what is in it is the kernel's to synchronise, or broken on purpose.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> Shared<T> {
    pub(crate) fn read(&self) -> T {
        unsafe { self.get().read_volatile() }
    }

    pub(crate) fn write(&self, value: T) {
        unsafe { self.get().write_volatile(value) }
    }
}

/// Uses a value as far as the compiler can tell.
pub(crate) fn keep<T>(value: T) {
    let _ = black_box(value);
}

pub(crate) unsafe fn pool<T>() -> *mut T {
    unsafe { bytes(size_of::<T>()).cast() }
}

/// Zeroed nonpaged pool.
pub(crate) unsafe fn bytes(len: usize) -> *mut u8 {
    unsafe {
        let block: *mut u8 = ExAllocatePoolWithTag(NonPagedPoolNx, len, TAG).cast();
        for index in 0..len {
            block.add(index).write_volatile(0);
        }
        block
    }
}

pub(crate) unsafe fn paged(len: usize) -> *mut u8 {
    unsafe { ExAllocatePoolWithTag(PagedPool, len, TAG).cast() }
}

pub(crate) unsafe fn free<T>(block: *mut T) {
    unsafe { ExFreePoolWithTag(block.cast(), TAG) };
    // Else the call above would be a jump, and its function gone from the stack.
    keep(block);
}

pub(crate) unsafe fn complete(irp: *mut IRP, status: NTSTATUS, information: usize) -> NTSTATUS {
    unsafe {
        (*irp).IoStatus.Status = status;
        (*irp).IoStatus.Information = information;
        IofCompleteRequest(irp, 0);
    }
    status
}

pub(crate) unsafe fn current(irp: *mut IRP) -> *mut IO_STACK_LOCATION {
    unsafe { (*irp).CurrentStackLocation }
}

/// `IoMarkIrpPending`.
pub(crate) unsafe fn mark_pending(irp: *mut IRP) {
    unsafe { (*current(irp)).Control |= SL_PENDING_RETURNED }
}

/// `IoCopyCurrentIrpStackLocationToNext`.
pub(crate) unsafe fn copy_to_next(irp: *mut IRP) {
    unsafe {
        let here = current(irp);
        let next = here.sub(1);
        (*next).MajorFunction = (*here).MajorFunction;
        (*next).MinorFunction = (*here).MinorFunction;
        (*next).Flags = (*here).Flags;
        (*next).Control = 0;
        (*next).Parameters = (*here).Parameters;
        (*next).FileObject = (*here).FileObject;
        (*next).CompletionRoutine = None;
        (*next).Context = ptr::null_mut();
    }
}

/// `IoSkipCurrentIrpStackLocation`.
pub(crate) unsafe fn skip(irp: *mut IRP) {
    unsafe {
        (*irp).CurrentLocation += 1;
        (*irp).CurrentStackLocation = current(irp).add(1);
    }
}

/// `IoSetCompletionRoutine`, for every outcome.
pub(crate) unsafe fn on_completion(irp: *mut IRP, routine: PIO_COMPLETION_ROUTINE) {
    unsafe {
        let next = current(irp).sub(1);
        (*next).CompletionRoutine = Some(routine);
        (*next).Context = ptr::null_mut();
        (*next).Control = SL_INVOKE_ON_SUCCESS | SL_INVOKE_ON_ERROR | SL_INVOKE_ON_CANCEL;
    }
}

/// `IoSetCancelRoutine`.
pub(crate) unsafe fn set_cancel(irp: *mut IRP, routine: Option<PDRIVER_CANCEL>) {
    unsafe { (&raw mut (*irp).CancelRoutine).write_volatile(routine) }
}

/// An IRP of the driver's own for a device, ready to be sent.
pub(crate) unsafe fn own_irp(like: *mut IRP) -> *mut IRP {
    unsafe {
        let irp = IoAllocateIrp(1, 0);
        let (from, to) = (current(like), current(irp).sub(1));
        (*to).MajorFunction = (*from).MajorFunction;
        (*to).Parameters = (*from).Parameters;
        (*to).FileObject = (*from).FileObject;
        irp
    }
}

/// Passes a request on; the status to return.
pub(crate) unsafe fn send(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    let status = unsafe { IofCallDriver(device, irp) };
    black_box(status)
}

pub(crate) const fn zeroed_event() -> KEVENT {
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() }
}

/// Initialises an event that is not signalled.
pub(crate) unsafe fn event(event: *mut KEVENT) {
    unsafe { KeInitializeEvent(event, 0, 0) }
}

/// Waits in `KernelMode` without end.
pub(crate) unsafe fn wait(object: *mut c_void) {
    unsafe { keep(KeWaitForSingleObject(object, 0, KernelMode, 0, ptr::null())) }
}

pub(crate) unsafe fn fast_mutex(mutex: *mut FAST_MUTEX) {
    // A fast mutex and a guarded one are initialised alike.
    unsafe { KeInitializeGuardedMutex(mutex) }
}

/// Starts a system thread with a handle of the kernel; gives its object, referenced.
pub(crate) unsafe fn start_thread(routine: KSTART_ROUTINE) -> *mut c_void {
    unsafe {
        let mut attributes = kernel_handle();
        let (mut handle, mut object): (HANDLE, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
        keep(PsCreateSystemThread(
            &mut handle,
            0x1F_FFFF,
            &mut attributes,
            ptr::null_mut(),
            ptr::null_mut(),
            routine,
            ptr::null_mut(),
        ));
        keep(ObReferenceObjectByHandle(
            handle,
            0x1F_FFFF,
            ptr::null_mut(),
            KernelMode,
            &mut object,
            ptr::null_mut(),
        ));
        keep(ZwClose(handle));
        object
    }
}

pub(crate) unsafe fn join(thread: *mut c_void) {
    unsafe {
        wait(thread);
        keep(ObfDereferenceObject(thread));
    }
}

pub(crate) fn kernel_handle() -> OBJECT_ATTRIBUTES {
    OBJECT_ATTRIBUTES {
        Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
        RootDirectory: ptr::null_mut(),
        ObjectName: ptr::null_mut(),
        Attributes: OBJ_KERNEL_HANDLE,
        SecurityDescriptor: ptr::null_mut(),
        SecurityQualityOfService: ptr::null_mut(),
    }
}

/// Keeps the processor busy until another sets the flag.
pub(crate) unsafe fn stall_until(flag: &Shared<bool>) {
    while !flag.read() {
        unsafe { KeStallExecutionProcessor(10) };
    }
}
