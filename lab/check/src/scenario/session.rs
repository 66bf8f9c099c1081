//! What a well-behaved user of the driver does: the ground that other scenarios work on.

use lab_ntos::FileId;

use super::random;
use crate::bench::{Bench, Halt};

/// Virtual time between requests, so that timers of the driver run.
pub(super) const PAUSE_NS: u64 = 20_000_000;

/// Loads, opens, sends each request of the case once, closes, unloads. Refusals of the driver end it, cleanly.
pub(super) fn whole(bench: &mut Bench<'_>) -> Result<(), Halt> {
    if bench.load()? {
        if let Some(file) = bench.open_any()? {
            requests(bench, file)?;
            bench.machine.sleep_ns(PAUSE_NS)?;
            bench.machine.close(file)?;
        }
        bench.unload()?;
    }
    Ok(())
}

/// Each request of the case once.
pub(super) fn requests(bench: &mut Bench<'_>, file: FileId) -> Result<(), Halt> {
    let case = bench.case;
    let mut random = random(case);
    for call in &case.calls {
        bench.request(file, call, &mut random)?;
    }
    Ok(())
}
