//! From the start of sampling to its end.

use super::super::World;
use crate::{
    device::Host,
    failure::Result,
    options::Options,
    process,
    profile::{self, Mode, Profile, Recorder, Source, Symbols},
    program::{self, Program},
    report::{
        output::Console,
        progress,
        sample::{SampleReport, Shown, Target, Time},
    },
    session::{SampleTotals, Session},
    wait::{End, Interrupt, wait},
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::mpsc::TryRecvError,
    time::{Duration, Instant},
};
use wperf_abi::record::{Sample, sample_flags};

/// Pause before the first read; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between two reads: bounds how late the end of the program is seen.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How often processes are looked at beside.
const LOOK: Duration = Duration::from_secs(1);

/// Sampling that is set up.
pub(super) struct Run<'a> {
    options: &'a Options,
    world: &'a World<'a>,
    session: Session<'a>,
    host: &'a mut dyn Host,
    recorder: Recorder,
    program: Option<Program>,
    /// The process that is looked at; `None`: all.
    target: Option<u32>,
    executable: Option<PathBuf>,
    /// Processes of which samples came, and whether they are the target's.
    members: HashMap<u32, bool>,
    /// Samples of other processes.
    others: u64,
    totals: SampleTotals,
}

/// What sampling gave.
pub(super) struct Sampled {
    profile: Profile,
    target: Option<u32>,
    executable: Option<PathBuf>,
    others: u64,
    totals: SampleTotals,
    time: Time,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        options: &'a Options,
        world: &'a World<'a>,
        session: Session<'a>,
        host: &'a mut dyn Host,
        sources: Vec<Source>,
        program: Option<Program>,
        target: Option<u32>,
    ) -> Self {
        let target = program.as_ref().map(Program::pid).or(target);
        Self {
            options,
            world,
            session,
            host,
            recorder: Recorder::new(sources),
            program,
            target,
            executable: None,
            members: HashMap::new(),
            others: 0,
            totals: SampleTotals::default(),
        }
    }

    /// Samples until the time is over, the process has ended, or Ctrl-C.
    pub(super) fn finish(mut self, console: &mut Console<'_>) -> Result<Sampled> {
        let delay = self.options.sampling.delay;
        self.look();
        let mut end = None;
        if self.program.is_some() && !delay.is_zero() {
            self.resume()?;
            end = self.delay(delay)?;
        }
        let routines_ns = self.session.routines_ns()?;
        self.session.start()?;
        let start = Instant::now();
        if delay.is_zero() {
            self.resume()?;
        }
        let end = match end {
            Some(end) => end,
            None => self.until_end(start, console)?,
        };
        self.session.stop()?;
        let elapsed = start.elapsed();
        // What came until the stop is in the rings still.
        self.read()?;
        let cost = self.session.routines_ns()?.saturating_sub(routines_ns);
        let time = Time {
            elapsed,
            cost: Duration::from_nanos(cost),
            cores: self.session.cores().len(),
        };
        if self.program.is_some() && self.executable.is_none() {
            console.warn("warning: the program ended before it could be looked at: where its samples lie is not known")?;
        }
        let ctrl_c = match end {
            End::Interrupted => "Ctrl-C received, quit counting...",
            _ => "",
        };
        console.progress(&format!("sampling ...{ctrl_c} done!"))?;
        self.end_program(console)?;
        Ok(Sampled {
            profile: self.recorder.finish(),
            target: self.target,
            executable: self.executable,
            others: self.others,
            totals: self.totals,
            time,
        })
    }

    fn resume(&mut self) -> Result<()> {
        self.program.as_mut().map_or(Ok(()), Program::resume)
    }

    /// The program's beginning, which is not wanted; says whether it ended meanwhile.
    fn delay(&mut self, delay: Duration) -> Result<Option<End>> {
        let child = self.program.as_mut().map(Program::child);
        let interrupts = &self.world.interrupts;
        let end = wait(interrupts, Instant::now(), Some(delay), child, |_| Ok(()))?;
        self.look();
        Ok(Some(end).filter(|end| *end != End::Deadline))
    }

    fn until_end(&mut self, start: Instant, console: &Console<'_>) -> Result<End> {
        let timeout = self.options.timeout;
        let bar = progress::bar(console, "sampling", timeout);
        let mut pause = FIRST_PAUSE;
        let mut looked = start;
        let end = loop {
            if let Some(end) = self.ended(start)? {
                break end;
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            self.session
                .wait_for_samples(left.map_or(pause, |left| left.min(pause)))?;
            self.read()?;
            let is_young = pause < LONGEST_PAUSE;
            if is_young || looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            bar.set_message(format!(
                "{} samples, {} dropped",
                self.totals.generated, self.totals.lost
            ));
            progress::advance(&bar, start.elapsed());
        };
        bar.finish_and_clear();
        Ok(end)
    }

    fn ended(&mut self, start: Instant) -> Result<Option<End>> {
        match self.world.interrupts.try_recv() {
            Ok(Interrupt) => return Ok(Some(End::Interrupted)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        if let Some(program) = &mut self.program {
            if let Some(status) = program.child().try_wait()? {
                return Ok(Some(End::Program(status)));
            }
        } else if self.target.is_some_and(|pid| !process::is_running(pid)) {
            return Ok(Some(End::Gone));
        }
        let timeout = self.options.timeout;
        let is_over = timeout.is_some_and(|timeout| start.elapsed() >= timeout);
        Ok(is_over.then_some(End::Deadline))
    }

    /// Looks at what the process has mapped while it lives.
    fn look(&mut self) {
        let Some(pid) = self.target else {
            return;
        };
        self.recorder.look(pid);
        // Until it becomes the program, a new process is this program, started again to stop itself.
        let executable = process::executable(pid)
            .filter(|path| self.program.is_none() || *path != self.world.launcher);
        self.executable = executable.or(self.executable.take());
    }

    fn read(&mut self) -> Result<()> {
        let (samples, totals) = self.session.read_samples()?;
        self.totals = totals;
        let mut wanted = Vec::with_capacity(samples.len());
        for sample in samples {
            if self.is_wanted(sample.pid) {
                wanted.push(of_driver(&sample));
            } else {
                self.others += 1;
            }
        }
        self.recorder.push(&wanted);
        Ok(())
    }

    /// Where a core's samples are of whatever runs there, those of the target and what it started are wanted.
    fn is_wanted(&mut self, pid: u32) -> bool {
        let Some(target) = self.target else {
            return true;
        };
        if self.host.samples_only_attached() {
            return true;
        }
        let descends = || process::descends(pid, target);
        *self.members.entry(pid).or_insert_with(descends)
    }

    fn end_program(&mut self, console: &mut Console<'_>) -> Result<()> {
        let core = self.session.cores()[0];
        if let Some(mut program) = self.program.take() {
            let status = program.end()?;
            self.host.detach(core)?;
            console.progress(&program::status_text(status))?;
        } else if self.target.is_some() {
            self.host.detach(core)?;
        }
        Ok(())
    }
}

fn of_driver(sample: &Sample) -> profile::Sample {
    profile::Sample {
        time_ns: sample.time_ns,
        address: sample.pc,
        core: sample.core,
        source: sample.source.into(),
        pid: sample.pid,
        tid: sample.tid,
        mode: if sample.flags & sample_flags::USER == 0 {
            Mode::Kernel
        } else {
            Mode::User
        },
    }
}

impl Sampled {
    /// Finds the symbols, and says what was not seen.
    pub(super) fn report(
        self,
        options: &Options,
        shown: Shown,
        console: &mut Console<'_>,
    ) -> Result<(SampleReport, Profile, Symbols)> {
        let mut symbols = Symbols::new();
        if options.sampling.long_names {
            symbols = symbols.with_long_names();
        }
        let executable = options.sampling.executable.clone().or(self.executable);
        let module = executable.as_deref().and_then(|path| {
            let name = profile::module::file_name(path);
            self.profile.module_named(self.target, &name).cloned()
        });
        if let (Some(pdb), Some(module)) = (&options.sampling.pdb, &module) {
            symbols = symbols.with_pdb(module.path.clone(), pdb.clone());
        }
        let mut target = Target {
            executable,
            symbols: options.sampling.pdb.clone(),
            ..Target::default()
        };
        if let Some(module) = module {
            target.base = module.base;
            if let Some(file) = symbols.file(&module.path) {
                target.delta = module.base.wrapping_sub(file.image.preferred_base);
                target.symbols = target.symbols.or_else(|| file.debug_file.clone());
            }
            console.progress(&format!(
                "base address of '{}': {:#x}, runtime delta: {:#x}",
                module.name, target.base, target.delta
            ))?;
        }
        if self.others > 0 {
            console.progress(&format!(
                "{} samples of other processes left out",
                self.others
            ))?;
        }
        if self.totals.lost > 0 {
            console.warn(&format!(
                "warning: {} of {} samples were dropped; a longer interval loses fewer",
                self.totals.lost, self.totals.generated
            ))?;
        }
        let (totals, time) = (self.totals, self.time);
        let report = SampleReport::new(&self.profile, &mut symbols, shown, target, totals, time);
        for warning in symbols.take_warnings() {
            console.warn(&warning)?;
        }
        Ok((report, self.profile, symbols))
    }
}
