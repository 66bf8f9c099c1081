//! `sample` and `record`: which functions a program is in when events occur.

mod run;

use super::{World, attach, catalog_of, cores_of, idle_core, start_program, warn_of_differences};
use crate::{
    catalog::{Architecture, Catalog},
    device::Host,
    exit::Outcome,
    failure::{Failure, Result},
    grammar::sampling::{self, SampledListError, SampledSpec},
    machine::Machine,
    options::{Options, SamplingOptions},
    ownership::cores_text,
    plan::Counters,
    process,
    profile::{
        Source,
        export::{self, About},
        hot::Pattern,
        module::file_name,
    },
    program::Program,
    report::{
        output::{Console, in_folder},
        sample::{DEFAULT_ROWS, Shown},
    },
    session::{Driver, Session, Take},
};
use run::{Run, Sampled};
use std::{ffi::OsString, path::Path, time::SystemTime};
use wperf_abi::{EventCode, EventFilter};

/// Arm's number of the event that the fixed cycle counter counts.
const ARM_CPU_CYCLES: u32 = 0x11;

/// Runs `sample`.
///
/// Errors: there is no such process; names and files as for `record`; the driver's.
pub fn sample(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let specs = check(options, console)?;
    let target = running_process(&options.sampling, console)?;
    Command {
        options,
        specs,
        world,
        program: &[],
        target,
    }
    .run(console)
}

/// Runs `record`.
///
/// Errors: no program or no such; an event that is not known or cannot be sampled; a file that is not there or cannot be
/// written; the driver's.
pub fn record(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let specs = check(options, console)?;
    let own = options.sampling.executable.clone().map(OsString::from);
    let own: Vec<OsString> = own.into_iter().collect();
    let program = match options.program.as_slice() {
        [] => own.as_slice(),
        words => words,
    };
    if program.is_empty() {
        return Err(Failure::usage(
            "no program behind --, and no --pe_file: nothing to record",
        ));
    }
    Command {
        options,
        specs,
        world,
        program,
        target: None,
    }
    .run(console)
}

/// The events asked for; finds what needs no driver to be found wrong.
fn check(options: &Options, console: &mut Console<'_>) -> Result<Vec<SampledSpec>> {
    if let Some(channel) = options.dmc {
        return Err(Failure::usage(format!(
            "--dmc {channel}: uncore units do not sample"
        )));
    }
    if options.events.is_empty() {
        return Err(Failure::usage("no event specified"));
    }
    if !options.metrics.is_empty() {
        return Err(Failure::usage(
            "-m is for counting: name the event to sample with -e",
        ));
    }
    let sampling = &options.sampling;
    for (what, file) in [("PE", &sampling.executable), ("PDB", &sampling.pdb)] {
        if let Some(file) = file.as_ref().filter(|file| !file.is_file()) {
            let file = file.display();
            return Err(Failure::other(format!(
                "{what} file '{file}' doesn't exist"
            )));
        }
    }
    if let Some(executable) = &sampling.executable {
        if sampling.image.is_none() {
            console.progress(&format!("deduced image name '{}'", file_name(executable)))?;
        }
        let pdb = executable.with_extension("pdb");
        if sampling.pdb.is_none() && pdb.is_file() {
            console.progress(&format!("deduced image PDB file '{}'", pdb.display()))?;
        }
    }
    let lists = options.events.iter();
    let specs: std::result::Result<Vec<_>, _> = lists.map(|list| sampling::parse(list)).collect();
    Ok(specs.map_err(of_list)?.concat())
}

/// The process that `--pid`, `--image_name` or `--pe_file` names.
fn running_process(options: &SamplingOptions, console: &mut Console<'_>) -> Result<Option<u32>> {
    if let Some(pid) = options.pid {
        return if process::is_running(pid) {
            Ok(Some(pid))
        } else {
            Err(Failure::other(format!("there is no process {pid}")))
        };
    }
    let executable = options.executable.as_deref().map(file_name);
    let Some(image) = options.image.clone().or(executable) else {
        console.warn("no pid or process name specified, sample address are not de-ASLRed")?;
        return Ok(None);
    };
    match process::running(&image) {
        Some(pid) => Ok(Some(pid)),
        None => Err(Failure::other(format!("no process runs '{image}'"))),
    }
}

/// A command line understood.
struct Command<'a> {
    options: &'a Options,
    specs: Vec<SampledSpec>,
    world: &'a World<'a>,
    /// What to start; empty for a process that runs.
    program: &'a [OsString],
    target: Option<u32>,
}

impl Command<'_> {
    fn run(&self, console: &mut Console<'_>) -> Result<()> {
        let options = self.options;
        let mut opened = self.world.open(options)?;
        if let Some(about) = opened.host.describe() {
            console.detail(&about)?;
        }
        let driver = &mut opened.client;
        let machine = Machine::query(driver)?;
        let cores = self.cores(&machine, driver, console)?;
        let product = machine.product(cores[0], opened.host.as_ref());
        warn_of_differences(&machine, &cores, console)?;
        let catalog = catalog_of(options, &product)?;
        let total = machine.core(cores[0]).counters_total.into();
        let counters = machine.counters(driver, cores[0], total)?;
        let sources = sources(&self.specs, &catalog, &counters)?;
        check_counters(&sources, &counters)?;
        let take = if options.force {
            Take::Forced
        } else {
            Take::Free
        };
        let mut session = Session::acquire(driver, &cores, take)?;
        check_counters(&sources, &counters.with_free(session.counters_free))?;
        let filter = if options.kernel {
            EventFilter::NONE
        } else {
            EventFilter::EXCLUDE_KERNEL
        };
        session.assign_sources(&sources, filter)?;
        let host = opened.host.as_mut();
        let start = SystemTime::now();
        let program = self.aim(host, &cores, console)?;
        let sampled = Run::new(
            options,
            self.world,
            session,
            host,
            sources,
            program,
            self.target,
        )
        .finish(console)?;
        let about = About {
            command: self.command_words(),
            start,
            cores: machine.core_count(),
            kernel: options.kernel,
        };
        finish(options, console, sampled, &about)
    }

    /// Lets the cores see the process: starts the program, stopped, or attaches the one that runs.
    fn aim(
        &self,
        host: &mut dyn Host,
        cores: &[u32],
        console: &mut Console<'_>,
    ) -> Result<Option<Program>> {
        if !self.program.is_empty() {
            console.detail(&self.program_text())?;
            let (words, options) = (self.program, self.options);
            let program = start_program(words, options, self.world, cores, host, console)?;
            return Ok(Some(program));
        }
        if let Some(pid) = self.target {
            attach(host, cores, pid)?;
            let cores = cores_text(cores);
            console.detail(&format!("process {pid} is sampled on {cores}"))?;
        }
        Ok(None)
    }

    /// `record` takes an idle core when none is named, `sample` all.
    fn cores(
        &self,
        machine: &Machine,
        driver: &mut Driver,
        console: &mut Console<'_>,
    ) -> Result<Vec<u32>> {
        let cores = cores_of(self.options, machine)?;
        if self.options.compat && cores.len() != 1 {
            return Err(Failure::other(if self.program.is_empty() {
                "sampling: you can specify 1 core with -c option"
            } else {
                "you can specify only one core for sampling"
            }));
        }
        if self.options.cores.is_some() || self.program.is_empty() {
            return Ok(cores);
        }
        let core = idle_core(driver)?;
        console.progress(&format!("no core named, the program runs on core {core}"))?;
        Ok(vec![core])
    }

    fn program_text(&self) -> String {
        let (file, arguments) = self.program.split_at(1);
        let words: Vec<_> = arguments
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let file = file[0].to_string_lossy();
        format!("pe_file '{file}', args '{}'", words.join(" "))
    }

    fn command_words(&self) -> Vec<String> {
        let words = self
            .program
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let mut words: Vec<String> = words.collect();
        if words.is_empty() {
            let name = self.target.and_then(process::name);
            words.push(name.unwrap_or_else(|| "wperf sample".to_owned()));
        }
        words
    }
}

/// The events by what the driver calls them.
fn sources(specs: &[SampledSpec], catalog: &Catalog, counters: &Counters) -> Result<Vec<Source>> {
    let is_arm = catalog.product().architecture() == Architecture::Arm;
    let source = |spec: &SampledSpec| {
        let mut event = catalog.resolve(&spec.event)?;
        if is_arm && event.code == ARM_CPU_CYCLES && counters.has_cycle_counter() {
            event.code = EventCode::CYCLES.0;
        }
        Ok(Source {
            name: event.name,
            code: event.code,
            interval: spec.interval,
        })
    };
    specs.iter().map(source).collect()
}

fn of_list(error: SampledListError) -> Failure {
    match error {
        SampledListError::Spe => Failure::new(Outcome::NotImplemented, error.to_string()),
        other => other.into(),
    }
}

/// Events that are sampled do not take turns.
fn check_counters(sources: &[Source], counters: &Counters) -> Result<()> {
    let Some(total) = counters.total else {
        return Ok(());
    };
    let needed = counters.needed_by(sources.iter().map(|source| EventCode(source.code)));
    if needed > total {
        return Err(Failure::other(format!(
            "number of events requested exceeds the number of hardware PMU counters ({needed} of {total})"
        )));
    }
    if needed > counters.free {
        return Err(Failure::other(format!(
            "number of events requested exceeds the number of free hardware PMU counters ({needed} of {})",
            counters.free
        )));
    }
    Ok(())
}

fn finish(
    options: &Options,
    console: &mut Console<'_>,
    sampled: Sampled,
    about: &About,
) -> Result<()> {
    let sampling = &options.sampling;
    let rows = sampling.rows.map(usize::try_from).transpose()?;
    let shown = Shown {
        rows: rows.unwrap_or(DEFAULT_ROWS),
        symbol: sampling.symbol.as_deref().map(Pattern::new),
        annotate: sampling.annotate,
        disassemble: sampling.disassemble,
        verbose: options.verbosity == crate::options::Verbosity::Verbose,
    };
    let (report, profile, mut symbols) = sampled.report(options, shown, console)?;
    console.answer(&report.to_text())?;
    console.json(&report.to_json(), options)?;
    for export in &sampling.exports {
        let path = in_folder(&export.path, options);
        export::write(export, &path, &profile, &mut symbols, about)
            .map_err(|error| Failure::file(Path::new(&path), &error))?;
        console.progress(&format!("written: {}", path.display()))?;
    }
    Ok(())
}
