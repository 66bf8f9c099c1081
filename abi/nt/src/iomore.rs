//! I/O manager: device stacks, driver extensions, timers, and IRPs that drivers make.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, LARGE_INTEGER, LIST_ENTRY, UNICODE_STRING};
use crate::irp::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STATUS_BLOCK, IRP};
use crate::status::NTSTATUS;

/// Numbers of devices, which their drivers count.
#[repr(C)]
#[derive(Default)]
pub struct CONFIGURATION_INFORMATION {
    pub DiskCount: u32,
    pub FloppyCount: u32,
    pub CdRomCount: u32,
    pub TapeCount: u32,
    pub ScsiPortCount: u32,
    pub SerialCount: u32,
    pub ParallelCount: u32,
    pub AtDiskPrimaryAddressClaimed: BOOLEAN,
    pub AtDiskSecondaryAddressClaimed: BOOLEAN,
    pub Version: u32,
    pub MediumChangerCount: u32,
}
layout!(CONFIGURATION_INFORMATION, 0x28, ParallelCount @ 0x18, AtDiskPrimaryAddressClaimed @ 0x1C, Version @ 0x20);

/// A work item of `ExQueueWorkItem`, in the driver's memory.
#[repr(C)]
pub struct WORK_QUEUE_ITEM {
    pub List: LIST_ENTRY,
    pub WorkerRoutine: *mut c_void,
    pub Parameter: *mut c_void,
}
layout!(WORK_QUEUE_ITEM, 0x20, WorkerRoutine @ 0x10, Parameter @ 0x18);

/// What generic rights mean for a type of object.
#[repr(C)]
pub struct GENERIC_MAPPING {
    pub GenericRead: ACCESS_MASK,
    pub GenericWrite: ACCESS_MASK,
    pub GenericExecute: ACCESS_MASK,
    pub GenericAll: ACCESS_MASK,
}
layout!(GENERIC_MAPPING, 0x10, GenericAll @ 0xC);

pub type IO_TIMER_ROUTINE =
    unsafe extern "efiapi" fn(DeviceObject: *mut DEVICE_OBJECT, Context: *mut c_void);
pub type WORKER_THREAD_ROUTINE = unsafe extern "efiapi" fn(Parameter: *mut c_void);

image! {
    /// The numbers of disks, ports and so on, for drivers to count.
    fn IoGetConfigurationInformation() -> *mut CONFIGURATION_INFORMATION where irql == PASSIVE_LEVEL;
    /// Allocates a block that belongs to a driver object and is found by an identity.
    fn IoAllocateDriverObjectExtension(DriverObject: *mut DRIVER_OBJECT, ClientIdentificationAddress: *mut c_void, DriverObjectExtensionSize: u32, DriverObjectExtension: *mut *mut c_void) -> NTSTATUS where irql <= DISPATCH_LEVEL, FAILS;
    /// The block of `IoAllocateDriverObjectExtension`; null if there is none.
    fn IoGetDriverObjectExtension(DriverObject: *mut DRIVER_OBJECT, ClientIdentificationAddress: *mut c_void) -> *mut c_void where irql <= DISPATCH_LEVEL;
    /// The device that requests to a file go to.
    fn IoGetRelatedDeviceObject(FileObject: *mut FILE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL;
    /// The top of a device stack, not referenced.
    fn IoGetAttachedDevice(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL;
    /// The device below one in its stack, referenced; null below the lowest.
    fn IoGetLowerDeviceObject(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// The lowest device of a stack, referenced.
    fn IoGetDeviceAttachmentBaseRef(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// The devices of a driver, referenced, as many as fit.
    fn IoEnumerateDeviceObjectList(DriverObject: *mut DRIVER_OBJECT, DeviceObjectList: *mut *mut DEVICE_OBJECT, DeviceObjectListSize: u32, ActualNumberDeviceObjects: *mut u32) -> NTSTATUS where irql <= DISPATCH_LEVEL, ACQUIRES;
    /// Attaches a device on top of a stack, and says above which device it is before anything else can happen.
    fn IoAttachDeviceToDeviceStackSafe(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *mut DEVICE_OBJECT, AttachedToDeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS where irql <= DISPATCH_LEVEL;
    /// Attaches a device on top of the stack of a named one.
    fn IoAttachDevice(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *const UNICODE_STRING, AttachedDevice: *mut *mut DEVICE_OBJECT) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// The bounds of the thread's kernel stack.
    fn IoGetStackLimits(LowLimit: *mut usize, HighLimit: *mut usize) where irql <= HIGH_LEVEL;
    /// The IRP that a file system entered the thread with.
    fn IoGetTopLevelIrp() -> *mut IRP where irql <= DISPATCH_LEVEL;
    /// Sets the IRP that a file system entered the thread with.
    fn IoSetTopLevelIrp(Irp: *mut IRP) where irql <= DISPATCH_LEVEL;
    /// Whether the thread's hard errors are shown; returns whether they were.
    fn IoSetThreadHardErrorMode(EnableHardErrors: BOOLEAN) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Shows a message to the user; here it goes to the debugger.
    fn IoRaiseInformationalHardError(ErrorStatus: NTSTATUS, String: *mut UNICODE_STRING, Thread: *mut c_void) -> BOOLEAN where irql <= APC_LEVEL;
    /// Makes a device visible under another name.
    fn IoCreateUnprotectedSymbolicLink(SymbolicLinkName: *const UNICODE_STRING, DeviceName: *const UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Asks for an `IRP_MJ_SHUTDOWN` after the file systems are gone.
    fn IoRegisterLastChanceShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Whether the file of an IOCTL was opened with the rights asked for (`FILE_READ_DATA`, `FILE_WRITE_DATA`).
    fn IoValidateDeviceIoControlAccess(Irp: *mut IRP, RequiredAccess: u32) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// What generic rights mean for a file.
    fn IoGetFileObjectGenericMapping() -> *const GENERIC_MAPPING where irql == PASSIVE_LEVEL;
    /// Whether a thread is the system's.
    fn IoIsSystemThread(Thread: *mut c_void) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Builds a read, write, flush or shutdown IRP that the driver frees.
    fn IoBuildAsynchronousFsdRequest(MajorFunction: u32, DeviceObject: *mut DEVICE_OBJECT, Buffer: *mut c_void, Length: u32, StartingOffset: *const LARGE_INTEGER, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Makes an IRP of the driver's as good as new.
    fn IoReuseIrp(Irp: *mut IRP, Status: NTSTATUS) where irql <= DISPATCH_LEVEL;
    /// Initialises an IRP. Only IRPs of `IoAllocateIrp` can be followed here: one in other memory is reported as not provided.
    fn IoInitializeIrp(Irp: *mut IRP, PacketSize: u16, StackSize: i8) where irql <= DISPATCH_LEVEL;
    /// Gives a device a timer whose routine is called once a second, at `DISPATCH_LEVEL`.
    fn IoInitializeTimer(DeviceObject: *mut DEVICE_OBJECT, TimerRoutine: IO_TIMER_ROUTINE, Context: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Starts a device's timer.
    fn IoStartTimer(DeviceObject: *mut DEVICE_OBJECT) where irql <= DISPATCH_LEVEL;
    /// Stops a device's timer.
    fn IoStopTimer(DeviceObject: *mut DEVICE_OBJECT) where irql <= DISPATCH_LEVEL;
    /// Queues a work item in the driver's memory to a system thread.
    fn ExQueueWorkItem(WorkItem: *mut WORK_QUEUE_ITEM, QueueType: i32) where irql <= DISPATCH_LEVEL;
    /// Bytes of a work item for `IoInitializeWorkItem`.
    fn IoSizeofWorkItem() -> u32 where irql <= HIGH_LEVEL;
    /// Makes a work item of the driver's memory.
    fn IoInitializeWorkItem(IoObject: *mut c_void, IoWorkItem: *mut c_void) where irql <= HIGH_LEVEL;
    /// Ends a work item of `IoInitializeWorkItem`.
    fn IoUninitializeWorkItem(IoWorkItem: *mut c_void) where irql <= HIGH_LEVEL;
    /// Asks the configuration for a controller of the firmware's. This machine's lists none.
    fn IoQueryDeviceDescription(BusType: *mut i32, BusNumber: *mut u32, ControllerType: *mut i32, ControllerNumber: *mut u32, PeripheralType: *mut i32, PeripheralNumber: *mut u32, CalloutRoutine: *mut c_void, Context: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL;
}
