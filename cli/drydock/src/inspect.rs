//! `drydock inspect`: what a driver file is, what it needs, and what of that the lab lacks.

mod report;
mod text;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use lab_image::{Analysis, Image, Symbols};

use crate::provided::Provided;
use report::Report;

/// Arguments of `drydock inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The driver file (.sys).
    driver: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Reads the file and prints the report.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.driver;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = Image::parse(&bytes).with_context(|| path.display().to_string())?;
    let analysis = Analysis::for_report(&image);
    let symbols = Symbols::beside(&image, path);
    let report = Report::new(path, &image, &analysis, &symbols, &Provided::by_the_lab());
    let output = if arguments.json {
        serde_json::to_string_pretty(&report)?
    } else {
        text::render(&report)
    };
    writeln!(std::io::stdout().lock(), "{}", output.trim_end())?;
    Ok(())
}
