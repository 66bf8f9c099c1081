//! `Io…`: devices, links, IRPs, work items, MDLs.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

mod device;
mod request;
mod work;

pub(super) use request::Control;

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::UNICODE_STRING;
use nt::io::{IO_WORKITEM_ROUTINE, IO_WORKITEM_ROUTINE_EX};
use nt::irp::{
    DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STATUS_BLOCK, IRP, IRP_MJ_DEVICE_CONTROL,
    IRP_MJ_INTERNAL_DEVICE_CONTROL, PDRIVER_DISPATCH,
};
use nt::ke::{DISPATCH_LEVEL, KEVENT, KIRQL};
use nt::mm::MDL;
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_OBJECT_NAME_INVALID,
    STATUS_SUCCESS,
};

use super::{exports, guard};
use crate::guest::{self, get, set};
use crate::irp::Origin;
use crate::machine::{Machine, current};
use crate::resources::WorkItem;

exports! {
    io;

    fn IoCreateDevice(DriverObject: *mut DRIVER_OBJECT, DeviceExtensionSize: u32, DeviceName: *const UNICODE_STRING, DeviceType: u32, DeviceCharacteristics: u32, Exclusive: u8, DeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS {
        let machine = current();
        let name = if DeviceName.is_null() { Ok(None) } else { machine.string(DeviceName).map(Some) };
        let made = name.and_then(|name| {
            machine.create_device(DriverObject, DeviceExtensionSize, name.as_deref(), DeviceType, DeviceCharacteristics, Exclusive != 0)
        });
        match made {
            Ok(device) => {
                guest::write(DeviceObject, device);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn IoDeleteDevice(DeviceObject: *mut DEVICE_OBJECT) { current().delete_device(DeviceObject) }
    fn IoCreateSymbolicLink(SymbolicLinkName: *const UNICODE_STRING, DeviceName: *const UNICODE_STRING) -> NTSTATUS {
        let machine = current();
        let names = machine.string(SymbolicLinkName).and_then(|link| Ok((link, machine.string(DeviceName)?)));
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let site = machine.call_site();
        names.and_then(|(link, to)| machine.objects.borrow_mut().add_link(&link, &to, site)).err().unwrap_or(STATUS_SUCCESS)
    }
    fn IoDeleteSymbolicLink(SymbolicLinkName: *const UNICODE_STRING) -> NTSTATUS {
        let machine = current();
        let removed = machine.string(SymbolicLinkName).and_then(|link| machine.objects.borrow_mut().remove_link(&link));
        removed.err().unwrap_or(STATUS_SUCCESS)
    }
    fn IofCompleteRequest(Irp: *mut IRP, _PriorityBoost: i8) { current().complete_irp(Irp) }
    fn IofCallDriver(DeviceObject: *mut DEVICE_OBJECT, Irp: *mut IRP) -> NTSTATUS {
        current().check_device(DeviceObject);
        current().call_device(DeviceObject, Irp)
    }
    fn IoAllocateIrp(StackSize: i8, _ChargeQuota: u8) -> *mut IRP {
        let machine = current();
        if machine.must_fail() {
            return ptr::null_mut();
        }
        machine.allocate_irp(StackSize, Origin::Driver, machine.call_site())
    }
    fn IoFreeIrp(Irp: *mut IRP) {
        current().free_driver_irp(Irp);
    }
    fn IoCancelIrp(Irp: *mut IRP) -> u8 {
        current().irp_block(Irp);
        u8::from(current().cancel_irp(Irp))
    }
    fn IoAcquireCancelSpinLock(Irql: *mut KIRQL) {
        let machine = current();
        let old = machine.raise(DISPATCH_LEVEL);
        machine.acquire(machine.cancel_lock.as_ptr());
        guest::write(Irql, old);
    }
    fn IoReleaseCancelSpinLock(Irql: KIRQL) {
        let machine = current();
        machine.release_lock(machine.cancel_lock.as_ptr());
        machine.lower(Irql);
    }
    fn IoBuildDeviceIoControlRequest(IoControlCode: u32, DeviceObject: *mut DEVICE_OBJECT, InputBuffer: *mut c_void, InputBufferLength: u32, OutputBuffer: *mut c_void, OutputBufferLength: u32, InternalDeviceIoControl: u8, Event: *mut KEVENT, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP {
        let machine = current();
        machine.check_device(DeviceObject);
        let irp = machine.threaded_irp(DeviceObject, Event, IoStatusBlock);
        if irp.is_null() {
            return irp;
        }
        let major = if InternalDeviceIoControl != 0 { IRP_MJ_INTERNAL_DEVICE_CONTROL } else { IRP_MJ_DEVICE_CONTROL };
        let control = Control { code: IoControlCode, major, input: InputBuffer, input_len: InputBufferLength, output: OutputBuffer, output_len: OutputBufferLength };
        machine.fill_control(irp, &control);
        irp
    }
    fn IoBuildSynchronousFsdRequest(MajorFunction: u32, DeviceObject: *mut DEVICE_OBJECT, Buffer: *mut c_void, Length: u32, StartingOffset: *const i64, Event: *mut KEVENT, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP {
        let machine = current();
        machine.check_device(DeviceObject);
        machine.fsd_request(MajorFunction, DeviceObject, Buffer, Length, StartingOffset, Event, IoStatusBlock)
    }
    fn IoAllocateMdl(VirtualAddress: *mut c_void, Length: u32, _SecondaryBuffer: u8, _ChargeQuota: u8, Irp: *mut IRP) -> *mut MDL {
        let machine = current();
        if machine.must_fail() {
            return ptr::null_mut();
        }
        let mdl = machine.allocate_mdl(VirtualAddress as u64, Length as usize);
        if !mdl.is_null() {
            machine.resources.borrow_mut().mdls.insert(mdl as u64, machine.call_site());
            if !Irp.is_null() {
                set!(Irp, MdlAddress = mdl);
            }
        }
        mdl
    }
    fn IoFreeMdl(Mdl: *mut MDL) { current().free_mdl(Mdl) }
    fn IoAllocateWorkItem(DeviceObject: *mut DEVICE_OBJECT) -> *mut c_void {
        let machine = current();
        machine.check_device(DeviceObject);
        if machine.must_fail() {
            return ptr::null_mut();
        }
        let site = machine.call_site();
        let mut resources = machine.resources.borrow_mut();
        let handle = resources.new_handle();
        let item = WorkItem { device: DeviceObject as u64, routine: 0, context: 0, extended: false, queued: false, once: false, allocated_at: site };
        resources.work_items.insert(handle, item);
        handle as *mut c_void
    }
    fn IoQueueWorkItem(IoWorkItem: *mut c_void, WorkerRoutine: IO_WORKITEM_ROUTINE, _QueueType: i32, Context: *mut c_void) {
        current().queue_work_item(IoWorkItem as u64, WorkerRoutine as usize as u64, Context as u64, false);
    }
    fn IoQueueWorkItemEx(IoWorkItem: *mut c_void, WorkerRoutine: IO_WORKITEM_ROUTINE_EX, _QueueType: i32, Context: *mut c_void) {
        current().queue_work_item(IoWorkItem as u64, WorkerRoutine as usize as u64, Context as u64, true);
    }
    fn IoFreeWorkItem(IoWorkItem: *mut c_void) {
        let machine = current();
        machine.free_work_item(IoWorkItem as u64);
    }
    fn IoGetCurrentProcess() -> *mut c_void { current().current_process() as *mut c_void }
    fn IoGetRequestorProcess(Irp: *mut IRP) -> *mut c_void { current().requestor(Irp) as *mut c_void }
    fn IoGetRequestorProcessId(Irp: *mut IRP) -> u32 {
        let machine = current();
        let process = machine.requestor(Irp);
        machine.process_id(process).map_or(0, |id| u32::try_from(id).unwrap_or(0))
    }
    fn IoIs32bitProcess(_Irp: *mut IRP) -> u8 { 0 }
    fn IoIsWdmVersionAvailable(MajorVersion: u8, MinorVersion: u8) -> u8 {
        u8::from((MajorVersion, MinorVersion) <= (6, 0))
    }
    fn IoGetDeviceObjectPointer(ObjectName: *const UNICODE_STRING, _DesiredAccess: u32, FileObject: *mut *mut FILE_OBJECT, DeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS {
        let machine = current();
        match machine.string(ObjectName).and_then(|name| machine.open_device(&name)) {
            Ok((file, device)) => {
                guest::write(FileObject, file as *mut FILE_OBJECT);
                guest::write(DeviceObject, device);
                STATUS_SUCCESS
            }
            Err(status) => status,
        }
    }
    fn IoAttachDeviceToDeviceStack(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        current().attach_device(SourceDevice, TargetDevice)
    }
    fn IoDetachDevice(TargetDevice: *mut DEVICE_OBJECT) {
        let machine = current();
        machine.check_device(TargetDevice);
        if get!(TargetDevice, AttachedDevice).is_null() {
            machine.report(RuleId::DeviceNotAttached, [0, machine.call_site(), 0, TargetDevice as u64], format!("IoDetachDevice from device {:#x}, which nothing is attached to", TargetDevice as u64));
        }
        set!(TargetDevice, AttachedDevice = ptr::null_mut());
    }
    fn IoGetAttachedDeviceReference(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let machine = current();
        machine.check_device(DeviceObject);
        let top = machine.top_of_stack(DeviceObject);
        machine.objects.borrow_mut().reference(top as u64, machine.call_site());
        top
    }
    fn IoRegisterShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        machine.resources.borrow_mut().shutdown.insert(DeviceObject as u64, machine.call_site());
        STATUS_SUCCESS
    }
    fn IoUnregisterShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) {
        current().resources.borrow_mut().shutdown.remove(&(DeviceObject as u64));
    }
    fn IoCreateNotificationEvent(EventName: *const UNICODE_STRING, EventHandle: *mut nt::base::HANDLE) -> *mut KEVENT {
        let machine = current();
        match machine.string(EventName).and_then(|name| machine.named_event(&name)) {
            Ok((event, handle)) => {
                guest::write(EventHandle, handle as nt::base::HANDLE);
                event as *mut KEVENT
            }
            Err(_) => ptr::null_mut(),
        }
    }
}

/// The dispatch routine of functions that a driver does not handle: a thunk, because driver code may call it.
pub(crate) fn invalid_device_request() -> PDRIVER_DISPATCH {
    default_dispatch
}

unsafe extern "efiapi" fn default_dispatch(_device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    guard(|| {
        set!(irp, IoStatus.Status = STATUS_INVALID_DEVICE_REQUEST);
        set!(irp, IoStatus.Information = 0);
        current().complete_irp(irp);
        STATUS_INVALID_DEVICE_REQUEST
    })
}

impl Machine {
    /// A counted string of the driver's, as text.
    ///
    /// Errors: not of whole characters, or longer than its buffer.
    pub(crate) fn string(&self, string: *const UNICODE_STRING) -> Result<String, NTSTATUS> {
        if self.is_malformed(string) {
            return Err(STATUS_OBJECT_NAME_INVALID);
        }
        let string = guest::read(string);
        let units: Vec<u16> = (0..usize::from(string.Length / 2))
            .map(|index| guest::read(string.Buffer.wrapping_add(index)))
            .collect();
        String::from_utf16(&units).map_err(|_| STATUS_OBJECT_NAME_INVALID)
    }

    /// The process of the running thread.
    pub(crate) fn current_process(&self) -> u64 {
        self.running
            .get()
            .map_or(0, |id| self.thread(id).process.get())
    }
}
