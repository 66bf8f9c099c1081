//! `drydock worker`: runs cases for `drydock check`. Not for people.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use lab_check::worker::{Settings, serve};

use crate::dock_options::DeviceArguments;

/// What `drydock worker` takes; jobs come on standard input.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The driver.
    driver: PathBuf,
    /// Run it without confinement.
    #[arg(long)]
    unconfined: bool,
    #[command(flatten)]
    devices: DeviceArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings {
        driver: arguments.driver.clone(),
        confine: !arguments.unconfined,
        devices: arguments.devices.names().to_vec(),
    };
    let (jobs, out) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(&settings, jobs, out).context("the pipe to the check is gone")
}
