//! Interrupt request levels.

use core::ffi::c_void;
use core::ptr;

use nt::NTSTATUS;
use nt::base::KernelMode;
use nt::io::{IoAllocateWorkItem, IoFreeWorkItem, IoGetCurrentProcess, IoQueueWorkItem};
use nt::irp::{DEVICE_OBJECT, IRP};
use nt::ke::{
    APC_LEVEL, DISPATCH_LEVEL, KEVENT, KSEMAPHORE, KeInitializeSemaphore, KeLowerIrql,
    KeRaiseIrqlToDpcLevel, KeSetEvent, KfRaiseIrql,
};
use nt::ob::ObOpenObjectByPointer;
use nt::status::STATUS_SUCCESS;
use nt::zw::ZwClose;

use super::Request;
use super::tools::{
    Shared, complete, copy_to_next, event, keep, on_completion, send, wait, zeroed_event,
};

super::pairs! {
    "irql-contract": Plain irql_contract, at_the_level_of_the_contract;
    "zw-irql": Plain zw_irql, zw_at_passive_level;
    "irql-raise-below": Plain irql_raise_below, raised_to_the_same_level;
    "irql-lower-above": Plain irql_lower_above, lowered_to_the_same_level;
    "irql-changed": With irql_changed, work_at_raised_irql;
    "irql-changed-by-dispatch": Whole irql_changed_by_dispatch, dispatch_at_raised_irql;
    "irql-changed-by-completion": Whole irql_changed_by_completion, completion_at_raised_irql;
}

#[inline(never)]
unsafe fn irql_contract() {
    unsafe {
        let mut semaphore = core::mem::zeroed::<KSEMAPHORE>();
        let old = KfRaiseIrql(APC_LEVEL);
        KeInitializeSemaphore(&mut semaphore, 0, 1);
        KeLowerIrql(old);
    }
}

unsafe fn at_the_level_of_the_contract() {
    unsafe {
        let mut semaphore = core::mem::zeroed::<KSEMAPHORE>();
        KeInitializeSemaphore(&mut semaphore, 0, 1);
    }
}

unsafe fn open_handle() -> *mut c_void {
    let mut handle = ptr::null_mut();
    unsafe {
        keep(ObOpenObjectByPointer(
            IoGetCurrentProcess(),
            nt::base::OBJ_KERNEL_HANDLE,
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
unsafe fn zw_irql() {
    unsafe {
        let handle = open_handle();
        let old = KeRaiseIrqlToDpcLevel();
        keep(ZwClose(handle));
        KeLowerIrql(old);
    }
}

unsafe fn zw_at_passive_level() {
    unsafe { keep(ZwClose(open_handle())) }
}

#[inline(never)]
unsafe fn irql_raise_below() {
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        keep(KfRaiseIrql(APC_LEVEL));
        KeLowerIrql(old);
    }
}

unsafe fn raised_to_the_same_level() {
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        keep(KfRaiseIrql(DISPATCH_LEVEL));
        KeLowerIrql(old);
    }
}

#[inline(never)]
unsafe fn irql_lower_above() {
    unsafe {
        KeLowerIrql(DISPATCH_LEVEL);
        KeLowerIrql(0);
        keep(0);
    }
}

unsafe fn lowered_to_the_same_level() {
    unsafe { KeLowerIrql(0) }
}

static DONE: Shared<KEVENT> = Shared::new(zeroed_event());

/// Runs a work item to its end.
unsafe fn work(request: &Request, routine: nt::io::IO_WORKITEM_ROUTINE) {
    unsafe {
        event(DONE.get());
        let item = IoAllocateWorkItem(request.device);
        IoQueueWorkItem(item, routine, 1, ptr::null_mut());
        wait(DONE.get().cast());
        IoFreeWorkItem(item);
        keep(item);
    }
}

unsafe fn irql_changed(request: &Request) {
    unsafe { work(request, irql_changed_routine) }
}

unsafe extern "efiapi" fn irql_changed_routine(_: *mut DEVICE_OBJECT, _: *mut c_void) {
    unsafe {
        keep(KeSetEvent(DONE.get(), 0, 0));
        keep(KeRaiseIrqlToDpcLevel());
    }
}

unsafe fn work_at_raised_irql(request: &Request) {
    unsafe { work(request, raises_and_lowers) }
}

unsafe extern "efiapi" fn raises_and_lowers(_: *mut DEVICE_OBJECT, _: *mut c_void) {
    unsafe {
        KeLowerIrql(KeRaiseIrqlToDpcLevel());
        keep(KeSetEvent(DONE.get(), 0, 0));
    }
}

unsafe fn irql_changed_by_dispatch(request: &Request) -> NTSTATUS {
    unsafe {
        keep(KeRaiseIrqlToDpcLevel());
        complete(request.irp, STATUS_SUCCESS, 0)
    }
}

unsafe fn dispatch_at_raised_irql(request: &Request) -> NTSTATUS {
    unsafe {
        let old = KeRaiseIrqlToDpcLevel();
        let status = complete(request.irp, STATUS_SUCCESS, 0);
        KeLowerIrql(old);
        status
    }
}

unsafe fn irql_changed_by_completion(request: &Request) -> NTSTATUS {
    unsafe {
        copy_to_next(request.irp);
        on_completion(request.irp, irql_changed_by_completion_routine);
        send(request.lower, request.irp)
    }
}

unsafe extern "efiapi" fn irql_changed_by_completion_routine(
    _: *mut DEVICE_OBJECT,
    _: *mut IRP,
    _: *mut c_void,
) -> NTSTATUS {
    unsafe { keep(KeRaiseIrqlToDpcLevel()) };
    STATUS_SUCCESS
}

unsafe fn completion_at_raised_irql(request: &Request) -> NTSTATUS {
    unsafe {
        copy_to_next(request.irp);
        on_completion(request.irp, completion_raises_and_lowers);
        let old = KeRaiseIrqlToDpcLevel();
        let status = send(request.lower, request.irp);
        KeLowerIrql(old);
        status
    }
}

unsafe extern "efiapi" fn completion_raises_and_lowers(
    _: *mut DEVICE_OBJECT,
    _: *mut IRP,
    _: *mut c_void,
) -> NTSTATUS {
    unsafe { KeLowerIrql(KfRaiseIrql(DISPATCH_LEVEL + 1)) };
    STATUS_SUCCESS
}
