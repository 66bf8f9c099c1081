//! Where a scenario runs: a machine, the driver, and what is noted on the way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab_devices::Devices;
use lab_devices::platform::Kind;
use lab_dock::Options;
use lab_ntos::{
    Client, DeviceNode, Distribution, Driver, DriverFile, FileId, Guard, LoadError, Loaded,
    Machine, Request, Stopped,
};
use lab_verifier::RuleId;
use nt::NTSTATUS;
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::case::{Call, Case, Interruption};
use crate::found::{self, Found, Spot};
use crate::interface::{ADMINISTRATOR, Interface, READ_WRITE};

/// Processor time that the driver may run without giving control back. A request of a driver takes micro-seconds;
/// this leaves room for hosts a thousand times busier.
const HANG_LIMIT: Duration = Duration::from_secs(1);
/// Virtual time that a request may take before it counts as pending for good.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Virtual time that a cancelled request may take.
const CANCEL_NS: u64 = 60_000_000_000;
/// Interrupt vectors that a driver can connect to.
const VECTORS: std::ops::Range<u32> = 0x30..0xD0;
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
    /// What there is to sweep over, of a case that found out.
    #[serde(default)]
    pub window: Option<Window>,
    /// Samples for plots.
    pub series: Series,
    /// Host time it took, in nanoseconds.
    pub ns: u64,
}

/// A request's instructions, and what can come between them.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Instructions before which an event can make a difference, by their number.
    pub points: Vec<u64>,
    /// What can happen.
    pub events: Vec<Interruption>,
    /// Whether the window is longer than is looked at.
    pub cut: bool,
}

/// What is plotted.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Host time of each load and unload, in nanoseconds.
    pub cycle_ns: Vec<u64>,
    /// Pool that the driver held after each step, in bytes.
    pub pool_bytes: Vec<u64>,
    /// Calls of DPC routines by duration: below so many nanoseconds, a power of two.
    #[serde(default)]
    pub dpc: BTreeMap<u64, u64>,
    /// Calls of interrupt routines, likewise.
    #[serde(default)]
    pub isr: BTreeMap<u64, u64>,
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
    pub machine: &'a Machine,
    /// The case.
    pub case: &'a Case,
    /// What the driver offers.
    pub interface: &'a Interface,
    /// Paths of the devices that there are now.
    pub paths: Vec<String>,
    /// What is noted.
    pub outcome: Outcome,
    file: &'a DriverFile,
    driver: Option<Driver>,
    /// The device that the driver was given, if it takes devices.
    node: Option<DeviceNode<'a>>,
    first_call: u64,
    output: Vec<u8>,
}

impl<'a> Bench<'a> {
    /// A bench with a machine made by [`machine`].
    #[must_use]
    pub fn new(
        machine: &'a Machine,
        file: &'a DriverFile,
        interface: &'a Interface,
        case: &'a Case,
    ) -> Self {
        match *case.fail.as_slice() {
            [] => {}
            [one] => machine.fail_nth(one),
            [one, two, ..] => machine.fail_both(one, two),
        }
        Self {
            first_call: machine.fallible_calls(),
            machine,
            case,
            interface,
            paths: interface.paths.clone(),
            outcome: Outcome::default(),
            file,
            output: Vec::new(),
            driver: None,
            node: None,
        }
    }

    /// The loaded driver.
    #[must_use]
    pub fn driver(&self) -> Option<Driver> {
        self.driver
    }

    /// The driver's file.
    #[must_use]
    pub fn image(&self) -> &'a lab_image::Image {
        self.file.loader.image()
    }

    /// Loads the driver and gives it a device if it takes one; false if it refused, which a case that makes calls
    /// fail allows.
    ///
    /// Errors: the machine stopped, or the driver can't be run.
    pub fn load(&mut self) -> Result<bool, Halt> {
        if !self.load_only()? {
            return Ok(false);
        }
        if let Some(node) = self.add_device()? {
            let status = node.start()?;
            self.refused("start", status);
            self.node = Some(node);
        }
        self.look_for_paths();
        Ok(true)
    }

    /// Loads the driver; false if `DriverEntry` refused, which a case that makes calls fail allows.
    ///
    /// Errors: the machine stopped, or the driver can't be run.
    pub fn load_only(&mut self) -> Result<bool, Halt> {
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

    /// Offers the driver a device of a bus; none if it takes none, or not this one.
    ///
    /// Errors: the machine stopped.
    pub fn add_device(&mut self) -> Result<Option<DeviceNode<'a>>, Halt> {
        let Some(driver) = self
            .driver
            .filter(|driver| self.machine.has_add_device(*driver))
        else {
            return Ok(None);
        };
        match self.machine.add_device(driver)? {
            Ok(node) => Ok(Some(node)),
            Err(status) => {
                self.refused("add", status);
                Ok(None)
            }
        }
    }

    /// Warns that the driver refuses to do something with its device; false if it does not refuse.
    pub fn refused(&mut self, what: &str, status: NTSTATUS) -> bool {
        // With a call that failed it may.
        if !status.is_success() && self.case.fail.is_empty() {
            self.warn(vec![format!(
                "the driver refuses to {what} its device: {status}"
            )]);
        }
        !status.is_success()
    }

    /// Finds out what can be opened: names of enumerated devices are new each time.
    pub fn look_for_paths(&mut self) {
        if let Some(driver) = self.driver.filter(|_| self.interface.adds_devices) {
            self.paths = crate::interface::paths(&self.machine.survey(driver).devices);
        }
    }

    /// Closes what is open, removes the device, unloads the driver and notes what it left.
    ///
    /// Errors: the machine stopped.
    pub fn unload(&mut self) -> Result<(), Halt> {
        let Some(driver) = self.driver.take() else {
            return Ok(());
        };
        self.machine.close_all()?;
        if let Some(node) = self.node.take() {
            remove(node)?;
        }
        if !self.machine.can_unload(driver) {
            self.warn(vec![
                "the driver has no DriverUnload: on Windows it stays until restart".to_owned(),
            ]);
        }
        let leaks = self.machine.unload(driver)?;
        self.outcome.findings.extend(leaks.iter().map(Found::from));
        Ok(())
    }

    /// Notes habits that are worth mending, each once.
    pub fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            if !self.outcome.warnings.contains(&warning) {
                self.outcome.warnings.push(warning);
            }
        }
    }

    /// Opens a device; none if the kernel or the driver refuses.
    ///
    /// Errors: the machine stopped.
    pub fn open(
        &mut self,
        path: &str,
        access: u32,
        client: Client,
    ) -> Result<Option<FileId>, Halt> {
        Ok(self.machine.open(path, access, client)?.ok())
    }

    /// Opens the first device that an administrator may read and write.
    ///
    /// Errors: the machine stopped.
    pub fn open_any(&mut self) -> Result<Option<FileId>, Halt> {
        self.open_by(ADMINISTRATOR)
    }

    /// Opens the first device that a client may read and write.
    ///
    /// Errors: the machine stopped.
    pub fn open_by(&mut self, client: Client) -> Result<Option<FileId>, Halt> {
        for path in self.paths.clone() {
            if let Some(file) = self.open(&path, READ_WRITE, client)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Sends a control request and sees to it that it ends: one that stays pending is cancelled.
    ///
    /// Errors: the machine stopped, or cancelling had no effect.
    pub fn request(
        &mut self,
        file: FileId,
        call: &Call,
        random: &mut impl Rng,
    ) -> Result<Answer, Halt> {
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
        self.machine
            .begin_ioctl(file, call.code, &input, call.output as usize)
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
        let machine = self.machine;
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
        let completion = self
            .machine
            .finish(request, &mut output[..call.output as usize]);
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
        let found = Found::by_check(
            RuleId::CancelIgnored.rule(),
            [0x135, u64::from(code), 0, 0],
            format!(
                "request {code:#x} stayed pending, was cancelled, and did not complete within 60 s of the machine's time"
            ),
            at.unwrap_or_default(),
        );
        self.outcome.findings.push(Found {
            code: Some(code),
            ..found
        });
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
        self.outcome
            .findings
            .extend(reported.iter().map(Found::from));
        // Neither stepping nor waiting for other host threads is the driver's time.
        let is_sweep = self.case.event.is_some() || self.outcome.window.is_some();
        if self.case.host_threads == 1 && !is_sweep {
            let latency = self.machine.latency();
            self.outcome.series.dpc = by_duration(&latency.dpc);
            self.outcome.series.isr = by_duration(&latency.isr);
        }
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
                    let mut found = Found::from(&*finding);
                    if let ([call], true) =
                        (self.case.calls.as_slice(), found::is_too_long(&found.rule))
                    {
                        found.code = Some(call.code);
                    }
                    self.outcome.findings.push(found);
                }
            }
        }
        self.outcome
    }
}

/// Devices by the names of their kinds; names of none are passed over.
fn devices(names: &[String]) -> Devices {
    names.iter().flat_map(|name| Kind::by_name(name)).collect()
}

/// A machine as a case wants it.
///
/// Errors: no memory for it.
pub fn machine(case: &Case) -> Result<Box<Machine>, lab_dock::DockError> {
    let options = Options {
        cpus: usize::from(case.cpus),
        seed: case.seed,
        hang_limit: HANG_LIMIT,
        host_threads: usize::from(case.host_threads),
        devices: devices(&case.devices),
        guard: if case.guard_front {
            Guard::Front
        } else {
            Guard::End
        },
        ..Options::default()
    };
    let machine = options.machine(|_| {})?;
    for vector in VECTORS {
        // The upper half of a vector is its IRQL: that is how the processor has it.
        let line = machine.add_line(vector, u8::try_from(vector >> 4).unwrap_or(0));
        debug_assert!(line.is_ok(), "{line:?}");
    }
    Ok(machine)
}

/// Takes a device away: politely, and if that is refused, all the same.
fn remove(node: DeviceNode<'_>) -> Result<(), Stopped> {
    if !node.query_remove()?.is_success() {
        node.surprise()?;
    }
    node.remove().map(drop)
}

/// Calls in buckets that are the same for every machine.
fn by_duration(distribution: &Distribution) -> BTreeMap<u64, u64> {
    let mut calls = BTreeMap::new();
    for bucket in &distribution.buckets {
        let below = bucket
            .below_ns
            .checked_next_power_of_two()
            .unwrap_or(u64::MAX);
        *calls.entry(below).or_default() += bucket.count;
    }
    calls
}
