//! Queues: of devices and their `StartIo`, of IRPs that can be cancelled, of waiting threads.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest::{self, field, get, set};
use crate::machine::Machine;
use crate::machine::current;
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{BOOLEAN, KPROCESSOR_MODE, LARGE_INTEGER, LIST_ENTRY};
use nt::irp::{DEVICE_OBJECT, IRP, PDRIVER_CANCEL, SL_PENDING_RETURNED};
use nt::ke::DISPATCH_LEVEL;
use nt::queue::{
    DEVICE_QUEUE_OBJECT, IO_CSQ, IO_CSQ_IRP_CONTEXT, IO_TYPE_CSQ, IO_TYPE_CSQ_EX,
    IO_TYPE_CSQ_IRP_CONTEXT, KDEVICE_QUEUE, KDEVICE_QUEUE_ENTRY, KQUEUE, QUEUE_OBJECT,
};
use nt::status::{STATUS_SUCCESS, STATUS_TIMEOUT};
use std::ffi::c_void;
use std::ptr;

exports! {
    queue;

    fn KeInitializeDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE) { initialize_device_queue(DeviceQueue) }
    fn KeInsertDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY) -> BOOLEAN { u8::from(insert(DeviceQueue, DeviceQueueEntry, None)) }
    fn KeInsertByKeyDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY, SortKey: u32) -> BOOLEAN { u8::from(insert(DeviceQueue, DeviceQueueEntry, Some(SortKey))) }
    fn KeRemoveDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE) -> *mut KDEVICE_QUEUE_ENTRY { remove(DeviceQueue, 0) }
    fn KeRemoveByKeyDeviceQueue(DeviceQueue: *mut KDEVICE_QUEUE, SortKey: u32) -> *mut KDEVICE_QUEUE_ENTRY { remove(DeviceQueue, SortKey) }
    fn KeRemoveEntryDeviceQueue(_DeviceQueue: *mut KDEVICE_QUEUE, DeviceQueueEntry: *mut KDEVICE_QUEUE_ENTRY) -> BOOLEAN {
        if get!(DeviceQueueEntry, Inserted) == 0 {
            return 0;
        }
        unlink(field!(DeviceQueueEntry, DeviceListEntry));
        set!(DeviceQueueEntry, Inserted = 0u8);
        1
    }
    fn IoStartPacket(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP, Key: *mut u32, CancelFunction: Option<PDRIVER_CANCEL>) {
        let machine = current();
        machine.check_device(DeviceObject);
        machine.irp_block(Irp);
        let old = machine.raise(DISPATCH_LEVEL);
        let cancelable = CancelFunction.is_some();
        if cancelable {
            machine.acquire(machine.cancel_lock.as_ptr());
            set!(Irp, CancelRoutine = CancelFunction);
        }
        let key = if Key.is_null() { None } else { Some(guest::read(Key)) };
        let queued = insert(field!(DeviceObject, DeviceQueue).cast(), entry_of(Irp), key);
        if queued {
            machine.leave_cancel_lock(cancelable);
            if cancelable && get!(Irp, Cancel) != 0 {
                machine.cancel_irp(Irp);
            }
        } else {
            set!(DeviceObject, CurrentIrp = Irp);
            machine.leave_cancel_lock(cancelable);
            machine.start_io(DeviceObject, Irp);
        }
        machine.lower(old);
    }
    fn IoStartNextPacket(DeviceObject: *mut DEVICE_OBJECT, Cancelable: BOOLEAN) { current().start_next(DeviceObject, Cancelable != 0, 0) }
    fn IoStartNextPacketByKey(DeviceObject: *mut DEVICE_OBJECT, Cancelable: BOOLEAN, Key: u32) { current().start_next(DeviceObject, Cancelable != 0, Key) }
    fn IoSetStartIoAttributes(DeviceObject: *mut DEVICE_OBJECT, _DeferredStartIo: BOOLEAN, _NonCancelable: BOOLEAN) { current().check_device(DeviceObject) }
    fn IoCsqInitialize(Csq: *mut IO_CSQ, CsqInsertIrp: *mut c_void, CsqRemoveIrp: *mut c_void, CsqPeekNextIrp: *mut c_void, CsqAcquireLock: *mut c_void, CsqReleaseLock: *mut c_void, CsqCompleteCanceledIrp: *mut c_void) -> NTSTATUS {
        guest::write(Csq, IO_CSQ { Type: IO_TYPE_CSQ, CsqInsertIrp, CsqRemoveIrp, CsqPeekNextIrp, CsqAcquireLock, CsqReleaseLock, CsqCompleteCanceledIrp, ReservePointer: ptr::null_mut() });
        STATUS_SUCCESS
    }
    fn IoCsqInitializeEx(Csq: *mut IO_CSQ, CsqInsertIrp: *mut c_void, CsqRemoveIrp: *mut c_void, CsqPeekNextIrp: *mut c_void, CsqAcquireLock: *mut c_void, CsqReleaseLock: *mut c_void, CsqCompleteCanceledIrp: *mut c_void) -> NTSTATUS {
        guest::write(Csq, IO_CSQ { Type: IO_TYPE_CSQ_EX, CsqInsertIrp, CsqRemoveIrp, CsqPeekNextIrp, CsqAcquireLock, CsqReleaseLock, CsqCompleteCanceledIrp, ReservePointer: ptr::null_mut() });
        STATUS_SUCCESS
    }
    fn IoCsqInsertIrp(Csq: *mut IO_CSQ, Irp: *mut IRP, Context: *mut IO_CSQ_IRP_CONTEXT) { current().csq_insert(Csq, Irp, Context, ptr::null_mut()); }
    fn IoCsqInsertIrpEx(Csq: *mut IO_CSQ, Irp: *mut IRP, Context: *mut IO_CSQ_IRP_CONTEXT, InsertContext: *mut c_void) -> NTSTATUS { current().csq_insert(Csq, Irp, Context, InsertContext) }
    fn IoCsqRemoveIrp(Csq: *mut IO_CSQ, Context: *mut IO_CSQ_IRP_CONTEXT) -> *mut IRP {
        let machine = current();
        let lock = machine.csq_lock(Csq);
        let irp = get!(Context, Irp);
        let mine = !irp.is_null() && machine.csq_claim(Csq, irp);
        machine.csq_unlock(Csq, lock);
        if mine { irp } else { ptr::null_mut() }
    }
    fn IoCsqRemoveNextIrp(Csq: *mut IO_CSQ, PeekContext: *mut c_void) -> *mut IRP {
        let machine = current();
        let lock = machine.csq_lock(Csq);
        let mut irp: *mut IRP = ptr::null_mut();
        loop {
            let peek = get!(Csq, CsqPeekNextIrp) as u64;
            irp = machine.call(peek, [Csq as u64, irp as u64, PeekContext as u64, 0]) as *mut IRP;
            if irp.is_null() || machine.csq_claim(Csq, irp) {
                break;
            }
        }
        machine.csq_unlock(Csq, lock);
        irp
    }
    fn KeInitializeQueue(Queue: *mut KQUEUE, Count: u32) {
        guest::set_bytes(Queue.cast(), 0, size_of::<KQUEUE>());
        super::ke::initialize_header(Queue.cast(), QUEUE_OBJECT, size_of::<KQUEUE>(), 0);
        empty(field!(Queue, EntryListHead));
        empty(field!(Queue, ThreadListHead));
        let limit = if Count == 0 { u32::try_from(current().cpu_count()).unwrap_or(u32::MAX) } else { Count };
        set!(Queue, MaximumCount = limit);
    }
    fn KeInsertQueue(Queue: *mut KQUEUE, Entry: *mut LIST_ENTRY) -> i32 {
        let head = field!(Queue, EntryListHead);
        link(get!(head, Blink), Entry, head);
        current().signal(Queue as u64, get!(Queue, Header.SignalState) + 1)
    }
    fn KeInsertHeadQueue(Queue: *mut KQUEUE, Entry: *mut LIST_ENTRY) -> i32 {
        let head = field!(Queue, EntryListHead);
        link(head, Entry, get!(head, Flink));
        current().signal(Queue as u64, get!(Queue, Header.SignalState) + 1)
    }
    fn KeReadStateQueue(Queue: *mut KQUEUE) -> i32 { get!(Queue, Header.SignalState) }
    fn KeRemoveQueue(Queue: *mut KQUEUE, _WaitMode: KPROCESSOR_MODE, Timeout: *const LARGE_INTEGER) -> *mut LIST_ENTRY {
        let machine = current();
        let timeout = machine.timeout(Timeout);
        let head = field!(Queue, EntryListHead);
        while get!(Queue, Header.SignalState) <= 0 {
            let outcome = machine.wait(&[Queue as u64], false, timeout);
            if outcome == STATUS_TIMEOUT {
                return outcome.to_u32() as usize as *mut LIST_ENTRY;
            }
        }
        let first = get!(head, Flink);
        unlink(first);
        set!(Queue, Header.SignalState = get!(Queue, Header.SignalState) - 1);
        first
    }
    fn KeRundownQueue(Queue: *mut KQUEUE) -> *mut LIST_ENTRY {
        let head = field!(Queue, EntryListHead);
        let first = get!(head, Flink);
        set!(Queue, Header.SignalState = 0);
        if ptr::eq(first, head) {
            return ptr::null_mut();
        }
        unlink(head);
        empty(head);
        first
    }
}

pub(in crate::exports) fn initialize_device_queue(queue: *mut KDEVICE_QUEUE) {
    guest::set_bytes(queue.cast(), 0, size_of::<KDEVICE_QUEUE>());
    set!(queue, Type = DEVICE_QUEUE_OBJECT);
    let size = i16::try_from(size_of::<KDEVICE_QUEUE>()).unwrap_or(0);
    set!(queue, Size = size);
    empty(field!(queue, DeviceListHead));
}

fn empty(list: *mut LIST_ENTRY) {
    set!(list, Flink = list);
    set!(list, Blink = list);
}

fn link(before: *mut LIST_ENTRY, entry: *mut LIST_ENTRY, after: *mut LIST_ENTRY) {
    set!(entry, Flink = after);
    set!(entry, Blink = before);
    set!(before, Flink = entry);
    set!(after, Blink = entry);
}

fn unlink(entry: *mut LIST_ENTRY) {
    let (before, after) = (get!(entry, Blink), get!(entry, Flink));
    set!(before, Flink = after);
    set!(after, Blink = before);
}

/// The entries of a device queue, in order. An entry begins with its links.
fn entries(queue: *mut KDEVICE_QUEUE) -> Vec<*mut KDEVICE_QUEUE_ENTRY> {
    let head = field!(queue, DeviceListHead);
    let mut entries = Vec::new();
    let mut at = get!(head, Flink);
    while !ptr::eq(at, head) {
        entries.push(at.cast());
        at = get!(at, Flink);
    }
    entries
}

fn insert(queue: *mut KDEVICE_QUEUE, entry: *mut KDEVICE_QUEUE_ENTRY, key: Option<u32>) -> bool {
    if get!(queue, Busy) == 0 {
        set!(queue, Busy = 1u8);
        set!(entry, Inserted = 0u8);
        return false;
    }
    let head = field!(queue, DeviceListHead);
    let after = key.and_then(|key| {
        set!(entry, SortKey = key);
        entries(queue)
            .into_iter()
            .find(|other| get!(*other, SortKey) > key)
    });
    let after = after.map_or(head, |other| field!(other, DeviceListEntry));
    link(get!(after, Blink), field!(entry, DeviceListEntry), after);
    set!(entry, Inserted = 1u8);
    true
}

fn remove(queue: *mut KDEVICE_QUEUE, key: u32) -> *mut KDEVICE_QUEUE_ENTRY {
    let waiting = entries(queue);
    let from_key = waiting.iter().find(|entry| get!(**entry, SortKey) >= key);
    match from_key.or(waiting.first()).copied() {
        Some(entry) => {
            unlink(field!(entry, DeviceListEntry));
            set!(entry, Inserted = 0u8);
            entry
        }
        None => {
            set!(queue, Busy = 0u8);
            ptr::null_mut()
        }
    }
}

/// The device-queue entry of an IRP (`Tail.Overlay.DeviceQueueEntry`), which shares room with its driver's words.
fn entry_of(irp: *mut IRP) -> *mut KDEVICE_QUEUE_ENTRY {
    field!(irp, DriverContext).cast()
}

fn irp_of(entry: *mut KDEVICE_QUEUE_ENTRY) -> *mut IRP {
    entry
        .wrapping_byte_sub(std::mem::offset_of!(IRP, DriverContext))
        .cast()
}

/// What an IRP's cancel routine is while it is in a cancel-safe queue; [`Machine::cancel_irp`] knows it.
unsafe extern "efiapi" fn csq_cancelled(_device: *mut DEVICE_OBJECT, irp: *mut IRP) {
    super::guard(|| current().csq_cancel(irp));
}

/// Address of the cancel routine of IRPs in cancel-safe queues.
pub(crate) fn csq_cancel_routine() -> u64 {
    csq_cancelled as *const () as u64
}

impl Machine {
    fn leave_cancel_lock(&self, held: bool) {
        if held {
            self.release_lock(self.cancel_lock.as_ptr());
        }
    }

    fn start_io(&self, device: *mut DEVICE_OBJECT, irp: *mut IRP) {
        let routine = get!(get!(device, DriverObject), DriverStartIo) as u64;
        if routine == 0 {
            self.violate(
                RuleId::BadObject,
                [device as u64, irp as u64, 0, 0],
                "a packet was started, and the driver has no StartIo routine".into(),
            );
        }
        self.call(routine, [device as u64, irp as u64, 0, 0]);
    }

    fn start_next(&self, device: *mut DEVICE_OBJECT, cancelable: bool, key: u32) {
        self.check_device(device);
        if cancelable {
            self.acquire(self.cancel_lock.as_ptr());
        }
        set!(device, CurrentIrp = ptr::null_mut::<IRP>());
        let entry = remove(field!(device, DeviceQueue).cast(), key);
        if entry.is_null() {
            self.leave_cancel_lock(cancelable);
            return;
        }
        let irp = irp_of(entry);
        set!(device, CurrentIrp = irp);
        self.leave_cancel_lock(cancelable);
        self.start_io(device, irp);
    }

    /// Takes the driver's lock of a queue; what it gave for the IRQL.
    fn csq_lock(&self, csq: *mut IO_CSQ) -> u8 {
        let mut irql = Box::new(0u8);
        let place = &raw mut *irql;
        let routine = get!(csq, CsqAcquireLock) as u64;
        // To hold its lock afterwards, at whatever IRQL that takes, is what the routine is for.
        self.call_freely(routine, [csq as u64, place as u64, 0, 0]);
        guest::read(place)
    }

    fn csq_unlock(&self, csq: *mut IO_CSQ, irql: u8) {
        let routine = get!(csq, CsqReleaseLock) as u64;
        self.call_freely(routine, [csq as u64, u64::from(irql), 0, 0]);
    }

    /// Takes an IRP out of its queue, unless it is being cancelled.
    fn csq_claim(&self, csq: *mut IO_CSQ, irp: *mut IRP) -> bool {
        if get!(irp, CancelRoutine).is_none() {
            return false;
        }
        set!(irp, CancelRoutine = None);
        let remove = get!(csq, CsqRemoveIrp) as u64;
        self.call(remove, [csq as u64, irp as u64, 0, 0]);
        forget_context(irp);
        true
    }

    fn csq_insert(
        &self,
        csq: *mut IO_CSQ,
        irp: *mut IRP,
        context: *mut IO_CSQ_IRP_CONTEXT,
        insert_context: *mut c_void,
    ) -> NTSTATUS {
        self.irp_block(irp);
        let mut words = get!(irp, DriverContext);
        if context.is_null() {
            words[3] = csq.cast();
        } else {
            let new = IO_CSQ_IRP_CONTEXT {
                Type: IO_TYPE_CSQ_IRP_CONTEXT,
                Irp: irp,
                Csq: csq,
            };
            guest::write(context, new);
            words[3] = context.cast();
        }
        set!(irp, DriverContext = words);
        let lock = self.csq_lock(csq);
        let insert = get!(csq, CsqInsertIrp) as u64;
        let result = self.call(insert, [csq as u64, irp as u64, insert_context as u64, 0]);
        if get!(csq, Type) == IO_TYPE_CSQ_EX {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an NTSTATUS is the low half of rax"
            )]
            let status = NTSTATUS::from_u32(result as u32);
            if !status.is_success() {
                forget_context(irp);
                self.csq_unlock(csq, lock);
                return status;
            }
        }
        let stack = get!(irp, CurrentStackLocation);
        set!(stack, Control = get!(stack, Control) | SL_PENDING_RETURNED);
        guest::write(
            field!(irp, CancelRoutine).cast::<u64>(),
            csq_cancel_routine(),
        );
        let cancelled = get!(irp, Cancel) != 0;
        if cancelled && self.csq_claim(csq, irp) {
            self.csq_unlock(csq, lock);
            self.csq_complete(csq, irp);
            return STATUS_SUCCESS;
        }
        self.csq_unlock(csq, lock);
        STATUS_SUCCESS
    }

    fn csq_complete(&self, csq: *mut IO_CSQ, irp: *mut IRP) {
        let complete = get!(csq, CsqCompleteCanceledIrp) as u64;
        self.call(complete, [csq as u64, irp as u64, 0, 0]);
    }

    /// Cancels an IRP in a cancel-safe queue.
    pub(crate) fn csq_cancel(&self, irp: *mut IRP) {
        let [.., context] = get!(irp, DriverContext);
        let kind: u32 = guest::read(context.cast());
        let csq = if kind == IO_TYPE_CSQ_IRP_CONTEXT {
            get!(context.cast::<IO_CSQ_IRP_CONTEXT>(), Csq)
        } else {
            context.cast()
        };
        let lock = self.csq_lock(csq);
        let remove = get!(csq, CsqRemoveIrp) as u64;
        self.call(remove, [csq as u64, irp as u64, 0, 0]);
        forget_context(irp);
        self.csq_unlock(csq, lock);
        self.csq_complete(csq, irp);
    }
}

/// The IRP is in no queue any more, and its context says so.
fn forget_context(irp: *mut IRP) {
    let mut words = get!(irp, DriverContext);
    let context = words[3];
    if !context.is_null() && guest::read(context.cast::<u32>()) == IO_TYPE_CSQ_IRP_CONTEXT {
        set!(
            context.cast::<IO_CSQ_IRP_CONTEXT>(),
            Irp = ptr::null_mut::<IRP>()
        );
    }
    words[3] = ptr::null_mut();
    set!(irp, DriverContext = words);
}
