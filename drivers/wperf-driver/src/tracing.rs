//! What the driver's events belong to, and the recorder that keeps the last of them.

use crate::TAG;
use kernel::tracing::Recorder;
use trace::Flag;
use trace::format::Level;

/// Load, unload, handles.
pub(crate) const LIFE: Flag = Flag::new(0, "LIFE");
/// Device controls.
pub(crate) const IOCTL: Flag = Flag::new(1, "IOCTL");
/// Who holds cores, and what they do.
pub(crate) const CONTROL: Flag = Flag::new(2, "CONTROL");
/// Ticks, DPCs, counters.
pub(crate) const COUNTING: Flag = Flag::new(3, "COUNTING");

/// Overflows, rings, readers.
pub(crate) const SAMPLING: Flag = Flag::new(4, "SAMPLING");

/// Slots of a ring: 8 KiB, twice for each processor.
const SLOTS: usize = 256;

/// A flight recorder of the cold paths, from the beginning; `None` where it cannot be had.
pub(crate) fn begin() -> Option<Recorder> {
    let recorder = Recorder::try_new(TAG, SLOTS).ok()?;
    recorder.select(Level::Information, u32::MAX);
    Some(recorder)
}
