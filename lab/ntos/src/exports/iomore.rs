//! `Io…`: device stacks, driver extensions, timers, IRPs that drivers make, executive work items.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use crate::guest::{self, field, get, set};
use crate::irp::Origin;
use crate::irp::block_of;
use crate::machine::Machine;
use crate::machine::current;
use crate::object::Kind;
use crate::pool::Owner;
use crate::resources::WorkItem;
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{BOOLEAN, KernelMode, LARGE_INTEGER, UNICODE_STRING};
use nt::iomore::{CONFIGURATION_INFORMATION, GENERIC_MAPPING, IO_TIMER_ROUTINE, WORK_QUEUE_ITEM};
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STATUS_BLOCK, IRP};
use nt::ke::{KDPC, KTIMER};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
};
use std::ffi::c_void;
use std::ptr;

exports! {
    iomore;

    fn IoGetConfigurationInformation() -> *mut CONFIGURATION_INFORMATION {
        let machine = current();
        let mut services = machine.services.borrow_mut();
        let information = services.configuration.get_or_insert_with(|| {
            Box::new(CONFIGURATION_INFORMATION { Version: 2, ..CONFIGURATION_INFORMATION::default() })
        });
        &raw mut **information
    }
    fn IoAllocateDriverObjectExtension(DriverObject: *mut DRIVER_OBJECT, ClientIdentificationAddress: *mut c_void, DriverObjectExtensionSize: u32, DriverObjectExtension: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        guest::write(DriverObjectExtension, ptr::null_mut());
        let key = (DriverObject as u64, ClientIdentificationAddress as u64);
        if machine.services.borrow().driver_extensions.contains_key(&key) {
            return STATUS_OBJECT_NAME_COLLISION;
        }
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let Some(block) = machine.kernel_block(u64::from(DriverObjectExtensionSize), b"DrvE") else {
            return STATUS_INSUFFICIENT_RESOURCES;
        };
        machine.services.borrow_mut().driver_extensions.insert(key, block);
        guest::write(DriverObjectExtension, block as *mut c_void);
        STATUS_SUCCESS
    }
    fn IoGetDriverObjectExtension(DriverObject: *mut DRIVER_OBJECT, ClientIdentificationAddress: *mut c_void) -> *mut c_void {
        let key = (DriverObject as u64, ClientIdentificationAddress as u64);
        current().services.borrow().driver_extensions.get(&key).copied().unwrap_or(0) as *mut c_void
    }
    fn IoGetRelatedDeviceObject(FileObject: *mut FILE_OBJECT) -> *mut DEVICE_OBJECT { current().top_of_stack(get!(FileObject, DeviceObject)) }
    fn IoGetAttachedDevice(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        current().check_device(DeviceObject);
        current().top_of_stack(DeviceObject)
    }
    fn IoGetLowerDeviceObject(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let machine = current();
        machine.check_device(DeviceObject);
        let below = machine.device_below(DeviceObject);
        if !below.is_null() {
            machine.objects.borrow_mut().reference(below as u64, machine.call_site());
        }
        below
    }
    fn IoGetDeviceAttachmentBaseRef(DeviceObject: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let machine = current();
        machine.check_device(DeviceObject);
        let mut base = DeviceObject;
        loop {
            let below = machine.device_below(base);
            if below.is_null() {
                break;
            }
            base = below;
        }
        machine.objects.borrow_mut().reference(base as u64, machine.call_site());
        base
    }
    fn IoEnumerateDeviceObjectList(DriverObject: *mut DRIVER_OBJECT, DeviceObjectList: *mut *mut DEVICE_OBJECT, DeviceObjectListSize: u32, ActualNumberDeviceObjects: *mut u32) -> NTSTATUS {
        let machine = current();
        let mut devices = Vec::new();
        let mut device = get!(DriverObject, DeviceObject);
        while !device.is_null() {
            devices.push(device);
            device = get!(device, NextDevice);
        }
        guest::write(ActualNumberDeviceObjects, u32::try_from(devices.len()).unwrap_or(u32::MAX));
        let room = DeviceObjectListSize as usize / size_of::<usize>();
        for (index, device) in devices.iter().take(room).enumerate() {
            guest::write(DeviceObjectList.wrapping_add(index), *device);
            machine.objects.borrow_mut().reference(*device as u64, machine.call_site());
        }
        if devices.len() <= room { STATUS_SUCCESS } else { STATUS_BUFFER_TOO_SMALL }
    }
    fn IoAttachDeviceToDeviceStackSafe(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *mut DEVICE_OBJECT, AttachedToDeviceObject: *mut *mut DEVICE_OBJECT) -> NTSTATUS {
        guest::write(AttachedToDeviceObject, current().attach_device(SourceDevice, TargetDevice));
        STATUS_SUCCESS
    }
    fn IoAttachDevice(SourceDevice: *mut DEVICE_OBJECT, TargetDevice: *const UNICODE_STRING, AttachedDevice: *mut *mut DEVICE_OBJECT) -> NTSTATUS {
        let machine = current();
        let found = machine.string(TargetDevice).and_then(|name| Ok(machine.objects.borrow().lookup(&name)?.0));
        let target = match found {
            Ok(target) => target,
            Err(status) => return status,
        };
        let kind = machine.objects.borrow().get(target).map(|object| object.kind);
        if kind != Some(Kind::Device) {
            return STATUS_OBJECT_TYPE_MISMATCH;
        }
        guest::write(AttachedDevice, machine.attach_device(SourceDevice, target as *mut DEVICE_OBJECT));
        STATUS_SUCCESS
    }
    fn IoGetStackLimits(LowLimit: *mut usize, HighLimit: *mut usize) {
        let (low, high) = current().stack_limits();
        guest::write(LowLimit, low);
        guest::write(HighLimit, high);
    }
    fn IoGetTopLevelIrp() -> *mut IRP {
        let machine = current();
        let thread = machine.current_thread_object();
        machine.services.borrow().top_level.get(&thread).copied().unwrap_or(0) as *mut IRP
    }
    fn IoSetTopLevelIrp(Irp: *mut IRP) {
        let machine = current();
        let thread = machine.current_thread_object();
        machine.services.borrow_mut().top_level.insert(thread, Irp as u64);
    }
    fn IoSetThreadHardErrorMode(EnableHardErrors: BOOLEAN) -> BOOLEAN {
        let machine = current();
        let thread = machine.current_thread_object();
        let quiet = machine.services.borrow_mut().quiet_threads.insert(thread, EnableHardErrors == 0);
        u8::from(!quiet.unwrap_or(false))
    }
    fn IoRaiseInformationalHardError(ErrorStatus: NTSTATUS, String: *mut UNICODE_STRING, _Thread: *mut c_void) -> BOOLEAN {
        let machine = current();
        let text = if String.is_null() { String::new() } else { machine.string(String).unwrap_or_default() };
        (machine.debug_print)(&format!("hard error: {ErrorStatus} {text}\n"));
        1
    }
    fn IoCreateUnprotectedSymbolicLink(SymbolicLinkName: *const UNICODE_STRING, DeviceName: *const UNICODE_STRING) -> NTSTATUS {
        let machine = current();
        let names = machine.string(SymbolicLinkName).and_then(|link| Ok((link, machine.string(DeviceName)?)));
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let site = machine.call_site();
        names.and_then(|(link, to)| machine.objects.borrow_mut().add_link(&link, &to, site)).err().unwrap_or(STATUS_SUCCESS)
    }
    fn IoRegisterLastChanceShutdownNotification(DeviceObject: *mut DEVICE_OBJECT) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        machine.resources.borrow_mut().shutdown.insert(DeviceObject as u64, machine.call_site());
        STATUS_SUCCESS
    }
    fn IoValidateDeviceIoControlAccess(Irp: *mut IRP, RequiredAccess: u32) -> NTSTATUS {
        let file = get!(get!(Irp, CurrentStackLocation), FileObject);
        if RequiredAccess & !3 != 0 {
            return STATUS_INVALID_PARAMETER;
        }
        if get!(Irp, RequestorMode) == KernelMode || file.is_null() {
            return STATUS_SUCCESS;
        }
        let held = u32::from(get!(file, ReadAccess)) | u32::from(get!(file, WriteAccess)) << 1;
        if RequiredAccess & !held == 0 { STATUS_SUCCESS } else { STATUS_ACCESS_DENIED }
    }
    fn IoGetFileObjectGenericMapping() -> *const GENERIC_MAPPING { &raw const FILE_MAPPING }
    fn IoIsSystemThread(Thread: *mut c_void) -> BOOLEAN {
        let machine = current();
        u8::from(machine.thread_at(Thread as u64).is_some_and(|id| machine.thread(id).is_system_thread.get()))
    }
    fn IoBuildAsynchronousFsdRequest(MajorFunction: u32, DeviceObject: *mut DEVICE_OBJECT, Buffer: *mut c_void, Length: u32, StartingOffset: *const LARGE_INTEGER, IoStatusBlock: *mut IO_STATUS_BLOCK) -> *mut IRP {
        let machine = current();
        machine.check_device(DeviceObject);
        let irp = machine.fsd_request(MajorFunction, DeviceObject, Buffer, Length, StartingOffset, ptr::null_mut(), IoStatusBlock);
        if !irp.is_null() {
            set!(block_of(irp), origin = Origin::Driver);
            let mdl = get!(irp, MdlAddress);
            if !mdl.is_null() {
                // Whoever frees the IRP unlocks and frees this too.
                machine.resources.borrow_mut().mdls.insert(mdl as u64, machine.call_site());
            }
        }
        irp
    }
    fn IoReuseIrp(Irp: *mut IRP, Status: NTSTATUS) {
        let machine = current();
        let block = machine.irp_block(Irp);
        if get!(block, origin) != Origin::Driver {
            machine.violate(RuleId::BadObject, [Irp as u64, 0, 0, 0], "IoReuseIrp of an IRP that the driver did not allocate".into());
        }
        machine.reset_irp(Irp);
        set!(Irp, IoStatus.Status = Status);
    }
    fn IoInitializeIrp(Irp: *mut IRP, _PacketSize: u16, StackSize: i8) {
        let machine = current();
        if !machine.irps.borrow().live(Origin::Driver).any(|block| field!(block, irp) == Irp) {
            machine.violate(RuleId::UnknownImport, [Irp as u64, 0, 0, 0], "IoInitializeIrp of memory that is no IRP of IoAllocateIrp, which the lab does not provide".into());
        }
        if StackSize > get!(Irp, StackCount) {
            machine.violate(RuleId::BadObject, [Irp as u64, 0, 0, 0], "an IRP was initialised with more stack locations than it has".into());
        }
        machine.reset_irp(Irp);
    }
    fn IoInitializeTimer(DeviceObject: *mut DEVICE_OBJECT, TimerRoutine: IO_TIMER_ROUTINE, Context: *mut c_void) -> NTSTATUS {
        let machine = current();
        machine.check_device(DeviceObject);
        if machine.must_fail() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        let arguments = [DeviceObject as u64, Context as u64];
        match machine.make_kernel_timer(TimerRoutine as usize as u64, arguments) {
            Some(block) => {
                machine.services.borrow_mut().device_timers.insert(DeviceObject as u64, block);
                set!(DeviceObject, Timer = block as *mut c_void);
                STATUS_SUCCESS
            }
            None => STATUS_INSUFFICIENT_RESOURCES,
        }
    }
    fn IoStartTimer(DeviceObject: *mut DEVICE_OBJECT) {
        let machine = current();
        let block = machine.device_timer(DeviceObject);
        machine.set_timer(block, -SECOND, SECOND_MS, block + size_of::<KTIMER>() as u64);
    }
    fn IoStopTimer(DeviceObject: *mut DEVICE_OBJECT) {
        let machine = current();
        let block = machine.device_timer(DeviceObject);
        machine.timers.borrow_mut().cancel(block);
        machine.remove_dpc(block + size_of::<KTIMER>() as u64);
    }
    fn ExQueueWorkItem(WorkItem: *mut WORK_QUEUE_ITEM, _QueueType: i32) {
        let machine = current();
        let site = machine.call_site();
        let known = machine.resources.borrow().work_items.get(&(WorkItem as u64)).is_some_and(|item| item.queued);
        if known {
            machine.violate(RuleId::BadObject, [WorkItem as u64, 0, 0, 0], "a work item was queued that is queued".into());
        }
        let item = WorkItem { device: get!(WorkItem, Parameter) as u64, routine: 0, context: 0, extended: false, queued: false, once: true, allocated_at: site };
        machine.resources.borrow_mut().work_items.insert(WorkItem as u64, item);
        machine.queue_work_item(WorkItem as u64, get!(WorkItem, WorkerRoutine) as u64, 0, false);
    }
    fn IoSizeofWorkItem() -> u32 { WORK_ITEM_SIZE }
    fn IoInitializeWorkItem(IoObject: *mut c_void, IoWorkItem: *mut c_void) {
        let machine = current();
        let site = machine.call_site();
        guest::set_bytes(IoWorkItem.cast(), 0, WORK_ITEM_SIZE as usize);
        let item = WorkItem { device: IoObject as u64, routine: 0, context: 0, extended: false, queued: false, once: false, allocated_at: site };
        machine.resources.borrow_mut().work_items.insert(IoWorkItem as u64, item);
    }
    fn IoUninitializeWorkItem(IoWorkItem: *mut c_void) {
        let machine = current();
        let item = machine.resources.borrow_mut().work_items.remove(&(IoWorkItem as u64));
        if item.is_none_or(|item| item.queued) {
            machine.violate(RuleId::BadObject, [IoWorkItem as u64, 0, 0, 0], "a work item was ended that does not exist, or that is queued".into());
        }
    }
    fn IoQueryDeviceDescription(_BusType: *mut i32, _BusNumber: *mut u32, _ControllerType: *mut i32, _ControllerNumber: *mut u32, _PeripheralType: *mut i32, _PeripheralNumber: *mut u32, _CalloutRoutine: *mut c_void, _Context: *mut c_void) -> NTSTATUS { STATUS_OBJECT_NAME_NOT_FOUND }
}

/// Bytes of an `IO_WORKITEM` on 64-bit Windows.
const WORK_ITEM_SIZE: u32 = 0x58;
/// A second, in units of 100 ns and in milliseconds.
const SECOND: i64 = 10_000_000;
const SECOND_MS: u32 = 1000;

/// `FILE_GENERIC_READ`, `…WRITE`, `…EXECUTE` and `FILE_ALL_ACCESS` (winnt.h).
static FILE_MAPPING: GENERIC_MAPPING = GENERIC_MAPPING {
    GenericRead: 0x0012_0089,
    GenericWrite: 0x0012_0116,
    GenericExecute: 0x0012_00A0,
    GenericAll: 0x001F_01FF,
};

impl Machine {
    /// A zeroed block of the kernel's that lives until the driver is gone.
    pub(super) fn kernel_block(&self, size: u64, tag: &[u8; 4]) -> Option<u64> {
        let site = self.call_site();
        let tag = u32::from_le_bytes(*tag);
        let allocated =
            self.pool
                .borrow_mut()
                .allocate(size.max(1), tag, false, Owner::Kernel, site);
        let block = allocated?;
        guest::set_bytes(block as *mut u8, 0, guest::size(size));
        Some(block)
    }

    /// Frees a block of the kernel's.
    pub(super) fn free_kernel_block(&self, block: u64) {
        // It is known to be live: nothing to tell the driver about.
        let _ = self.pool.borrow_mut().free(block, 0, self.call_site());
    }

    /// The device that one is attached to; null if none.
    pub(super) fn device_below(&self, device: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let objects = self.objects.borrow();
        let mut devices = objects
            .all()
            .filter(|(_, object)| object.kind == Kind::Device);
        devices
            .find(|(address, _)| get!(*address as *mut DEVICE_OBJECT, AttachedDevice) == device)
            .map_or(ptr::null_mut(), |(address, _)| {
                address as *mut DEVICE_OBJECT
            })
    }

    /// Attaches a device to the top of a stack; gives the former top.
    pub(crate) fn attach_device(
        &self,
        source: *mut DEVICE_OBJECT,
        target: *mut DEVICE_OBJECT,
    ) -> *mut DEVICE_OBJECT {
        self.check_device(source);
        self.check_device(target);
        let top = self.top_of_stack(target);
        set!(top, AttachedDevice = source);
        set!(source, StackSize = get!(top, StackSize) + 1);
        set!(
            source,
            AlignmentRequirement = get!(top, AlignmentRequirement)
        );
        top
    }

    /// A timer of the kernel's whose DPC calls `routine` with two arguments: `KTIMER` and `KDPC`, in one block.
    pub(super) fn make_kernel_timer(&self, routine: u64, arguments: [u64; 2]) -> Option<u64> {
        let size = (size_of::<KTIMER>() + size_of::<KDPC>()) as u64;
        let block = self.kernel_block(size, b"IoTi")?;
        let dpc = (block + size_of::<KTIMER>() as u64) as *mut KDPC;
        super::ke::initialize_header(
            (block as *mut KTIMER).cast(),
            nt::ke::TIMER_NOTIFICATION_OBJECT,
            size_of::<KTIMER>(),
            0,
        );
        set!(dpc, Type = nt::ke::DPC_OBJECT);
        set!(dpc, Importance = 1u8);
        guest::write(field!(dpc, DeferredRoutine).cast::<u64>(), routine);
        self.services
            .borrow_mut()
            .timer_dpcs
            .insert(dpc as u64, arguments);
        Some(block)
    }

    /// Stops a timer of the kernel's and frees it.
    pub(super) fn drop_kernel_timer(&self, block: u64) {
        let dpc = block + size_of::<KTIMER>() as u64;
        self.timers.borrow_mut().cancel(block);
        self.remove_dpc(dpc);
        self.services.borrow_mut().timer_dpcs.remove(&dpc);
        self.free_kernel_block(block);
    }

    /// Takes away the timer of a device that is deleted.
    pub(super) fn drop_device_timer(&self, device: u64) {
        let timer = self.services.borrow_mut().device_timers.remove(&device);
        if let Some(block) = timer {
            self.drop_kernel_timer(block);
        }
    }

    /// Gives back the blocks that the services hold for a driver that is gone.
    pub(super) fn reclaim_services(&self) {
        let (timers, extensions) = {
            let services = self.services.borrow();
            let timers: Vec<u64> = services.device_timers.keys().copied().collect();
            let extensions: Vec<u64> = services.driver_extensions.values().copied().collect();
            (timers, extensions)
        };
        let devices = self.services.borrow().physical_devices.clone();
        for device in devices {
            self.free_physical_device(device);
        }
        for device in timers {
            self.drop_device_timer(device);
        }
        for block in extensions {
            self.free_kernel_block(block);
        }
        self.services.borrow_mut().forget_driver();
    }

    fn device_timer(&self, device: *mut DEVICE_OBJECT) -> u64 {
        self.check_device(device);
        let timer = self
            .services
            .borrow()
            .device_timers
            .get(&(device as u64))
            .copied();
        timer.unwrap_or_else(|| {
            self.violate(
                RuleId::BadObject,
                [device as u64, 0, 0, 0],
                "the timer of a device that has none".into(),
            )
        })
    }
}
