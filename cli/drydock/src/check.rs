//! `drydock check`: runs a driver in many ways and reports what it does wrong.

mod duration;
mod interrupt;
mod replay;
mod reports;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use lab_check::engine::{self, Request};
use lab_check::report::{CheckReport, Verdict, text::Text};
use lab_check::scenario::Effort;
use lab_check::worker::Command;

use crate::dock_options::DeviceArguments;
use crate::exit::{CouldNotCheck, Findings, is_closed_pipe};

/// What `drydock check` takes.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// The driver.
    driver: PathBuf,
    /// A second or two instead of up to ten.
    #[arg(long, conflicts_with = "stress")]
    quick: bool,
    /// Keep drawing new cases for so long: 30s, 10m, 2h; a bare number is seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    stress: Option<Duration>,
    /// Seed of orders and contents; the same seed gives the same cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run exactly the case of this file, and say whether its finding comes again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "stress", "junit", "sarif", "html"])]
    replay: Option<PathBuf>,
    /// Folder for a replay file of each finding.
    #[arg(long, value_name = "FOLDER", default_value = "drydock-findings")]
    replay_dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write a report as JUnit does.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a report as SARIF 2.1.0.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write a report as one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Worker processes at once; as many as there are processors if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// How long one case may take before its worker counts as lost (5s; 60s with --stress).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    patience: Option<Duration>,
    #[command(flatten)]
    devices: DeviceArguments,
    /// Do not confine the workers.
    #[arg(long)]
    unconfined: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 clean, or not reproduced; 1 findings, or reproduced; 2 the driver could not be run.";

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    could_not(match &arguments.replay {
        Some(file) => replay::run(arguments, file),
        None => check(arguments),
    })
}

/// Whatever keeps a check from being made has one exit code.
fn could_not(result: anyhow::Result<()>) -> anyhow::Result<()> {
    result.map_err(|error| {
        if error.is::<Findings>() || error.is::<CouldNotCheck>() || is_closed_pipe(&error) {
            return error;
        }
        CouldNotCheck(format!("{error:#}")).into()
    })
}

fn check(arguments: &Arguments) -> anyhow::Result<()> {
    reports::try_paths(arguments)?;
    let request = request(arguments)?;
    let mut watch = watch::Watch::new(&request, arguments.json);
    let report = engine::check(&request, &mut |progress| watch.show(progress));
    watch.end();
    let mut report = report?;
    // What can't be saved can still be read.
    let saved = save(arguments, &mut report);
    print(arguments, &report)?;
    saved?;
    match report.verdict {
        Verdict::Clean => Ok(()),
        Verdict::Findings => Err(Findings.into()),
        Verdict::CouldNotRun => Err(CouldNotCheck(String::new()).into()),
    }
}

fn save(arguments: &Arguments, report: &mut CheckReport) -> anyhow::Result<()> {
    let folder = &arguments.replay_dir;
    let replays = lab_check::replay::write_all(report, folder)
        .with_context(|| format!("cannot write replay files to {}", folder.display()));
    reports::write(arguments, report)?;
    replays
}

fn request(arguments: &Arguments) -> anyhow::Result<Request> {
    let (effort, budget) = match (arguments.quick, arguments.stress) {
        (_, Some(duration)) => (Effort::Stress, duration),
        (true, None) => (Effort::Quick, Duration::from_millis(1500)),
        (false, None) => (Effort::Normal, Duration::from_secs(8)),
    };
    let usual = Duration::from_secs(if effort == Effort::Stress { 60 } else { 5 });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Request {
        driver: arguments.driver.clone(),
        worker: worker(arguments)?,
        devices: arguments.devices.names().to_vec(),
        effort,
        budget,
        seed: arguments.seed,
        workers: arguments.workers.map_or(cores, usize::from),
        patience: arguments.patience.unwrap_or(usual),
        stop: interrupt::stop()?,
    })
}

/// This program again, as a worker.
fn worker(check: &Arguments) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut arguments = vec!["worker".into()];
    if check.unconfined {
        arguments.push("--unconfined".into());
    }
    for device in check.devices.names() {
        arguments.extend(["--device".into(), device.into()]);
    }
    arguments.extend(["--".into(), check.driver.as_path().into()]);
    Ok(Command { program, arguments })
}

fn print(arguments: &Arguments, report: &CheckReport) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
        return Ok(());
    }
    let driver = arguments.driver.display().to_string();
    let text = Text {
        report,
        driver: &driver,
    };
    write!(out, "{text}")?;
    Ok(())
}
