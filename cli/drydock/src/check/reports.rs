//! Reports in files.

use std::path::Path;

use anyhow::Context;
use lab_check::CheckReport;
use lab_check::report::{html, junit, sarif};

use super::Arguments;

/// Writes every report that was asked for.
pub(crate) fn write(arguments: &Arguments, report: &CheckReport) -> anyhow::Result<()> {
    if let Some(path) = &arguments.junit {
        save(path, &junit::to_xml(report)?)?;
    }
    if let Some(path) = &arguments.sarif {
        save(
            path,
            &serde_json::to_string_pretty(&sarif::to_sarif(report))?,
        )?;
    }
    if let Some(path) = &arguments.html {
        save(path, &html::to_html(report))?;
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
