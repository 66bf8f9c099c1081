//! The I/O request packet and the objects around it.

use core::ffi::c_void;

use crate::base::{BOOLEAN, KPROCESSOR_MODE, LARGE_INTEGER, LIST_ENTRY, UNICODE_STRING};
use crate::ke::{KDPC, KEVENT};
use crate::mm::MDL;
use crate::status::NTSTATUS;

pub const IRP_MJ_CREATE: u8 = 0x00;
pub const IRP_MJ_CLOSE: u8 = 0x02;
pub const IRP_MJ_READ: u8 = 0x03;
pub const IRP_MJ_WRITE: u8 = 0x04;
pub const IRP_MJ_QUERY_INFORMATION: u8 = 0x05;
pub const IRP_MJ_SET_INFORMATION: u8 = 0x06;
pub const IRP_MJ_FLUSH_BUFFERS: u8 = 0x09;
pub const IRP_MJ_QUERY_VOLUME_INFORMATION: u8 = 0x0A;
pub const IRP_MJ_DEVICE_CONTROL: u8 = 0x0E;
pub const IRP_MJ_INTERNAL_DEVICE_CONTROL: u8 = 0x0F;
pub const IRP_MJ_SHUTDOWN: u8 = 0x10;
pub const IRP_MJ_CLEANUP: u8 = 0x12;
pub const IRP_MJ_POWER: u8 = 0x16;
pub const IRP_MJ_SYSTEM_CONTROL: u8 = 0x17;
pub const IRP_MJ_PNP: u8 = 0x1B;
pub const IRP_MJ_MAXIMUM_FUNCTION: u8 = 0x1B;

/// `IO_STACK_LOCATION.Control`.
pub const SL_PENDING_RETURNED: u8 = 0x01;
pub const SL_INVOKE_ON_CANCEL: u8 = 0x20;
pub const SL_INVOKE_ON_SUCCESS: u8 = 0x40;
pub const SL_INVOKE_ON_ERROR: u8 = 0x80;

pub type PDRIVER_DISPATCH =
    unsafe extern "efiapi" fn(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP) -> NTSTATUS;
pub type PDRIVER_UNLOAD = unsafe extern "efiapi" fn(DriverObject: *mut DRIVER_OBJECT);
pub type PDRIVER_CANCEL =
    unsafe extern "efiapi" fn(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP);
pub type PIO_COMPLETION_ROUTINE = unsafe extern "efiapi" fn(
    DeviceObject: *mut DEVICE_OBJECT,
    Irp: *mut IRP,
    Context: *mut c_void,
) -> NTSTATUS;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IO_STATUS_BLOCK {
    pub Status: NTSTATUS,
    pub _pad: u32,
    pub Information: usize,
}
layout!(IO_STATUS_BLOCK, 0x10, Information @ 8);

/// `IO_TYPE_IRP`.
pub const IO_TYPE_IRP: i16 = 6;
/// `IO_TYPE_DEVICE`.
pub const IO_TYPE_DEVICE: i16 = 3;
/// `IO_TYPE_DRIVER`.
pub const IO_TYPE_DRIVER: i16 = 4;
/// `IO_TYPE_FILE`.
pub const IO_TYPE_FILE: i16 = 5;

#[repr(C)]
pub struct IRP {
    pub Type: i16,
    pub Size: u16,
    pub AllocationProcessorNumber: u16,
    pub Reserved: u16,
    pub MdlAddress: *mut MDL,
    pub Flags: u32,
    /// `AssociatedIrp.SystemBuffer` (the union's other arms are for file systems).
    pub SystemBuffer: *mut c_void,
    pub ThreadListEntry: LIST_ENTRY,
    pub IoStatus: IO_STATUS_BLOCK,
    pub RequestorMode: KPROCESSOR_MODE,
    pub PendingReturned: BOOLEAN,
    pub StackCount: i8,
    pub CurrentLocation: i8,
    pub Cancel: BOOLEAN,
    pub CancelIrql: u8,
    pub ApcEnvironment: i8,
    pub AllocationFlags: u8,
    pub UserIosb: *mut IO_STATUS_BLOCK,
    pub UserEvent: *mut KEVENT,
    pub UserApcRoutine: *mut c_void,
    pub UserApcContext: *mut c_void,
    pub CancelRoutine: Option<PDRIVER_CANCEL>,
    pub UserBuffer: *mut c_void,
    pub DriverContext: [*mut c_void; 4],
    pub Thread: *mut c_void,
    pub AuxiliaryBuffer: *mut u8,
    pub ListEntry: LIST_ENTRY,
    pub CurrentStackLocation: *mut IO_STACK_LOCATION,
    pub OriginalFileObject: *mut FILE_OBJECT,
    pub IrpExtension: *mut c_void,
}
layout!(IRP, 0xD0,
    MdlAddress @ 8, Flags @ 0x10, SystemBuffer @ 0x18, ThreadListEntry @ 0x20, IoStatus @ 0x30,
    RequestorMode @ 0x40, PendingReturned @ 0x41, StackCount @ 0x42, CurrentLocation @ 0x43,
    Cancel @ 0x44, CancelIrql @ 0x45, AllocationFlags @ 0x47, UserIosb @ 0x48, UserEvent @ 0x50,
    CancelRoutine @ 0x68, UserBuffer @ 0x70, DriverContext @ 0x78, Thread @ 0x98, ListEntry @ 0xA8,
    CurrentStackLocation @ 0xB8, OriginalFileObject @ 0xC0);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceIoControlParameters {
    pub OutputBufferLength: u32,
    pub _pad1: u32,
    pub InputBufferLength: u32,
    pub _pad2: u32,
    /// At +0x10 of the union: every member is `POINTER_ALIGNMENT`, which windows-sys loses.
    pub IoControlCode: u32,
    pub _pad3: u32,
    pub Type3InputBuffer: *mut c_void,
}
layout!(DeviceIoControlParameters, 0x20, InputBufferLength @ 8, IoControlCode @ 0x10, Type3InputBuffer @ 0x18);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadWriteParameters {
    pub Length: u32,
    pub _pad1: u32,
    pub Key: u32,
    pub _pad2: u32,
    pub ByteOffset: LARGE_INTEGER,
}
layout!(ReadWriteParameters, 0x18, Key @ 8, ByteOffset @ 0x10);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CreateParameters {
    pub SecurityContext: *mut c_void,
    pub Options: u32,
    pub _pad1: u32,
    pub FileAttributes: u16,
    pub ShareAccess: u16,
    pub _pad2: u32,
    pub EaLength: u32,
    pub _pad3: u32,
}
layout!(CreateParameters, 0x20, Options @ 8, FileAttributes @ 0x10, ShareAccess @ 0x12, EaLength @ 0x18);

/// `IRP_MJ_QUERY_INFORMATION`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QueryFileParameters {
    pub Length: u32,
    pub _pad: u32,
    pub FileInformationClass: i32,
    pub _pad2: u32,
}
layout!(QueryFileParameters, 0x10, FileInformationClass @ 8);

/// `IRP_MJ_POWER`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PowerParameters {
    pub SystemContext: u32,
    pub _pad1: u32,
    pub Type: i32,
    pub _pad2: u32,
    pub State: i32,
    pub _pad3: u32,
    pub ShutdownType: i32,
    pub _pad4: u32,
}
layout!(PowerParameters, 0x20, Type @ 8, State @ 0x10, ShutdownType @ 0x18);

#[repr(C)]
#[derive(Clone, Copy)]
pub union StackParameters {
    pub DeviceIoControl: DeviceIoControlParameters,
    pub ReadWrite: ReadWriteParameters,
    pub Create: CreateParameters,
    pub QueryFile: QueryFileParameters,
    pub Power: PowerParameters,
    pub Others: [*mut c_void; 4],
}

#[repr(C)]
pub struct IO_STACK_LOCATION {
    pub MajorFunction: u8,
    pub MinorFunction: u8,
    pub Flags: u8,
    pub Control: u8,
    pub Parameters: StackParameters,
    pub DeviceObject: *mut DEVICE_OBJECT,
    pub FileObject: *mut FILE_OBJECT,
    pub CompletionRoutine: Option<PIO_COMPLETION_ROUTINE>,
    pub Context: *mut c_void,
}
layout!(IO_STACK_LOCATION, 0x48, Parameters @ 8, DeviceObject @ 0x28, FileObject @ 0x30, CompletionRoutine @ 0x38, Context @ 0x40);

#[repr(C)]
pub struct DRIVER_EXTENSION {
    pub DriverObject: *mut DRIVER_OBJECT,
    pub AddDevice:
        Option<unsafe extern "efiapi" fn(*mut DRIVER_OBJECT, *mut DEVICE_OBJECT) -> NTSTATUS>,
    pub Count: u32,
    pub ServiceKeyName: UNICODE_STRING,
}
layout!(DRIVER_EXTENSION, 0x28, AddDevice @ 8, Count @ 0x10, ServiceKeyName @ 0x18);

#[repr(C)]
pub struct DRIVER_OBJECT {
    pub Type: i16,
    pub Size: i16,
    pub DeviceObject: *mut DEVICE_OBJECT,
    pub Flags: u32,
    pub DriverStart: *mut c_void,
    pub DriverSize: u32,
    pub DriverSection: *mut c_void,
    pub DriverExtension: *mut DRIVER_EXTENSION,
    pub DriverName: UNICODE_STRING,
    pub HardwareDatabase: *mut UNICODE_STRING,
    pub FastIoDispatch: *mut c_void,
    pub DriverInit: *mut c_void,
    pub DriverStartIo: *mut c_void,
    pub DriverUnload: Option<PDRIVER_UNLOAD>,
    pub MajorFunction: [Option<PDRIVER_DISPATCH>; 28],
}
layout!(DRIVER_OBJECT, 0x150,
    DeviceObject @ 8, Flags @ 0x10, DriverStart @ 0x18, DriverSize @ 0x20, DriverExtension @ 0x30,
    DriverName @ 0x38, FastIoDispatch @ 0x50, DriverInit @ 0x58, DriverStartIo @ 0x60,
    DriverUnload @ 0x68, MajorFunction @ 0x70);

#[repr(C, align(16))]
pub struct DEVICE_OBJECT {
    pub Type: i16,
    pub Size: u16,
    pub ReferenceCount: i32,
    pub DriverObject: *mut DRIVER_OBJECT,
    pub NextDevice: *mut DEVICE_OBJECT,
    pub AttachedDevice: *mut DEVICE_OBJECT,
    pub CurrentIrp: *mut IRP,
    pub Timer: *mut c_void,
    pub Flags: u32,
    pub Characteristics: u32,
    pub Vpb: *mut c_void,
    pub DeviceExtension: *mut c_void,
    pub DeviceType: u32,
    pub StackSize: i8,
    pub Queue: [usize; 9],
    pub AlignmentRequirement: u32,
    pub DeviceQueue: [usize; 5],
    pub Dpc: KDPC,
    pub ActiveThreadCount: u32,
    pub SecurityDescriptor: *mut c_void,
    pub DeviceLock: KEVENT,
    pub SectorSize: u16,
    pub Spare1: u16,
    pub DeviceObjectExtension: *mut c_void,
    pub Reserved: *mut c_void,
}
layout!(DEVICE_OBJECT, 0x150,
    ReferenceCount @ 4, DriverObject @ 8, NextDevice @ 0x10, AttachedDevice @ 0x18, Flags @ 0x30,
    Characteristics @ 0x34, DeviceExtension @ 0x40, DeviceType @ 0x48, StackSize @ 0x4C,
    AlignmentRequirement @ 0x98, DeviceQueue @ 0xA0, Dpc @ 0xC8, ActiveThreadCount @ 0x108,
    SecurityDescriptor @ 0x110, DeviceLock @ 0x118, SectorSize @ 0x130, DeviceObjectExtension @ 0x138);

#[repr(C)]
pub struct FILE_OBJECT {
    pub Type: i16,
    pub Size: i16,
    pub DeviceObject: *mut DEVICE_OBJECT,
    pub Vpb: *mut c_void,
    pub FsContext: *mut c_void,
    pub FsContext2: *mut c_void,
    pub SectionObjectPointer: *mut c_void,
    pub PrivateCacheMap: *mut c_void,
    pub FinalStatus: NTSTATUS,
    pub RelatedFileObject: *mut FILE_OBJECT,
    pub LockOperation: BOOLEAN,
    pub DeletePending: BOOLEAN,
    pub ReadAccess: BOOLEAN,
    pub WriteAccess: BOOLEAN,
    pub DeleteAccess: BOOLEAN,
    pub SharedRead: BOOLEAN,
    pub SharedWrite: BOOLEAN,
    pub SharedDelete: BOOLEAN,
    pub Flags: u32,
    pub FileName: UNICODE_STRING,
    pub CurrentByteOffset: LARGE_INTEGER,
    pub Waiters: u32,
    pub Busy: u32,
    pub LastLock: *mut c_void,
    pub Lock: KEVENT,
    pub Event: KEVENT,
    pub CompletionContext: *mut c_void,
    pub IrpListLock: usize,
    pub IrpList: LIST_ENTRY,
    pub FileObjectExtension: *mut c_void,
}
layout!(FILE_OBJECT, 0xD8,
    DeviceObject @ 8, FsContext @ 0x18, FsContext2 @ 0x20, FinalStatus @ 0x38, LockOperation @ 0x48,
    ReadAccess @ 0x4A, Flags @ 0x50, FileName @ 0x58, CurrentByteOffset @ 0x68, Lock @ 0x80,
    Event @ 0x98, IrpList @ 0xC0, FileObjectExtension @ 0xD0);
