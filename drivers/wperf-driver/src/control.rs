//! What changes who holds a core and what a core does: one call at a time, under one mutex.
//!
//! Every call checks the caller and the state of every core it names before it changes any.

use crate::core_state::{CoreState, Events, Hardware};
use crate::dispatch::refuse;
use crate::session::File;
use crate::tracing::{CONTROL, LIFE};
use crate::{TAG, WperfDriver};
use kernel::counters::{self, CounterReservation};
use kernel::irp::Buffer;
use kernel::pool::PoolBox;
use kernel::processor::CoreId;
use kernel::profile::ProfileHook;
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::{Result, debug, process, time};
use pmu::{
    BusyCore, Core, Holder, Ownership, Schedule, ScheduledEvent, Session, SessionId, schedule,
};
use trace::{cold, cold_scope};
use wperf_abi::record::{AcquireOutcome, AcquireReply, AssignReply, EventCount, ReadHeader};
use wperf_abi::request::{AcquireHow, Assignment};
use wperf_abi::{CoreSet, Ioctl, Refusal, State};
use zerocopy::IntoBytes;

/// Who holds what, and what the system lent for it.
pub(crate) struct Control {
    ownership: Ownership<PoolBox<[Option<Holder>]>>,
    /// There while, and only while, somebody holds a core.
    reservation: Option<CounterReservation>,
    /// There while, and only while, a core samples.
    hook: Option<ProfileHook<CoreState>>,
    is_detected: bool,
}

impl Control {
    pub(crate) const fn new(holders: PoolBox<[Option<Holder>]>) -> Self {
        Self {
            ownership: Ownership::new(holders),
            reservation: None,
            hook: None,
            is_detected: false,
        }
    }

    pub(crate) fn open(&mut self) -> Session {
        self.ownership.open()
    }

    pub(crate) fn holder(&self, core: CoreId) -> Option<Holder> {
        self.ownership.holder(core.0)
    }

    /// Bits of the general-purpose counters that are reserved at this moment; `None` while none need be.
    pub(crate) fn reserved(&self) -> Option<u64> {
        self.reservation.as_ref().map(CounterReservation::counters)
    }

    /// Looks at every processor, the first time somebody wants to know: not at load.
    pub(crate) fn detect(&mut self, driver: &WperfDriver) -> &Self {
        if !self.is_detected {
            let lent = if counters::are_lent() {
                Hardware::Lent
            } else {
                Hardware::NotLent
            };
            let all = driver.cores.iter().map(|(id, _)| id);
            driver
                .cores
                .run_on(all, &|here, core| core.detect(here, lent));
            self.is_detected = true;
        }
        self
    }

    /// Bits of the general-purpose counters that the system lends; asks for them if need be.
    fn reserve(&mut self, driver: &WperfDriver) -> u64 {
        if self.reservation.is_none() {
            let cores = driver.cores.iter();
            let most = cores
                .map(|(_, core)| core.describe().model.general_counters())
                .max();
            self.reservation = most
                .filter(|&count| count > 0)
                .and_then(CounterReservation::reserve);
        }
        self.reservation
            .as_ref()
            .map_or(0, CounterReservation::counters)
    }

    /// Gives the counters back to the system once nobody holds a core.
    fn return_if_idle(&mut self) {
        if self.ownership.is_idle() {
            self.reservation = None;
        }
    }

    /// Takes the interrupt of the counters, if it is not taken already.
    fn take_interrupt(&mut self, driver: &WperfDriver) -> Result<()> {
        if self.hook.is_none() {
            let hook = ProfileHook::install(driver.cores.clone());
            self.hook = Some(hook.map_err(|_| refuse(Refusal::NoInterrupt))?);
            cold!(Information, CONTROL, "took the profile interrupt");
        }
        Ok(())
    }

    /// Gives the interrupt of the counters back once no core samples.
    fn return_interrupt_if_unused(&mut self, driver: &WperfDriver) {
        let samples = |(_, core): (CoreId, &CoreState)| core.state() == State::Sampling;
        if self.hook.is_some() && !driver.cores.iter().any(samples) {
            self.hook = None;
            cold!(Information, CONTROL, "gave the profile interrupt back");
        }
    }

    /// Whether a session holds a core.
    pub(crate) fn is_held_by(&self, core: CoreId, session: SessionId) -> bool {
        self.holder(core)
            .is_some_and(|holder| holder.session == session)
    }

    /// Whether the caller may make this call for these cores.
    pub(crate) fn check(
        &self,
        driver: &WperfDriver,
        file: &File,
        ioctl: Ioctl,
        cores: CoreSet<'_>,
    ) -> Result<()> {
        file.with(|session| self.ownership.check(session, cores))?
            .map_err(refuse)?;
        cores
            .iter()
            .try_for_each(|core| check_state(ioctl, core_of(driver, core)?.state()))
    }
}

/// A core by its number. Requests are checked for that: it is there.
pub(crate) fn core_of(driver: &WperfDriver, core: u32) -> Result<&CoreState> {
    driver
        .cores
        .get(CoreId(core))
        .ok_or(STATUS_INVALID_PARAMETER)
}

pub(crate) fn check_state(ioctl: Ioctl, state: State) -> Result<()> {
    if ioctl.permits(state) {
        Ok(())
    } else {
        Err(refuse(Refusal::WrongState))
    }
}

/// Takes cores. A set that is busy is an answer with a status of its own.
pub(crate) fn acquire(
    driver: &WperfDriver,
    file: &File,
    cores: CoreSet<'_>,
    how: AcquireHow,
) -> Result<(AcquireReply, Result<()>)> {
    let mut control = driver.control.lock();
    let own = file.with(|session| session.id())?;
    let conflict = file.with(|session| control.ownership.conflict(session, cores))?;
    if let (Some(busy), AcquireHow::Normal) = (conflict, how) {
        cold!(Information, CONTROL, "busy", core: u32 = busy.core, holder: u32 = busy.holder.pid);
        return Ok((
            reply(AcquireOutcome::BUSY, Some(busy), 0),
            Err(refuse(Refusal::Busy)),
        ));
    }
    cold!(Information, CONTROL, "acquire", cores: usize = cores.len(), process: u32 = process::current_id());
    control.detect(driver);
    let reserved = control.reserve(driver);
    let is_new = |core: &u32| {
        control
            .ownership
            .holder(*core)
            .is_none_or(|holder| holder.session != own)
    };
    let new = cores.iter().filter(is_new);
    for core in new.clone() {
        driver.cores.stop_ticks(CoreId(core));
    }
    driver.cores.run_on(new.clone().map(CoreId), &|here, core| {
        core.take(here, reserved)
    });
    forget(driver, new);
    control.return_interrupt_if_unused(driver);
    let identity = (process::current_id(), time::system_time());
    let taken = file.with(|session| control.ownership.acquire(session, cores, how, identity))?;
    let taken = taken.map_err(|_| refuse(Refusal::Busy))?;
    if let Some(BusyCore { core, holder }) = taken {
        cold!(
            Warning, CONTROL, "taken over by force",
            core: u32 = core, by: u32 = identity.0, from: u32 = holder.pid,
        );
        let numbers = [identity.0, holder.pid, core].map(u64::from);
        debug::note(
            c"wperf: taken over by force: by process, from process, first core:",
            numbers,
        );
    }
    let free = cores.iter().flat_map(|core| core_of(driver, core));
    let free_min = free
        .map(|core| core.describe().free.general.count_ones())
        .min();
    let outcome = if taken.is_some() {
        AcquireOutcome::FORCED
    } else {
        AcquireOutcome::ACQUIRED
    };
    Ok((reply(outcome, taken, free_min.unwrap_or(0)), Ok(())))
}

pub(crate) fn reply(
    outcome: AcquireOutcome,
    other: Option<BusyCore>,
    counters_free_min: u32,
) -> AcquireReply {
    AcquireReply {
        outcome,
        core: other.map_or(0, |busy| busy.core),
        holder_pid: other.map_or(0, |busy| busy.holder.pid),
        counters_free_min,
        holder_session: other.map_or(0, |busy| busy.holder.session.get()),
        holder_since: other.map_or(0, |busy| busy.holder.since),
    }
}

/// Stops cores and forgets what was assigned to them.
fn stop_and_forget(driver: &WperfDriver, cores: impl Iterator<Item = u32> + Clone) {
    for core in cores.clone() {
        driver.cores.stop_ticks(CoreId(core));
    }
    driver
        .cores
        .run_on(cores.clone().map(CoreId), &|here, core| {
            core.stop(here);
        });
    forget(driver, cores);
}

/// Forgets what was assigned to cores that stand still.
fn forget(driver: &WperfDriver, cores: impl Iterator<Item = u32>) {
    for (id, core) in cores.flat_map(|core| core_of(driver, core).map(|state| (core, state))) {
        core.sampler.wake_stopped(CoreId(id));
        drop(core.clear());
    }
}

pub(crate) fn release(driver: &WperfDriver, file: &File, cores: CoreSet<'_>) -> Result<()> {
    let mut control = driver.control.lock();
    control.check(driver, file, Ioctl::Release, cores)?;
    cold!(Information, CONTROL, "release", cores: usize = cores.len());
    stop_and_forget(driver, cores.iter());
    control.return_interrupt_if_unused(driver);
    for core in cores.iter() {
        file.with(|session| control.ownership.release(session, core))?;
    }
    control.return_if_idle();
    Ok(())
}

/// The last handle of a session was closed: what it holds goes back.
pub(crate) fn cleanup(driver: &WperfDriver, file: &File) {
    cold_scope!(LIFE, process: u32 = process::current_id());
    let mut control = driver.control.lock();
    let Some(mut session) = file.close() else {
        return;
    };
    file.slot().fail();
    let held = driver.cores.iter().map(|(id, _)| id.0).filter(|&core| {
        control
            .ownership
            .holder(core)
            .is_some_and(|holder| holder.session == session.id())
    });
    if held.clone().next().is_some() {
        stop_and_forget(driver, held);
        control.return_interrupt_if_unused(driver);
    }
    for (id, _) in driver.cores.iter() {
        control.ownership.release(&mut session, id.0);
    }
    control.return_if_idle();
}

/// A schedule that is ready to be put in.
pub(crate) type Planned = Option<(Events, Schedule)>;

pub(crate) fn assign(
    driver: &WperfDriver,
    file: &File,
    assignment: Assignment<'_>,
) -> Result<AssignReply> {
    let Assignment {
        cores, period_ms, ..
    } = assignment;
    let control = driver.control.lock();
    control.check(driver, file, Ioctl::Assign, cores)?;
    let mut next = cores.iter();
    let mut plans = PoolBox::try_from_fn(TAG, cores.len(), |_| {
        let core = next.next().ok_or(STATUS_INVALID_PARAMETER)?;
        plan(core_of(driver, core)?, assignment).map(Some)
    })?;
    cold!(Information, CONTROL, "assign", cores: usize = cores.len(), period_ms: u32 = period_ms);
    // From here on nothing can fail.
    let windows = plans
        .iter()
        .flatten()
        .map(|(_, schedule)| schedule.windows)
        .max();
    for (core, plan) in cores.iter().zip(plans.iter_mut().map(Planned::take)) {
        if let (Ok(core), Some((events, schedule))) = (core_of(driver, core), plan) {
            drop(core.assign(events, schedule, period_ms));
        }
    }
    Ok(AssignReply {
        windows: windows.unwrap_or(1).into(),
        period_ms,
    })
}

fn plan(core: &CoreState, assignment: Assignment<'_>) -> Result<(Events, Schedule)> {
    let core = core.describe();
    let count = assignment.events().count();
    let mut events = PoolBox::try_from_fn(TAG, count, |_| Ok(ScheduledEvent::UNUSED))?;
    let plan = schedule(&core.model, core.free, assignment.events(), &mut events)
        .map_err(|error| refuse(error.into()))?;
    Ok((events, plan))
}

pub(crate) fn start(driver: &WperfDriver, file: &File, cores: CoreSet<'_>) -> Result<()> {
    let mut control = driver.control.lock();
    control.check(driver, file, Ioctl::Start, cores)?;
    let mut states = cores.iter().flat_map(|core| core_of(driver, core));
    if states.any(|core| core.state() == State::Armed) {
        control.take_interrupt(driver)?;
    }
    cold!(Information, CONTROL, "start", cores: usize = cores.len());
    driver
        .cores
        .run_on(cores.iter().map(CoreId), &|here, core| {
            core.start(here);
        });
    for core in cores.iter() {
        if let Some(period_ms) = core_of(driver, core)?.tick_period_ms() {
            driver.cores.start_ticks(CoreId(core), period_ms);
        }
    }
    control.return_interrupt_if_unused(driver);
    Ok(())
}

pub(crate) fn stop(driver: &WperfDriver, file: &File, cores: CoreSet<'_>) -> Result<()> {
    let mut control = driver.control.lock();
    control.check(driver, file, Ioctl::Stop, cores)?;
    cold!(Information, CONTROL, "stop", cores: usize = cores.len());
    for core in cores.iter() {
        driver.cores.stop_ticks(CoreId(core));
    }
    driver
        .cores
        .run_on(cores.iter().map(CoreId), &|here, core| {
            core.stop(here);
        });
    for core in cores.iter() {
        core_of(driver, core)?.sampler.wake_stopped(CoreId(core));
    }
    control.return_interrupt_if_unused(driver);
    Ok(())
}

pub(crate) fn reset(driver: &WperfDriver, file: &File, cores: CoreSet<'_>) -> Result<()> {
    let control = driver.control.lock();
    control.check(driver, file, Ioctl::Reset, cores)?;
    driver
        .cores
        .run_on(cores.iter().map(CoreId), &|here, core| {
            core.reset(here);
        });
    Ok(())
}

pub(crate) fn read(
    driver: &WperfDriver,
    file: &File,
    core: u32,
    buffer: &mut Buffer<'_>,
) -> Result<()> {
    let control = driver.control.lock();
    file.with(|session| control.ownership.check_core(session, core))?
        .map_err(refuse)?;
    let state = core_of(driver, core)?;
    check_state(Ioctl::Read, state.state())?;
    driver
        .cores
        .run_on([CoreId(core)].into_iter(), &|here, core| {
            core.act(here, |core, pmu, now_ns| core.harvest(pmu, now_ns));
        });
    let now = state.state();
    state.read(|run| push_totals(core, now, run, buffer))
}

/// The totals of a core or a unit, and of its events.
pub(crate) fn push_totals(
    number: u32,
    state: State,
    run: &Core<Events>,
    buffer: &mut Buffer<'_>,
) -> Result<()> {
    let (totals, counts) = run.totals().ok_or(refuse(Refusal::WrongState))?;
    buffer.check_room(size_of::<ReadHeader>() + counts.len() * size_of::<EventCount>())?;
    let header = ReadHeader {
        core: number,
        event_count: u32::try_from(counts.len()).unwrap_or(u32::MAX),
        generation: totals.generation,
        state: state as u32,
        windows: totals.windows.into(),
        enabled_ns: totals.enabled_ns,
        rotations: totals.rotations,
    };
    buffer.push(header.as_bytes())?;
    counts
        .into_iter()
        .try_for_each(|count| buffer.push(count.as_bytes()))
}
