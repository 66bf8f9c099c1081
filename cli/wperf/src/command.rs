//! The commands: what each does, given what was typed.

pub mod detect;
pub mod list;
pub mod lock;
pub mod man;
pub mod sample;
pub mod stat;
pub mod test;
pub mod version;

use crate::{
    catalog::{Catalog, Product},
    device::{DeviceError, DriverOptions, Host, Opened},
    failure::{Failure, Result},
    grammar::{
        events::{Class, Item},
        extra, metrics,
    },
    machine::Machine,
    options::Options,
    ownership::cores_text,
    program::{self, Program, ProgramOutput},
    report::output::Console,
    session::{Driver, check_version},
    uncore::{self, Unit, UnitMetric, UnitPlan},
    wait::Interrupt,
};
use std::{ffi::OsString, fs, path::PathBuf, sync::mpsc::Receiver};
use wperf_abi::record::PmuKind;

/// Opens the driver, docking it if need be.
pub type Open<'w> = &'w dyn Fn(&DriverOptions) -> std::result::Result<Opened, DeviceError>;
/// Opens the driver if it is there.
pub type OpenRunning<'w> = &'w dyn Fn() -> std::result::Result<Option<Opened>, DeviceError>;

/// What is around a run.
pub struct World<'w> {
    /// How to reach the driver.
    pub open: Open<'w>,
    /// How to look whether it is there.
    pub open_running: OpenRunning<'w>,
    /// Ctrl-C.
    pub interrupts: Receiver<Interrupt>,
    /// This program's executable.
    pub launcher: PathBuf,
}

impl World<'_> {
    fn open(&self, options: &Options) -> Result<Opened> {
        let mut opened = (self.open)(&options.driver)?;
        check_version(&mut opened.client)?;
        Ok(opened)
    }

    /// The processor that names are looked up for: that of the driver if it is there, else of this machine's kind.
    fn product(&self) -> Result<Product> {
        let here = || Product::generic(crate::catalog::Architecture::of_this_machine());
        // A driver that cannot be asked is no reason not to answer a question that needs none.
        let Ok(Some(mut opened)) = (self.open_running)() else {
            return Ok(here());
        };
        check_version(&mut opened.client)?;
        let machine = Machine::query(&mut opened.client)?;
        Ok(machine.product(machine.cores[0].core, opened.host.as_ref()))
    }
}

impl World<'_> {
    /// The uncore units of the driver, if it is there.
    fn units(&self) -> Result<Vec<Unit>> {
        match (self.open_running)() {
            Ok(Some(mut opened)) => uncore::query(&mut opened.client),
            _ => Ok(Vec::new()),
        }
    }
}

/// The cores that `-c` names, else all.
fn cores_of(options: &Options, machine: &Machine) -> Result<Vec<u32>> {
    Ok(match &options.cores {
        Some(list) => list.resolve(machine.core_count())?,
        None => (0..machine.core_count()).collect(),
    })
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Failure::file(path, &e))
}

/// The events of `-E`.
fn extra_of(options: &Options) -> Result<Vec<extra::ExtraEvent>> {
    Ok(match &options.extra_events {
        Some(text) => {
            // A list has colons, which a file name rarely has; a file that exists is meant.
            let path = PathBuf::from(text);
            let list = if path.is_file() || !text.contains(':') {
                read(&path)?
            } else {
                text.clone()
            };
            extra::parse(&list)?
        }
        None => Vec::new(),
    })
}

/// The names that can be used: the product's, and those of `-E` and `-C`.
fn catalog_of(options: &Options, product: &Product) -> Result<Catalog> {
    let user = match &options.user_metrics {
        Some(path) => metrics::parse(&read(path)?)
            .map_err(|e| Failure::other(format!("{}: {e}", path.display())))?,
        None => Vec::new(),
    };
    Ok(Catalog::new(product, &extra_of(options)?, user))
}

/// The plan of what `-e` and `-m` name of cores.
fn plan_of(
    options: &Options,
    catalog: &Catalog,
    counters: &crate::plan::Counters,
) -> Result<crate::plan::Plan> {
    let mut items = items_of(options)?;
    items.retain(is_of_cores);
    let mut wanted = Vec::new();
    for list in metrics_of_cores(options) {
        wanted.extend(catalog.expand_metrics(&list)?);
    }
    crate::plan::plan(&items, &wanted, catalog, counters).map_err(|error| match error {
        crate::plan::PlanError::NoEvent => Failure::usage(error.to_string()),
        other => other.into(),
    })
}

/// The period of `--config count.period=MS`; 0 when not given. Settings named without a value are printed.
fn period_of(options: &Options, machine: &Machine, console: &mut Console<'_>) -> Result<u32> {
    let mut period = 0;
    let (min, max) = (machine.head.period_min_ms, machine.head.period_max_ms);
    for setting in &options.config {
        let Some((name, value)) = setting.split_once('=') else {
            let value = setting_value(setting, period, machine)?;
            console.answer(&format!("{setting} = {value}\n"))?;
            continue;
        };
        match name {
            "count.period" => {
                let number = value.parse().ok().filter(|n| (min..=max).contains(n));
                period = number.ok_or_else(|| {
                    Failure::other(format!(
                        "--config {setting}: the period is {min} to {max} ms"
                    ))
                })?;
            }
            "count.period_max" | "count.period_min" => {
                return Err(Failure::other(format!("--config {name} can only be read")));
            }
            _ => return Err(no_setting(name)),
        }
    }
    Ok(period)
}

/// What a setting is.
fn setting_value(name: &str, period: u32, machine: &Machine) -> Result<u32> {
    let head = &machine.head;
    match (name, period) {
        ("count.period", 0) => Ok(head.period_default_ms),
        ("count.period", period) => Ok(period),
        ("count.period_min", _) => Ok(head.period_min_ms),
        ("count.period_max", _) => Ok(head.period_max_ms),
        _ => Err(no_setting(name)),
    }
}

fn no_setting(name: &str) -> Failure {
    Failure::usage(format!("--config: there is no setting '{name}'"))
}

/// The items of `-e`.
fn items_of(options: &Options) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for list in &options.events {
        items.extend(crate::grammar::events::parse(list)?);
    }
    Ok(items)
}

fn is_of_cores(item: &Item) -> bool {
    match item {
        Item::Loose(spec) => spec.class == Class::Core,
        // A group is of one class.
        Item::Group(specs) => specs.iter().all(|spec| spec.class == Class::Core),
    }
}

/// The names of `-m` that are of cores.
fn metrics_of_cores(options: &Options) -> impl Iterator<Item = String> {
    options.metrics.iter().filter_map(|list| {
        let names = list.split(',');
        let of_cores: Vec<&str> = names
            .filter(|name| UnitMetric::by_name(name).is_none())
            .collect();
        (!of_cores.is_empty()).then(|| of_cores.join(","))
    })
}

/// Whether `-e` or `-m` names something of cores; if they name nothing at all, that is missing.
fn counts_cores(options: &Options) -> Result<bool> {
    let items = items_of(options)?;
    let of_units = !items.is_empty() || !options.metrics.is_empty();
    Ok(items.iter().any(is_of_cores) || metrics_of_cores(options).next().is_some() || !of_units)
}

/// What of `-e` and `-m` is of uncore units.
fn unit_plan_of(options: &Options, driver: &mut Driver) -> Result<UnitPlan> {
    let units = uncore::query(driver)?;
    uncore::plan(options, &items_of(options)?, &extra_of(options)?, &units)
}

/// One core that nobody holds; else the first, so that the holder gets named.
fn idle_core(driver: &mut Driver) -> Result<u32> {
    let records = driver.query_ownership()?;
    let idle =
        |r: &&wperf_abi::record::CoreOwnership| r.holding == wperf_abi::record::Holding::IDLE;
    Ok(records.iter().find(idle).map_or(0, |record| record.core))
}

fn warn_of_differences(machine: &Machine, cores: &[u32], console: &mut Console<'_>) -> Result<()> {
    let first = machine.core(cores[0]);
    if first.pmu == PmuKind::SOFTWARE {
        console.warn("warning: there is no hardware PMU to use: only time is counted, and `cycle` is ticks of the time stamp counter")?;
    }
    let differs = |core: &&u32| machine.core(**core).identification != first.identification;
    match cores.iter().find(differs) {
        Some(core) => console.warn(&format!(
            "warning: core {core} is another processor than core {}, whose event names are used for all",
            first.core
        )),
        None => Ok(()),
    }
}

/// Starts a program stopped, on the cores that are to see it.
fn start_program(
    words: &[OsString],
    options: &Options,
    world: &World<'_>,
    cores: &[u32],
    host: &mut dyn Host,
    console: &mut Console<'_>,
) -> Result<Program> {
    let output = if options.json {
        ProgramOutput::ToStandardError
    } else {
        ProgramOutput::Shared
    };
    let program = program::spawn(&world.launcher, words, cores, output)?;
    attach(host, cores, program.pid())?;
    if let Some(caveat) = host.caveat() {
        console.warn(caveat)?;
    }
    console.detail(&format!(
        "process {} runs on {}",
        program.pid(),
        cores_text(cores)
    ))?;
    Ok(program)
}

/// Lets cores see a process. A host that needs to be told attaches the process as a whole, wherever it runs: once is enough.
fn attach(host: &mut dyn Host, cores: &[u32], pid: u32) -> Result<()> {
    let core = cores[0];
    host.attach(core, pid).map_err(|error| {
        let message = format!("core {core} cannot see process {pid}: {error}");
        Failure::new(error.outcome(), message)
    })
}
