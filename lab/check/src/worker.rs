//! A process that runs cases: jobs come as lines of JSON, and so does what becomes of them.

mod handle;
mod lost;
mod probe;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use lab_dock::Read;
use lab_verifier::RuleId;
use serde::{Deserialize, Serialize};

pub use handle::{Command, StartError, Worker};
pub use lost::{End, Lost};
pub use probe::Probe;

use crate::bench::{self, Bench, Halt, Outcome};
use crate::case::Case;
use crate::found::{Found, Spot};
use crate::interface::Interface;
use crate::sandbox::{self, Confinement};
use crate::scenario;

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Run a case.
    Run(Box<Case>),
    /// Try something that confinement must refuse.
    Try(Probe),
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It has read the driver, confined itself and looked at what the driver offers.
    Ready(Box<Ready>),
    /// The driver can't be read.
    Unreadable(String),
    /// A case has ended.
    Ended(Box<Outcome>),
    /// Whether what was tried was refused, with what the host said.
    Tried {
        /// Refused.
        refused: bool,
        /// In the host's words.
        how: String,
    },
}

/// A worker that is ready.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// What the driver offers.
    pub interface: Interface,
    /// What came of the first load.
    pub survey: Outcome,
    /// Why there are no function names, if there are none.
    pub no_symbols: Option<String>,
    /// Whether the checksum in the header is the file's.
    pub checksum_is_right: bool,
    /// How the worker is confined.
    pub confinement: Confinement,
}

/// How a worker is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The driver.
    pub driver: PathBuf,
    /// Whether it confines itself.
    pub confine: bool,
    /// Devices of the machine that the driver is loaded into first, by their kinds.
    pub devices: Vec<String>,
}

/// Works until there are no more jobs.
///
/// Errors: the pipes are gone.
pub fn serve(settings: &Settings, jobs: impl BufRead, mut out: impl Write) -> std::io::Result<()> {
    let read = match lab_dock::read_driver(&settings.driver) {
        Ok(read) => read,
        Err(error) => return say(&mut out, &Said::Unreadable(words(&error))),
    };
    let confinement = if settings.confine {
        sandbox::confine()
    } else {
        Confinement::off()
    };
    let ready = ready(&read, confinement, &settings.devices);
    say(&mut out, &Said::Ready(Box::new(ready.clone())))?;
    for line in jobs.lines() {
        let said = match serde_json::from_str(&line?) {
            Ok(Job::Run(case)) => Said::Ended(Box::new(run(&read, &ready.interface, &case))),
            Ok(Job::Try(probe)) => probe.attempt(),
            Err(error) => return Err(std::io::Error::other(error)),
        };
        say(&mut out, &said)?;
    }
    Ok(())
}

fn say(out: &mut impl Write, said: &Said) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// An error with its causes.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// Loads the driver once, to see what it offers.
fn ready(read: &Read, confinement: Confinement, devices: &[String]) -> Ready {
    let image = read.driver.loader.image();
    let case = Case {
        devices: devices.to_vec(),
        ..Case::of("load-unload")
    };
    let nothing = Interface::default();
    let mut interface = None;
    let survey = on_bench(read, &nothing, &case, |bench| {
        bench.load()?;
        let survey = bench.driver().map(|driver| bench.machine.survey(driver));
        interface = survey.map(|survey| Interface::of(&survey, image));
        bench.unload()
    });
    Ready {
        interface: interface.unwrap_or_default(),
        survey,
        no_symbols: read.no_symbols.clone(),
        checksum_is_right: image.header().checksum == image.computed_checksum(),
        confinement,
    }
}

/// Runs one case in this process.
#[must_use]
pub fn run(read: &Read, interface: &Interface, case: &Case) -> Outcome {
    match scenario::by_name(&case.scenario) {
        Some(scenario) => on_bench(read, interface, case, |bench| scenario.run(bench)),
        None => could_not(format!("there is no scenario `{}`", case.scenario)),
    }
}

fn on_bench(
    read: &Read,
    interface: &Interface,
    case: &Case,
    work: impl FnOnce(&mut Bench<'_>) -> Result<(), Halt>,
) -> Outcome {
    let started = Instant::now();
    let machine = match bench::machine(case) {
        Ok(machine) => machine,
        Err(error) => return could_not(error.to_string()),
    };
    let mut bench = Bench::new(&machine, &read.driver, interface, case);
    let work = std::panic::AssertUnwindSafe(|| work(&mut bench));
    let mut outcome = match std::panic::catch_unwind(work) {
        Ok(result) => bench.finish(result),
        // The machine may be in any state: it is not asked any more.
        Err(panic) => {
            drop(bench);
            std::mem::forget(machine);
            panicked(&*panic)
        }
    };
    outcome.ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    outcome
}

fn could_not(why: String) -> Outcome {
    Outcome {
        could_not_run: Some(why),
        ..Outcome::default()
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words");
    let what = format!("the lab itself failed: {words}");
    Outcome {
        stopped: true,
        findings: vec![Found::by_check(
            RuleId::HostFault.rule(),
            [0; 4],
            what,
            Spot::default(),
        )],
        ..Outcome::default()
    }
}
