//! A machine with a driver in it.

use std::time::Duration;

use lab_devices::{Devices, HostPerf, Model, NoPmu, Platform, Registers, VirtualPmu};
use lab_ntos::{
    ClockKind, Config, Driver, DriverFile, Guard, LoadError, Loaded, Machine, MachineError,
    PoolLevel, Stopped,
};
use lab_verifier::{Leak, Verdict};

/// What the virtual PMU counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PmuSource {
    /// Known rates per virtual time: every run gives the same counts.
    #[default]
    Model,
    /// Processes of the host.
    Perf,
    /// There is no PMU.
    None,
}

/// How a dock is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Virtual processors.
    pub cpus: usize,
    /// General-purpose counters per processor.
    pub counters: u32,
    /// Counters that somebody else holds: bit n the general-purpose counter n, bit 32 + n the fixed
    /// counter n.
    pub counters_taken: u64,
    /// What they count.
    pub pmu: PmuSource,
    /// Devices with registers in memory.
    pub devices: Devices,
    /// Which time the machine lives in.
    pub clock: ClockKind,
    /// Processor time that the driver may run without giving control back.
    pub hang_limit: Duration,
    /// Whether privileged instructions become jumps where that is safe.
    pub patch: bool,
    /// How strictly pool is checked.
    pub pool: PoolLevel,
    /// Which side of a pool block ends at a guard page.
    pub guard: Guard,
    /// Host threads that run driver code at the same time; with more than one no run repeats.
    pub host_threads: usize,
    /// Order in which processors run; 0 = round robin.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpus: 4,
            counters: 4,
            counters_taken: 0,
            pmu: PmuSource::Model,
            devices: Devices::NONE,
            clock: ClockKind::Virtual,
            hang_limit: Duration::from_secs(10),
            patch: true,
            pool: PoolLevel::Strict,
            guard: Guard::End,
            host_threads: 1,
            seed: 0,
        }
    }
}

/// Why a driver could not be docked.
#[derive(Debug, thiserror::Error)]
pub enum DockError {
    /// No machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The host does not let processes be counted.
    #[error("{0}")]
    Perf(String),
    /// Counters are to be taken that the processors do not have.
    #[error("no such counters to take: {0:#x}")]
    Counters(u64),
    /// Loading failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// `DriverEntry` failed.
    #[error("DriverEntry returned {0}")]
    Entry(nt::NTSTATUS, Vec<Leak>),
}

/// A machine and the driver that runs in it.
pub struct Dock {
    machine: Box<Machine>,
    driver: Option<Driver>,
    name: String,
    on_stop: Option<OnStop>,
}

/// What is done when the machine has stopped.
type OnStop = Box<dyn FnOnce(&Machine)>;

impl Options {
    /// A machine of this kind, without a driver. What drivers print goes to `debug_print`.
    ///
    /// Errors: no memory, or the host does not let processes be counted.
    pub fn machine(&self, debug_print: impl Fn(&str) + 'static) -> Result<Box<Machine>, DockError> {
        let (cpus, counters) = (self.cpus, self.counters);
        let devices: Box<dyn Registers> = match self.pmu {
            PmuSource::Model => Box::new(VirtualPmu::new(cpus, counters, Model::default())),
            PmuSource::Perf => {
                let source = HostPerf::new().map_err(DockError::Perf)?;
                Box::new(VirtualPmu::new(cpus, counters, source))
            }
            PmuSource::None => Box::new(NoPmu),
        };
        let config = Config {
            cpus,
            clock: self.clock,
            hang_limit: self.hang_limit,
            patch: self.patch,
            pool: self.pool,
            // The dear checks go together.
            force_irql: self.pool == PoolLevel::Strict,
            guard: self.guard,
            host_threads: self.host_threads,
            seed: self.seed,
            devices,
            platform: Platform::new(self.devices),
            debug_print: Box::new(debug_print),
            ..Config::default()
        };
        let machine = Machine::new(config)?;
        if machine.take_counters(self.counters_taken) {
            Ok(machine)
        } else {
            Err(DockError::Counters(self.counters_taken))
        }
    }
}

impl Dock {
    /// Makes a machine and loads the driver into it.
    pub fn new(
        file: &DriverFile,
        options: Options,
        debug_print: impl Fn(&str) + 'static,
    ) -> Result<Self, DockError> {
        let machine = options.machine(debug_print)?;
        match machine.load(file)? {
            Loaded::Running(driver) => Ok(Self {
                machine,
                driver: Some(driver),
                name: file.name.clone(),
                on_stop: None,
            }),
            Loaded::Failed(status, leaks) => Err(DockError::Entry(status, leaks)),
        }
    }

    /// What to do when the driver has stopped the machine, while it is served or at the end.
    pub fn on_stop(&mut self, act: impl FnOnce(&Machine) + 'static) {
        self.on_stop = Some(Box::new(act));
    }

    /// The machine has stopped: does what is to be done then.
    pub(crate) fn stopped(&mut self) {
        if let Some(act) = self.on_stop.take() {
            act(&self.machine);
        }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the driver offers; none once it is unloaded.
    #[must_use]
    pub fn survey(&self) -> Option<lab_ntos::Survey> {
        Some(self.machine.survey(self.driver?))
    }

    /// The driver's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Unloads the driver and says what it left behind; a second time nothing.
    ///
    /// Windows does not call `DriverUnload` while a file of the driver is open, so open ones are
    /// closed first.
    pub fn unload(&mut self) -> Result<Vec<Leak>, Stopped> {
        match self.driver.take() {
            Some(driver) => {
                self.machine.close_all()?;
                self.machine.unload(driver)
            }
            None => Ok(Vec::new()),
        }
    }

    /// Unloads the driver and judges it.
    pub fn finish(mut self) -> Verdict {
        let mut verdict = Verdict {
            warnings: self.machine.insecure_devices(),
            ..Verdict::default()
        };
        let stop = match self.unload() {
            Ok(leaks) => {
                verdict.leaks = leaks;
                None
            }
            Err(Stopped(finding)) => {
                self.stopped();
                Some((*finding).clone())
            }
        };
        verdict.findings = self.machine.take_findings();
        verdict.findings.extend(stop);
        verdict
    }
}

/// Whether the host lets this user count its own processes.
#[must_use]
pub fn host_can_count() -> bool {
    HostPerf::new().is_ok()
}
