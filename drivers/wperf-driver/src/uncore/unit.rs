//! One unit: what it is, its registers while it is held, and its run.

use super::backend::{Before, UnitPmu};
use crate::core_state::{CoreState, Events};
use kernel::Result;
use kernel::per_cpu::PerCpu;
use kernel::processor::{CoreId, CurrentCore};
use kernel::sync::SpinLock;
use kernel::ticker::Tick;
use kernel::time::monotonic_ns;
use kernel::uncore::{DsuAccess, Mapped, Registers};
use pmu::backend::dmc620::Dmc620Pmu;
use pmu::backend::{Pmu, coresight, dsu};
use pmu::backend::{coresight::CoreSightPmu, dsu::DsuPmu};
use pmu::{Core, Durations, Schedule, SlotSet, UnitModel};
use wperf_abi::record::{UnitKind, UnitOf};
use wperf_abi::{MAX_CORES, State};

/// What does not change.
#[derive(Clone, Copy)]
pub(super) struct About {
    pub(super) kind: UnitKind,
    /// Among those of its kind.
    pub(super) number: u32,
    pub(super) of: UnitOf,
    pub(super) instance: u64,
    /// What firmware says in place of the unit's own identification; 0: nothing.
    pub(super) identification: u32,
    /// Whose unit it is; none: the machine's.
    pub(super) cores: [u64; MAX_CORES / 64],
}

/// How its registers are reached.
pub(super) enum Place {
    /// From anywhere, once they are mapped.
    Memory(Registers),
    /// From one core of its cluster.
    Cluster(CoreId, DsuAccess),
}

/// A unit behind its lock: its timer, and whoever may act on it, meet here.
pub(crate) struct Unit {
    pub(super) about: About,
    place: Place,
    inner: SpinLock<Inner>,
}

/// What a unit says of itself.
#[derive(Clone, Copy)]
pub(super) struct Description {
    pub(super) model: UnitModel,
    pub(super) identification: u32,
    /// Counters that may be used while somebody holds it.
    pub(super) free: SlotSet,
}

struct Inner {
    description: Option<Description>,
    /// There while, and only while, somebody holds the unit.
    mapped: Option<Mapped>,
    before: Before,
    core: Core<Events>,
    period_ms: u32,
    times: Durations,
}

/// Something to do with a unit's run and counters, given the time. Units: ns.
pub(super) type Action<'a> = &'a (dyn Fn(&mut Core<Events>, &mut UnitPmu<'_>, u64) + Sync);

impl Unit {
    pub(super) fn new(about: About, place: Place) -> Self {
        Self {
            about,
            place,
            inner: SpinLock::new(Inner {
                description: None,
                mapped: None,
                before: Before::default(),
                core: Core::default(),
                period_ms: wperf_abi::PERIOD_DEFAULT_MS,
                times: Durations::NONE,
            }),
        }
    }

    /// The core that its registers are reached from, if it takes a certain one.
    pub(super) fn core(&self) -> Option<CoreId> {
        match self.place {
            Place::Memory(_) => None,
            Place::Cluster(core, _) => Some(core),
        }
    }

    /// What the unit says of itself; asks it the first time.
    ///
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub(super) fn describe(&self, cores: &PerCpu<CoreState>) -> Result<Description> {
        if let Some(known) = self.inner.lock().description {
            return Ok(known);
        }
        let (model, identification) = self.detect(cores)?;
        let description = Description {
            model,
            identification,
            free: model.counters(),
        };
        self.inner.lock().description = Some(description);
        Ok(description)
    }

    fn detect(&self, cores: &PerCpu<CoreState>) -> Result<(UnitModel, u32)> {
        match &self.place {
            Place::Memory(_) if self.about.kind == UnitKind::DMC_620 => Ok((UnitModel::Dmc620, 0)),
            Place::Memory(registers) => {
                let mut mapped = registers.map()?;
                let (mut page_0, _) = mapped.pages();
                let found = coresight::detect(&mut page_0);
                let identification = match found.identification {
                    0 => self.about.identification,
                    own => own,
                };
                Ok((UnitModel::CoreSight(found.model), identification))
            }
            Place::Cluster(core, access) => {
                let model = SpinLock::new(pmu::DsuModel::from_registers(0, [0; 2]));
                cores.run_on([*core].into_iter(), &|here, _| {
                    if let Some(mut registers) = access.registers(here) {
                        *model.lock() = dsu::detect(&mut registers);
                    }
                });
                let model = *model.lock();
                Ok((UnitModel::Dsu(model), 0))
            }
        }
    }

    /// Maps the registers, if they are in memory.
    ///
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    pub(super) fn map(&self) -> Result<Option<Mapped>> {
        match &self.place {
            Place::Memory(registers) => registers.map().map(Some),
            Place::Cluster(..) => Ok(None),
        }
    }

    /// Changes the mapping for another, or for none. The former one is given back to be unmapped.
    #[must_use = "unmapping is for the caller, without the lock"]
    pub(super) fn change_mapping(&self, mapped: Option<Mapped>) -> Option<Mapped> {
        core::mem::replace(&mut self.inner.lock().mapped, mapped)
    }

    /// Leaves out the counters that somebody outside the driver has running. Nothing of ours may run.
    pub(super) fn find_free(&self, cores: &PerCpu<CoreState>) {
        let busy = SpinLock::new(SlotSet::EMPTY);
        self.act(cores, &|_, pmu, _| *busy.lock() = pmu.busy());
        let busy = *busy.lock();
        if let Some(description) = &mut self.inner.lock().description {
            description.free = description.model.counters().without(busy);
        }
    }

    /// Acts on the run, where the registers are, and notes how long that took.
    pub(super) fn act(&self, cores: &PerCpu<CoreState>, action: Action<'_>) {
        match self.core() {
            None => self.act_here(None, action),
            Some(core) => cores.run_on([core].into_iter(), &|here, _| {
                self.act_here(Some(here), action);
            }),
        }
    }

    fn act_here(&self, here: Option<&CurrentCore>, action: Action<'_>) {
        let mut inner = self.inner.lock();
        let begin_ns = monotonic_ns();
        let Inner {
            description,
            mapped,
            before,
            core,
            times,
            ..
        } = &mut *inner;
        let model = description.map(|description| description.model);
        let pmu = match (model, &self.place) {
            (Some(UnitModel::Dsu(model)), Place::Cluster(_, access)) => here
                .and_then(|here| access.registers(here))
                .map(|registers| UnitPmu::Dsu(DsuPmu::new(model, registers, &mut before.dsu))),
            (Some(UnitModel::Dmc620), _) => mapped
                .as_mut()
                .map(|mapped| UnitPmu::Dmc620(Dmc620Pmu(mapped.pages().0))),
            (Some(UnitModel::CoreSight(model)), _) => mapped.as_mut().map(|mapped| {
                let (page_0, page_1) = mapped.pages();
                let before = &mut before.coresight;
                UnitPmu::CoreSight(CoreSightPmu::new(model, page_0, page_1, before))
            }),
            _ => None,
        };
        // Without registers nobody holds the unit: a tick that comes late.
        if let Some(mut pmu) = pmu {
            action(core, &mut pmu, begin_ns);
            times.add(monotonic_ns().saturating_sub(begin_ns));
        }
    }

    /// State of a unit that somebody holds.
    pub(super) fn state(&self) -> State {
        self.inner.lock().core.state()
    }

    /// Puts a schedule in; gives back the storage of the former one.
    #[must_use = "the storage must be freed where that is allowed"]
    pub(super) fn assign(
        &self,
        events: Events,
        schedule: Schedule,
        period_ms: u32,
    ) -> Option<Events> {
        let mut inner = self.inner.lock();
        inner.period_ms = period_ms;
        inner.core.assign(events, schedule)
    }

    /// Forgets what is assigned; gives its storage back.
    #[must_use = "the storage must be freed where that is allowed"]
    pub(super) fn clear(&self) -> Option<Events> {
        self.inner.lock().core.clear()
    }

    /// How often the unit must be looked at while it counts; `None` if never. Units: ms.
    pub(super) fn tick_period_ms(&self) -> Option<u32> {
        let inner = self.inner.lock();
        let model = inner.description?.model;
        inner
            .core
            .needs_ticks_with(|slot| model.bits(slot))
            .then_some(inner.period_ms)
    }

    /// How long it was looked at each time.
    pub(super) fn times(&self) -> Durations {
        self.inner.lock().times
    }

    /// Looks at the totals.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Core<Events>) -> Result<R>) -> Result<R> {
        look(&self.inner.lock().core)
    }
}

impl Tick for Unit {
    fn tick(&self, here: Option<&CurrentCore>) {
        self.act_here(here, &|core, pmu, now_ns| core.tick(pmu, now_ns));
    }
}
