//! What clients of a machine do: open a device, send requests, close.

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::UserMode;
use nt::io::{
    DO_BUFFERED_IO, DO_DEVICE_INITIALIZING, DO_DIRECT_IO, DO_EXCLUSIVE, METHOD_BUFFERED,
    METHOD_NEITHER,
};
use nt::irp::{
    DEVICE_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IO_TYPE_FILE, IRP, IRP_MJ_CLEANUP, IRP_MJ_CLOSE,
    IRP_MJ_CREATE, IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ, IRP_MJ_WRITE,
};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
    STATUS_NO_SUCH_DEVICE, STATUS_OBJECT_TYPE_MISMATCH,
};

use crate::buffers::Buffer;
use crate::files::OpenFile;
use crate::findings::Stopped;
use crate::guest::{field, get, set};
use crate::irp::{IrpBlock, Origin, Phase, block_of, transfer};
use crate::machine::Machine;
use crate::object::Kind;
use crate::sched::{Job, Ran, State, ThreadId};
use crate::security::{self, Privilege};

/// Who a request comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// Process id.
    pub process: u64,
    /// What it may do.
    pub privilege: Privilege,
}

/// An open file of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct FileId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// `IoStatus.Status`.
    pub status: NTSTATUS,
    /// `IoStatus.Information`: for most requests, bytes of output.
    pub information: usize,
}

/// A request under way.
#[derive(Debug)]
pub struct Request {
    irp: *mut IRP,
    thread: ThreadId,
    buffer: Option<Buffer>,
    /// Where direct and neither methods put output.
    output: Option<Buffer>,
    output_len: usize,
}

/// What a request asks for.
struct Ask<'a> {
    major: u8,
    fill: &'a dyn Fn(*mut IO_STACK_LOCATION, *mut IRP),
    buffer: Option<Buffer>,
    output: Option<Buffer>,
    output_len: usize,
}

impl Machine {
    /// Opens a device by its Win32 or NT name with `FILE_READ_DATA`-style or generic rights.
    ///
    /// Errors: the status with which the kernel or the driver refuses.
    pub fn open(
        &self,
        path: &str,
        access: u32,
        client: Client,
    ) -> Result<Result<FileId, NTSTATUS>, Stopped> {
        self.check_running()?;
        if let Err(status) = self.announce_client(client)? {
            return Ok(Err(status));
        }
        let (device, rest) = match self.find_device(path, access, client.privilege) {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let file = match self.make_file(device, &rest, access, client) {
            Ok(file) => file,
            Err(status) => return Ok(Err(status)),
        };
        let device = device as *mut DEVICE_OBJECT;
        set!(device, ReferenceCount = get!(device, ReferenceCount) + 1);
        let fill = |stack: *mut IO_STACK_LOCATION, _: *mut IRP| {
            set!(stack, Parameters.Create.Options = 0x0100_0000u32);
            set!(stack, Parameters.Create.ShareAccess = 3u16);
        };
        let ask = Ask {
            major: IRP_MJ_CREATE,
            fill: &fill,
            buffer: None,
            output: None,
            output_len: 0,
        };
        let completion = self.perform(file, ask, &mut [])?;
        if completion.status.is_success() {
            return Ok(Ok(file));
        }
        self.drop_file(file);
        Ok(Err(completion.status))
    }

    /// The device a path leads to, if it may be opened, and the rest of the path.
    fn find_device(
        &self,
        path: &str,
        access: u32,
        privilege: Privilege,
    ) -> Result<(u64, String), NTSTATUS> {
        let (address, rest) = self.objects.borrow().lookup(path)?;
        let objects = self.objects.borrow();
        let object = objects.get(address).ok_or(STATUS_NO_SUCH_DEVICE)?;
        if object.kind != Kind::Device {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        let device = address as *mut DEVICE_OBJECT;
        let flags = get!(device, Flags);
        if flags & DO_DEVICE_INITIALIZING != 0 {
            return Err(STATUS_NO_SUCH_DEVICE);
        }
        if flags & DO_EXCLUSIVE != 0 && get!(device, ReferenceCount) > 0 {
            return Err(STATUS_ACCESS_DENIED);
        }
        let dacl = object.security.as_ref().unwrap_or(&None);
        if !security::allows(dacl, privilege, access) {
            return Err(STATUS_ACCESS_DENIED);
        }
        Ok((address, rest))
    }

    fn make_file(
        &self,
        device: u64,
        rest: &str,
        access: u32,
        client: Client,
    ) -> Result<FileId, NTSTATUS> {
        let process = self.process(client.process)?;
        let address = self
            .allocate_object(size_of::<FILE_OBJECT>() as u64, b"File", Kind::File)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let file = address as *mut FILE_OBJECT;
        let rights = security::map_generic(access);
        set!(file, Type = IO_TYPE_FILE);
        set!(
            file,
            Size = i16::try_from(size_of::<FILE_OBJECT>()).unwrap_or(0)
        );
        set!(file, DeviceObject = device as *mut DEVICE_OBJECT);
        set!(file, ReadAccess = u8::from(rights & 1 != 0));
        set!(file, WriteAccess = u8::from(rights & 2 != 0));
        if !rest.is_empty() {
            set!(file, FileName = self.keep_string(rest));
        }
        self.add_files(client.process, 1);
        let file = OpenFile {
            object: address,
            client,
            process,
        };
        Ok(self.files.borrow_mut().insert(file))
    }

    /// `DeviceIoControl`, to its end. Output is copied as the I/O manager does: not for an error.
    pub fn ioctl(
        &self,
        file: FileId,
        code: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        match self.begin_ioctl(file, code, input, output.len())? {
            Ok(request) => self.wait_for(request, output),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }

    /// Starts a `DeviceIoControl`; see [`Self::poll`] and [`Self::finish`].
    #[inline]
    pub fn begin_ioctl(
        &self,
        file: FileId,
        code: u32,
        input: &[u8],
        output_len: usize,
    ) -> Result<Result<Request, NTSTATUS>, Stopped> {
        self.check_running()?;
        if let Err(status) = self.check_access(file, code >> 14 & 3) {
            return Ok(Err(status));
        }
        let Some(ask) = self.prepare_ioctl(code, input, output_len) else {
            return Ok(Err(STATUS_INSUFFICIENT_RESOURCES));
        };
        let (address, user) = (ask.0, ask.1);
        let fill = move |stack: *mut IO_STACK_LOCATION, irp: *mut IRP| {
            set!(stack, Parameters.DeviceIoControl.IoControlCode = code);
            set!(
                stack,
                Parameters.DeviceIoControl.InputBufferLength =
                    u32::try_from(input.len()).unwrap_or(u32::MAX)
            );
            set!(
                stack,
                Parameters.DeviceIoControl.OutputBufferLength =
                    u32::try_from(output_len).unwrap_or(u32::MAX)
            );
            if code & 3 == METHOD_NEITHER {
                let input = if input.is_empty() {
                    0
                } else {
                    address.map_or(0, |buffer: Buffer| buffer.address)
                };
                set!(
                    stack,
                    Parameters.DeviceIoControl.Type3InputBuffer = input as *mut _
                );
                set!(
                    irp,
                    UserBuffer = user.map_or(0, |buffer: Buffer| buffer.address) as *mut _
                );
            }
        };
        let ask = Ask {
            major: IRP_MJ_DEVICE_CONTROL,
            fill: &fill,
            buffer: address,
            output: user,
            output_len,
        };
        let neither = code & 3 == METHOD_NEITHER;
        Ok(self.begin(file, ask, neither))
    }

    /// The buffers of an IOCTL by its method: system or input, and output.
    #[inline]
    fn prepare_ioctl(
        &self,
        code: u32,
        input: &[u8],
        output_len: usize,
    ) -> Option<(Option<Buffer>, Option<Buffer>)> {
        let mut buffers = self.buffers.borrow_mut();
        let method = code & 3;
        let first_len = if method == METHOD_BUFFERED {
            input.len().max(output_len)
        } else {
            input.len()
        };
        let first = if first_len == 0 {
            None
        } else {
            Some(buffers.take(input, first_len).ok()?)
        };
        let separate = method != METHOD_BUFFERED && output_len != 0;
        let second = if separate {
            Some(buffers.take(&[], output_len).ok()?)
        } else {
            None
        };
        Some((first, second))
    }

    /// Reads from a device.
    pub fn read(
        &self,
        file: FileId,
        offset: u64,
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        self.transfer(file, IRP_MJ_READ, offset, &[], output)
    }

    /// Writes to a device.
    pub fn write(&self, file: FileId, offset: u64, data: &[u8]) -> Result<Completion, Stopped> {
        self.transfer(file, IRP_MJ_WRITE, offset, data, &mut [])
    }

    fn transfer(
        &self,
        file: FileId,
        major: u8,
        offset: u64,
        data: &[u8],
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        self.check_running()?;
        let needed = if major == IRP_MJ_READ { 1 } else { 2 };
        if let Err(status) = self.check_access(file, needed) {
            return Ok(Completion {
                status,
                information: 0,
            });
        }
        let len = data.len().max(output.len());
        let device = match self.file_object(file) {
            // As the top of the stack wants them, which gets the request.
            Ok(object) => self.top_of_stack(get!(object, DeviceObject)),
            Err(status) => {
                return Ok(Completion {
                    status,
                    information: 0,
                });
            }
        };
        let Ok(buffer) = self.buffers.borrow_mut().take(data, len) else {
            return Ok(Completion {
                status: STATUS_INSUFFICIENT_RESOURCES,
                information: 0,
            });
        };
        let buffer = (len != 0).then_some(buffer);
        let method = transfer(device);
        let fill = |stack: *mut IO_STACK_LOCATION, irp: *mut IRP| {
            set!(
                stack,
                Parameters.ReadWrite.Length = u32::try_from(len).unwrap_or(u32::MAX)
            );
            set!(
                stack,
                Parameters.ReadWrite.ByteOffset = offset.cast_signed()
            );
            if method & (DO_BUFFERED_IO | DO_DIRECT_IO) == 0 {
                set!(
                    irp,
                    UserBuffer = buffer.map_or(0, |buffer| buffer.address) as *mut _
                );
            }
        };
        let buffered = method & DO_BUFFERED_IO != 0;
        let (system, user) = if buffered {
            (buffer, None)
        } else {
            (None, buffer)
        };
        let neither = method & (DO_BUFFERED_IO | DO_DIRECT_IO) == 0;
        let ask = Ask {
            major,
            fill: &fill,
            buffer: system,
            output: user,
            output_len: output.len(),
        };
        match self.begin(file, ask, neither) {
            Ok(request) => self.wait_for(request, output),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }

    /// Closes a file: `IRP_MJ_CLEANUP`, cancellation of what is pending, `IRP_MJ_CLOSE`.
    pub fn close(&self, file: FileId) -> Result<NTSTATUS, Stopped> {
        self.check_running()?;
        if self.files.borrow().get(file).is_none() {
            return Ok(STATUS_INVALID_HANDLE);
        }
        let ask = |major| Ask {
            major,
            fill: &|_, _| {},
            buffer: None,
            output: None,
            output_len: 0,
        };
        let cleanup = self.perform(file, ask(IRP_MJ_CLEANUP), &mut [])?;
        self.perform(file, ask(IRP_MJ_CLOSE), &mut [])?;
        let client = self.files.borrow().get(file).map(|file| file.client);
        self.drop_file(file);
        if let Some(client) = client {
            self.announce_end(client)?;
        }
        Ok(cleanup.status)
    }

    /// Closes every open file, as when all processes end.
    pub fn close_all(&self) -> Result<(), Stopped> {
        let files = self.files.borrow().all();
        files
            .into_iter()
            .try_for_each(|file| self.close(file).map(drop))
    }

    fn drop_file(&self, file: FileId) {
        let Some(file) = self.files.borrow_mut().remove(file) else {
            return;
        };
        let device = get!(file.object as *mut FILE_OBJECT, DeviceObject);
        set!(device, ReferenceCount = get!(device, ReferenceCount) - 1);
        self.free_object(file.object);
        self.finish_delete(device as u64);
        self.add_files(file.client.process, -1);
    }

    /// Files that are open.
    pub fn open_files(&self) -> usize {
        self.files.borrow().len()
    }

    fn file_object(&self, file: FileId) -> Result<*mut FILE_OBJECT, NTSTATUS> {
        let file = self.files.borrow().get(file).ok_or(STATUS_INVALID_HANDLE)?;
        Ok(file.object as *mut FILE_OBJECT)
    }

    #[inline]
    fn check_access(&self, file: FileId, needed: u32) -> Result<(), NTSTATUS> {
        let object = self.file_object(file)?;
        let held = u32::from(get!(object, ReadAccess)) | u32::from(get!(object, WriteAccess)) << 1;
        if needed & !held == 0 {
            Ok(())
        } else {
            Err(STATUS_ACCESS_DENIED)
        }
    }

    fn perform(
        &self,
        file: FileId,
        ask: Ask<'_>,
        output: &mut [u8],
    ) -> Result<Completion, Stopped> {
        match self.begin(file, ask, false) {
            Ok(request) => self.wait_for(request, output),
            Err(status) => Ok(Completion {
                status,
                information: 0,
            }),
        }
    }

    /// Builds the IRP of a request and sends it from a thread of the client's process.
    #[inline]
    fn begin(&self, file: FileId, ask: Ask<'_>, neither: bool) -> Result<Request, NTSTATUS> {
        let file = self.files.borrow().get(file).ok_or(STATUS_INVALID_HANDLE)?;
        let thread = self.free_thread(file.process)?;
        let object = file.object as *mut FILE_OBJECT;
        let device = self.top_of_stack(get!(object, DeviceObject));
        let irp = self.allocate_irp(get!(device, StackSize), Origin::Request, 0);
        if irp.is_null() {
            self.reuse_thread(thread);
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        set!(irp, RequestorMode = UserMode);
        set!(irp, Thread = self.thread(thread).object.get() as *mut _);
        set!(irp, OriginalFileObject = object);
        if let Some(buffer) = ask.buffer.filter(|_| !neither) {
            set!(irp, SystemBuffer = buffer.address as *mut _);
        }
        if let Some(output) = ask.output.filter(|_| !neither) {
            set!(
                irp,
                MdlAddress = self.locked_mdl(output.address, output.len)
            );
        }
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        set!(stack, MajorFunction = ask.major);
        set!(stack, FileObject = object);
        (ask.fill)(stack, irp);
        let request = Request {
            irp,
            thread,
            buffer: ask.buffer,
            output: ask.output,
            output_len: ask.output_len,
        };
        self.run_now(
            thread,
            Job::Dispatch {
                device: device as u64,
                irp: irp as u64,
            },
        );
        Ok(request)
    }

    /// Sends an IRP of the kernel's from a thread, and waits for it.
    pub(crate) fn perform_irp(
        &self,
        irp: *mut IRP,
        thread: ThreadId,
        device: u64,
    ) -> Result<Completion, Stopped> {
        set!(irp, Thread = self.thread(thread).object.get() as *mut _);
        let irp_address = irp as u64;
        self.run_now(
            thread,
            Job::Dispatch {
                device,
                irp: irp_address,
            },
        );
        let request = Request {
            irp,
            thread,
            buffer: None,
            output: None,
            output_len: 0,
        };
        self.wait_for(request, &mut [])
    }

    /// Runs the machine until a request is complete, and gives its outcome.
    #[inline]
    fn wait_for(&self, request: Request, output: &mut [u8]) -> Result<Completion, Stopped> {
        match self.run_blocking(|| self.is_complete(&request)) {
            Ran::Done => Ok(self.finish(request, output)),
            Ran::Stopped => Err(self.stop()),
            Ran::Idle(_) => {
                let block = block_of(request.irp);
                self.record(
                    RuleId::WaitForever,
                    [request.irp as u64, 0, 0, 0],
                    "a request waits for something that nothing left can bring about".into(),
                    get!(block, allocated_at),
                );
                Err(self.stop())
            }
        }
    }

    /// Runs everything that can run now; gives when the next timer is due, in
    /// nanoseconds from now.
    pub fn poll(&self) -> Result<Option<u64>, Stopped> {
        match self.run_until(|| true) {
            Ran::Stopped => Err(self.stop()),
            Ran::Done | Ran::Idle(_) => Ok(self
                .next_due()
                .map(|due| due.saturating_sub(self.clock.now_ns()))),
        }
    }

    /// Whether a request is over and nothing of its thread's work is left.
    pub fn is_complete(&self, request: &Request) -> bool {
        get!(block_of(request.irp), phase) == Phase::Completed
            && self.thread(request.thread).state.get() == State::Free
    }

    /// Asks the driver to cancel a request.
    pub fn cancel(&self, request: &Request) -> Result<(), Stopped> {
        self.check_running()?;
        if let Ok(thread) = self.free_thread(self.thread(request.thread).process.get()) {
            self.start(
                thread,
                Job::Cancel {
                    irp: request.irp as u64,
                },
            );
        }
        self.poll().map(drop)
    }

    /// Takes the outcome of a complete request.
    #[inline]
    pub fn finish(&self, request: Request, output: &mut [u8]) -> Completion {
        let irp = request.irp;
        let status = get!(irp, IoStatus.Status);
        let information = get!(irp, IoStatus.Information);
        let copied = information.min(request.output_len).min(output.len());
        if !status.is_error()
            && let Some(buffer) = request.output.or(request.buffer)
        {
            buffer.copy_to(&mut output[..copied]);
        }
        self.release(request);
        Completion {
            status,
            information,
        }
    }

    #[inline]
    fn release(&self, request: Request) {
        let mdl = get!(request.irp, MdlAddress);
        if !mdl.is_null() {
            self.drop_mdl(mdl);
        }
        self.free_irp(request.irp);
        self.reuse_thread(request.thread);
        let mut buffers = self.buffers.borrow_mut();
        request
            .buffer
            .into_iter()
            .chain(request.output)
            .for_each(|buffer| buffers.put(buffer));
    }

    /// What the I/O manager does when an IRP has come all the way up.
    pub(crate) fn end_request(&self, block: *mut IrpBlock) {
        let irp = field!(block, irp);
        match get!(block, origin) {
            Origin::Request => self.check_information(block),
            Origin::Driver => {}
            Origin::Threaded => self.end_threaded(irp),
        }
    }

    /// No more output than the buffer holds.
    fn check_information(&self, block: *mut IrpBlock) {
        let irp = field!(block, irp);
        let top = get!(irp, CurrentStackLocation).wrapping_sub(1);
        let limit = match get!(top, MajorFunction) {
            IRP_MJ_DEVICE_CONTROL => {
                get!(top, Parameters.DeviceIoControl.OutputBufferLength) as usize
            }
            IRP_MJ_READ | IRP_MJ_WRITE => get!(top, Parameters.ReadWrite.Length) as usize,
            _ => return,
        };
        let information = get!(irp, IoStatus.Information);
        if information > limit && !get!(irp, IoStatus.Status).is_error() {
            self.violate(
                RuleId::IrpInformation,
                [irp as u64, information as u64, limit as u64, 0],
                format!("{information} bytes of output reported for a buffer of {limit}"),
            );
        }
    }

    fn end_threaded(&self, irp: *mut IRP) {
        let iosb = get!(irp, UserIosb);
        if !iosb.is_null() {
            crate::guest::write(iosb, get!(irp, IoStatus));
        }
        self.copy_back(irp);
        self.end_power_request(irp);
        let event = get!(irp, UserEvent);
        self.free_irp(irp);
        if !event.is_null() {
            self.signal(event as u64, 1);
        }
    }

    /// Cancels an IRP: true if it had a cancel routine, which was called.
    pub(crate) fn cancel_irp(&self, irp: *mut IRP) -> bool {
        set!(irp, Cancel = 1u8);
        let Some(routine) = get!(irp, CancelRoutine) else {
            return false;
        };
        set!(irp, CancelRoutine = None);
        let device = get!(get!(irp, CurrentStackLocation), DeviceObject);
        if routine as usize as u64 == crate::exports::queue::csq_cancel_routine() {
            self.csq_cancel(irp);
            return true;
        }
        let args = [device as u64, irp as u64, 0, 0];
        self.call_with_cancel_lock(irp, routine as usize as u64, args);
        true
    }

    /// Status of requests that a stopped machine never answered.
    pub const ABANDONED: NTSTATUS = STATUS_CANCELLED;
}
