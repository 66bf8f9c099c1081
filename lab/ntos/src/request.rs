//! What clients of a machine do: open a device, send requests, close.

mod ioctl;
mod open;
mod transfer;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::UserMode;
use nt::irp::{
    FILE_OBJECT, IO_STACK_LOCATION, IRP, IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ, IRP_MJ_WRITE,
};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
};

use crate::buffers::Buffer;
use crate::findings::Stopped;
use crate::guest::{field, get, set};
use crate::irp::{IrpBlock, Origin, Phase, block_of};
use crate::machine::Machine;
use crate::sched::{Job, Ran, State, ThreadId};
use crate::security::Privilege;

pub use ioctl::UserAddresses;

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
        self.begin_cancel(request)?;
        self.poll().map(drop)
    }

    /// As [`Self::cancel`], when the machine next runs.
    pub fn begin_cancel(&self, request: &Request) -> Result<(), Stopped> {
        self.check_running()?;
        if let Ok(thread) = self.free_thread(self.thread(request.thread).process.get()) {
            self.start(
                thread,
                Job::Cancel {
                    irp: request.irp as u64,
                },
            );
        }
        Ok(())
    }

    /// Takes the outcome of a complete request.
    #[inline]
    pub fn finish(&self, request: Request, output: &mut [u8]) -> Completion {
        let outcome = get!(block_of(request.irp), outcome);
        let (status, information) = (outcome.Status, outcome.Information);
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
        let mdl = get!(block_of(request.irp), mdl);
        if !mdl.is_null() {
            self.drop_mdl(mdl);
        }
        self.free_irp(request.irp);
        self.reuse_thread(request.thread);
        for buffer in request.buffer.into_iter().chain(request.output) {
            self.put_buffer(buffer);
        }
    }

    /// What the I/O manager does when an IRP has come all the way up.
    pub(crate) fn end_request(&self, block: *mut IrpBlock) {
        let irp = field!(block, irp);
        match get!(block, origin) {
            Origin::Request => self.check_output(block),
            Origin::Driver => {}
            Origin::Threaded => self.end_threaded(irp),
        }
    }

    /// No more output than the buffer holds.
    pub(crate) fn check_information(&self, block: *mut IrpBlock) {
        let irp = field!(block, irp);
        let top = crate::irp::first_location(irp);
        let limit = match get!(top, MajorFunction) {
            IRP_MJ_DEVICE_CONTROL => {
                get!(top, Parameters.DeviceIoControl.OutputBufferLength) as usize
            }
            IRP_MJ_READ | IRP_MJ_WRITE => get!(top, Parameters.ReadWrite.Length) as usize,
            _ => return,
        };
        let information = get!(irp, IoStatus.Information);
        if information > limit && !get!(irp, IoStatus.Status).is_error() {
            let device = get!(top, DeviceObject) as u64;
            self.report(
                RuleId::IrpInformation,
                [0, self.call_site(), irp as u64, device],
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
        if get!(block_of(irp), phase) != Phase::Active {
            return false;
        }
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
