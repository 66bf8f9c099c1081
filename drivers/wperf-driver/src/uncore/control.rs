//! What changes who holds a unit and what a unit does: one call at a time, under one mutex.
//!
//! Every call checks the caller and the state of every unit it names before it changes any.

use super::Units;
use super::unit::Unit;
use crate::control::{Planned, check_state, push_totals, reply};
use crate::core_state::Events;
use crate::dispatch::refuse;
use crate::session::File;
use crate::tracing::CONTROL;
use crate::{Result, TAG, WperfDriver};
use kernel::irp::Buffer;
use kernel::pool::{PoolBox, PoolVec};
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::ticker::Ticker;
use kernel::{debug, process, time};
use pmu::{BusyCore, Holder, Ownership, Schedule, ScheduledEvent};
use trace::cold;
use wperf_abi::record::{AcquireOutcome, AcquireReply, AssignReply};
use wperf_abi::request::{AcquireHow, Assignment};
use wperf_abi::{CoreSet, Ioctl, Refusal};

/// Who holds what.
pub(super) struct UnitControl {
    ownership: Ownership<PoolBox<[Option<Holder>]>>,
}

impl UnitControl {
    pub(super) const fn new(holders: PoolBox<[Option<Holder>]>) -> Self {
        Self {
            ownership: Ownership::new(holders),
        }
    }

    pub(super) fn holder(&self, unit: u32) -> Option<Holder> {
        self.ownership.holder(unit)
    }

    /// Whether the caller may make this call for these units.
    fn check(&self, units: &Units, file: &File, ioctl: Ioctl, set: CoreSet<'_>) -> Result<()> {
        file.with_units(|session| self.ownership.check(session, set))?
            .map_err(refuse)?;
        set.iter()
            .try_for_each(|unit| check_state(ioctl, units.get(unit)?.value().state()))
    }
}

/// Takes units. A set that is busy is an answer with a status of its own.
pub(crate) fn acquire(
    driver: &WperfDriver,
    file: &File,
    set: CoreSet<'_>,
    how: AcquireHow,
) -> Result<(AcquireReply, Result<()>)> {
    let units = &driver.units;
    let mut control = units.control.lock();
    let own = file.with_units(|session| session.id())?;
    let conflict = file.with_units(|session| control.ownership.conflict(session, set))?;
    if let (Some(busy), AcquireHow::Normal) = (conflict, how) {
        cold!(Information, CONTROL, "unit busy", unit: u32 = busy.core, holder: u32 = busy.holder.pid);
        let busy = reply(AcquireOutcome::BUSY, Some(busy), 0);
        return Ok((busy, Err(refuse(Refusal::Busy))));
    }
    let is_new = |unit: &u32| {
        let holder = control.ownership.holder(*unit);
        holder.is_none_or(|holder| holder.session != own)
    };
    // All that may fail comes first: what is mapped goes again if the next can't be.
    let mut taken = PoolVec::try_with_capacity(TAG, set.len())?;
    for unit in set.iter().filter(is_new) {
        let ticker = units.get(unit)?;
        ticker.value().describe(&driver.cores)?;
        taken.try_push((ticker, ticker.value().map()?))?;
    }
    cold!(Information, CONTROL, "acquire units", units: usize = set.len(), process: u32 = process::current_id());
    for (ticker, mapped) in taken.iter_mut() {
        stop_and_forget(driver, ticker);
        drop(ticker.value().change_mapping(mapped.take()));
        ticker.value().find_free(&driver.cores);
    }
    let identity = (process::current_id(), time::system_time());
    let taken =
        file.with_units(|session| control.ownership.acquire(session, set, how, identity))?;
    let taken = taken.map_err(|_| refuse(Refusal::Busy))?;
    let outcome = match taken {
        Some(from) => {
            note_take_over(identity.0, from);
            AcquireOutcome::FORCED
        }
        None => AcquireOutcome::ACQUIRED,
    };
    let free = set.iter().flat_map(|unit| units.get(unit));
    let free = free.flat_map(|ticker| ticker.value().describe(&driver.cores));
    let free_min = free.map(|unit| unit.free.general.count_ones()).min();
    Ok((reply(outcome, taken, free_min.unwrap_or(0)), Ok(())))
}

fn note_take_over(by: u32, BusyCore { core, holder }: BusyCore) {
    cold!(
        Warning, CONTROL, "unit taken over by force",
        unit: u32 = core, by: u32 = by, from: u32 = holder.pid,
    );
    let numbers = [by, holder.pid, core].map(u64::from);
    debug::note(
        c"wperf: unit taken over by force: by process, from process, first unit:",
        numbers,
    );
}

/// Stops a unit and forgets what was assigned to it.
fn stop_and_forget(driver: &WperfDriver, ticker: &Ticker<Unit>) {
    ticker.stop();
    let unit = ticker.value();
    unit.act(&driver.cores, &|core, pmu, now_ns| core.stop(pmu, now_ns));
    drop(unit.clear());
}

/// The same, and nobody holds it any more.
fn give_back(driver: &WperfDriver, ticker: &Ticker<Unit>) {
    stop_and_forget(driver, ticker);
    drop(ticker.value().change_mapping(None));
}

pub(crate) fn release(driver: &WperfDriver, file: &File, set: CoreSet<'_>) -> Result<()> {
    let units = &driver.units;
    let mut control = units.control.lock();
    control.check(units, file, Ioctl::ReleaseUnits, set)?;
    cold!(Information, CONTROL, "release units", units: usize = set.len());
    for unit in set.iter() {
        give_back(driver, units.get(unit)?);
        file.with_units(|session| control.ownership.release(session, unit))?;
    }
    Ok(())
}

/// The last handle of a session was closed: the units it holds go back.
pub(crate) fn cleanup(driver: &WperfDriver, file: &File) {
    let units = &driver.units;
    let mut control = units.control.lock();
    let Some(mut session) = file.close_units() else {
        return;
    };
    for (number, ticker) in units.iter() {
        if control.ownership.release(&mut session, number) {
            give_back(driver, ticker);
        }
    }
}

pub(crate) fn assign(
    driver: &WperfDriver,
    file: &File,
    assignment: Assignment<'_>,
) -> Result<AssignReply> {
    let units = &driver.units;
    let control = units.control.lock();
    let set = assignment.cores;
    control.check(units, file, Ioctl::AssignUnits, set)?;
    let mut next = set.iter();
    let mut plans = PoolBox::try_from_fn(TAG, set.len(), |_| {
        let unit = next.next().ok_or(STATUS_INVALID_PARAMETER)?;
        plan(driver, units.get(unit)?.value(), assignment).map(Some)
    })?;
    cold!(Information, CONTROL, "assign units", units: usize = set.len());
    // From here on nothing can fail.
    for (unit, plan) in set.iter().zip(plans.iter_mut().map(Planned::take)) {
        if let (Ok(ticker), Some((events, schedule))) = (units.get(unit), plan) {
            let unit = ticker.value();
            drop(unit.assign(events, schedule, assignment.period_ms));
        }
    }
    Ok(AssignReply {
        windows: 1,
        period_ms: assignment.period_ms,
    })
}

fn plan(
    driver: &WperfDriver,
    unit: &Unit,
    assignment: Assignment<'_>,
) -> Result<(Events, Schedule)> {
    let unit = unit.describe(&driver.cores)?;
    let count = assignment.events().count();
    let mut events = PoolBox::try_from_fn(TAG, count, |_| Ok(ScheduledEvent::UNUSED))?;
    let schedule = unit
        .model
        .place(unit.free, assignment.events(), &mut events)
        .map_err(|error| refuse(error.into()))?;
    Ok((events, schedule))
}

pub(crate) fn start(driver: &WperfDriver, file: &File, set: CoreSet<'_>) -> Result<()> {
    let units = &driver.units;
    let control = units.control.lock();
    control.check(units, file, Ioctl::StartUnits, set)?;
    cold!(Information, CONTROL, "start units", units: usize = set.len());
    for ticker in set.iter().flat_map(|unit| units.get(unit)) {
        let unit = ticker.value();
        unit.act(&driver.cores, &|core, pmu, now_ns| core.start(pmu, now_ns));
        if let Some(period_ms) = unit.tick_period_ms() {
            ticker.start(period_ms);
        }
    }
    Ok(())
}

pub(crate) fn stop(driver: &WperfDriver, file: &File, set: CoreSet<'_>) -> Result<()> {
    let units = &driver.units;
    let control = units.control.lock();
    control.check(units, file, Ioctl::StopUnits, set)?;
    cold!(Information, CONTROL, "stop units", units: usize = set.len());
    for ticker in set.iter().flat_map(|unit| units.get(unit)) {
        ticker.stop();
        let unit = ticker.value();
        unit.act(&driver.cores, &|core, pmu, now_ns| core.stop(pmu, now_ns));
    }
    Ok(())
}

pub(crate) fn reset(driver: &WperfDriver, file: &File, set: CoreSet<'_>) -> Result<()> {
    let units = &driver.units;
    let control = units.control.lock();
    control.check(units, file, Ioctl::ResetUnits, set)?;
    for ticker in set.iter().flat_map(|unit| units.get(unit)) {
        let unit = ticker.value();
        unit.act(&driver.cores, &|core, pmu, now_ns| core.reset(pmu, now_ns));
    }
    Ok(())
}

pub(crate) fn read(
    driver: &WperfDriver,
    file: &File,
    number: u32,
    buffer: &mut Buffer<'_>,
) -> Result<()> {
    let units = &driver.units;
    let control = units.control.lock();
    file.with_units(|session| control.ownership.check_core(session, number))?
        .map_err(refuse)?;
    let unit = units.get(number)?.value();
    check_state(Ioctl::ReadUnit, unit.state())?;
    unit.act(&driver.cores, &|core, pmu, now_ns| {
        core.harvest(pmu, now_ns);
    });
    let state = unit.state();
    unit.read(|run| push_totals(number, state, run, buffer))
}
