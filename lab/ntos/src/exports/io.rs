//! `Io…`: devices, links, IRPs, work items, MDLs.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{KernelMode, UNICODE_STRING};
use nt::io::{
    DO_DEVICE_INITIALIZING, DO_EXCLUSIVE, FILE_DEVICE_SECURE_OPEN, IO_WORKITEM_ROUTINE,
    IO_WORKITEM_ROUTINE_EX, METHOD_BUFFERED, METHOD_NEITHER,
};
use nt::irp::{
    DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STATUS_BLOCK, IO_TYPE_DEVICE, IRP,
    IRP_MJ_DEVICE_CONTROL, IRP_MJ_INTERNAL_DEVICE_CONTROL, IRP_MJ_READ, PDRIVER_DISPATCH,
};
use nt::ke::{DISPATCH_LEVEL, KEVENT, KIRQL};
use nt::mm::MDL;
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_NOT_SUPPORTED,
    STATUS_OBJECT_NAME_INVALID, STATUS_SUCCESS,
};

use super::{exports, guard};
use crate::guest::{self, get, set};
use crate::irp::Origin;
use crate::machine::{Machine, current};
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::resources::WorkItem;
use crate::sched::Job;

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
        let machine = current();
        let block = machine.irp_block(Irp);
        if get!(block, origin) != Origin::Driver {
            machine.violate(RuleId::BadObject, [Irp as u64, 0, 0, 0], "IoFreeIrp of an IRP that the driver did not allocate".into());
        }
        machine.free_irp(Irp);
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
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        let major = if InternalDeviceIoControl != 0 { IRP_MJ_INTERNAL_DEVICE_CONTROL } else { IRP_MJ_DEVICE_CONTROL };
        set!(stack, MajorFunction = major);
        set!(stack, Parameters.DeviceIoControl.IoControlCode = IoControlCode);
        set!(stack, Parameters.DeviceIoControl.InputBufferLength = InputBufferLength);
        set!(stack, Parameters.DeviceIoControl.OutputBufferLength = OutputBufferLength);
        set!(irp, UserBuffer = OutputBuffer);
        match IoControlCode & 3 {
            METHOD_NEITHER => set!(stack, Parameters.DeviceIoControl.Type3InputBuffer = InputBuffer),
            METHOD_BUFFERED => machine.buffer_threaded(irp, InputBuffer as u64, InputBufferLength.max(OutputBufferLength), InputBufferLength),
            _ => {
                machine.buffer_threaded(irp, InputBuffer as u64, InputBufferLength, InputBufferLength);
                if OutputBufferLength != 0 {
                    set!(irp, MdlAddress = machine.locked_mdl(OutputBuffer as u64, OutputBufferLength as usize));
                }
            }
        }
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
        let item = WorkItem { device: DeviceObject as u64, routine: 0, context: 0, extended: false, queued: false, allocated_at: site };
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
        let item = machine.resources.borrow_mut().work_items.remove(&(IoWorkItem as u64));
        if item.is_none_or(|item| item.queued) {
            machine.violate(RuleId::BadObject, [IoWorkItem as u64, 0, 0, 0], "a work item was freed that does not exist, or that is queued".into());
        }
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
        let machine = current();
        machine.check_device(SourceDevice);
        machine.check_device(TargetDevice);
        let top = machine.top_of_stack(TargetDevice);
        set!(top, AttachedDevice = SourceDevice);
        set!(SourceDevice, StackSize = get!(top, StackSize) + 1);
        set!(SourceDevice, AlignmentRequirement = get!(top, AlignmentRequirement));
        top
    }
    fn IoDetachDevice(TargetDevice: *mut DEVICE_OBJECT) {
        current().check_device(TargetDevice);
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
        let string = guest::read(string);
        if !string.Length.is_multiple_of(2)
            || string.Length > string.MaximumLength
            || (string.Buffer.is_null() && string.Length != 0)
        {
            return Err(STATUS_OBJECT_NAME_INVALID);
        }
        let units: Vec<u16> = (0..usize::from(string.Length / 2))
            .map(|index| guest::read(string.Buffer.wrapping_add(index)))
            .collect();
        String::from_utf16(&units).map_err(|_| STATUS_OBJECT_NAME_INVALID)
    }

    fn create_device(
        &self,
        driver: *mut DRIVER_OBJECT,
        extension: u32,
        name: Option<&str>,
        device_type: u32,
        characteristics: u32,
        exclusive: bool,
    ) -> Result<*mut DEVICE_OBJECT, NTSTATUS> {
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let header = size_of::<DEVICE_OBJECT>() as u64;
        let address = self
            .allocate_object(header + u64::from(extension), b"Devi", Kind::Device)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        if let Some(name) = name {
            let named = self.objects.borrow_mut().set_name(address, name);
            if let Err(status) = named {
                self.free_object(address);
                return Err(status);
            }
        }
        let device = address as *mut DEVICE_OBJECT;
        set!(device, Type = IO_TYPE_DEVICE);
        set!(
            device,
            Size = u16::try_from(header + u64::from(extension)).unwrap_or(u16::MAX)
        );
        set!(device, DriverObject = driver);
        set!(device, NextDevice = get!(driver, DeviceObject));
        set!(
            device,
            Flags = DO_DEVICE_INITIALIZING | if exclusive { DO_EXCLUSIVE } else { 0 }
        );
        set!(device, Characteristics = characteristics);
        set!(device, DeviceType = device_type);
        set!(device, StackSize = 1i8);
        if extension != 0 {
            set!(device, DeviceExtension = (address + header) as *mut c_void);
        }
        set!(driver, DeviceObject = device);
        Ok(device)
    }

    /// Stops when an address that should be a device is none.
    pub(crate) fn check_device(&self, device: *mut DEVICE_OBJECT) {
        let is_device = self
            .objects
            .borrow()
            .get(device as u64)
            .is_some_and(|object| object.kind == Kind::Device);
        if !is_device {
            self.violate(
                RuleId::BadObject,
                [device as u64, 0, 0, 0],
                format!("{:#x} is no device object", device as u64),
            );
        }
    }

    fn delete_device(&self, device: *mut DEVICE_OBJECT) {
        self.check_device(device);
        let driver = get!(device, DriverObject);
        let next = get!(device, NextDevice);
        if get!(driver, DeviceObject) == device {
            set!(driver, DeviceObject = next);
        } else {
            let mut at = get!(driver, DeviceObject);
            while !at.is_null() && get!(at, NextDevice) != device {
                at = get!(at, NextDevice);
            }
            if !at.is_null() {
                set!(at, NextDevice = next);
            }
        }
        set!(device, DriverObject = ptr::null_mut::<DRIVER_OBJECT>());
        self.finish_delete(device as u64);
    }

    /// Frees a deleted device once no file refers to it.
    pub(crate) fn finish_delete(&self, device: u64) {
        let object = device as *mut DEVICE_OBJECT;
        if get!(object, DriverObject).is_null() && get!(object, ReferenceCount) <= 0 {
            self.free_object(device);
        }
    }

    /// The highest device of a stack.
    pub(crate) fn top_of_stack(&self, device: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT {
        let mut top = device;
        while !get!(top, AttachedDevice).is_null() {
            top = get!(top, AttachedDevice);
        }
        top
    }

    /// Habits that let anybody in.
    pub fn insecure_devices(&self) -> Vec<String> {
        let objects = self.objects.borrow();
        let devices = objects
            .all()
            .filter(|(_, object)| object.kind == Kind::Device && object.name.is_some());
        devices
            .filter(|(address, object)| {
                let secure_open = get!(*address as *mut DEVICE_OBJECT, Characteristics)
                    & FILE_DEVICE_SECURE_OPEN
                    != 0;
                !secure_open || object.security.is_none()
            })
            .filter_map(|(_, object)| object.name.clone())
            .collect()
    }

    fn queue_work_item(&self, item: u64, routine: u64, context: u64, extended: bool) {
        let mut resources = self.resources.borrow_mut();
        let queued = resources
            .work_items
            .get_mut(&item)
            .filter(|entry| !entry.queued)
            .map(|entry| {
                *entry = WorkItem {
                    routine,
                    context,
                    extended,
                    queued: true,
                    ..entry.clone()
                };
            });
        drop(resources);
        if queued.is_none() {
            self.violate(
                RuleId::BadObject,
                [item, 0, 0, 0],
                "a work item was queued that does not exist, or that is queued".into(),
            );
        }
        let process = self.process(SYSTEM_PROCESS).unwrap_or_default();
        match self.free_thread(process) {
            Ok(thread) => self.start(thread, Job::WorkItem { item }),
            Err(status) => self.violate(
                RuleId::HostFault,
                [0; 4],
                format!("no thread for a work item: {status}"),
            ),
        }
        self.request_schedule();
    }

    /// Runs a work item on a system thread.
    pub(crate) fn run_work_item(&self, item: u64) {
        let mut resources = self.resources.borrow_mut();
        let Some(entry) = resources.work_items.get_mut(&item) else {
            return;
        };
        // It may be queued again, or freed, from its routine.
        entry.queued = false;
        let entry = entry.clone();
        drop(resources);
        let arguments = if entry.extended {
            [entry.device, entry.context, item, 0]
        } else {
            [entry.device, entry.context, 0, 0]
        };
        self.call(entry.routine, arguments);
    }

    /// The process of the running thread.
    pub(crate) fn current_process(&self) -> u64 {
        self.running
            .get()
            .map_or(0, |id| self.thread(id).process.get())
    }

    fn requestor(&self, irp: *mut IRP) -> u64 {
        self.irp_block(irp);
        let thread = get!(irp, Thread) as u64;
        self.thread_at(thread)
            .map_or(0, |id| self.thread(id).process.get())
    }

    /// An IRP that the I/O manager frees at completion.
    fn threaded_irp(
        &self,
        device: *mut DEVICE_OBJECT,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        if self.must_fail() {
            return ptr::null_mut();
        }
        self.build_threaded(device, event, iosb)
    }

    /// As [`Self::threaded_irp`], where the kernel can't do without.
    pub(super) fn build_threaded(
        &self,
        device: *mut DEVICE_OBJECT,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        let irp = self.allocate_irp(get!(device, StackSize), Origin::Threaded, self.call_site());
        if !irp.is_null() {
            set!(irp, RequestorMode = KernelMode);
            set!(irp, UserEvent = event);
            set!(irp, UserIosb = iosb);
            set!(irp, Thread = self.current_thread_object() as *mut c_void);
        }
        irp
    }

    /// A read, write, flush or shutdown IRP, with its buffer as the device wants it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the kernel's own function has them"
    )]
    pub(super) fn fsd_request(
        &self,
        major: u32,
        device: *mut DEVICE_OBJECT,
        buffer: *mut c_void,
        length: u32,
        offset: *const i64,
        event: *mut KEVENT,
        iosb: *mut IO_STATUS_BLOCK,
    ) -> *mut IRP {
        let irp = self.threaded_irp(device, event, iosb);
        if irp.is_null() {
            return irp;
        }
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = u8::try_from(major).unwrap_or(0));
        set!(stack, Parameters.ReadWrite.Length = length);
        if !offset.is_null() {
            set!(stack, Parameters.ReadWrite.ByteOffset = guest::read(offset));
        }
        set!(irp, UserBuffer = buffer);
        let reads = major == u32::from(IRP_MJ_READ);
        if length != 0 && crate::irp::transfer(device) & nt::io::DO_DIRECT_IO != 0 {
            set!(
                irp,
                MdlAddress = self.locked_mdl(buffer as u64, length as usize)
            );
        } else if crate::irp::transfer(device) & nt::io::DO_BUFFERED_IO != 0 {
            self.buffer_threaded(irp, buffer as u64, length, if reads { 0 } else { length });
        }
        irp
    }

    /// Gives a threaded IRP a system buffer with the caller's input in it.
    pub(super) fn buffer_threaded(&self, irp: *mut IRP, input: u64, len: u32, input_len: u32) {
        if len == 0 {
            return;
        }
        let data = guest::bytes(input as *const u8, input_len as usize);
        if let Ok(buffer) = self.buffers.borrow_mut().take(&data, len as usize) {
            set!(irp, SystemBuffer = buffer.address as *mut c_void);
            self.resources
                .borrow_mut()
                .threaded_buffers
                .insert(irp as u64, buffer);
        }
    }

    /// Copies what a threaded IRP returned to its caller's buffer.
    pub(crate) fn copy_back(&self, irp: *mut IRP) {
        let mdl = get!(irp, MdlAddress);
        if !mdl.is_null() {
            self.drop_mdl(mdl);
            set!(irp, MdlAddress = ptr::null_mut());
        }
        let Some(buffer) = self
            .resources
            .borrow_mut()
            .threaded_buffers
            .remove(&(irp as u64))
        else {
            return;
        };
        let output = get!(irp, UserBuffer);
        let information = get!(irp, IoStatus.Information).min(buffer.len);
        if !output.is_null() && !get!(irp, IoStatus.Status).is_error() {
            guest::fill(
                output.cast(),
                &guest::bytes(buffer.address as *const u8, information),
            );
        }
        self.buffers.borrow_mut().put(buffer);
    }

    fn open_device(&self, name: &str) -> Result<(u64, *mut DEVICE_OBJECT), NTSTATUS> {
        let (address, _) = self.objects.borrow().lookup(name)?;
        let is_device = self
            .objects
            .borrow()
            .get(address)
            .is_some_and(|object| object.kind == Kind::Device);
        if !is_device {
            return Err(nt::status::STATUS_OBJECT_TYPE_MISMATCH);
        }
        let device = address as *mut DEVICE_OBJECT;
        let file = self
            .allocate_object(size_of::<FILE_OBJECT>() as u64, b"File", Kind::File)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        set!(file as *mut FILE_OBJECT, Type = nt::irp::IO_TYPE_FILE);
        set!(file as *mut FILE_OBJECT, DeviceObject = device);
        set!(device, ReferenceCount = get!(device, ReferenceCount) + 1);
        let site = self.call_site();
        let mut objects = self.objects.borrow_mut();
        objects.reference(file, site);
        objects.dereference(file, false);
        drop(objects);
        Ok((file, self.top_of_stack(device)))
    }

    fn named_event(&self, name: &str) -> Result<(u64, u64), NTSTATUS> {
        let found = self.objects.borrow().lookup(name);
        let site = self.call_site();
        if let Ok((event, _)) = found {
            let handle = self
                .objects
                .borrow_mut()
                .open(event, site)
                .ok_or(STATUS_NOT_SUPPORTED)?;
            return Ok((event, handle));
        }
        let event = self
            .allocate_object(size_of::<KEVENT>() as u64, b"Even", Kind::Event)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        set!(event as *mut KEVENT, Header.SignalState = 1);
        let mut objects = self.objects.borrow_mut();
        objects.set_name(event, name)?;
        let handle = objects.open(event, site).ok_or(STATUS_NOT_SUPPORTED)?;
        objects.dereference(event, false);
        Ok((event, handle))
    }

    /// Calls a cancel routine as the I/O manager does: cancel lock held, old IRQL in the IRP.
    pub(crate) fn call_with_cancel_lock(&self, irp: *mut IRP, routine: u64, arguments: [u64; 4]) {
        let old = self.raise(DISPATCH_LEVEL);
        self.acquire(self.cancel_lock.as_ptr());
        set!(irp, CancelIrql = old);
        self.call_expecting(routine, arguments, old);
    }
}
