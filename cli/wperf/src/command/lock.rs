//! `lock` and `status`: holding the PMU, and seeing who does.

use super::{World, cores_of};
use crate::{
    failure::Result,
    machine::Machine,
    options::Options,
    ownership::{cores_text, process_text, ranges, since_text},
    process,
    report::{
        output::Console,
        table::{Cell, Table},
    },
    session::{Driver, Session, Take},
    uncore,
    wait::wait,
};
use jiff::tz::TimeZone;
use serde_json::json;
use std::time::Instant;
use wperf_abi::record::{CoreOwnership, Holding};

/// Runs `lock`: holds the cores until Ctrl-C or the timeout.
///
/// Errors: the cores are another's, or are taken away.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let mut opened = world.open(options)?;
    let driver = &mut opened.client;
    let cores = cores_of(options, &Machine::query(driver)?)?;
    let take = if options.force {
        Take::Forced
    } else {
        Take::Free
    };
    let mut session = Session::acquire(driver, &cores, take)?;
    let until = match options.timeout {
        Some(time) => format!("for {} s", time.as_secs_f64()),
        None => "until Ctrl-C".to_owned(),
    };
    console.progress(&format!("{} acquired, held {until}", cores_text(&cores)))?;
    wait(
        &world.interrupts,
        Instant::now(),
        options.timeout,
        None,
        |_| session.check_still_ours(),
    )?;
    drop(session);
    console.progress(&format!("{} released", cores_text(&cores)))
}

/// Runs `status`: prints who holds which cores and units.
///
/// Errors: the driver's.
pub fn status(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let mut opened = world.open(options)?;
    let driver = &mut opened.client;
    let cores = cores_of(options, &Machine::query(driver)?)?;
    let mut records = driver.query_ownership()?;
    records.retain(|record| cores.contains(&record.core));
    let mut table = status_table(&records, process::name, &TimeZone::system());
    add_units(&mut table, driver)?;
    console.answer(&table.to_text())?;
    console.json(&json!({ "Ownership": table.to_json() }), options)
}

/// One row per uncore unit.
fn add_units(table: &mut Table, driver: &mut Driver) -> Result<()> {
    let units = uncore::query(driver)?;
    if units.is_empty() {
        return Ok(());
    }
    let records = driver.query_unit_ownership()?;
    for (unit, record) in units.iter().zip(&records) {
        table.push(status_row(
            &unit.name,
            record,
            process::name,
            &TimeZone::system(),
        ));
    }
    Ok(())
}

fn status_row(
    what: &str,
    record: &CoreOwnership,
    name_of: impl Fn(u32) -> Option<String>,
    zone: &TimeZone,
) -> Vec<Cell> {
    let mut row = vec![Cell::text(what), Cell::text(state_text(record.holding))];
    if record.holding != Holding::IDLE {
        let name = name_of(record.pid);
        row.push(Cell::text(process_text(record.pid, name.as_deref())));
        row.push(Cell::text(since_text(record.since, zone)));
    }
    row
}

/// One row per run of neighbouring cores in the same hands.
fn status_table(
    records: &[CoreOwnership],
    name_of: impl Fn(u32) -> Option<String>,
    zone: &TimeZone,
) -> Table {
    let mut table = Table::new(&["cores", "state", "holder", "since"]);
    let same =
        |a: &CoreOwnership, b: &CoreOwnership| (a.holding, a.session) == (b.holding, b.session);
    for run in records.chunk_by(same) {
        let cores: Vec<u32> = run.iter().map(|record| record.core).collect();
        table.push(status_row(&ranges(&cores), &run[0], &name_of, zone));
    }
    table
}

fn state_text(holding: Holding) -> String {
    match holding {
        Holding::IDLE => "idle".to_owned(),
        Holding::YOURS => "acquired by you".to_owned(),
        Holding::BUSY => "busy".to_owned(),
        Holding(other) => format!("unknown ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::SINCE;

    #[test]
    fn the_status_says_idle_yours_and_busy_by_whom_since_when() {
        let record = |core, holding, pid, session| CoreOwnership {
            core,
            holding,
            pid,
            state: 1,
            session,
            since: SINCE,
        };
        let records = [
            record(0, Holding::BUSY, 42, 7),
            record(1, Holding::BUSY, 42, 7),
            record(2, Holding::IDLE, 0, 0),
            record(3, Holding::YOURS, 9, 8),
            record(4, Holding::BUSY, 43, 9),
        ];
        let name = |pid| (pid == 42).then(|| "wperf".to_owned());
        let table = status_table(&records, name, &TimeZone::UTC);
        insta::assert_snapshot!(table.to_text(), @r"
              cores  state            holder              since
              =====  =====            ======              =====
              0-1    busy             process 42 (wperf)  2026-03-01 12:00:00 UTC
              2      idle
              3      acquired by you  process 9           2026-03-01 12:00:00 UTC
              4      busy             process 43          2026-03-01 12:00:00 UTC
        ");
    }
}
