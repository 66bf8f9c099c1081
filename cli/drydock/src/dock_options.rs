//! Options of commands that run a driver.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use lab_devices::platform::Kind;
use lab_dock::{Options, PmuSource};
use lab_ntos::{ClockKind, DumpError, Guard, Machine, PoolLevel};

/// The machine that a driver runs on.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineArguments {
    /// Virtual processors (1 to 2048), whatever the host has.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=2048))]
    cpus: u16,
    /// General-purpose performance counters per processor.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=8))]
    counters: u32,
    /// Counters that somebody else holds, as a mask: bit n general-purpose counter n, bit 32 + n fixed
    /// counter n.
    #[arg(long, value_name = "MASK", default_value = "0", value_parser = mask)]
    counters_taken: u64,
    /// How strictly pool is checked.
    #[arg(long, value_enum, default_value_t = Pool::Strict)]
    pool: Pool,
    /// Where an access beside a pool block faults at once; elsewhere it is found when the block is freed.
    #[arg(long, value_enum, default_value_t = GuardSide::End)]
    guard: GuardSide,
    /// Order in which processors take turns: 0 round robin, else pseudo-random and repeatable.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    devices: DeviceArguments,
    /// Let every privileged instruction trap instead of patching those that can be.
    #[arg(long)]
    trap_all: bool,
    /// Show what the driver prints to the debugger.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// If the driver stops the machine, write a Windows crash dump here; empty if it does not.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
}

/// Where a crash dump goes, opened before files are out of reach.
pub(crate) struct DumpFile {
    path: PathBuf,
    file: File,
}

impl DumpFile {
    /// Writes the dump of a machine that has stopped; else nothing.
    pub(crate) fn write(&self, machine: &Machine) -> anyhow::Result<()> {
        let mut to = BufWriter::new(&self.file);
        match machine.write_dump(&mut to) {
            Ok(()) => to.flush()?,
            Err(DumpError::Running) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        eprintln!("crash dump: {}", self.path.display());
        Ok(())
    }
}

/// The devices of a machine that have registers in memory.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceArguments {
    /// Give the machine a device; may be repeated, up to 16 of a kind: a DMC-620 memory controller, or a
    /// CoreSight PMU with counters of 32 or 64 bits, as the ACPI tables describe them.
    #[arg(long = "device", value_name = "KIND", value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)))]
    devices: Vec<String>,
}

impl DeviceArguments {
    /// Names of their kinds.
    pub(crate) fn names(&self) -> &[String] {
        &self.devices
    }
}

/// How strictly pool is checked.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pool {
    /// Freed memory faults.
    Strict,
    /// Freed memory is poisoned: faster.
    Poison,
    /// Memory, IRPs and outputs are not checked.
    Off,
}

/// Which side of a pool block ends at a guard page.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GuardSide {
    /// Past its end.
    End,
    /// Before its start.
    Front,
}

/// A mask, in hexadecimal behind `0x`, in binary behind `0b`, else in decimal.
fn mask(text: &str) -> Result<u64, std::num::ParseIntError> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16);
    }
    match text.strip_prefix("0b") {
        Some(digits) => u64::from_str_radix(digits, 2),
        None => text.parse(),
    }
}

/// What the performance counters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pmu {
    /// Processes of the host where it allows that, else no PMU.
    Auto,
    /// Known rates per virtual time.
    Model,
    /// Processes of the host.
    Perf,
    /// There is no PMU.
    None,
}

impl MachineArguments {
    /// The machine asked for.
    pub(crate) fn options(&self, pmu: Pmu, clock: ClockKind) -> Options {
        Options {
            cpus: usize::from(self.cpus),
            counters: self.counters,
            counters_taken: self.counters_taken,
            pmu: match pmu {
                Pmu::Model => PmuSource::Model,
                Pmu::Perf => PmuSource::Perf,
                Pmu::None => PmuSource::None,
                Pmu::Auto if lab_dock::host_can_count() => PmuSource::Perf,
                Pmu::Auto => PmuSource::None,
            },
            devices: self
                .devices
                .names()
                .iter()
                .flat_map(|name| Kind::by_name(name))
                .collect(),
            clock,
            hang_limit: Duration::from_secs(10),
            patch: !self.trap_all,
            pool: match self.pool {
                Pool::Strict => PoolLevel::Strict,
                Pool::Poison => PoolLevel::Poison,
                Pool::Off => PoolLevel::Off,
            },
            host_threads: 1,
            guard: match self.guard {
                GuardSide::End => Guard::End,
                GuardSide::Front => Guard::Front,
            },
            seed: self.seed,
        }
    }

    /// Opens the file for a crash dump, if one is wanted.
    pub(crate) fn open_dump(&self) -> anyhow::Result<Option<DumpFile>> {
        let Some(path) = &self.dump else {
            return Ok(None);
        };
        let file = File::create(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Some(DumpFile {
            path: path.clone(),
            file,
        }))
    }

    /// Where `DbgPrint` goes.
    pub(crate) fn debug_print(&self) -> impl Fn(&str) + 'static {
        let verbose = self.verbose;
        move |text| {
            if verbose {
                eprint!("{text}");
            }
        }
    }
}
