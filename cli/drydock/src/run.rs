//! `drydock run`: load, `DriverEntry`, unload, verdict.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lab_ntos::{
    ClockKind, DriverFile, Footprint, LoadError, Loaded, Machine, Stopped, SystemPower,
};
use lab_verifier::Verdict;
use serde::Serialize;

use crate::confine;
use crate::dock_options::{MachineArguments, Pmu};
use crate::exit::BrokenRules;

/// What `drydock run` takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The driver.
    driver: PathBuf,
    /// How often to load and unload it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: u64,
    /// What the performance counters count.
    #[arg(long, value_enum, default_value_t = Pmu::Model)]
    pmu: Pmu,
    #[command(flatten)]
    machine: MachineArguments,
    /// Do not confine the process.
    #[arg(long)]
    unconfined: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What running a driver came to.
#[derive(Debug, Serialize)]
struct Report {
    driver: String,
    /// Cycles asked for.
    cycles: u64,
    /// Cycles that ended, the one that found something included.
    completed: u64,
    seconds: f64,
    cycles_per_second: f64,
    /// What `DriverEntry` returned last.
    entry_status: Option<String>,
    /// Things of the driver and for it, after the first cycle (of one: before it) and after the last.
    held_before: usize,
    held_after: usize,
    /// Growth of the lab's resident memory after the first tenth of the cycles, in KiB.
    resident_growth_kib: i64,
    symbols: Option<String>,
    clean: bool,
    verdict: Verdict,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = lab_dock::read_driver(&arguments.driver)?;
    let options = arguments.machine.options(arguments.pmu, ClockKind::Virtual);
    let machine = options.machine(arguments.machine.debug_print())?;
    let memory = Resident::open()?;
    confine::unless(arguments.unconfined);
    let mut report = cycle(&machine, &read.driver, arguments, &memory)?;
    let image = read.driver.loader.image();
    if image.header().checksum != image.computed_checksum() {
        let warning = "the checksum in the header is wrong: Windows refuses to load the driver";
        report.verdict.warnings.push(warning.to_owned());
    }
    report.symbols = read.no_symbols;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        print(&mut out, &report)?;
    }
    if !report.clean {
        return Err(BrokenRules.into());
    }
    match &report.entry_status {
        Some(status) if *status != nt::status::STATUS_SUCCESS.to_string() => {
            anyhow::bail!("the driver did not load: DriverEntry returned {status}")
        }
        _ => Ok(()),
    }
}

fn cycle(
    machine: &Machine,
    driver: &DriverFile,
    arguments: &Arguments,
    memory: &Resident,
) -> anyhow::Result<Report> {
    let progress = progress(arguments.cycles, arguments.json);
    let settle = arguments.cycles / 10;
    let mut before = machine.footprint();
    let mut resident = memory.kib()?;
    let mut verdict = Verdict::default();
    let mut entry_status = None;
    let mut completed = 0;
    let started = Instant::now();
    while completed < arguments.cycles && verdict.is_clean() {
        let (status, found) = once(machine, driver)?;
        entry_status = status.or(entry_status);
        verdict = found;
        completed += 1;
        progress.inc(1);
        if completed == 1 && arguments.cycles > 1 {
            // The first load made the machine's own threads; from here on nothing may grow.
            before = machine.footprint();
        }
        if completed == settle {
            resident = memory.kib()?;
        }
    }
    let held_after = held(&machine.footprint());
    let has_grown = arguments.cycles > 1 && held_after > held(&before);
    let seconds = started.elapsed().as_secs_f64();
    progress.finish_and_clear();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = completed as f64 / seconds;
    Ok(Report {
        driver: driver.name.clone(),
        cycles: arguments.cycles,
        completed,
        seconds,
        cycles_per_second: rate,
        entry_status,
        held_before: held(&before),
        held_after,
        resident_growth_kib: memory.kib()? - resident,
        symbols: None,
        clean: verdict.is_clean() && !has_grown,
        verdict,
    })
}

/// One load and unload: the status of `DriverEntry` and what there is to say.
fn once(machine: &Machine, driver: &DriverFile) -> anyhow::Result<(Option<String>, Verdict)> {
    let stopped = |Stopped(finding)| {
        let mut findings = machine.take_findings();
        findings.push((*finding).clone());
        Verdict {
            findings,
            ..Verdict::default()
        }
    };
    let loaded = match machine.load(driver) {
        Ok(loaded) => loaded,
        Err(LoadError::Stopped(stop)) => return Ok((None, stopped(stop))),
        Err(error) => return Err(error).context("the driver cannot be loaded"),
    };
    match loaded {
        Loaded::Failed(status, leaks) => Ok((
            Some(status.to_string()),
            Verdict {
                findings: machine.take_findings(),
                leaks,
                ..Verdict::default()
            },
        )),
        Loaded::Running(running) => {
            let warnings = warnings(machine, running);
            let status = Some(nt::status::STATUS_SUCCESS.to_string());
            let plugged = match plug_and_play(machine, running) {
                Ok(plugged) => plugged,
                Err(stop) => return Ok((status, stopped(stop))),
            };
            let warnings = warnings.into_iter().chain(plugged).collect();
            Ok(match machine.unload(running) {
                Ok(leaks) => (
                    status,
                    Verdict {
                        findings: machine.take_findings(),
                        leaks,
                        warnings,
                    },
                ),
                Err(stop) => (status, stopped(stop)),
            })
        }
    }
}

/// Gives a driver that is for enumerated devices one after the other, and takes them away in every way there is.
///
/// What it says no to is told as a warning: it may, but then nothing behind that was tried.
fn plug_and_play(machine: &Machine, driver: lab_ntos::Driver) -> Result<Vec<String>, Stopped> {
    if !machine.has_add_device(driver) {
        return Ok(Vec::new());
    }
    let mut refused = Vec::new();
    let mut note = |what: &str, status: nt::NTSTATUS| {
        if !status.is_success() {
            refused.push(format!("the driver refuses to {what} its device: {status}"));
        }
        status.is_success()
    };
    for surprise in [false, true] {
        let node = match machine.add_device(driver)? {
            Ok(node) => node,
            Err(status) => {
                note("add", status);
                break;
            }
        };
        if note("start", node.start()?) && !surprise {
            note(
                "put to sleep",
                node.set_system_power(SystemPower::Sleeping)?,
            );
            note("wake", node.set_system_power(SystemPower::Working)?);
            note("keep after a stop was cancelled", node.cancel_stop()?);
            if note("stop", node.stop()?) {
                note("start again", node.start()?);
            }
            note("keep after a removal was cancelled", node.cancel_remove()?);
            note("let go of", node.query_remove()?);
        }
        let removed = if surprise {
            node.surprise_remove()?
        } else {
            node.remove()?
        };
        note("remove", removed);
    }
    Ok(refused)
}

fn warnings(machine: &Machine, driver: lab_ntos::Driver) -> Vec<String> {
    let mut warnings = machine.insecure_devices();
    let stuck = (!machine.can_unload(driver))
        .then(|| "the driver has no DriverUnload: on Windows it stays until restart".to_owned());
    warnings.extend(stuck);
    warnings
}

fn held(footprint: &Footprint) -> usize {
    let Footprint {
        pool_blocks,
        objects,
        timers,
        modules,
        ..
    } = footprint;
    pool_blocks + objects + timers + modules
}

fn progress(cycles: u64, json: bool) -> ProgressBar {
    if cycles < 1000 || json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} cycles, {per_sec}, {eta} left");
    ProgressBar::new(cycles).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Resident memory of this process, from a file that is opened before files are out of reach.
struct Resident(File);

impl Resident {
    fn open() -> anyhow::Result<Self> {
        let statm = File::open("/proc/self/statm").context("cannot read /proc/self/statm")?;
        Ok(Self(statm))
    }

    fn kib(&self) -> anyhow::Result<i64> {
        let mut text = [0; 128];
        let read = self.0.read_at(&mut text, 0);
        let read = read.context("cannot read /proc/self/statm")?;
        let text = String::from_utf8_lossy(&text[..read]);
        let pages: i64 = text
            .split(' ')
            .nth(1)
            .and_then(|field| field.parse().ok())
            .context("/proc/self/statm is odd")?;
        Ok(pages * 4)
    }
}

fn print(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let Report {
        driver,
        completed,
        cycles,
        seconds,
        cycles_per_second,
        ..
    } = report;
    if let Some(reason) = &report.symbols {
        writeln!(out, "no function names: {reason}")?;
    }
    if let Some(status) = &report.entry_status {
        writeln!(out, "{driver}: DriverEntry returned {status}")?;
    }
    writeln!(
        out,
        "{completed} of {cycles} load/unload cycles in {seconds:.3} s: {cycles_per_second:.0} cycles/s"
    )?;
    if *cycles > 1 {
        let (before, after) = (report.held_before, report.held_after);
        writeln!(
            out,
            "held by and for the driver: {before} before, {after} after; resident memory grew by {} KiB",
            report.resident_growth_kib
        )?;
    }
    if !report.clean && report.verdict.is_clean() {
        writeln!(
            out,
            "verdict: the machine holds more after the last cycle than after the first"
        )?;
        return Ok(());
    }
    writeln!(out, "{}", report.verdict)
}
