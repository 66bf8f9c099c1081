//! Runs the case of a replay file.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use lab_check::engine;
use lab_check::replay::Replay;
use lab_check::report::DriverIdentity;
use serde_json::json;

use super::Arguments;
use crate::exit::{CouldNotCheck, Findings};

/// Runs it, and says whether its finding came again.
pub(crate) fn run(arguments: &Arguments, file: &Path) -> anyhow::Result<()> {
    let driver = &arguments.driver;
    let identity =
        DriverIdentity::of(driver).with_context(|| format!("cannot read {}", driver.display()))?;
    let replay = Replay::read(file, &identity)?;
    let other_build = replay.is_of_other_build(&identity);
    if other_build {
        eprintln!(
            "drydock: {} was made for another build of {} (SHA-256 {}; this one: {}); its case may do something else here",
            file.display(),
            identity.name,
            replay.driver.sha256,
            identity.sha256
        );
    }
    let request = super::request(arguments)?;
    let replayed = engine::replay(&request, &replay)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let document = json!({
            "driver": identity,
            "other_build": other_build,
            "rule": replay.rule,
            "place": replay.place,
            "case": replay.case,
            "reproduced": replayed.reproduced,
            "could_not_run": replayed.could_not_run,
            "findings": replayed.findings,
        });
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        for found in &replayed.findings {
            writeln!(out, "{}\n", found.text)?;
        }
        let word = match (replayed.reproduced, &replayed.could_not_run) {
            (true, _) => "reproduced",
            (false, None) => "not reproduced",
            (false, Some(_)) => "could not be run",
        };
        writeln!(out, "{word}: {} at {}", replay.rule, replay.place)?;
    }
    match (replayed.could_not_run, replayed.reproduced) {
        (Some(why), false) => Err(CouldNotCheck(why).into()),
        (_, true) => Err(Findings.into()),
        (None, false) => Ok(()),
    }
}
