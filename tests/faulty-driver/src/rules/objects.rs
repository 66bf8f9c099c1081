//! Objects, handles, and memory that holds something the kernel uses.

use core::ffi::c_void;
use core::ptr;

use nt::base::{HANDLE, KernelMode, OBJ_KERNEL_HANDLE, OBJECT_ATTRIBUTES, UserMode};
use nt::ex::{ExDeleteNPagedLookasideList, ExInitializeNPagedLookasideList, NPAGED_LOOKASIDE_LIST};
use nt::io::{IoAllocateWorkItem, IoFreeWorkItem, IoGetCurrentProcess, IoQueueWorkItem};
use nt::irp::DEVICE_OBJECT;
use nt::ke::{
    KDPC, KEVENT, KTIMER, KeCancelTimer, KeInitializeDpc, KeInitializeTimer, KeInsertQueueDpc,
    KeLowerIrql, KeRaiseIrqlToDpcLevel, KeRemoveQueueDpc, KeSetEvent, KeSetTimer,
};
use nt::ob::{
    ObOpenObjectByPointer, ObReferenceObjectByHandle, ObfDereferenceObject, ObfReferenceObject,
};
use nt::ps::PsCreateSystemThread;
use nt::zw::ZwClose;

use super::Request;
use super::tools::{
    Shared, TAG, event, free, join, keep, kernel_handle, pool, start_thread, wait, zeroed_event,
};

super::pairs! {
    "timer-freed": Plain timer_freed, timer_cancelled_and_freed;
    "dpc-freed": Plain dpc_freed, dpc_removed_and_freed;
    "lookaside-freed": Plain lookaside_freed, lookaside_used;
    "waited-object-freed": Plain waited_object_freed, signalled_and_freed;
    "lookaside-initialized-twice": Plain lookaside_initialized_twice, lookaside_used;
    "lookaside-uninitialized": Plain lookaside_uninitialized, lookaside_used;
    "work-item-freed": With work_item_freed, work_item_used;
    "work-item-queued-twice": With work_item_queued_twice, work_item_used;
    "object-reference": Plain object_reference, referenced_and_dereferenced;
    "object-invalid": Plain object_invalid, referenced_and_dereferenced;
    "bad-handle": Plain bad_handle, closed_once;
    "null-handle": Plain null_handle, closed_once;
    "user-handle": Plain user_handle, kernel_handle_used;
    "handle-type-unchecked": Plain handle_type_unchecked, handle_type_checked;
    "bad-object": Plain bad_object, timer_cancelled_and_freed;
}

pub(super) unsafe fn timer() -> *mut KTIMER {
    unsafe {
        let timer = pool::<KTIMER>();
        KeInitializeTimer(timer);
        keep(KeSetTimer(timer, -10_000_000, ptr::null_mut()));
        timer
    }
}

#[inline(never)]
unsafe fn timer_freed() {
    unsafe { free(timer()) }
}

unsafe fn timer_cancelled_and_freed() {
    unsafe {
        let timer = timer();
        keep(KeCancelTimer(timer));
        free(timer);
    }
}

unsafe extern "efiapi" fn nothing(_: *mut KDPC, _: *mut c_void, _: *mut c_void, _: *mut c_void) {}

/// A DPC that stays queued while the IRQL is raised.
unsafe fn queued_dpc() -> *mut KDPC {
    unsafe {
        let dpc = pool::<KDPC>();
        KeInitializeDpc(dpc, nothing, ptr::null_mut());
        keep(KeInsertQueueDpc(dpc, ptr::null_mut(), ptr::null_mut()));
        dpc
    }
}

#[inline(never)]
unsafe fn dpc_freed() {
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        free(queued_dpc());
        KeLowerIrql(old);
        keep(old);
    }
}

unsafe fn dpc_removed_and_freed() {
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        let dpc = queued_dpc();
        keep(KeRemoveQueueDpc(dpc));
        free(dpc);
        KeLowerIrql(old);
    }
}

/// `POOL_NX_ALLOCATION`.
const NX: u32 = 512;

pub(super) unsafe fn lookaside() -> *mut NPAGED_LOOKASIDE_LIST {
    unsafe {
        let list = pool::<NPAGED_LOOKASIDE_LIST>();
        ExInitializeNPagedLookasideList(list, None, None, NX, 64, TAG, 0);
        list
    }
}

#[inline(never)]
unsafe fn lookaside_freed() {
    unsafe { free(lookaside()) }
}

unsafe fn lookaside_used() {
    unsafe {
        let list = lookaside();
        ExDeleteNPagedLookasideList(list);
        free(list);
    }
}

#[inline(never)]
unsafe fn lookaside_initialized_twice() {
    unsafe {
        let list = lookaside();
        ExInitializeNPagedLookasideList(list, None, None, NX, 64, TAG, 0);
        ExDeleteNPagedLookasideList(list);
        free(list);
    }
}

#[inline(never)]
unsafe fn lookaside_uninitialized() {
    unsafe {
        let list = pool::<NPAGED_LOOKASIDE_LIST>();
        ExDeleteNPagedLookasideList(list);
        free(list);
    }
}

static WAITED: Shared<*mut KEVENT> = Shared::new(ptr::null_mut());
static WAITING: Shared<KEVENT> = Shared::new(zeroed_event());

unsafe extern "efiapi" fn waiter(_: *mut c_void) {
    unsafe {
        keep(KeSetEvent(WAITING.get(), 0, 0));
        wait(WAITED.read().cast());
    }
}

/// An event in pool that a thread waits for.
unsafe fn waited_event() -> (*mut KEVENT, *mut c_void) {
    unsafe {
        let waited = pool::<KEVENT>();
        event(waited);
        WAITED.write(waited);
        event(WAITING.get());
        let thread = start_thread(waiter);
        wait(WAITING.get().cast());
        let moment = -10_000;
        keep(nt::ke::KeDelayExecutionThread(KernelMode, 0, &moment));
        (waited, thread)
    }
}

#[inline(never)]
unsafe fn waited_object_freed() {
    unsafe {
        let (waited, thread) = waited_event();
        free(waited);
        join(thread);
    }
}

unsafe fn signalled_and_freed() {
    unsafe {
        let (waited, thread) = waited_event();
        keep(KeSetEvent(waited, 0, 0));
        join(thread);
        free(waited);
    }
}

static WORKED: Shared<KEVENT> = Shared::new(zeroed_event());

unsafe extern "efiapi" fn worked(_: *mut DEVICE_OBJECT, _: *mut c_void) {
    unsafe { keep(KeSetEvent(WORKED.get(), 0, 0)) }
}

#[inline(never)]
unsafe fn work_item_freed(request: &Request) {
    unsafe {
        let item = IoAllocateWorkItem(request.device);
        let old = KeRaiseIrqlToDpcLevel();
        IoQueueWorkItem(item, worked, 1, ptr::null_mut());
        IoFreeWorkItem(item);
        KeLowerIrql(old);
        keep(item);
    }
}

unsafe fn work_item_used(request: &Request) {
    unsafe {
        let item = IoAllocateWorkItem(request.device);
        for _ in 0..2 {
            event(WORKED.get());
            IoQueueWorkItem(item, worked, 1, ptr::null_mut());
            wait(WORKED.get().cast());
        }
        IoFreeWorkItem(item);
    }
}

#[inline(never)]
unsafe fn work_item_queued_twice(request: &Request) {
    unsafe {
        event(WORKED.get());
        let item = IoAllocateWorkItem(request.device);
        let old = KeRaiseIrqlToDpcLevel();
        IoQueueWorkItem(item, worked, 1, ptr::null_mut());
        IoQueueWorkItem(item, worked, 1, ptr::null_mut());
        KeLowerIrql(old);
        wait(WORKED.get().cast());
        IoFreeWorkItem(item);
        keep(item);
    }
}

#[inline(never)]
unsafe fn object_reference() {
    unsafe { keep(ObfDereferenceObject(IoGetCurrentProcess())) }
}

unsafe fn referenced_and_dereferenced() {
    unsafe {
        let process = IoGetCurrentProcess();
        keep(ObfReferenceObject(process));
        keep(ObfDereferenceObject(process));
    }
}

#[inline(never)]
unsafe fn object_invalid() {
    unsafe {
        let block = pool::<[u64; 8]>();
        keep(ObfReferenceObject(block.cast()));
        free(block);
    }
}

/// A handle to the current process.
pub(super) unsafe fn handle(attributes: u32) -> HANDLE {
    let mut handle = ptr::null_mut();
    unsafe {
        keep(ObOpenObjectByPointer(
            IoGetCurrentProcess(),
            attributes,
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            KernelMode,
            &mut handle,
        ));
    }
    handle
}

#[inline(never)]
unsafe fn bad_handle() {
    unsafe {
        let handle = handle(OBJ_KERNEL_HANDLE);
        keep(ZwClose(handle));
        keep(ZwClose(handle));
    }
}

unsafe fn closed_once() {
    unsafe { keep(ZwClose(handle(OBJ_KERNEL_HANDLE))) }
}

unsafe fn reference(handle: HANDLE, object_type: *mut c_void, mode: i8) {
    unsafe {
        let mut object = ptr::null_mut();
        let status =
            ObReferenceObjectByHandle(handle, 0, object_type, mode, &mut object, ptr::null_mut());
        if status.is_success() {
            keep(ObfDereferenceObject(object));
        }
    }
}

#[inline(never)]
unsafe fn null_handle() {
    unsafe {
        reference(ptr::null_mut(), ptr::null_mut(), KernelMode);
        keep(0);
    }
}

unsafe extern "efiapi" fn ends(_: *mut c_void) {}

unsafe fn thread_handle(attributes: *mut OBJECT_ATTRIBUTES) -> HANDLE {
    let mut handle = ptr::null_mut();
    unsafe {
        keep(PsCreateSystemThread(
            &mut handle,
            0x1F_FFFF,
            attributes,
            ptr::null_mut(),
            ptr::null_mut(),
            ends,
            ptr::null_mut(),
        ));
    }
    handle
}

#[inline(never)]
unsafe fn user_handle() {
    unsafe {
        let handle = thread_handle(ptr::null_mut());
        reference(handle, ptr::null_mut(), KernelMode);
        keep(ZwClose(handle));
    }
}

unsafe fn kernel_handle_used() {
    unsafe {
        let handle = thread_handle(&mut kernel_handle());
        reference(handle, ptr::null_mut(), KernelMode);
        keep(ZwClose(handle));
    }
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "C" {
    static PsProcessType: *mut c_void;
}

#[inline(never)]
unsafe fn handle_type_unchecked() {
    unsafe {
        let handle = handle(0);
        reference(handle, ptr::null_mut(), UserMode);
        keep(ZwClose(handle));
    }
}

unsafe fn handle_type_checked() {
    unsafe {
        let handle = handle(0);
        reference(handle, PsProcessType, UserMode);
        keep(ZwClose(handle));
    }
}

#[inline(never)]
unsafe fn bad_object() {
    unsafe {
        let timer = timer();
        KeInitializeTimer(timer);
        free(timer);
    }
}
