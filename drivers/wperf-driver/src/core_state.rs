//! One core: its processor, what is assigned to it, its counters; whether it counts or samples.

use crate::backend::{Before, CorePmu};
use crate::sampler::{Assignment, CoreSampler};
use crate::tracing::{CONTROL, COUNTING};
use kernel::Result;
use kernel::per_cpu::PerCore;
use kernel::pool::PoolBox;
use kernel::processor::{CurrentCore, Processor};
use kernel::sync::SpinLock;
use kernel::time::monotonic_ns;
use pmu::backend::Pmu;
use pmu::{Core, Durations, Interrupted, Model, Schedule, ScheduledEvent, SlotSet};
use trace::{Hex, cold, hot, hot_enter, hot_exit};
use wperf_abi::State;

/// Storage of a schedule.
pub(crate) type Events = PoolBox<[ScheduledEvent]>;

/// A core behind its lock: its timer, and whoever may act on it, meet here.
pub(crate) struct CoreState {
    inner: SpinLock<Inner>,
    pub(crate) sampler: CoreSampler,
}

struct Inner {
    processor: Option<Processor>,
    model: Model,
    /// Counters that may be used while somebody holds the core.
    free: SlotSet,
    before: Before,
    core: Core<Events>,
    period_ms: u32,
    dpc_times: Durations,
}

/// What does not change once a core has been looked at.
#[derive(Clone, Copy)]
pub(crate) struct Description {
    pub(crate) processor: Option<Processor>,
    pub(crate) model: Model,
    pub(crate) free: SlotSet,
}

/// Whether the PMU of the processor may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hardware {
    /// The system lends its counters.
    Lent,
    /// It does not: time is all there is to count.
    NotLent,
}

impl CoreState {
    pub(crate) fn new() -> Self {
        Self {
            inner: SpinLock::new(Inner {
                processor: None,
                model: Model::Software,
                free: SlotSet::EMPTY,
                before: Before::default(),
                core: Core::default(),
                period_ms: wperf_abi::PERIOD_DEFAULT_MS,
                dpc_times: Durations::NONE,
            }),
            sampler: CoreSampler::new(),
        }
    }

    /// Looks at the processor, once. On the core itself.
    pub(crate) fn detect(&self, here: &CurrentCore, hardware: Hardware) {
        let processor = here.detect();
        let mut inner = self.inner.lock();
        if hardware == Hardware::Lent {
            inner.model = processor.model().unwrap_or(Model::Software);
        }
        inner.free = all_counters(&inner.model);
        cold!(
            Information, CONTROL, "looked at a processor",
            core: u32 = here.id().0, identification: Hex = Hex(processor.identification),
            counters: u32 = inner.free.general.count_ones(), hardware: bool = hardware == Hardware::Lent,
        );
        inner.processor = Some(processor);
    }

    pub(crate) fn describe(&self) -> Description {
        let inner = self.inner.lock();
        Description {
            processor: inner.processor,
            model: inner.model,
            free: inner.free,
        }
    }

    /// Readies the core for a new holder: nothing of the former one is left. On the core itself.
    ///
    /// `reserved` are the general-purpose counters that the system lends.
    pub(crate) fn take(&self, here: &CurrentCore, reserved: u64) {
        self.stop(here);
        let mut inner = self.inner.lock();
        let busy = inner.pmu(here).1.busy();
        let mut free = all_counters(&inner.model);
        free.general &= reserved;
        free.fixed &= !busy.fixed;
        inner.free = free;
    }

    pub(crate) fn state(&self) -> State {
        self.inner.lock().core.state()
    }

    /// Starts counting or sampling, as assigned. On the core itself.
    pub(crate) fn start(&self, here: &CurrentCore) {
        self.act(here, |core, pmu, now_ns| {
            if core.state() == State::Armed {
                core.note_sampling(self.sampler.start(here));
            } else {
                core.start(pmu, now_ns);
            }
        });
    }

    /// Stops either. On the core itself.
    pub(crate) fn stop(&self, here: &CurrentCore) {
        self.act(here, |core, pmu, now_ns| {
            self.sampler.stop(here);
            core.note_sampling(false);
            core.stop(pmu, now_ns);
        });
    }

    /// Begins a new generation. On the core itself.
    pub(crate) fn reset(&self, here: &CurrentCore) {
        self.act(here, |core, pmu, now_ns| {
            core.reset(pmu, now_ns);
            self.sampler.reset(here, core.generation());
        });
    }

    /// Makes it a core that samples; gives back the storage of the former schedule.
    pub(crate) fn arm(&self, assignment: Assignment) -> Option<Events> {
        let mut inner = self.inner.lock();
        let former = inner.core.arm();
        let generation = inner.core.generation();
        let hardware = (inner.processor, inner.model);
        drop(inner);
        self.sampler.assign(hardware, assignment, generation);
        former
    }

    /// What totals and samples belong to now.
    pub(crate) fn generation(&self) -> u64 {
        self.inner.lock().core.generation()
    }

    /// Puts a schedule in; gives back the storage of the former one.
    pub(crate) fn assign(
        &self,
        events: Events,
        schedule: Schedule,
        period_ms: u32,
    ) -> Option<Events> {
        self.sampler.clear();
        let mut inner = self.inner.lock();
        inner.period_ms = period_ms;
        inner.core.assign(events, schedule)
    }

    /// Forgets what is assigned; gives its storage back.
    pub(crate) fn clear(&self) -> Option<Events> {
        self.sampler.clear();
        self.inner.lock().core.clear()
    }

    /// Acts on the run of the core, and notes how long that took. On the core itself.
    pub(crate) fn act(
        &self,
        here: &CurrentCore,
        act: impl FnOnce(&mut Core<Events>, &mut CorePmu<'_>, u64),
    ) {
        let begin_ns = monotonic_ns();
        hot_enter!(COUNTING, core: u32 = here.id().0);
        let mut inner = self.inner.lock();
        let (core, mut pmu) = inner.pmu(here);
        act(core, &mut pmu, monotonic_ns());
        let took_ns = monotonic_ns().saturating_sub(begin_ns);
        inner.dpc_times.add(took_ns);
        hot!(at here; Verbose, COUNTING, "the core was looked at", took_ns: u64 = took_ns);
        hot_exit!(COUNTING, core: u32 = here.id().0);
    }

    /// How long the DPCs of the core took.
    pub(crate) fn dpc_times(&self) -> Durations {
        self.inner.lock().dpc_times
    }

    /// How long the interrupt routine of the core took.
    pub(crate) fn isr_times(&self) -> Durations {
        self.sampler.times()
    }

    /// How often the core must be looked at while it counts; `None` if never. Units: ms.
    pub(crate) fn tick_period_ms(&self) -> Option<u32> {
        let inner = self.inner.lock();
        inner
            .core
            .needs_ticks(&inner.model)
            .then_some(inner.period_ms)
    }

    /// Looks at the totals.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Core<Events>) -> Result<R>) -> Result<R> {
        look(&self.inner.lock().core)
    }
}

impl Inner {
    /// The run of the core, and the counters it runs on.
    fn pmu<'a>(&'a mut self, here: &'a CurrentCore) -> (&'a mut Core<Events>, CorePmu<'a>) {
        let pmu = CorePmu::new(here, self.processor.as_ref(), self.model, &mut self.before);
        (&mut self.core, pmu)
    }
}

impl PerCore for CoreState {
    fn tick(&self, here: &CurrentCore) {
        hot!(at here; Verbose, COUNTING, "tick", core: u32 = here.id().0);
        self.act(here, |core, pmu, now_ns| core.tick(pmu, now_ns));
    }

    fn overflow(&self, here: &CurrentCore, at: &Interrupted) -> bool {
        self.sampler.overflow(here, at)
    }

    fn woken(&self, here: &CurrentCore) {
        let begin_ns = monotonic_ns();
        self.sampler.woken(here.id());
        let took_ns = monotonic_ns().saturating_sub(begin_ns);
        self.inner.lock().dpc_times.add(took_ns);
    }
}

fn all_counters(model: &Model) -> SlotSet {
    SlotSet::first(model.general_counters(), model.fixed_counters())
}
