//! Benchmarks: criterion runs them, this prints a line per figure.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use crate::build::{self, Processor, cargo};

/// What `cargo xtask bench` takes.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only figures whose names contain this.
    name: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A published figure a line: its unit, the one of the same run that it is compared with, and what that is.
const FIGURES: &str = include_str!("../../tests/benches/figures.txt");

fn figures() -> impl Iterator<Item = [&'static str; 4]> {
    FIGURES.lines().filter_map(|line| {
        let mut parts = line.splitn(4, ' ');
        Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
    })
}

/// Runs the benchmarks and prints their medians.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    build::drivers(&[Processor::X64])?;
    let part = arguments.name.as_deref().unwrap_or_default();
    let wanted: Vec<_> = figures().filter(|[name, ..]| name.contains(part)).collect();
    anyhow::ensure!(
        !wanted.is_empty(),
        "no figure is called so; there are {}",
        figures()
            .map(|[name, ..]| name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    let pattern = wanted
        .iter()
        .map(|[name, _, reference, _]| format!("^({name}|{reference})$"))
        .collect::<Vec<_>>()
        .join("|");
    let mut bench = cargo(&[
        "bench",
        "--quiet",
        "--package",
        "e2e",
        "--bench",
        "lab",
        "--",
        "--noplot",
        &pattern,
    ]);
    if arguments.json {
        bench.stdout(std::process::Stdio::null());
    }
    build::run(&mut bench)?;
    let results = build::target_folder().join("criterion");
    let mut rows = Vec::new();
    for [name, unit, reference, what] in wanted {
        let (time, other) = (median_ns(&results, name)?, median_ns(&results, reference)?);
        let median = if unit == "ns" { time } else { 1e9 / time };
        rows.push(json!({
            "name": name, "median": median, "unit": unit, "reference": what,
            "reference_median": other, "ratio": time / other,
        }));
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    println!(
        "\n{:<20} {:>12} {:<8}   ratio to its reference in the same run",
        "figure", "median", "unit"
    );
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<20} {:>12.2} {:<8}   {:.3} × {} ({:.2} ns)",
            row["name"].as_str().unwrap_or_default(),
            number("median"),
            row["unit"].as_str().unwrap_or_default(),
            number("ratio"),
            row["reference"].as_str().unwrap_or_default(),
            number("reference_median"),
        );
    }
    Ok(())
}

/// Median of a figure in nanoseconds, as criterion keeps it.
fn median_ns(results: &Path, name: &str) -> anyhow::Result<f64> {
    let file = results.join(name).join("new/estimates.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("no result at {}", file.display()))?;
    let estimates: Value = serde_json::from_str(&text)?;
    estimates["median"]["point_estimate"]
        .as_f64()
        .with_context(|| format!("no median in {}", file.display()))
}
