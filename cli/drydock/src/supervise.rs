//! Commands that run a driver in their own process run in one that another watches.
//!
//! A driver can destroy the process that it runs in, or end it in the middle. Whoever is left says so.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;
use lab_check::worker::{End, Lost};
use lab_verifier::{Cpu, Finding, Verdict};
use rustix::process::Signal;
use serde::Serialize;

use crate::exit::BrokenRules;

/// Set for the process that is watched.
const WATCHED: &str = "DRYDOCK_WATCHED";
/// Added to the exit code of a watched process that came to its own end: a driver that ends the process,
/// with whatever code, has not come there.
const OWN_END: u8 = 100;

/// Whether this process is the watched one; then it ends with whoever watches.
pub(crate) fn is_watched() -> bool {
    let watched = std::env::var_os(WATCHED).is_some();
    if watched {
        // Where it can't be had, a process may be left that goes on to its own end.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
    watched
}

/// What a watched process ends with instead of its exit code.
pub(crate) fn own_end(code: u8) -> ExitCode {
    ExitCode::from(code + OWN_END)
}

/// Watches a process that does what this one was told, and gives its exit code.
///
/// Errors: it can't be started, or the driver ended it: [`BrokenRules`].
pub(crate) fn watch(json: bool) -> anyhow::Result<u8> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let mut child = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .env(WATCHED, "1")
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let end = End::from(
        child
            .wait()
            .context("the driver's process cannot be watched")?,
    );
    if let End::Exit(code) = end
        && let Some(code) = u8::try_from(code)
            .ok()
            .and_then(|code| code.checked_sub(OWN_END))
    {
        return Ok(code);
    }
    let last_words = String::new();
    tell(&Lost { end, last_words }, json)?;
    Err(BrokenRules.into())
}

/// What is printed in place of a report that nobody was left to write.
#[derive(Serialize)]
struct Report {
    clean: bool,
    verdict: Verdict,
}

fn tell(lost: &Lost, json: bool) -> anyhow::Result<()> {
    let (rule, parameters) = lost.broken();
    let what = format!("the process that ran the driver was lost: {lost}");
    let finding = Finding::new(rule, parameters, what, Cpu::default());
    let verdict = Verdict {
        findings: vec![finding],
        ..Verdict::default()
    };
    let mut out = std::io::stdout().lock();
    if json {
        let report = Report {
            clean: false,
            verdict,
        };
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{verdict}")?;
    }
    Ok(())
}
