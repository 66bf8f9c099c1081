//! `man`: describes one name.

use super::{World, catalog_of, list::event_list};
use crate::{
    catalog::{Catalog, Product},
    failure::{Failure, Result},
    options::Options,
    report::{
        output::Console,
        table::{Cell, Table},
    },
};
use serde_json::json;

/// Longest line in characters.
const WIDTH: usize = 81;
const INDENT: &str = "    ";

/// Runs `man`.
///
/// Errors: no name, an unknown CPU, an unknown name.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let Some(argument) = options.operands.first() else {
        return Err(Failure::usage(
            "warning: no argument(s) specified, specify an event, metric, or group of metrics: `wperf man NAME`",
        ));
    };
    let (product, name) = match argument.split_once('/') {
        Some((cpu, name)) => (Product::by_name(cpu)?, name),
        None => (world.product()?, argument.as_str()),
    };
    let catalog = catalog_of(options, &product)?;
    let fields = describe(&catalog, name).ok_or_else(|| {
        Failure::other(format!(
            "warning: \"{name}\" not found! Ensure it is compatible with the specified CPU ({})",
            product.name()
        ))
    })?;
    console.answer(&to_text(&fields))?;
    console.json(
        &json!({ "Manual_Results": to_table(&fields).to_json() }),
        options,
    )
}

type Field = (&'static str, String);

fn describe(catalog: &Catalog, name: &str) -> Option<Vec<Field>> {
    let cpu = ("CPU", catalog.product().name().to_owned());
    if let Some(event) = catalog.event(name) {
        let index = format!(
            "raw index {:#06x}, use as -e {} or -e r{:x}",
            event.code, event.name, event.code
        );
        return Some(vec![
            cpu,
            ("NAME", event.name.clone()),
            ("DESCRIPTION", index),
        ]);
    }
    if let Some(metric) = catalog.metric(name) {
        let events = event_list(metric);
        let mut fields = vec![
            cpu,
            ("NAME", metric.name.clone()),
            ("EVENTS", events.trim_matches(['{', '}']).replace(',', ", ")),
        ];
        if let Some(formula) = &metric.formula {
            fields.push(("FORMULA", formula.clone()));
            fields.push(("UNIT", metric.unit.clone()));
        }
        return Some(fields);
    }
    let group = catalog.group(name)?;
    Some(vec![
        cpu,
        ("NAME", group.name.clone()),
        ("METRICS", group.metrics.join(", ")),
    ])
}

fn to_table(fields: &[Field]) -> Table {
    let mut table = Table::new(&["Field Type", "Result"]);
    for (field, text) in fields {
        table.push(vec![Cell::text(*field), Cell::text(text)]);
    }
    table
}

fn to_text(fields: &[Field]) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(INDENT)
        .subsequent_indent(INDENT);
    fields
        .iter()
        .map(|(field, text)| format!("{field}\n{}\n", textwrap::fill(text, &options)))
        .collect()
}
