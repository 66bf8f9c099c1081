//! What is left behind at unload.

use core::ffi::c_void;
use core::ptr;

use nt::base::{GUID, HANDLE, OBJ_KERNEL_HANDLE};
use nt::etw::EtwRegisterClassicProvider;
use nt::ex::{
    ERESOURCE, ExDeleteNPagedLookasideList, ExDeleteResourceLite, ExInitializeResourceLite,
};
use nt::hal::{
    HalAllocateHardwareCounters, HalFreeHardwareCounters, PHYSICAL_COUNTER_RESOURCE_LIST,
};
use nt::io::{
    IoAllocateIrp, IoAllocateMdl, IoAllocateWorkItem, IoCreateDevice, IoCreateSymbolicLink,
    IoDeleteDevice, IoDeleteSymbolicLink, IoFreeIrp, IoFreeMdl, IoFreeWorkItem,
    IoGetCurrentProcess, IoRegisterShutdownNotification, IoUnregisterShutdownNotification,
};
use nt::irp::DEVICE_OBJECT;
use nt::ke::{
    KAPC_STATE, KEVENT, KTIMER, KeCancelTimer, KeInitializeTimer, KeSetEvent, KeSetTimer,
    KeStackAttachProcess, KeUnstackDetachProcess,
};
use nt::ob::{ObfDereferenceObject, ObfReferenceObject};
use nt::pnp::{IoWMIRegistrationControl, WMIREG_ACTION_DEREGISTER, WMIREG_ACTION_REGISTER};
use nt::ps::PsSetCreateProcessNotifyRoutine;
use nt::remlock::{
    IO_REMOVE_LOCK, IoAcquireRemoveLockEx, IoInitializeRemoveLockEx, IoReleaseRemoveLockEx,
};
use nt::sysinfo::EtwUnregister;
use nt::sysinfo::{
    KBUGCHECK_REASON_CALLBACK_RECORD, KbCallbackSecondaryDumpData,
    KeDeregisterBugCheckReasonCallback, KeRegisterBugCheckReasonCallback,
};
use nt::zw::ZwClose;

use super::Request;
use super::objects::{handle, lookaside};
use super::tools::{Shared, event, free, join, keep, pool, start_thread, wait, zeroed_event};
use crate::driver::{DEVICE, string, wide};

super::pairs! {
    "device-left": With device_left, device_deleted;
    "symbolic-link-left": Plain symbolic_link_left, symbolic_link_deleted;
    "timer-left": Plain timer_left, timer_cancelled;
    "work-item-left": With work_item_left, work_item_freed;
    "thread-left": Plain thread_left, thread_joined;
    "handle-left": Plain handle_left, handle_closed;
    "reference-left": Plain reference_left, dereferenced;
    "counters-left": Plain counters_left, counters_freed;
    "lookaside-left": Plain lookaside_left, lookaside_deleted;
    "resource-left": Plain resource_left, resource_deleted;
    "wmi-left": With wmi_left, wmi_deregistered;
    "etw-left": Plain etw_left, etw_withdrawn;
    "etw-handle": Plain etw_handle, etw_withdrawn;
    "shutdown-notification-left": With shutdown_notification_left, shutdown_notification_withdrawn;
    "remove-lock-left": Plain remove_lock_left, remove_lock_released;
    "process-left-attached": Plain process_left_attached, process_detached;
    "registration-left": Plain registration_left, registration_removed;
    "bug-check-callback-left": Plain bug_check_callback_left, bug_check_callback_withdrawn;
    "irp-left": Plain irp_left, irp_freed;
    "mdl-left": Plain mdl_left, mdl_freed;
}

#[inline(never)]
unsafe fn device_left(request: &Request) {
    unsafe { keep(new_device(request)) }
}

#[inline(always)]
unsafe fn new_device(request: &Request) -> *mut DEVICE_OBJECT {
    let mut device = ptr::null_mut();
    unsafe {
        keep(IoCreateDevice(
            request.driver,
            0,
            ptr::null(),
            0x22,
            0,
            0,
            &mut device,
        ));
    }
    device
}

unsafe fn device_deleted(request: &Request) {
    unsafe { IoDeleteDevice(new_device(request)) }
}

static LINK: [u16; 17] = wide(b"\\DosDevices\\Other");

#[inline(never)]
unsafe fn symbolic_link_left() {
    unsafe { keep(IoCreateSymbolicLink(&string(&LINK), &string(&DEVICE))) }
}

unsafe fn symbolic_link_deleted() {
    unsafe {
        symbolic_link_left();
        keep(IoDeleteSymbolicLink(&string(&LINK)));
    }
}

static TIMER: Shared<KTIMER> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

unsafe fn timer_left() {
    unsafe {
        KeInitializeTimer(TIMER.get());
        keep(KeSetTimer(TIMER.get(), -100_000_000, ptr::null_mut()));
    }
}

unsafe fn timer_cancelled() {
    unsafe {
        timer_left();
        keep(KeCancelTimer(TIMER.get()));
    }
}

#[inline(never)]
unsafe fn work_item_left(request: &Request) {
    unsafe { keep(IoAllocateWorkItem(request.device)) }
}

unsafe fn work_item_freed(request: &Request) {
    unsafe { IoFreeWorkItem(IoAllocateWorkItem(request.device)) }
}

static END: Shared<KEVENT> = Shared::new(zeroed_event());

unsafe extern "efiapi" fn until_the_end(_: *mut c_void) {
    unsafe { wait(END.get().cast()) }
}

unsafe fn thread_left() {
    unsafe {
        event(END.get());
        keep(ObfDereferenceObject(start_thread(until_the_end)));
    }
}

unsafe fn thread_joined() {
    unsafe {
        event(END.get());
        let thread = start_thread(until_the_end);
        keep(KeSetEvent(END.get(), 0, 0));
        join(thread);
    }
}

#[inline(never)]
unsafe fn handle_left() {
    unsafe { keep(handle(OBJ_KERNEL_HANDLE)) }
}

unsafe fn handle_closed() {
    unsafe { keep(ZwClose(handle(OBJ_KERNEL_HANDLE))) }
}

#[inline(never)]
unsafe fn reference_left() {
    unsafe { keep(ObfReferenceObject(IoGetCurrentProcess())) }
}

unsafe fn dereferenced() {
    unsafe {
        keep(ObfReferenceObject(IoGetCurrentProcess()));
        keep(ObfDereferenceObject(IoGetCurrentProcess()));
    }
}

#[inline(never)]
unsafe fn counters_left() {
    unsafe { keep(counters()) }
}

#[inline(always)]
unsafe fn counters() -> HANDLE {
    let mut handle = ptr::null_mut();
    unsafe {
        // Counter 0 alone.
        let mut list = core::mem::zeroed::<PHYSICAL_COUNTER_RESOURCE_LIST>();
        list.Count = 1;
        keep(HalAllocateHardwareCounters(
            ptr::null_mut(),
            0,
            &mut list,
            &mut handle,
        ));
    }
    handle
}

unsafe fn counters_freed() {
    unsafe { keep(HalFreeHardwareCounters(counters())) }
}

static LIST: Shared<nt::ex::NPAGED_LOOKASIDE_LIST> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

#[inline(never)]
unsafe fn lookaside_left() {
    unsafe {
        nt::ex::ExInitializeNPagedLookasideList(LIST.get(), None, None, 512, 64, 1, 0);
        keep(0);
    }
}

unsafe fn lookaside_deleted() {
    unsafe {
        let list = lookaside();
        ExDeleteNPagedLookasideList(list);
        free(list);
    }
}

static RESOURCE: Shared<ERESOURCE> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

#[inline(never)]
unsafe fn resource_left() {
    unsafe { keep(ExInitializeResourceLite(RESOURCE.get())) }
}

unsafe fn resource_deleted() {
    unsafe {
        keep(ExInitializeResourceLite(RESOURCE.get()));
        keep(ExDeleteResourceLite(RESOURCE.get()));
    }
}

#[inline(never)]
unsafe fn wmi_left(request: &Request) {
    unsafe {
        keep(IoWMIRegistrationControl(
            request.device,
            WMIREG_ACTION_REGISTER,
        ))
    }
}

unsafe fn wmi_deregistered(request: &Request) {
    unsafe {
        wmi_left(request);
        keep(IoWMIRegistrationControl(
            request.device,
            WMIREG_ACTION_DEREGISTER,
        ));
    }
}

unsafe extern "efiapi" fn enabled(_: *const GUID, _: u8, _: *mut c_void, _: *mut c_void) {}

#[inline(always)]
unsafe fn register_provider() -> u64 {
    let control = GUID {
        Data1: 0x1b7c_6a80,
        Data2: 0x8c1f,
        Data3: 0x4e54,
        Data4: [0x9a, 0x0b, 0x53, 0x61, 0x2a, 0x77, 0xd0, 0x18],
    };
    let mut handle = 0;
    unsafe {
        keep(EtwRegisterClassicProvider(
            &control,
            0,
            enabled,
            ptr::null_mut(),
            &mut handle,
        ));
    }
    handle
}

#[inline(never)]
unsafe fn etw_left() {
    keep(unsafe { register_provider() });
}

unsafe fn etw_withdrawn() {
    unsafe { keep(EtwUnregister(register_provider())) }
}

#[inline(never)]
unsafe fn etw_handle() {
    unsafe {
        let handle = register_provider();
        keep(EtwUnregister(handle));
        keep(EtwUnregister(handle));
    }
}

#[inline(never)]
unsafe fn shutdown_notification_left(request: &Request) {
    unsafe { keep(IoRegisterShutdownNotification(request.device)) }
}

unsafe fn shutdown_notification_withdrawn(request: &Request) {
    unsafe {
        shutdown_notification_left(request);
        IoUnregisterShutdownNotification(request.device);
    }
}

static REMOVE_LOCK: Shared<IO_REMOVE_LOCK> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

#[inline(never)]
unsafe fn remove_lock_left() {
    let (lock, size) = (REMOVE_LOCK.get(), size_of::<IO_REMOVE_LOCK>() as u32);
    unsafe {
        IoInitializeRemoveLockEx(lock, 0, 0, 0, size);
        keep(IoAcquireRemoveLockEx(
            lock,
            ptr::null_mut(),
            ptr::null(),
            0,
            size,
        ));
    }
}

unsafe fn remove_lock_released() {
    unsafe {
        remove_lock_left();
        let size = size_of::<IO_REMOVE_LOCK>() as u32;
        IoReleaseRemoveLockEx(REMOVE_LOCK.get(), ptr::null_mut(), size);
    }
}

static APC_STATE: Shared<KAPC_STATE> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

#[inline(never)]
unsafe fn process_left_attached() {
    unsafe {
        KeStackAttachProcess(IoGetCurrentProcess(), APC_STATE.get());
        keep(0);
    }
}

unsafe fn process_detached() {
    unsafe {
        process_left_attached();
        KeUnstackDetachProcess(APC_STATE.get());
    }
}

unsafe extern "efiapi" fn notified(_: HANDLE, _: HANDLE, _: u8) {}

#[inline(never)]
unsafe fn registration_left() {
    unsafe { keep(PsSetCreateProcessNotifyRoutine(notified, 0)) }
}

unsafe fn registration_removed() {
    unsafe {
        registration_left();
        keep(PsSetCreateProcessNotifyRoutine(notified, 1));
    }
}

static RECORD: Shared<KBUGCHECK_REASON_CALLBACK_RECORD> = Shared::new(
    // SAFETY: every field is an integer or a nullable pointer.
    unsafe { core::mem::zeroed() },
);

unsafe extern "efiapi" fn on_bug_check(
    _: i32,
    _: *mut KBUGCHECK_REASON_CALLBACK_RECORD,
    _: *mut c_void,
    _: u32,
) {
}

#[inline(never)]
unsafe fn bug_check_callback_left() {
    unsafe {
        keep(KeRegisterBugCheckReasonCallback(
            RECORD.get(),
            on_bug_check as *mut c_void,
            KbCallbackSecondaryDumpData,
            c"Faulty".as_ptr().cast::<u8>().cast_mut(),
        ))
    }
}

unsafe fn bug_check_callback_withdrawn() {
    unsafe {
        bug_check_callback_left();
        keep(KeDeregisterBugCheckReasonCallback(RECORD.get()));
    }
}

#[inline(never)]
unsafe fn irp_left() {
    unsafe { keep(IoAllocateIrp(1, 0)) }
}

unsafe fn irp_freed() {
    unsafe { IoFreeIrp(IoAllocateIrp(1, 0)) }
}

#[inline(never)]
unsafe fn mdl_left() {
    unsafe { keep(IoAllocateMdl(LIST.get().cast(), 64, 0, 0, ptr::null_mut())) }
}

unsafe fn mdl_freed() {
    unsafe {
        let block = pool::<[u64; 8]>();
        let mdl = IoAllocateMdl(block.cast(), 64, 0, 0, ptr::null_mut());
        IoFreeMdl(mdl);
        free(block);
    }
}
