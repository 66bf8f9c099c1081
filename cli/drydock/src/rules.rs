//! `drydock rules`: what is checked.

use std::io::Write;

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use lab_verifier::Rule;
use lab_verifier::rules::RULES;
use serde_json::json;

/// What `drydock rules` takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tell all about one rule.
    name: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let rules: Vec<&Rule> = RULES
        .iter()
        .filter(|rule| {
            arguments
                .name
                .as_deref()
                .is_none_or(|name| rule.name == name)
        })
        .collect();
    if rules.is_empty() {
        anyhow::bail!(
            "no rule is called `{}`; `drydock rules` lists them",
            arguments.name.as_deref().unwrap_or_default()
        );
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let rows: Vec<_> = rules.iter().map(|rule| as_json(rule)).collect();
        serde_json::to_writer_pretty(&mut out, &rows)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["rule", "stop code", "what is wrong", "what to do"]);
    for rule in rules {
        table.add_row([rule.name, &stop(rule), rule.meaning, rule.remedy]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn stop(rule: &Rule) -> String {
    match rule.subcode {
        Some(subcode) => format!("{:#X}/{subcode:#X}", rule.stop.0),
        None => format!("{:#X}", rule.stop.0),
    }
}

fn as_json(rule: &Rule) -> serde_json::Value {
    json!({
        "rule": rule.name,
        "stop_code": format!("{:#x}", rule.stop.0),
        "stop_name": rule.stop.name(),
        "subcode": rule.subcode.map(|subcode| format!("{subcode:#x}")),
        "meaning": rule.meaning,
        "remedy": rule.remedy,
    })
}
