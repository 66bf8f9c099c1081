//! Queues: of devices, of IRPs that can be cancelled, of threads that wait for work.

use core::ffi::c_void;

use crate::base::{BOOLEAN, KPROCESSOR_MODE, LARGE_INTEGER, LIST_ENTRY};
use crate::irp::{DEVICE_OBJECT, IRP, PDRIVER_CANCEL};
use crate::ke::{DISPATCHER_HEADER, KSPIN_LOCK};
use crate::status::NTSTATUS;

/// `KDEVICE_QUEUE.Type`.
pub const DEVICE_QUEUE_OBJECT: i16 = 20;

#[repr(C)]
pub struct KDEVICE_QUEUE {
    pub Type: i16,
    pub Size: i16,
    pub DeviceListHead: LIST_ENTRY,
    pub Lock: KSPIN_LOCK,
    pub Busy: BOOLEAN,
}
layout!(KDEVICE_QUEUE, 0x28, DeviceListHead @ 8, Lock @ 0x18, Busy @ 0x20);

#[repr(C)]
pub struct KDEVICE_QUEUE_ENTRY {
    pub DeviceListEntry: LIST_ENTRY,
    pub SortKey: u32,
    pub Inserted: BOOLEAN,
}
layout!(KDEVICE_QUEUE_ENTRY, 0x18, SortKey @ 0x10, Inserted @ 0x14);

/// A queue of IRPs whose driver says how they are kept.
#[repr(C)]
pub struct IO_CSQ {
    pub Type: u32,
    pub CsqInsertIrp: *mut c_void,
    pub CsqRemoveIrp: *mut c_void,
    pub CsqPeekNextIrp: *mut c_void,
    pub CsqAcquireLock: *mut c_void,
    pub CsqReleaseLock: *mut c_void,
    pub CsqCompleteCanceledIrp: *mut c_void,
    pub ReservePointer: *mut c_void,
}
layout!(IO_CSQ, 0x40, CsqInsertIrp @ 8, CsqCompleteCanceledIrp @ 0x30);

/// How an IRP in such a queue is found again.
#[repr(C)]
pub struct IO_CSQ_IRP_CONTEXT {
    pub Type: u32,
    pub Irp: *mut IRP,
    pub Csq: *mut IO_CSQ,
}
layout!(IO_CSQ_IRP_CONTEXT, 0x18, Irp @ 8, Csq @ 0x10);

/// `IO_CSQ.Type` and `IO_CSQ_IRP_CONTEXT.Type`.
pub const IO_TYPE_CSQ_IRP_CONTEXT: u32 = 1;
pub const IO_TYPE_CSQ: u32 = 2;
pub const IO_TYPE_CSQ_EX: u32 = 3;

/// A queue that threads wait at.
#[repr(C)]
pub struct KQUEUE {
    pub Header: DISPATCHER_HEADER,
    pub EntryListHead: LIST_ENTRY,
    pub CurrentCount: u32,
    pub MaximumCount: u32,
    pub ThreadListHead: LIST_ENTRY,
}
layout!(KQUEUE, 0x40, EntryListHead @ 0x18, CurrentCount @ 0x28, MaximumCount @ 0x2C, ThreadListHead @ 0x30);

/// `DISPATCHER_HEADER.Type` of a queue.
pub const QUEUE_OBJECT: u8 = 4;

image! {
    /// Initialises a device queue, not busy.
    fn KeInitializeDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE) where irql <= DISPATCH_LEVEL;
    /// Queues an entry if the device is busy; else the device becomes busy, and false is returned.
    fn KeInsertDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY) -> BOOLEAN where irql == DISPATCH_LEVEL;
    /// Queues an entry by its key if the device is busy; else the device becomes busy, and false is returned.
    fn KeInsertByKeyDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY, SortKey: u32) -> BOOLEAN where irql == DISPATCH_LEVEL;
    /// The first entry; null, and the device is not busy, when there is none.
    fn KeRemoveDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE) -> *mut KDEVICE_QUEUE_ENTRY where irql == DISPATCH_LEVEL;
    /// The first entry whose key is not below one, or else the first; null, and the device is not busy, when there is none.
    fn KeRemoveByKeyDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, SortKey: u32) -> *mut KDEVICE_QUEUE_ENTRY where irql == DISPATCH_LEVEL;
    /// Takes an entry out; false if it is not in.
    fn KeRemoveEntryDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY) -> BOOLEAN where irql <= DISPATCH_LEVEL;
    /// Calls the driver's `StartIo` with an IRP, or queues it while the device is busy.
    fn IoStartPacket(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, Key: *mut u32, CancelFunction: Option<PDRIVER_CANCEL>) where irql <= DISPATCH_LEVEL;
    /// Calls the driver's `StartIo` with the next IRP of the queue, if there is one.
    fn IoStartNextPacket(DeviceObject: *mut DEVICE_OBJECT, Cancelable: BOOLEAN) where irql == DISPATCH_LEVEL;
    /// Calls the driver's `StartIo` with the next IRP from a key on.
    fn IoStartNextPacketByKey(DeviceObject: *mut DEVICE_OBJECT, Cancelable: BOOLEAN, Key: u32) where irql <= DISPATCH_LEVEL;
    /// Says how `IoStartNextPacket` calls `StartIo`: it is called at once here, whatever is asked for.
    fn IoSetStartIoAttributes(DeviceObject: *mut DEVICE_OBJECT, DeferredStartIo: BOOLEAN, NonCancelable: BOOLEAN) where irql <= HIGH_LEVEL;
    /// Initialises a queue of IRPs that can be cancelled.
    fn IoCsqInitialize(Csq: *mut IO_CSQ, CsqInsertIrp: *mut c_void, CsqRemoveIrp: *mut c_void, CsqPeekNextIrp: *mut c_void, CsqAcquireLock: *mut c_void, CsqReleaseLock: *mut c_void, CsqCompleteCanceledIrp: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// As `IoCsqInitialize`; the routine that inserts may refuse.
    fn IoCsqInitializeEx(Csq: *mut IO_CSQ, CsqInsertIrp: *mut c_void, CsqRemoveIrp: *mut c_void, CsqPeekNextIrp: *mut c_void, CsqAcquireLock: *mut c_void, CsqReleaseLock: *mut c_void, CsqCompleteCanceledIrp: *mut c_void) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Marks an IRP pending and puts it into a queue.
    fn IoCsqInsertIrp(Csq: *mut IO_CSQ, Irp: *mut IRP, Context: *mut IO_CSQ_IRP_CONTEXT) where irql <= DISPATCH_LEVEL;
    /// As `IoCsqInsertIrp`; the status with which the driver's routine refuses.
    fn IoCsqInsertIrpEx(Csq: *mut IO_CSQ, Irp: *mut IRP, Context: *mut IO_CSQ_IRP_CONTEXT, InsertContext: *mut c_void) -> NTSTATUS where irql <= DISPATCH_LEVEL;
    /// Takes an IRP out of its queue; null if it is being cancelled.
    fn IoCsqRemoveIrp(Csq: *mut IO_CSQ, Context: *mut IO_CSQ_IRP_CONTEXT) -> *mut IRP where irql <= DISPATCH_LEVEL;
    /// Takes the next IRP that matches out of a queue; null if there is none.
    fn IoCsqRemoveNextIrp(Csq: *mut IO_CSQ, PeekContext: *mut c_void) -> *mut IRP where irql <= DISPATCH_LEVEL;
    /// Initialises a queue that threads wait at.
    fn KeInitializeQueue(Queue: *mut KQUEUE, Count: u32) where irql <= DISPATCH_LEVEL;
    /// Adds an entry at the end; returns how many there were.
    fn KeInsertQueue(Queue: *mut KQUEUE, Entry: *mut LIST_ENTRY) -> i32 where irql <= DISPATCH_LEVEL;
    /// Adds an entry at the start; returns how many there were.
    fn KeInsertHeadQueue(Queue: *mut KQUEUE, Entry: *mut LIST_ENTRY) -> i32 where irql <= DISPATCH_LEVEL;
    /// Number of entries.
    fn KeReadStateQueue(Queue: *mut KQUEUE) -> i32 where irql <= DISPATCH_LEVEL;
    /// Waits for an entry and takes it; `STATUS_TIMEOUT` in its place when the time is over.
    fn KeRemoveQueue(Queue: *mut KQUEUE, WaitMode: KPROCESSOR_MODE, Timeout: *const LARGE_INTEGER) -> *mut LIST_ENTRY where irql <= DISPATCH_LEVEL, WAITS;
    /// Ends a queue; its entries, as a list without a head, or null.
    fn KeRundownQueue(Queue: *mut KQUEUE) -> *mut LIST_ENTRY where irql <= DISPATCH_LEVEL;
}
