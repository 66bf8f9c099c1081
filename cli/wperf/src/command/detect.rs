//! `detect`: where the driver is.

use super::World;
use crate::{
    failure::Result,
    machine::{Machine, pmu_text},
    options::Options,
    report::{
        output::Console,
        table::{Cell, Table},
    },
    uncore,
};
use serde_json::json;
use wperf_abi::CLIENT_PATH;

/// Runs `detect`.
///
/// Errors: the driver's.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let mut opened = world.open(options)?;
    let machine = Machine::query(&mut opened.client)?;
    let mut kinds: Vec<String> = machine
        .cores
        .iter()
        .map(|core| pmu_text(core.pmu))
        .collect();
    kinds.sort();
    kinds.dedup();
    let mut table = Table::new(&["Device Instance ID", "Hardware IDs"]);
    let place = opened.host.describe().map(|about| format!(" ({about})"));
    table.push(vec![
        Cell::text(format!("{CLIENT_PATH}{}", place.unwrap_or_default())),
        Cell::text(format!(
            "{} cores, PMU {}",
            machine.core_count(),
            kinds.join(", ")
        )),
    ]);
    for unit in uncore::query(&mut opened.client)? {
        table.push(vec![Cell::text(&unit.name), Cell::text(unit.describe())]);
    }
    console.answer(&table.to_text())?;
    console.json(&json!({ "Devices": table.to_json() }), options)
}
