//! I/O manager.

use core::ffi::c_void;

use crate::base::{BOOLEAN, HANDLE, LARGE_INTEGER, UNICODE_STRING};
use crate::irp::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STATUS_BLOCK, IRP};
use crate::ke::{KEVENT, KIRQL};
use crate::mm::MDL;
use crate::status::NTSTATUS;

pub const FILE_DEVICE_UNKNOWN: u32 = 0x22;
pub const FILE_DEVICE_SECURE_OPEN: u32 = 0x100;

/// `DEVICE_OBJECT.Flags`.
pub const DO_BUFFERED_IO: u32 = 0x4;
pub const DO_EXCLUSIVE: u32 = 0x8;
pub const DO_DIRECT_IO: u32 = 0x10;
pub const DO_DEVICE_INITIALIZING: u32 = 0x80;

pub const METHOD_BUFFERED: u32 = 0;
pub const METHOD_IN_DIRECT: u32 = 1;
pub const METHOD_OUT_DIRECT: u32 = 2;
pub const METHOD_NEITHER: u32 = 3;
pub const FILE_ANY_ACCESS: u32 = 0;
pub const FILE_READ_DATA: u32 = 1;
pub const FILE_WRITE_DATA: u32 = 2;

/// `CTL_CODE` (devioctl.h).
#[must_use]
pub const fn ctl_code(device_type: u32, function: u32, method: u32, access: u32) -> u32 {
    device_type << 16 | access << 14 | function << 2 | method
}

/// `IO_NO_INCREMENT`.
pub const IO_NO_INCREMENT: i8 = 0;
/// `WORK_QUEUE_TYPE`.
pub const CriticalWorkQueue: i32 = 0;
pub const DelayedWorkQueue: i32 = 1;

pub type IO_WORKITEM_ROUTINE =
    unsafe extern "efiapi" fn(DeviceObject: *mut DEVICE_OBJECT, Context: *mut c_void);
pub type IO_WORKITEM_ROUTINE_EX =
    unsafe extern "efiapi" fn(IoObject: *mut c_void, Context: *mut c_void, IoWorkItem: *mut c_void);

image! {
    /// Creates a device object with a zeroed extension.
    fn IoCreateDevice(DriverObject: *mut DRIVER_OBJECT, DeviceExtensionSize: u32, DeviceName: *const UNICODE_STRING, DeviceType: u32, DeviceCharacteristics: u32, Exclusive: BOOLEAN, DeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Deletes a device object.
    fn IoDeleteDevice(DeviceObject: *mut DEVICE_OBJECT) where irql <= APC_LEVEL, RELEASES;
    /// Makes a device visible under another name.
    fn IoCreateSymbolicLink(SymbolicLinkName: *const UNICODE_STRING, DeviceName: *const UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Removes a symbolic link.
    fn IoDeleteSymbolicLink(SymbolicLinkName: *const UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Completes an IRP: the driver must not touch it afterwards.
    fn IofCompleteRequest(Irp: *mut IRP, PriorityBoost: i8) where irql <= DISPATCH_LEVEL;
    /// Sends an IRP to a device.
    fn IofCallDriver(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP) -> NTSTATUS where irql <= DISPATCH_LEVEL;
    /// Allocates an IRP.
    fn IoAllocateIrp(StackSize: i8, ChargeQuota: BOOLEAN) -> *mut IRP where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees an IRP that the driver allocated.
    fn IoFreeIrp(Irp: *mut IRP) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Cancels an IRP; true if it had a cancel routine.
    fn IoCancelIrp(Irp: *mut IRP) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Acquires the system cancel spin lock.
    fn IoAcquireCancelSpinLock(Irql: *mut KIRQL) where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Releases the system cancel spin lock.
    fn IoReleaseCancelSpinLock(Irql: KIRQL) where irql == DISPATCH_LEVEL, RELEASES;
    /// Builds an IRP_MJ_DEVICE_CONTROL that the I/O manager frees.
    fn IoBuildDeviceIoControlRequest(IoControlCode: u32, DeviceObject: *mut DEVICE_OBJECT, InputBuffer: *mut c_void, InputBufferLength: u32, OutputBuffer: *mut c_void, OutputBufferLength: u32, InternalDeviceIoControl: BOOLEAN, Event: *mut KEVENT, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP where irql <= APC_LEVEL, FAILS;
    /// Builds a read, write, flush or shutdown IRP that the I/O manager frees.
    fn IoBuildSynchronousFsdRequest(MajorFunction: u32, DeviceObject: *mut DEVICE_OBJECT, Buffer: *mut c_void, Length: u32, StartingOffset: *const LARGE_INTEGER, Event: *mut KEVENT, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP where irql <= APC_LEVEL, FAILS;
    /// Allocates a memory descriptor list for a buffer.
    fn IoAllocateMdl(VirtualAddress: *mut c_void, Length: u32, SecondaryBuffer: BOOLEAN, ChargeQuota: BOOLEAN, Irp: *mut IRP) -> *mut MDL where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Frees a memory descriptor list.
    fn IoFreeMdl(Mdl: *mut MDL) where irql <= DISPATCH_LEVEL, RELEASES;
    /// Allocates a work item.
    fn IoAllocateWorkItem(DeviceObject: *mut DEVICE_OBJECT) -> *mut c_void where irql <= DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Queues a work item to a system thread.
    fn IoQueueWorkItem(IoWorkItem: *mut c_void, WorkerRoutine: IO_WORKITEM_ROUTINE, QueueType: i32, Context: *mut c_void) where irql <= DISPATCH_LEVEL;
    /// Queues a work item whose routine also gets the item.
    fn IoQueueWorkItemEx(IoWorkItem: *mut c_void, WorkerRoutine: IO_WORKITEM_ROUTINE_EX, QueueType: i32, Context: *mut c_void) where irql <= DISPATCH_LEVEL;
    /// Frees a work item that is not queued.
    fn IoFreeWorkItem(IoWorkItem: *mut c_void) where irql <= DISPATCH_LEVEL, RELEASES;
    /// The process of the current thread.
    fn IoGetCurrentProcess() -> *mut c_void where irql <= HIGH_LEVEL;
    /// The process that a request came from.
    fn IoGetRequestorProcess(Irp: *mut IRP) -> *mut c_void where irql <= DISPATCH_LEVEL;
    /// The id of the process that a request came from.
    fn IoGetRequestorProcessId(Irp: *mut IRP) -> u32 where irql <= DISPATCH_LEVEL;
    /// Whether a request came from a 32-bit process.
    fn IoIs32bitProcess(Irp: *mut IRP) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Whether the kernel's WDM is at least this version.
    fn IoIsWdmVersionAvailable(MajorVersion: u8, MinorVersion: u8) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Opens a device by name; the file object must be dereferenced.
    fn IoGetDeviceObjectPointer(ObjectName: *const UNICODE_STRING, DesiredAccess: u32, FileObject: *mut *mut FILE_OBJECT, DeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Attaches a device on top of a stack; returns the device it is now above.
    fn IoAttachDeviceToDeviceStack(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL;
    /// Detaches the device above `TargetDevice`.
    fn IoDetachDevice(TargetDevice: *mut DEVICE_OBJECT) where irql == PASSIVE_LEVEL;
    /// The top of a device stack, referenced.
    fn IoGetAttachedDeviceReference(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Asks for an IRP_MJ_SHUTDOWN at shutdown.
    fn IoRegisterShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Withdraws a shutdown notification.
    fn IoUnregisterShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) where irql == PASSIVE_LEVEL, RELEASES;
    /// Creates or opens a named notification event.
    fn IoCreateNotificationEvent(EventName: *const UNICODE_STRING, EventHandle: *mut HANDLE) -> *mut KEVENT where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
}
