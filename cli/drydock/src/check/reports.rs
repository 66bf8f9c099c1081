//! Reports in files.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::{Context, ensure};
use lab_check::CheckReport;
use lab_check::report::{html, junit, sarif};

use super::Arguments;

/// Finds out, before anything is run, whether what was asked for can be written.
pub(crate) fn try_paths(arguments: &Arguments) -> anyhow::Result<()> {
    let files = [&arguments.junit, &arguments.sarif, &arguments.html];
    files.into_iter().flatten().try_for_each(|path| {
        try_path(path).with_context(|| format!("cannot write {}", path.display()))
    })?;
    let folder = &arguments.replay_dir;
    ensure!(
        !folder.exists() || folder.is_dir(),
        "cannot write replay files to {}: it is no folder",
        folder.display()
    );
    Ok(())
}

/// Opens a file as if to write it, and leaves everything as it was.
fn try_path(path: &Path) -> std::io::Result<()> {
    let known = path.metadata().ok();
    // Whoever reads a pipe would take this for its end.
    if known
        .as_ref()
        .is_some_and(|known| !known.is_file() && !known.is_dir())
    {
        return Ok(());
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    if known.is_none() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

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
