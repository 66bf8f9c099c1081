//! `list`: what can be named.

use super::{World, catalog_of, extra_of};
use crate::{
    catalog::{self, Architecture, Catalog, Metric, Origin},
    failure::Result,
    grammar::extra::ExtraEvent,
    options::{Options, Verbosity},
    report::{
        output::Console,
        table::{Cell, Table},
    },
    uncore::{Unit, UnitMetric},
};
use serde_json::json;

/// Runs `list`.
///
/// Errors: the files of `-E` and `-C`.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let catalog = catalog_of(options, &world.product()?)?;
    let is_verbose = options.verbosity == Verbosity::Verbose;
    let mut events = event_table(&catalog);
    let units = world.units()?;
    add_unit_events(&mut events, &units, &extra_of(options)?);
    let mut metrics = metric_table(&catalog, is_verbose);
    add_unit_metrics(&mut metrics, &units, is_verbose);
    let groups = group_table(&catalog);
    let product = catalog.product().name();
    let title = format!("List of predefined events of {product}");
    console.answer(&section(&title, &events))?;
    console.answer(&section(
        "List of predefined metrics (to be used in -m)",
        &metrics,
    ))?;
    console.answer(&section(
        "List of predefined groups of metrics (to be used in -m)",
        &groups,
    ))?;
    let document = json!({
        "Predefined_Events": events.to_json(),
        "Predefined_Metrics": metrics.to_json(),
        "Predefined_Groups_of_Metrics": groups.to_json(),
    });
    console.json(&document, options)
}

fn section(title: &str, table: &Table) -> String {
    if table.is_empty() {
        return String::new();
    }
    format!("\n{title}:\n\n{}", table.to_text())
}

fn event_table(catalog: &Catalog) -> Table {
    let mut table = Table::new(&["Alias Name", "Raw Index", "Event Type"]);
    for event in catalog.events() {
        let kind = match (event.origin, catalog.product().architecture()) {
            (Origin::Extra, _) => "[core PMU event*]",
            (Origin::Host, _) => "[host event]",
            (_, Architecture::Software) => "[software PMU event]",
            (_, _) => "[core PMU event]",
        };
        table.push(vec![
            Cell::text(&event.name),
            Cell::text(format!("{:#06x}", event.code)),
            Cell::text(kind),
        ]);
    }
    table
}

/// The events of the classes that there are units of, as `-e` takes them.
fn add_unit_events(table: &mut Table, units: &[Unit], extra: &[ExtraEvent]) {
    let mut classes: Vec<_> = units.iter().flat_map(Unit::classes).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let word = class.word();
        let own = extra.iter().filter(|event| event.class == class);
        let own = own.map(|event| (event.code, event.name.as_str(), "*"));
        let known = catalog::uncore::events(class).map(|(code, name)| (code, name, ""));
        for (code, name, mark) in own.chain(known) {
            table.push(vec![
                Cell::text(format!("/{word}/{name}")),
                Cell::text(format!("{code:#06x}")),
                Cell::text(format!("[{word} PMU event{mark}]")),
            ]);
        }
    }
}

fn add_unit_metrics(table: &mut Table, units: &[Unit], is_verbose: bool) {
    for (_, name, class, events) in UnitMetric::ALL {
        if !units.iter().any(|unit| unit.classes().contains(&class)) {
            continue;
        }
        let events: Vec<String> = events
            .iter()
            .map(|event| format!("/{}/{event}", class.word()))
            .collect();
        let mut row = vec![
            Cell::text(name),
            Cell::text(format!("{{{}}}", events.join(","))),
        ];
        if is_verbose {
            row.extend([Cell::text(String::new()), Cell::text(String::new())]);
        }
        table.push(row);
    }
}

fn metric_table(catalog: &Catalog, is_verbose: bool) -> Table {
    let mut titles = vec!["Metric", "Events"];
    if is_verbose {
        titles.extend(["Formula", "Unit"]);
    }
    let mut table = Table::new(&titles);
    for metric in catalog.metrics() {
        let mut row = vec![Cell::text(&metric.name), Cell::text(event_list(metric))];
        if is_verbose {
            row.push(Cell::text(metric.formula.clone().unwrap_or_default()));
            row.push(Cell::text(&metric.unit));
        }
        table.push(row);
    }
    table
}

fn group_table(catalog: &Catalog) -> Table {
    let mut table = Table::new(&["Group", "Metrics"]);
    for group in catalog.groups() {
        table.push(vec![
            Cell::text(&group.name),
            Cell::text(group.metrics.join(",")),
        ]);
    }
    table
}

/// A metric's events as `-e` takes them.
pub(super) fn event_list(metric: &Metric) -> String {
    let names: Vec<String> = metric
        .events
        .iter()
        .map(|e| e.selector.to_string())
        .collect();
    format!("{{{}}}", names.join(","))
}
