//! The driver: its state, and the table of its calls.

mod calls;
mod core;
mod tracing;

use self::core::{Core, Wake};
use crate::protocol;
use ::core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use kernel::device::DeviceRef;
use kernel::driver::Driver;
use kernel::ioctl::{self, Call};
use kernel::irp::Buffer;
use kernel::per_cpu::PerCpu;
use kernel::pool::PoolTag;
use kernel::status::STATUS_NOT_SUPPORTED;
use kernel::sync::{Event, EventKind, Mutex, SpinLock};
use kernel::tracing::Recorder;
use kernel::work_item::WorkItem;
use kernel::{Result, utf16};
use trace::format::Level;
use trace::{Flag, cold};

/// Tag of the driver's pool.
pub(crate) const TAG: PoolTag = PoolTag::new(*b"Ktst");

/// Events of calls.
pub(crate) const CALL: Flag = Flag::new(3, "CALL");

/// Slots of a ring.
const SLOTS: usize = 64;

/// A flight recorder; `None` where it cannot be had.
fn begin_trace() -> Result<Option<Recorder>> {
    match Recorder::try_new(TAG, SLOTS) {
        Ok(recorder) => {
            recorder.select(Level::Information, u32::MAX);
            Ok(Some(recorder))
        }
        Err(STATUS_NOT_SUPPORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The state of the driver.
pub struct TestDriver {
    /// One call that uses the parts below at a time.
    turn: Mutex<()>,
    cores: PerCpu<Core>,
    /// Incremented by everybody.
    sum: SpinLock<u64>,
    work: WorkItem<Wake>,
    to_forget: SpinLock<Option<WorkItem<Wake>>>,
    never_set: Event,
    opened: AtomicU32,
    cleaned_up: AtomicU32,
    queues_at_unload: AtomicBool,
    is_relayed: AtomicBool,
    /// Last to go: everything else may have events.
    recorder: Mutex<Option<Recorder>>,
}

impl Drop for TestDriver {
    fn drop(&mut self) {
        if self.queues_at_unload.load(Ordering::Relaxed) {
            self.work.queue();
        }
    }
}

/// Files dropped since the driver was loaded. A file does not know its driver.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// One open handle.
pub struct File;

impl Drop for File {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

const CALLS: [Call<TestDriver>; 20] = calls::TABLE;

impl Driver for TestDriver {
    type File = File;

    const DEVICE_NAME: &'static [u16] = utf16!(r"\Device\KernelTest");
    const LINK_NAME: &'static [u16] = utf16!(r"\DosDevices\KernelTest");
    const TAG: PoolTag = TAG;

    fn try_new(device: DeviceRef<'_>) -> Result<Self> {
        Ok(Self {
            turn: Mutex::try_new(TAG, ())?,
            cores: PerCpu::try_new(TAG, |_| Core::try_new(device))?,
            sum: SpinLock::new(0),
            work: WorkItem::try_new(device, TAG, Wake::try_new()?)?,
            to_forget: SpinLock::new(Some(WorkItem::try_new(device, TAG, Wake::try_new()?)?)),
            never_set: Event::try_new(TAG, EventKind::Notification)?,
            opened: AtomicU32::new(0),
            cleaned_up: AtomicU32::new(0),
            queues_at_unload: AtomicBool::new(false),
            is_relayed: AtomicBool::new(false),
            recorder: Mutex::try_new(TAG, begin_trace()?)?,
        })
    }

    fn open(&self) -> Result<File> {
        let before = self.opened.fetch_add(1, Ordering::Relaxed);
        cold!(Information, CALL, "opened", before: u32 = before);
        Ok(File)
    }

    fn ioctl(&self, file: &File, code: u32, buffer: &mut Buffer<'_>) -> Result<()> {
        if let Some(recorder) = &*self.recorder.lock()
            && let Some(result) = recorder.ioctl(code, buffer)
        {
            return result;
        }
        if code == protocol::TRACE_KINDS {
            return tracing::kinds(self, file, buffer);
        }
        ioctl::dispatch(&CALLS, self, file, code, buffer)
    }

    fn cleanup(&self, _: &File) {
        self.cleaned_up.fetch_add(1, Ordering::Relaxed);
    }
}
