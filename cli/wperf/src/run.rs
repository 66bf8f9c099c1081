//! One run: the command line, the command, the exit code.

use crate::{
    command::{World, detect, list, lock, man, sample, stat, test, version},
    exit::Outcome,
    failure::Result,
    options::{self, Command, Compat, Parsed},
    report::output::Console,
};
use std::{ffi::OsString, io::Write};

/// Runs the command of a command line (without the program's name) and says how it ended.
///
/// What a failure says is written to `err`.
pub fn run(
    words: &[OsString],
    compat: Compat,
    world: &World<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Outcome {
    let outcome = match options::parse(words, compat) {
        Ok(parsed) => dispatch(&parsed, world, out, err),
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(()) => Outcome::Success,
        Err(failure) => {
            // There is nowhere else to say it.
            let _ = writeln!(err, "{}", failure.message);
            failure.outcome
        }
    }
}

fn dispatch(
    parsed: &Parsed,
    world: &World<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    let options = &parsed.options;
    let mut console = Console::new(out, err, options);
    for warning in &parsed.warnings {
        console.warn(warning)?;
    }
    match parsed.command {
        Command::Banner => console.answer(&version::banner()),
        Command::Help => console.answer(&options::help()),
        Command::Version => version::run(options, &mut console, world),
        Command::Stat => stat::run(options, &mut console, world),
        Command::Sample => sample::sample(options, &mut console, world),
        Command::Record => sample::record(options, &mut console, world),
        Command::List => list::run(options, &mut console, world),
        Command::Test => test::run(options, &mut console, world),
        Command::Detect => detect::run(options, &mut console, world),
        Command::Man => man::run(options, &mut console, world),
        Command::Lock => lock::run(options, &mut console, world),
        Command::Status => lock::status(options, &mut console, world),
    }
}

#[cfg(test)]
mod tests;
