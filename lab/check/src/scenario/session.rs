//! What a well-behaved user of the driver does: the ground that other scenarios work on.

use lab_ntos::FileId;

use crate::bench::{Bench, Halt};

/// Bytes of input and output of a typical request.
pub(super) const TYPICAL: usize = 64;
/// Virtual time between requests, so that timers of the driver run.
pub(super) const PAUSE_NS: u64 = 20_000_000;

/// Loads, opens, sends each code of the case once, closes, unloads. Refusals of the driver end it, cleanly.
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

/// Each code of the case once, with typical lengths.
pub(super) fn requests(bench: &mut Bench<'_>, file: FileId) -> Result<(), Halt> {
    let case = bench.case;
    for &code in &case.codes {
        bench.request(file, code, &[0; TYPICAL], &mut [0; TYPICAL])?;
    }
    Ok(())
}
