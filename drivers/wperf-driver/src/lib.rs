//! The performance-monitor driver: connects the kernel to the PMU logic.
//!
//! | module | does |
//! |---|---|
//! | `dispatch` | IOCTL → checked request → one call → complete answer |
//! | `control` | what changes ownership and counting, one call at a time |
//! | `query` | what anybody may ask |
//! | `core_state` | one core: its processor, its run, its counters |
//! | `sampler` | one core: its interrupt routine, its ring, who is woken |
//! | `sampling` | the calls that sample |
//! | `backend` | hardware or software, as the core has it |
//! | `uncore` | units that belong to no core: found, held, counted |
//! | `tracing` | what its events belong to |
//!
//! Nothing of a PMU is touched while nobody holds its core or unit, but for asking it once what it has.
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod backend;
mod control;
mod core_state;
mod dispatch;
mod query;
mod sampler;
mod sampling;
mod session;
mod tracing;
mod uncore;

use control::Control;
use core_state::CoreState;
use kernel::device::DeviceRef;
use kernel::driver::Driver;
use kernel::irp::Buffer;
use kernel::per_cpu::PerCpu;
use kernel::pool::{PoolArc, PoolBox, PoolTag};
use kernel::security::Access;
use kernel::sync::Mutex;
use kernel::tracing::Recorder;
use kernel::{Result, utf16};
use session::File;
use trace::cold;
use tracing::LIFE;
use uncore::Units;

/// Tag of the driver's pool: `Wprf`.
const TAG: PoolTag = PoolTag::new(*b"Wprf");

/// The state of the driver.
pub struct WperfDriver {
    /// The profile hook keeps them, too, while there is one.
    cores: PoolArc<PerCpu<CoreState>>,
    units: Units,
    /// Whoever holds it may change who holds a core and what a core does.
    control: Mutex<Control>,
    /// Last to go: everything else may have events. A driver that cannot record works all the same.
    recorder: Option<Recorder>,
}

impl Driver for WperfDriver {
    type File = File;

    const DEVICE_NAME: &'static [u16] = utf16!(wperf_abi::DEVICE_NAME);
    const LINK_NAME: &'static [u16] = utf16!(wperf_abi::LINK_NAME);
    const TAG: PoolTag = TAG;
    const ACCESS: Access = Access::PerformanceLogUsers;

    fn try_new(_: DeviceRef<'_>) -> Result<Self> {
        let recorder = tracing::begin();
        let cores = PoolArc::try_new(TAG, PerCpu::try_new(TAG, |_| Ok(CoreState::new()))?)?;
        let units = Units::find(&cores)?;
        let holders = PoolBox::try_from_fn(TAG, cores.count(), |_| Ok(None))?;
        let control = Mutex::try_new(TAG, Control::new(holders))?;
        cold!(Information, LIFE, "started", cores: usize = cores.count());
        Ok(Self {
            cores,
            units,
            control,
            recorder,
        })
    }

    fn open(&self) -> Result<File> {
        let session = self.control.lock().open();
        cold!(Information, LIFE, "opened", session: u64 = session.id().get(), process: u32 = kernel::process::current_id());
        File::try_new(session)
    }

    fn ioctl(&self, file: &File, code: u32, buffer: &mut Buffer<'_>) -> Result<()> {
        if let Some(recorder) = &self.recorder
            && let Some(result) = recorder.ioctl(code, buffer)
        {
            return result;
        }
        dispatch::ioctl(self, file, code, buffer)
    }

    fn cleanup(&self, file: &File) {
        control::cleanup(self, file);
        uncore::cleanup(self, file);
    }
}
