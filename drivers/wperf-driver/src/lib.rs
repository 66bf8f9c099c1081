//! The performance-monitor driver: connects the kernel to the PMU logic.
//!
//! | module | does |
//! |---|---|
//! | `dispatch` | IOCTL → checked request → one call → complete answer |
//! | `control` | what changes ownership and counting, one call at a time |
//! | `query` | what anybody may ask |
//! | `core_state` | one core: its processor, its run, its counters |
//! | `backend` | hardware or software, as the core has it |
//!
//! Nothing of the PMU is touched while nobody holds a core.
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
mod session;

use control::Control;
use core_state::CoreState;
use kernel::device::DeviceRef;
use kernel::driver::Driver;
use kernel::irp::Buffer;
use kernel::per_cpu::PerCpu;
use kernel::pool::{PoolBox, PoolTag};
use kernel::security::Access;
use kernel::sync::Mutex;
use kernel::{Result, utf16};
use session::File;

/// Tag of the driver's pool: `Wprf`.
const TAG: PoolTag = PoolTag::new(*b"Wprf");

/// The state of the driver.
pub struct WperfDriver {
    cores: PerCpu<CoreState>,
    /// Whoever holds it may change who holds a core and what a core does.
    control: Mutex<Control>,
}

impl Driver for WperfDriver {
    type File = File;

    const DEVICE_NAME: &'static [u16] = utf16!(wperf_abi::DEVICE_NAME);
    const LINK_NAME: &'static [u16] = utf16!(wperf_abi::LINK_NAME);
    const TAG: PoolTag = TAG;
    const ACCESS: Access = Access::PerformanceLogUsers;

    fn try_new(_: DeviceRef<'_>) -> Result<Self> {
        let cores = PerCpu::try_new(TAG, |_| Ok(CoreState::new()))?;
        let holders = PoolBox::try_from_fn(TAG, cores.count(), |_| Ok(None))?;
        let control = Mutex::try_new(TAG, Control::new(holders))?;
        Ok(Self { cores, control })
    }

    fn open(&self) -> Result<File> {
        Ok(File::new(self.control.lock().open()))
    }

    fn ioctl(&self, file: &File, code: u32, buffer: &mut Buffer<'_>) -> Result<()> {
        dispatch::ioctl(self, file, code, buffer)
    }

    fn cleanup(&self, file: &File) {
        control::cleanup(self, file);
    }
}
