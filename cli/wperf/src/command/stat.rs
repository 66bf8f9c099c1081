//! `stat`: counts.

use super::{
    World, catalog_of, cores_of, counts_cores, idle_core, period_of, plan_of, unit_plan_of,
};
use crate::{
    catalog::Product,
    device::Host,
    failure::{Failure, Result},
    machine::Machine,
    options::Options,
    plan::Plan,
    program::{self, Program, ProgramOutput},
    report::{
        csv::{self, Timeline},
        output::Console,
        stat::{Setup, StatReport},
        uncore::UncoreReport,
    },
    session::{Driver, Reading, Session, Take},
    uncore::UnitSession,
    wait::{End, wait},
};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Zoned;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use wperf_abi::{EventFilter, record::PmuKind};

/// Pause between the counts of a timeline unless `-i` says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// Runs `stat`.
///
/// Errors: anything on the way; a count that lost its cores is not printed.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    if options.events.is_empty() && options.metrics.is_empty() {
        return Err(Failure::usage("no event specified"));
    }
    let mut opened = world.open(options)?;
    if let Some(about) = opened.host.describe() {
        console.detail(&about)?;
    }
    let driver = &mut opened.client;
    let machine = Machine::query(driver)?;
    let units = unit_plan_of(options, driver)?;
    let counts_cores = counts_cores(options)?;
    let cores = if options.program.is_empty() {
        match counts_cores {
            true => cores_of(options, &machine)?,
            false => Vec::new(),
        }
    } else {
        let core = one_core(options, &machine, || idle_core(driver))?;
        if options.cores.is_none() {
            console.progress(&format!("no core named, the program runs on core {core}"))?;
        }
        vec![core]
    };
    let take = if options.force {
        Take::Forced
    } else {
        Take::Free
    };
    let period_ms = period_of(options, &machine)?;
    let first = cores.first().copied().unwrap_or(0);
    let product = machine.product(first, opened.host.as_ref());
    let units = UnitSession::acquire(driver, units, take, period_ms)?;
    let (hold, plan, multiplexed) = if counts_cores {
        warn_of_differences(&machine, &cores, console)?;
        hold_cores(options, driver, &machine, &product, &cores, take, period_ms)?
    } else {
        (Hold::Units(driver), Plan::default(), false)
    };
    let setup = setup(options, &machine, &product, multiplexed);
    let mut count = Count {
        options,
        world,
        plan: &plan,
        setup,
        cores,
        hold,
        units,
        host: opened.host.as_mut(),
        program: None,
    };
    count.run(console)
}

/// Takes the cores and programs what is to be counted on them; whether events take turns.
fn hold_cores<'d>(
    options: &Options,
    driver: &'d mut Driver,
    machine: &Machine,
    product: &Product,
    cores: &[u32],
    take: Take,
    period_ms: u32,
) -> Result<(Hold<'d>, Plan, bool)> {
    let catalog = catalog_of(options, product)?;
    // What cannot be planned at all should not take the PMU from anybody.
    let all = machine.core(cores[0]).counters_total.into();
    let counters = machine.counters(driver, cores[0], all)?;
    plan_of(options, &catalog, &counters)?;
    let mut session = Session::acquire(driver, cores, take)?;
    let counters = counters.with_free(session.counters_free);
    let plan = plan_of(options, &catalog, &counters)?;
    let filter = if options.kernel {
        EventFilter::NONE
    } else {
        EventFilter::EXCLUDE_KERNEL
    };
    let assigned = session.assign(&plan, filter, period_ms, &counters)?;
    Ok((Hold::Cores(session), plan, assigned.windows > 1))
}

/// What is held beside units.
enum Hold<'d> {
    /// Cores.
    Cores(Session<'d>),
    /// Nothing: only units are counted.
    Units(&'d mut Driver),
}

impl Hold<'_> {
    fn driver(&mut self) -> &mut Driver {
        match self {
            Self::Cores(session) => session.driver(),
            Self::Units(driver) => driver,
        }
    }

    fn start(&mut self) -> Result<()> {
        match self {
            Self::Cores(session) => session.start(),
            Self::Units(_) => Ok(()),
        }
    }

    fn stop(&mut self) -> Result<()> {
        match self {
            Self::Cores(session) => session.stop(),
            Self::Units(_) => Ok(()),
        }
    }

    fn read(&mut self, plan: &Plan) -> Result<Vec<Reading>> {
        match self {
            Self::Cores(session) => session.read(plan),
            Self::Units(_) => Ok(Vec::new()),
        }
    }

    fn check_still_ours(&mut self, units: &UnitSession) -> Result<()> {
        if let Self::Cores(session) = self {
            session.check_still_ours()?;
        }
        units.check_still_ours(self.driver())
    }
}

fn setup(options: &Options, machine: &Machine, product: &Product, multiplexed: bool) -> Setup {
    Setup {
        multiplexed,
        kernel: options.kernel,
        vendor: machine.vendor(),
        product: product.name().to_owned(),
    }
}

fn one_core(
    options: &Options,
    machine: &Machine,
    idle: impl FnOnce() -> Result<u32>,
) -> Result<u32> {
    match (&options.cores, cores_of(options, machine)?.as_slice()) {
        (None, _) => idle(),
        (Some(_), [core]) => Ok(*core),
        (Some(_), _) => Err(Failure::other(
            "you can specify only one core for process spawn",
        )),
    }
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

/// A count that is set up.
struct Count<'a, 'w> {
    options: &'a Options,
    world: &'a World<'w>,
    plan: &'a Plan,
    setup: Setup,
    cores: Vec<u32>,
    hold: Hold<'a>,
    units: UnitSession,
    host: &'a mut dyn Host,
    program: Option<Program>,
}

impl Count<'_, '_> {
    fn run(&mut self, console: &mut Console<'_>) -> Result<()> {
        let document = if self.options.timeline {
            self.timeline(console)?
        } else {
            let (report, _) = self.count(console)?;
            self.end_program(console)?;
            console.answer(&report.to_text())?;
            report.to_json()
        };
        console.json(&document, self.options)
    }

    fn timeline(&mut self, console: &mut Console<'_>) -> Result<Value> {
        let options = self.options;
        let interval = options.interval.unwrap_or(DEFAULT_INTERVAL);
        let mut file = self.timeline_file(interval, console)?;
        let mut documents: Vec<Value> = Vec::new();
        for number in 1.. {
            let (report, end) = self.count(console)?;
            if let Some(file) = &mut file {
                file.push(&report)?;
            }
            documents.push(report.to_json());
            let is_last = options.repeats.is_some_and(|repeats| number >= repeats);
            if is_last || end != End::Deadline || self.pause(interval, console)? != End::Deadline {
                break;
            }
        }
        self.end_program(console)?;
        Ok(json!({
            "count_duration": options.timeout.unwrap_or_default().as_secs_f64(),
            "count_interval": interval.as_secs_f64(),
            "count_timeline": documents.len(),
            "timeline": documents,
        }))
    }

    /// The CSV file, which is of cores.
    fn timeline_file(
        &self,
        interval: Duration,
        console: &mut Console<'_>,
    ) -> Result<Option<Timeline>> {
        if !self.units.is_empty() {
            console.warn(
                "warning: counts of uncore units are in the JSON document, not in the CSV file",
            )?;
        }
        if matches!(self.hold, Hold::Units(_)) {
            return Ok(None);
        }
        let path = csv::file_name(self.options, &self.cores, &Zoned::now());
        let file = Timeline::create(path, self.setup.clone(), interval)?;
        console.detail(&format!("timeline file: '{}'", file.path().display()))?;
        Ok(Some(file))
    }

    /// Counts once; the program starts with the first count.
    fn count(&mut self, console: &mut Console<'_>) -> Result<(StatReport, End)> {
        let is_new = self.program.is_none() && !self.options.program.is_empty();
        if is_new {
            self.program = Some(self.spawn(console)?);
        }
        self.units.start(self.hold.driver())?;
        self.hold.start()?;
        let start = Instant::now();
        if let Some(program) = self.program.as_mut().filter(|_| is_new) {
            program.resume()?;
        }
        let end = self.wait(console, "counting", start, self.options.timeout)?;
        self.hold.stop()?;
        self.units.stop(self.hold.driver())?;
        let elapsed = start.elapsed();
        let readings = self.hold.read(self.plan)?;
        let of_units = self.units.read(self.hold.driver())?;
        console.progress("counting ... done")?;
        let mut report = StatReport::new(self.setup.clone(), self.plan, &readings, elapsed);
        report.uncore = UncoreReport::new(self.units.plan(), &of_units);
        for warning in &report.warnings {
            console.warn(warning)?;
        }
        Ok((report, end))
    }

    fn spawn(&mut self, console: &mut Console<'_>) -> Result<Program> {
        let output = if self.options.json {
            ProgramOutput::ToStandardError
        } else {
            ProgramOutput::Shared
        };
        let core = self.cores[0];
        let words = &self.options.program;
        let program = program::spawn(&self.world.launcher, words, core, output)?;
        self.host.attach(core, program.pid()).map_err(|error| {
            let message = format!(
                "core {core} cannot count process {}: {error}",
                program.pid()
            );
            Failure::new(error.outcome(), message)
        })?;
        if let Some(caveat) = self.host.caveat() {
            console.warn(caveat)?;
        }
        console.detail(&format!("process {} runs on core {core}", program.pid()))?;
        Ok(program)
    }

    /// Ends a program that outlives the count, and says how it ended.
    fn end_program(&mut self, console: &mut Console<'_>) -> Result<()> {
        let Some(mut program) = self.program.take() else {
            return Ok(());
        };
        let status = program.end()?;
        self.host.detach(self.cores[0])?;
        console.progress(&program::status_text(status))
    }

    fn pause(&mut self, interval: Duration, console: &mut Console<'_>) -> Result<End> {
        let end = self.wait(console, "sleeping", Instant::now(), Some(interval))?;
        console.progress("sleeping ... done")?;
        Ok(end)
    }

    fn wait(
        &mut self,
        console: &Console<'_>,
        what: &'static str,
        start: Instant,
        timeout: Option<Duration>,
    ) -> Result<End> {
        let bar = progress_bar(console, what, timeout);
        let (hold, units) = (&mut self.hold, &self.units);
        let child = self.program.as_mut().map(Program::child);
        let end = wait(&self.world.interrupts, start, timeout, child, |since| {
            advance(&bar, since);
            hold.check_still_ours(units)
        });
        bar.finish_and_clear();
        end
    }
}

fn progress_bar(console: &Console<'_>, what: &'static str, total: Option<Duration>) -> ProgressBar {
    if !console.shows_progress_bar() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(millis(total)),
            "{msg} ... [{bar:40}] {pos} of {len} ms",
        ),
        None => (ProgressBar::new_spinner(), "{msg} ... {spinner} {elapsed}"),
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(what)
}

fn advance(bar: &ProgressBar, since: Duration) {
    bar.set_position(millis(since));
    bar.tick();
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
