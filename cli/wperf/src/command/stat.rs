//! `stat`: counts.

mod hold;

use self::hold::{Hold, Readings, Routines};
use super::{
    World, catalog_of, cores_of, counts_cores, idle_core, period_of, plan_of, start_program,
    unit_plan_of, warn_of_differences,
};
use crate::{
    catalog::{Catalog, Product},
    device::Host,
    failure::{Failure, Result},
    machine::Machine,
    options::Options,
    plan::{Counters, Plan},
    program::{self, Program},
    report::{
        csv::{self, Timeline},
        output::Console,
        progress,
        stat::{Setup, StatReport},
        uncore::UncoreReport,
    },
    session::{Driver, Session, Take},
    uncore::UnitSession,
    wait::{End, wait},
};
use jiff::Zoned;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use wperf_abi::EventFilter;

/// Pause between the counts of a timeline unless `-i` says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// Runs `stat`.
///
/// Errors: anything on the way; a count that lost its cores or units is not printed.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    check(options)?;
    let mut opened = world.open(options)?;
    if let Some(about) = opened.host.describe() {
        console.detail(&about)?;
    }
    let driver = &mut opened.client;
    let machine = Machine::query(driver)?;
    let units = unit_plan_of(options, driver)?;
    let counts_cores = counts_cores(options)?;
    let cores = cores_to_use(options, &machine, driver, counts_cores, console)?;
    let product = machine.product(cores.first().copied().unwrap_or(0), opened.host.as_ref());
    let take = if options.force {
        Take::Forced
    } else {
        Take::Free
    };
    let period_ms = period_of(options, &machine, console)?;
    let (hold, plan, multiplexed) = if counts_cores {
        warn_of_differences(&machine, &cores, console)?;
        let unplanned = check_plan(options, driver, &machine, &product, cores[0])?;
        let units = UnitSession::acquire(driver, units, take, period_ms)?;
        let session = Session::acquire(driver, &cores, take)?;
        let (session, plan, multiplexed) = unplanned.assign(options, session, period_ms)?;
        (Hold::cores(session, units), plan, multiplexed)
    } else {
        let units = UnitSession::acquire(driver, units, take, period_ms)?;
        (Hold::units_only(driver, units), Plan::default(), false)
    };
    let setup = setup(options, &machine, &product, multiplexed);
    let mut count = Count {
        options,
        world,
        plan: &plan,
        setup,
        cores,
        hold,
        host: opened.host.as_mut(),
        program: None,
    };
    count.run(console)
}

/// What can be seen to be wrong without the driver.
fn check(options: &Options) -> Result<()> {
    if options.events.is_empty() && options.metrics.is_empty() {
        return Err(Failure::usage("no event specified"));
    }
    if options.gapless && (!options.timeline || options.timeout.is_none()) {
        return Err(Failure::usage("--gapless needs -t and --timeout"));
    }
    if options.gapless && options.interval.is_some() {
        return Err(Failure::usage(
            "--gapless and -i contradict each other: there is no pause",
        ));
    }
    Ok(())
}

/// The cores that are counted, or that the program runs on; none for units alone.
fn cores_to_use(
    options: &Options,
    machine: &Machine,
    driver: &mut Driver,
    counts_cores: bool,
    console: &mut Console<'_>,
) -> Result<Vec<u32>> {
    match (options.program.is_empty(), counts_cores) {
        (true, true) => return cores_of(options, machine),
        (true, false) => return Ok(Vec::new()),
        (false, _) => {}
    }
    let core = one_core(options, machine, || idle_core(driver))?;
    if options.cores.is_none() {
        console.progress(&format!("no core named, the program runs on core {core}"))?;
    }
    Ok(vec![core])
}

/// Plans what is to be counted on cores with all their counters: what cannot be planned at all should not take the PMU
/// from anybody.
fn check_plan(
    options: &Options,
    driver: &mut Driver,
    machine: &Machine,
    product: &Product,
    core: u32,
) -> Result<CorePlan> {
    let catalog = catalog_of(options, product)?;
    let all = machine.core(core).counters_total.into();
    let counters = machine.counters(driver, core, all)?;
    plan_of(options, &catalog, &counters)?;
    Ok(CorePlan { catalog, counters })
}

/// What a plan for cores is made of.
struct CorePlan {
    catalog: Catalog,
    counters: Counters,
}

impl CorePlan {
    /// Plans for the counters that are free, and programs them; also whether events take turns.
    fn assign<'d>(
        self,
        options: &Options,
        mut session: Session<'d>,
        period_ms: u32,
    ) -> Result<(Session<'d>, Plan, bool)> {
        let counters = self.counters.with_free(session.counters_free);
        let plan = plan_of(options, &self.catalog, &counters)?;
        let filter = if options.kernel {
            EventFilter::NONE
        } else {
            EventFilter::EXCLUDE_KERNEL
        };
        let assigned = session.assign(&plan, filter, period_ms, &counters)?;
        Ok((session, plan, assigned.windows > 1))
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

/// Takes the result of each count of a timeline.
type Push<'p> = dyn FnMut(&StatReport) -> Result<()> + 'p;

/// Where a count stands at a time.
#[derive(Default)]
struct Before {
    elapsed: Duration,
    readings: Readings,
    routines: Routines,
}

/// A count that is set up.
struct Count<'a, 'w> {
    options: &'a Options,
    world: &'a World<'w>,
    plan: &'a Plan,
    setup: Setup,
    /// Where the program runs; those that are counted, if any is.
    cores: Vec<u32>,
    hold: Hold<'a>,
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
        let interval = match options.gapless {
            true => Duration::ZERO,
            false => options.interval.unwrap_or(DEFAULT_INTERVAL),
        };
        let mut file = self.timeline_file(interval, console)?;
        let mut documents: Vec<Value> = Vec::new();
        let mut push = |report: &StatReport| {
            documents.push(report.to_json());
            file.as_mut().map_or(Ok(()), |file| file.push(report))
        };
        if options.gapless {
            self.counts_without_gaps(console, &mut push)?;
        } else {
            self.counts_with_pauses(interval, console, &mut push)?;
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
        if !self.hold.units().is_empty() {
            console.warn(
                "warning: counts of uncore units are in the JSON document, not in the CSV file",
            )?;
        }
        if !self.hold.has_cores() {
            return Ok(None);
        }
        let path = csv::file_name(self.options, &self.cores, &Zoned::now());
        let file = Timeline::create(path, self.setup.clone(), interval)?;
        console.detail(&format!("timeline file: '{}'", file.path().display()))?;
        Ok(Some(file))
    }

    /// Counts begin at fixed times after the first: neither what is done between them nor a late end adds up.
    fn counts_with_pauses(
        &mut self,
        interval: Duration,
        console: &mut Console<'_>,
        push: &mut Push<'_>,
    ) -> Result<()> {
        let first = Instant::now();
        for number in 1.. {
            let (report, end) = self.count(console)?;
            push(&report)?;
            if self.is_last(number) || end != End::Deadline {
                break;
            }
            let period = self.options.timeout.unwrap_or_default() + interval;
            let pause = pause_before(number, period, first.elapsed());
            if self.pause(pause, console)? != End::Deadline {
                break;
            }
        }
        Ok(())
    }

    /// The counters run from the first count to the last, and are read at the end of each: nothing is missing between.
    fn counts_without_gaps(
        &mut self,
        console: &mut Console<'_>,
        push: &mut Push<'_>,
    ) -> Result<()> {
        let timeout = self.options.timeout.unwrap_or_default();
        let start = self.begin(console)?;
        let mut before = Before::default();
        for number in 1.. {
            let deadline = timeout.saturating_mul(number);
            let end = self.wait(console, "counting", start, Some(deadline))?;
            let is_last = self.is_last(number) || end != End::Deadline;
            if is_last {
                self.hold.stop()?;
            }
            let now = self.now(start)?;
            let report = self.report(&before, &now, console)?;
            push(&report)?;
            if is_last {
                break;
            }
            before = now;
        }
        console.progress("counting ... done")
    }

    fn is_last(&self, number: u32) -> bool {
        self.options
            .repeats
            .is_some_and(|repeats| number >= repeats)
    }

    /// Starts the counters, then the program if it is not running yet.
    fn begin(&mut self, console: &mut Console<'_>) -> Result<Instant> {
        let is_new = self.program.is_none() && !self.options.program.is_empty();
        if is_new {
            self.program = Some(self.spawn(console)?);
        }
        self.hold.start()?;
        let start = Instant::now();
        if let Some(program) = self.program.as_mut().filter(|_| is_new) {
            program.resume()?;
        }
        Ok(start)
    }

    /// Counts once; the program starts with the first count.
    fn count(&mut self, console: &mut Console<'_>) -> Result<(StatReport, End)> {
        let before = Before {
            routines: self.hold.routines()?,
            ..Before::default()
        };
        let start = self.begin(console)?;
        let end = self.wait(console, "counting", start, self.options.timeout)?;
        self.hold.stop()?;
        let now = self.now(start)?;
        console.progress("counting ... done")?;
        Ok((self.report(&before, &now, console)?, end))
    }

    fn now(&mut self, start: Instant) -> Result<Before> {
        Ok(Before {
            elapsed: start.elapsed(),
            readings: self.hold.read(self.plan)?,
            routines: self.hold.routines()?,
        })
    }

    /// What was counted between two times.
    fn report(
        &self,
        before: &Before,
        now: &Before,
        console: &mut Console<'_>,
    ) -> Result<StatReport> {
        let readings = now.readings.since(&before.readings);
        let elapsed = now.elapsed.saturating_sub(before.elapsed);
        let mut report = StatReport::new(self.setup.clone(), self.plan, &readings.cores, elapsed);
        let (was, is) = (before.routines, now.routines);
        if self.hold.has_cores() {
            report.took(is.cores.saturating_sub(was.cores));
        }
        if !self.hold.units().is_empty() {
            report.units_took(is.units.saturating_sub(was.units));
        }
        report.uncore = UncoreReport::new(self.hold.units().plan(), &readings.units);
        for warning in &report.warnings {
            console.warn(warning)?;
        }
        Ok(report)
    }

    fn spawn(&mut self, console: &mut Console<'_>) -> Result<Program> {
        start_program(
            &self.options.program,
            self.options,
            self.world,
            &self.cores,
            self.host,
            console,
        )
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
        let bar = progress::bar(console, what, timeout);
        let hold = &mut self.hold;
        let child = self.program.as_mut().map(Program::child);
        let end = wait(&self.world.interrupts, start, timeout, child, |since| {
            progress::advance(&bar, since);
            hold.check_still_ours()
        });
        bar.finish_and_clear();
        end
    }
}

/// How long to wait for a count, the first being number 0, so much time after that one began.
fn pause_before(number: u32, period: Duration, since_first: Duration) -> Duration {
    period.saturating_mul(number).saturating_sub(since_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_count_takes_longer_is_taken_from_the_pause_behind_it() {
        let ms = Duration::from_millis;
        assert_eq!(pause_before(1, ms(50), ms(12)), ms(38));
        assert_eq!(pause_before(3, ms(50), ms(149)), ms(1));
        assert_eq!(pause_before(2, ms(50), ms(170)), ms(0));
        let late = pause_before(u32::MAX, Duration::MAX, ms(1));
        assert_eq!(late, Duration::MAX - ms(1));
    }
}
