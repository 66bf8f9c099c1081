//! Where a scenario runs: a machine, the driver, and what is noted on the way.

use std::time::{Duration, Instant};

use lab_dock::Options;
use lab_ntos::{
    Client, Driver, DriverFile, FileId, LoadError, Loaded, Machine, Request, Stopped,
};
use lab_verifier::RuleId;
use nt::NTSTATUS;
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::case::{Call, Case};
use crate::found::{Found, Spot};
use crate::interface::{ADMINISTRATOR, Interface, READ_WRITE};

/// Processor time that the driver may run without giving control back. A request of a driver takes micro-seconds;
/// this leaves room for hosts a thousand times busier.
const HANG_LIMIT: Duration = Duration::from_secs(1);
/// Virtual time that a request may take before it counts as pending for good.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Virtual time that a cancelled request may take.
const CANCEL_NS: u64 = 60_000_000_000;
/// Samples of a series, at most.
const MAX_SAMPLES: usize = 4096;

/// Accepted requests that are noted.
const MAX_ACCEPTED: usize = 3;

/// What became of a case.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Broken rules and things left behind.
    pub findings: Vec<Found>,
    /// Habits that are worth mending.
    pub warnings: Vec<String>,
    /// Whether the machine stopped before the case was over.
    pub stopped: bool,
    /// Import that the driver called and the lab lacks.
    pub unsupported: Option<String>,
    /// Why the driver could not be run at all.
    pub could_not_run: Option<String>,
    /// Rounds or steps that were made.
    pub steps: u32,
    /// Requests that were sent.
    pub requests: u64,
    /// Of those, how many the driver accepted.
    pub accepted: u64,
    /// Some of those that it accepted.
    #[serde(default)]
    pub accepted_calls: Vec<Call>,
    /// Fallible kernel calls that the driver made.
    pub fallible_calls: u64,
    /// Samples for plots.
    pub series: Series,
    /// Host time it took, in nanoseconds.
    pub ns: u64,
}

/// What is plotted.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Host time of each load and unload, in nanoseconds.
    pub cycle_ns: Vec<u64>,
    /// Pool that the driver held after each step, in bytes.
    pub pool_bytes: Vec<u64>,
}

/// Why a scenario ends early.
#[derive(Debug)]
pub enum Halt {
    /// The machine has stopped.
    Stopped(Stopped),
    /// The driver can't be run.
    CouldNotRun(String),
    /// A finding of the check itself ends the case.
    Enough,
}

impl From<Stopped> for Halt {
    fn from(stop: Stopped) -> Self {
        Self::Stopped(stop)
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status.
    pub status: NTSTATUS,
    /// Whether it had to be cancelled.
    pub cancelled: bool,
}

/// A machine for one case, with what the case says about it.
pub struct Bench<'a> {
    /// The machine.
    pub machine: Box<Machine>,
    /// The case.
    pub case: &'a Case,
    /// What the driver offers.
    pub interface: &'a Interface,
    /// What is noted.
    pub outcome: Outcome,
    file: &'a DriverFile,
    driver: Option<Driver>,
    first_call: u64,
    output: Vec<u8>,
}

impl<'a> Bench<'a> {
    /// A machine as the case wants it.
    ///
    /// Errors: no memory for it.
    pub fn new(
        file: &'a DriverFile,
        interface: &'a Interface,
        case: &'a Case,
    ) -> Result<Self, lab_dock::DockError> {
        let options = Options {
            cpus: usize::from(case.cpus),
            seed: case.seed,
            hang_limit: HANG_LIMIT,
            ..Options::default()
        };
        let machine = options.machine(|_| {})?;
        match *case.fail.as_slice() {
            [] => {}
            [one] => machine.fail_nth(one),
            [one, two, ..] => machine.fail_both(one, two),
        }
        Ok(Self {
            first_call: machine.fallible_calls(),
            machine,
            case,
            interface,
            outcome: Outcome::default(),
            file,
            output: Vec::new(),
            driver: None,
        })
    }

    /// The loaded driver.
    #[must_use]
    pub fn driver(&self) -> Option<Driver> {
        self.driver
    }

    /// Loads the driver; false if `DriverEntry` refused, which a case that makes calls fail allows.
    ///
    /// Errors: the machine stopped, or the driver can't be run.
    pub fn load(&mut self) -> Result<bool, Halt> {
        match self.machine.load(self.file) {
            Ok(Loaded::Running(driver)) => {
                self.driver = Some(driver);
                let warnings = self.machine.insecure_devices();
                self.warn(warnings);
                Ok(true)
            }
            Ok(Loaded::Failed(status, leaks)) => {
                self.outcome.findings.extend(leaks.iter().map(Found::from));
                if self.case.fail.is_empty() {
                    return Err(Halt::CouldNotRun(format!("DriverEntry returned {status}")));
                }
                Ok(false)
            }
            Err(LoadError::Stopped(stop)) => Err(stop.into()),
            Err(error) => Err(Halt::CouldNotRun(error.to_string())),
        }
    }

    /// Closes what is open, unloads the driver and notes what it left.
    ///
    /// Errors: the machine stopped.
    pub fn unload(&mut self) -> Result<(), Halt> {
        let Some(driver) = self.driver.take() else {
            return Ok(());
        };
        self.machine.close_all()?;
        if !self.machine.can_unload(driver) {
            self.warn(vec![
                "the driver has no DriverUnload: on Windows it stays until restart".to_owned(),
            ]);
        }
        let leaks = self.machine.unload(driver)?;
        self.outcome.findings.extend(leaks.iter().map(Found::from));
        Ok(())
    }

    fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            if !self.outcome.warnings.contains(&warning) {
                self.outcome.warnings.push(warning);
            }
        }
    }

    /// Opens a device; none if the kernel or the driver refuses.
    ///
    /// Errors: the machine stopped.
    pub fn open(&mut self, path: &str, access: u32, client: Client) -> Result<Option<FileId>, Halt> {
        Ok(self.machine.open(path, access, client)?.ok())
    }

    /// Opens the first device that an administrator may read and write.
    ///
    /// Errors: the machine stopped.
    pub fn open_any(&mut self) -> Result<Option<FileId>, Halt> {
        let interface = self.interface;
        for path in &interface.paths {
            if let Some(file) = self.open(path, READ_WRITE, ADMINISTRATOR)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Sends a control request and sees to it that it ends: one that stays pending is cancelled.
    ///
    /// Errors: the machine stopped, or cancelling had no effect.
    pub fn request(&mut self, file: FileId, call: &Call, random: &mut impl Rng) -> Result<Answer, Halt> {
        match self.begin(file, call, random)? {
            Ok(request) => self.settle(request, call),
            Err(status) => Ok(Answer {
                status,
                cancelled: false,
            }),
        }
    }

    /// Starts a control request.
    ///
    /// Errors: the machine stopped.
    pub fn begin(
        &mut self,
        file: FileId,
        call: &Call,
        random: &mut impl Rng,
    ) -> Result<Result<Request, NTSTATUS>, Stopped> {
        self.outcome.requests += 1;
        let input = call.bytes(random);
        self.machine.begin_ioctl(file, call.code, &input, call.output as usize)
    }

    /// Starts a control request that the driver sees when the machine next runs.
    ///
    /// Errors: the machine stopped.
    pub fn queue(
        &mut self,
        file: FileId,
        call: &Call,
        random: &mut impl Rng,
    ) -> Result<Result<Request, NTSTATUS>, Stopped> {
        self.outcome.requests += 1;
        let input = call.bytes(random);
        let machine = &self.machine;
        machine.queue(|| machine.begin_ioctl(file, call.code, &input, call.output as usize))
    }

    /// Waits for a request, and cancels it if nothing brings it to an end.
    ///
    /// Errors: the machine stopped, or cancelling had no effect.
    pub fn settle(&mut self, request: Request, call: &Call) -> Result<Answer, Halt> {
        let mut cancelled = false;
        if !self.wait(&request, PATIENCE_NS)? {
            cancelled = true;
            self.machine.cancel(&request)?;
            if !self.wait(&request, CANCEL_NS)? {
                return Err(self.cancel_ignored(call.code));
            }
        }
        let mut output = std::mem::take(&mut self.output);
        output.resize(output.len().max(call.output as usize), 0);
        let completion = self.machine.finish(request, &mut output[..call.output as usize]);
        self.output = output;
        if completion.status.is_success() {
            self.outcome.accepted += 1;
            if self.outcome.accepted_calls.len() < MAX_ACCEPTED {
                self.outcome.accepted_calls.push(*call);
            }
        }
        Ok(Answer {
            status: completion.status,
            cancelled,
        })
    }

    /// Lets virtual time pass until a request is complete; false if `limit` is over or nothing is left to happen.
    fn wait(&self, request: &Request, limit: u64) -> Result<bool, Stopped> {
        let start = self.machine.now_ns();
        loop {
            let due = self.machine.poll()?;
            if self.machine.is_complete(request) {
                return Ok(true);
            }
            let Some(due) = due else { return Ok(false) };
            if self.machine.now_ns() - start > limit {
                return Ok(false);
            }
            self.machine.sleep_ns(due.max(1))?;
        }
    }

    fn cancel_ignored(&mut self, code: u32) -> Halt {
        let at = self.driver.zip(self.interface.control);
        let at = at.map(|(driver, rva)| Spot::from(&self.machine.place(driver, rva)));
        self.outcome.findings.push(Found::by_check(
            RuleId::CancelIgnored.rule(),
            [0x135, u64::from(code), 0, 0],
            format!("request {code:#x} stayed pending, was cancelled, and did not complete within 60 s of the machine's time"),
            at.unwrap_or_default(),
        ));
        Halt::Enough
    }

    /// Notes that a round is over.
    pub fn step(&mut self) {
        self.outcome.steps += 1;
        let samples = &mut self.outcome.series.pool_bytes;
        if samples.len() < MAX_SAMPLES {
            samples.push(self.machine.pool_in_use().1);
        }
    }

    /// Notes how long a load and unload took.
    pub fn cycle(&mut self, started: Instant) {
        let samples = &mut self.outcome.series.cycle_ns;
        if samples.len() < MAX_SAMPLES {
            samples.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// What came of it, given how the scenario ended.
    #[must_use]
    pub fn finish(mut self, result: Result<(), Halt>) -> Outcome {
        let reported = self.machine.take_findings();
        self.outcome.findings.extend(reported.iter().map(Found::from));
        self.outcome.fallible_calls = self.machine.fallible_calls() - self.first_call;
        match result {
            Ok(()) => {}
            Err(Halt::Enough) => self.outcome.stopped = true,
            Err(Halt::CouldNotRun(why)) => self.outcome.could_not_run = Some(why),
            Err(Halt::Stopped(Stopped(finding))) => {
                self.outcome.stopped = true;
                if finding.rule == RuleId::UnknownImport.rule().name {
                    self.outcome.unsupported = Some(finding.what.clone());
                } else {
                    self.outcome.findings.push(Found::from(&*finding));
                }
            }
        }
        self.outcome
    }
}
