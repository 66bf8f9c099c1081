//! I/O request packets and device stacks.

use core::ffi::c_void;
use core::ptr;

use nt::NTSTATUS;
use nt::ex::ExFreePool;
use nt::io::{
    IoAllocateIrp, IoAttachDeviceToDeviceStack, IoCreateDevice, IoDeleteDevice, IoDetachDevice,
    IoFreeIrp, IofCompleteRequest,
};
use nt::irp::{DEVICE_OBJECT, IRP};
use nt::ke::KIRQL;
use nt::status::{
    STATUS_CANCELLED, STATUS_INVALID_DEVICE_REQUEST, STATUS_MORE_PROCESSING_REQUIRED,
    STATUS_PENDING, STATUS_SUCCESS,
};

use super::Request;
use super::tools::{
    Shared, complete, copy_to_next, current, keep, mark_pending, on_completion, own_irp, send,
    set_cancel, skip,
};

super::pairs! {
    "irp-completed-twice": Whole irp_completed_twice, completed_once;
    "irp-touched-after-completion": Whole irp_touched_after_completion, touched_before_completion;
    "irp-invalid": Plain irp_invalid, own_irp_completed;
    "device-invalid": Whole device_invalid, passed_on;
    "irp-bad-status": Whole irp_bad_status, pended;
    "irp-bad-return": Whole irp_bad_return, failed;
    "irp-pending-not-marked": Whole irp_pending_not_marked, pended;
    "irp-marked-not-pending": Whole irp_marked_not_pending, pended;
    "irp-pending-not-propagated": Whole irp_pending_not_propagated, pending_propagated;
    "irp-status-mismatch": Whole irp_status_mismatch, failed;
    "irp-never-completed": Whole irp_never_completed, completed_once;
    "irp-cancel-routine-left": Whole irp_cancel_routine_left, cancel_routine_cleared;
    "irp-information": Whole irp_information, all_of_the_output;
    "irp-stack": Whole irp_stack, passed_on;
    "irp-unprepared": Whole irp_unprepared, passed_on;
    "irp-skip-with-completion": Whole irp_skip_with_completion, skipped;
    "irp-forwarded-cancelable": Whole irp_forwarded_cancelable, cancel_routine_cleared_and_passed_on;
    "irp-freed-in-flight": With irp_freed_in_flight, freed_after_flight;
    "irp-free-threaded": With irp_free_threaded, own_irp_freed;
    "irp-freed-as-pool": With irp_freed_as_pool, own_irp_freed;
    "device-deleted-attached": With device_deleted_attached, detached_and_deleted;
    "device-not-attached": With device_not_attached, detached_and_deleted;
}

/// What the lower device does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lower {
    Completes,
    PendsAndCompletes,
    /// Until [`HELD`] is completed.
    Holds,
    PassesOn,
}

pub(super) static LOWER: Shared<Lower> = Shared::new(Lower::Completes);
static HELD: Shared<*mut IRP> = Shared::new(ptr::null_mut());

pub(super) unsafe fn lower(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    unsafe {
        match LOWER.read() {
            Lower::Completes => complete(irp, STATUS_SUCCESS, 0),
            Lower::PendsAndCompletes => {
                mark_pending(irp);
                complete(irp, STATUS_SUCCESS, 0);
                STATUS_PENDING
            }
            Lower::Holds => {
                mark_pending(irp);
                HELD.write(irp);
                STATUS_PENDING
            }
            Lower::PassesOn => irp_stack_lower(device, irp),
        }
    }
}

#[inline(never)]
unsafe fn irp_stack_lower(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    // Without touching the next location, which does not exist.
    unsafe { send(device, irp) }
}

#[inline(never)]
unsafe fn irp_completed_twice(request: &Request) -> NTSTATUS {
    unsafe {
        complete(request.irp, STATUS_SUCCESS, 0);
        IofCompleteRequest(request.irp, 0);
        keep(STATUS_SUCCESS);
        STATUS_SUCCESS
    }
}

unsafe fn completed_once(request: &Request) -> NTSTATUS {
    unsafe { complete(request.irp, STATUS_SUCCESS, 0) }
}

#[inline(never)]
unsafe fn irp_touched_after_completion(request: &Request) -> NTSTATUS {
    unsafe {
        complete(request.irp, STATUS_SUCCESS, 0);
        (&raw const (*request.irp).IoStatus.Status).read_volatile()
    }
}

unsafe fn touched_before_completion(request: &Request) -> NTSTATUS {
    unsafe {
        (*request.irp).IoStatus.Status = STATUS_SUCCESS;
        let status = (&raw const (*request.irp).IoStatus.Status).read_volatile();
        complete(request.irp, status, 0)
    }
}

#[inline(never)]
unsafe fn irp_invalid() {
    unsafe {
        let mut irp = core::mem::zeroed::<IRP>();
        IofCompleteRequest(&mut irp, 0);
        keep(&irp);
    }
}

unsafe fn own_irp_completed() {
    unsafe {
        let irp = IoAllocateIrp(1, 0);
        (*irp).IoStatus.Status = STATUS_SUCCESS;
        IoFreeIrp(irp);
    }
}

#[inline(never)]
unsafe fn device_invalid(request: &Request) -> NTSTATUS {
    unsafe {
        copy_to_next(request.irp);
        send(request.driver.cast(), request.irp)
    }
}

unsafe fn passed_on(request: &Request) -> NTSTATUS {
    unsafe {
        copy_to_next(request.irp);
        on_completion(request.irp, hands_pending_up);
        send(request.lower, request.irp)
    }
}

unsafe extern "efiapi" fn hands_pending_up(
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

#[inline(never)]
unsafe fn irp_bad_status(request: &Request) -> NTSTATUS {
    unsafe {
        mark_pending(request.irp);
        complete(request.irp, STATUS_PENDING, 0);
        keep(STATUS_PENDING);
        STATUS_PENDING
    }
}

unsafe fn pended(request: &Request) -> NTSTATUS {
    unsafe {
        mark_pending(request.irp);
        complete(request.irp, STATUS_SUCCESS, 0);
    }
    STATUS_PENDING
}

unsafe fn irp_bad_return(request: &Request) -> NTSTATUS {
    unsafe { complete(request.irp, STATUS_SUCCESS, 0) };
    NTSTATUS(-1)
}

unsafe fn failed(request: &Request) -> NTSTATUS {
    unsafe { complete(request.irp, STATUS_INVALID_DEVICE_REQUEST, 0) }
}

unsafe fn irp_pending_not_marked(request: &Request) -> NTSTATUS {
    unsafe { complete(request.irp, STATUS_SUCCESS, 0) };
    STATUS_PENDING
}

unsafe fn irp_marked_not_pending(request: &Request) -> NTSTATUS {
    unsafe {
        mark_pending(request.irp);
        complete(request.irp, STATUS_SUCCESS, 0)
    }
}

unsafe fn irp_pending_not_propagated(request: &Request) -> NTSTATUS {
    unsafe {
        LOWER.write(Lower::PendsAndCompletes);
        copy_to_next(request.irp);
        on_completion(request.irp, irp_pending_not_propagated_routine);
        send(request.lower, request.irp)
    }
}

unsafe extern "efiapi" fn irp_pending_not_propagated_routine(
    _: *mut DEVICE_OBJECT,
    _: *mut IRP,
    _: *mut c_void,
) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe fn pending_propagated(request: &Request) -> NTSTATUS {
    unsafe {
        LOWER.write(Lower::PendsAndCompletes);
        passed_on(request)
    }
}

unsafe fn irp_status_mismatch(request: &Request) -> NTSTATUS {
    unsafe { complete(request.irp, STATUS_SUCCESS, 0) };
    STATUS_INVALID_DEVICE_REQUEST
}

unsafe fn irp_never_completed(_: &Request) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "efiapi" fn cancel(_: *mut DEVICE_OBJECT, irp: *mut IRP) {
    unsafe {
        let irql: KIRQL = (*irp).CancelIrql;
        nt::io::IoReleaseCancelSpinLock(irql);
    }
}

unsafe extern "efiapi" fn complete_cancelled(_: *mut DEVICE_OBJECT, irp: *mut IRP) {
    unsafe {
        nt::io::IoReleaseCancelSpinLock((*irp).CancelIrql);
        complete(irp, STATUS_CANCELLED, 0);
    }
}

pub(super) unsafe fn pend(irp: *mut IRP, cancelable: bool) -> NTSTATUS {
    unsafe {
        mark_pending(irp);
        if cancelable {
            set_cancel(irp, Some(complete_cancelled));
        }
    }
    STATUS_PENDING
}

#[inline(never)]
unsafe fn irp_cancel_routine_left(request: &Request) -> NTSTATUS {
    unsafe {
        set_cancel(request.irp, Some(cancel));
        complete(request.irp, STATUS_SUCCESS, 0);
        keep(STATUS_SUCCESS);
        STATUS_SUCCESS
    }
}

unsafe fn cancel_routine_cleared(request: &Request) -> NTSTATUS {
    unsafe {
        set_cancel(request.irp, Some(cancel));
        set_cancel(request.irp, None);
        complete(request.irp, STATUS_SUCCESS, 0)
    }
}

unsafe fn output_len(irp: *mut IRP) -> usize {
    unsafe {
        (*current(irp))
            .Parameters
            .DeviceIoControl
            .OutputBufferLength as usize
    }
}

#[inline(never)]
unsafe fn irp_information(request: &Request) -> NTSTATUS {
    unsafe {
        let information = output_len(request.irp) + 1;
        complete(request.irp, STATUS_SUCCESS, information);
        keep(information);
        STATUS_SUCCESS
    }
}

unsafe fn all_of_the_output(request: &Request) -> NTSTATUS {
    unsafe {
        let len = output_len(request.irp);
        let output: *mut u8 = (*request.irp).SystemBuffer.cast();
        for index in 0..len {
            output.add(index).write_volatile(0);
        }
        complete(request.irp, STATUS_SUCCESS, len)
    }
}

unsafe fn irp_stack(request: &Request) -> NTSTATUS {
    unsafe {
        LOWER.write(Lower::PassesOn);
        copy_to_next(request.irp);
        send(request.lower, request.irp)
    }
}

#[inline(never)]
unsafe fn irp_unprepared(request: &Request) -> NTSTATUS {
    unsafe { send(request.lower, request.irp) }
}

#[inline(never)]
unsafe fn irp_skip_with_completion(request: &Request) -> NTSTATUS {
    unsafe {
        skip(request.irp);
        on_completion(request.irp, hands_pending_up);
        send(request.lower, request.irp)
    }
}

unsafe fn skipped(request: &Request) -> NTSTATUS {
    unsafe {
        skip(request.irp);
        send(request.lower, request.irp)
    }
}

#[inline(never)]
unsafe fn irp_forwarded_cancelable(request: &Request) -> NTSTATUS {
    unsafe {
        set_cancel(request.irp, Some(cancel));
        passed_on(request)
    }
}

unsafe fn cancel_routine_cleared_and_passed_on(request: &Request) -> NTSTATUS {
    unsafe {
        set_cancel(request.irp, Some(cancel));
        set_cancel(request.irp, None);
        passed_on(request)
    }
}

unsafe extern "efiapi" fn keeps(_: *mut DEVICE_OBJECT, _: *mut IRP, _: *mut c_void) -> NTSTATUS {
    STATUS_MORE_PROCESSING_REQUIRED
}

#[inline(never)]
unsafe fn irp_freed_in_flight(request: &Request) {
    unsafe {
        let irp = own_irp(request.irp);
        LOWER.write(Lower::Holds);
        on_completion(irp, keeps);
        keep(send(request.lower, irp));
        IoFreeIrp(irp);
        complete(HELD.read(), STATUS_SUCCESS, 0);
        IoFreeIrp(irp);
        keep(irp);
    }
}

unsafe fn freed_after_flight(request: &Request) {
    unsafe {
        let irp = own_irp(request.irp);
        LOWER.write(Lower::Holds);
        on_completion(irp, keeps);
        keep(send(request.lower, irp));
        complete(HELD.read(), STATUS_SUCCESS, 0);
        IoFreeIrp(irp);
    }
}

#[inline(never)]
unsafe fn irp_free_threaded(request: &Request) {
    unsafe {
        IoFreeIrp(request.irp);
        keep(request.irp);
    }
}

#[inline(never)]
unsafe fn irp_freed_as_pool(_: &Request) {
    unsafe {
        let irp = IoAllocateIrp(1, 0);
        ExFreePool(irp.cast());
        IoFreeIrp(irp);
        keep(irp);
    }
}

unsafe fn own_irp_freed(_: &Request) {
    unsafe { IoFreeIrp(IoAllocateIrp(1, 0)) }
}

unsafe fn attached(request: &Request) -> *mut DEVICE_OBJECT {
    unsafe {
        let mut device = ptr::null_mut();
        keep(IoCreateDevice(
            request.driver,
            0,
            ptr::null(),
            0x22,
            0,
            0,
            &mut device,
        ));
        keep(IoAttachDeviceToDeviceStack(device, request.lower));
        device
    }
}

#[inline(never)]
unsafe fn device_deleted_attached(request: &Request) {
    unsafe {
        let device = attached(request);
        IoDeleteDevice(device);
        keep(device);
    }
}

unsafe fn detached_and_deleted(request: &Request) {
    unsafe {
        let device = attached(request);
        IoDetachDevice(request.lower);
        IoDeleteDevice(device);
    }
}

#[inline(never)]
unsafe fn device_not_attached(request: &Request) {
    unsafe {
        IoDetachDevice(request.lower);
        keep(request.lower);
    }
}
