//! Ctrl-C and its like.

use anyhow::Context;
use lab_check::stop::Stop;

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; the second ends the process.
pub(super) fn stop() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let set = stop.clone();
    ctrlc::set_handler(move || {
        if set.set() {
            std::process::exit(INTERRUPTED);
        }
        eprintln!("drydock: interrupted; once more to end without a report");
    })
    .context("cannot handle signals")?;
    Ok(stop)
}
