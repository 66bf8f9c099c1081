//! What correct drivers do, and what a careless verifier would accuse them of.

mod locks;

use core::ffi::c_void;
use core::ptr;

use nt::NTSTATUS;
use nt::io::{
    IoAllocateIrp, IoAllocateWorkItem, IoBuildDeviceIoControlRequest, IoFreeIrp, IoFreeWorkItem,
    IoQueueWorkItem,
};
use nt::irp::{DEVICE_OBJECT, IO_STATUS_BLOCK, IRP};
use nt::ke::{KDPC, KEVENT, KTIMER, KeInitializeDpc, KeInitializeTimer, KeSetEvent, KeSetTimer};
use nt::remlock::{
    IO_REMOVE_LOCK, IoAcquireRemoveLockEx, IoInitializeRemoveLockEx, IoReleaseRemoveLockAndWaitEx,
    IoReleaseRemoveLockEx,
};
use nt::status::{STATUS_MORE_PROCESSING_REQUIRED, STATUS_PENDING, STATUS_SUCCESS};

use super::irp::{LOWER, Lower};
use super::tools::{
    Shared, complete, copy_to_next, current, event, keep, mark_pending, on_completion, send,
    set_cancel, wait, zeroed_event,
};
use super::{Act, Request};

pub(super) const WAYS: &[(&str, Act)] = &[
    ("completion-resends", Act::Whole(completion_resends)),
    (
        "pending-before-passed-on",
        Act::Whole(pending_before_passed_on),
    ),
    ("waits-for-completion", Act::Whole(waits_for_completion)),
    ("own-location-below", Act::With(own_location_below)),
    ("completed-by-work-item", Act::Whole(completed_by_work_item)),
    ("completed-by-timer", Act::Whole(completed_by_timer)),
    ("built-request", Act::With(built_request)),
    (
        "remove-lock-until-completion",
        Act::Whole(remove_lock_until_completion),
    ),
    (
        "spin-locks-handed-over",
        Act::Plain(locks::spin_locks_handed_over),
    ),
    (
        "spin-locks-in-one-order",
        Act::Plain(locks::spin_locks_in_one_order),
    ),
    ("resource-nested", Act::Plain(locks::resource_nested)),
    ("mutex-nested", Act::Plain(locks::mutex_nested)),
    ("event-on-stack", Act::Plain(locks::event_on_stack)),
    ("timer-set-again", Act::Plain(locks::timer_set_again)),
    ("work-item-again", Act::With(work_item_again)),
];

type Completion = unsafe extern "efiapi" fn(*mut DEVICE_OBJECT, *mut IRP, *mut c_void) -> NTSTATUS;

/// The device below, for routines that are not told.
static BELOW: Shared<*mut DEVICE_OBJECT> = Shared::new(ptr::null_mut());

/// Passes a request on; it is marked pending before, as frameworks do, and pending it is.
unsafe fn pass_on(request: &Request, completion: Completion) -> NTSTATUS {
    unsafe {
        BELOW.write(request.lower);
        mark_pending(request.irp);
        copy_to_next(request.irp);
        on_completion(request.irp, completion);
        keep(send(request.lower, request.irp));
    }
    STATUS_PENDING
}

unsafe extern "efiapi" fn hands_up(
    _: *mut DEVICE_OBJECT,
    irp: *mut IRP,
    _: *mut c_void,
) -> NTSTATUS {
    unsafe {
        if (*irp).PendingReturned != 0 {
            mark_pending(irp);
        }
    }
    STATUS_SUCCESS
}

unsafe extern "efiapi" fn resends(
    _: *mut DEVICE_OBJECT,
    irp: *mut IRP,
    _: *mut c_void,
) -> NTSTATUS {
    unsafe {
        copy_to_next(irp);
        on_completion(irp, hands_up);
        keep(send(BELOW.read(), irp));
    }
    STATUS_MORE_PROCESSING_REQUIRED
}

unsafe fn completion_resends(request: &Request) -> NTSTATUS {
    LOWER.write(Lower::PendsAndCompletes);
    unsafe { pass_on(request, resends) }
}

unsafe fn pending_before_passed_on(request: &Request) -> NTSTATUS {
    unsafe { pass_on(request, hands_up) }
}

static DONE: Shared<KEVENT> = Shared::new(zeroed_event());

unsafe extern "efiapi" fn signals(_: *mut DEVICE_OBJECT, _: *mut IRP, _: *mut c_void) -> NTSTATUS {
    unsafe { keep(KeSetEvent(DONE.get(), 0, 0)) };
    STATUS_MORE_PROCESSING_REQUIRED
}

unsafe fn waits_for_completion(request: &Request) -> NTSTATUS {
    LOWER.write(Lower::PendsAndCompletes);
    unsafe {
        event(DONE.get());
        copy_to_next(request.irp);
        on_completion(request.irp, signals);
        if send(request.lower, request.irp) == STATUS_PENDING {
            wait(DONE.get().cast());
        }
        complete(request.irp, (*request.irp).IoStatus.Status, 0)
    }
}

/// An IRP with a location of its own on top, which keeps the device for the completion routine.
unsafe fn own_location_below(request: &Request) {
    unsafe {
        event(DONE.get());
        let irp = IoAllocateIrp((*request.lower).StackSize + 1, 0);
        // IoSetNextIrpStackLocation.
        (*irp).CurrentLocation -= 1;
        (*irp).CurrentStackLocation = current(irp).sub(1);
        (*current(irp)).DeviceObject = request.device;
        (*current(irp)).MajorFunction = (*current(request.irp)).MajorFunction;
        (*current(irp)).Parameters = (*current(request.irp)).Parameters;
        copy_to_next(irp);
        on_completion(irp, signals);
        keep(send(request.lower, irp));
        wait(DONE.get().cast());
        IoFreeIrp(irp);
    }
}

static ITEM: Shared<*mut c_void> = Shared::new(ptr::null_mut());

unsafe extern "efiapi" fn takes_out_and_completes(_: *mut DEVICE_OBJECT, context: *mut c_void) {
    let irp = context.cast();
    unsafe {
        set_cancel(irp, None);
        complete(irp, STATUS_SUCCESS, 0);
        IoFreeWorkItem(ITEM.read());
        keep(irp);
    }
}

unsafe extern "efiapi" fn cancels(_: *mut DEVICE_OBJECT, irp: *mut IRP) {
    unsafe { nt::io::IoReleaseCancelSpinLock((*irp).CancelIrql) }
}

unsafe fn completed_by_work_item(request: &Request) -> NTSTATUS {
    unsafe {
        ITEM.write(IoAllocateWorkItem(request.device));
        mark_pending(request.irp);
        set_cancel(request.irp, Some(cancels));
        IoQueueWorkItem(ITEM.read(), takes_out_and_completes, 1, request.irp.cast());
    }
    STATUS_PENDING
}

static TIMER: Shared<KTIMER> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);
static DPC: Shared<KDPC> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

unsafe extern "efiapi" fn completes(
    _: *mut KDPC,
    context: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) {
    unsafe { keep(complete(context.cast(), STATUS_SUCCESS, 0)) }
}

unsafe fn completed_by_timer(request: &Request) -> NTSTATUS {
    unsafe {
        mark_pending(request.irp);
        KeInitializeTimer(TIMER.get());
        KeInitializeDpc(DPC.get(), completes, request.irp.cast());
        keep(KeSetTimer(TIMER.get(), -10_000, DPC.get()));
    }
    STATUS_PENDING
}

unsafe fn built_request(request: &Request) {
    LOWER.write(Lower::PendsAndCompletes);
    unsafe {
        let mut done = zeroed_event();
        event(&mut done);
        let mut outcome = core::mem::zeroed::<IO_STATUS_BLOCK>();
        let irp = IoBuildDeviceIoControlRequest(
            0x22_0000,
            request.lower,
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            0,
            0,
            &mut done,
            &mut outcome,
        );
        if send(request.lower, irp) == STATUS_PENDING {
            wait((&raw mut done).cast());
        }
        keep(&outcome);
    }
}

static LOCK: Shared<IO_REMOVE_LOCK> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);
const LOCK_LEN: u32 = size_of::<IO_REMOVE_LOCK>() as u32;

unsafe fn acquire(tag: *mut c_void) {
    unsafe {
        keep(IoAcquireRemoveLockEx(
            LOCK.get(),
            tag,
            ptr::null(),
            0,
            LOCK_LEN,
        ))
    }
}

unsafe extern "efiapi" fn releases(
    device: *mut DEVICE_OBJECT,
    irp: *mut IRP,
    context: *mut c_void,
) -> NTSTATUS {
    unsafe {
        IoReleaseRemoveLockEx(LOCK.get(), irp.cast(), LOCK_LEN);
        hands_up(device, irp, context)
    }
}

unsafe fn remove_lock_until_completion(request: &Request) -> NTSTATUS {
    LOWER.write(Lower::PendsAndCompletes);
    unsafe {
        IoInitializeRemoveLockEx(LOCK.get(), 0, 0, 0, LOCK_LEN);
        acquire(request.irp.cast());
        let status = pass_on(request, releases);
        // As for IRP_MN_REMOVE_DEVICE.
        acquire(LOCK.get().cast());
        IoReleaseRemoveLockAndWaitEx(LOCK.get(), LOCK.get().cast(), LOCK_LEN);
        status
    }
}

static ROUNDS: Shared<u32> = Shared::new(0);

unsafe extern "efiapi" fn queues_again(_: *mut DEVICE_OBJECT, _: *mut c_void) {
    ROUNDS.write(ROUNDS.read() + 1);
    unsafe {
        if ROUNDS.read() < 3 {
            IoQueueWorkItem(ITEM.read(), queues_again, 1, ptr::null_mut());
        } else {
            keep(KeSetEvent(DONE.get(), 0, 0));
        }
    }
}

unsafe fn work_item_again(request: &Request) {
    unsafe {
        event(DONE.get());
        ROUNDS.write(0);
        ITEM.write(IoAllocateWorkItem(request.device));
        IoQueueWorkItem(ITEM.read(), queues_again, 1, ptr::null_mut());
        wait(DONE.get().cast());
        IoFreeWorkItem(ITEM.read());
    }
}
