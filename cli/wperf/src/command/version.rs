//! `--version`: of this program, and of the driver if it is there.

use super::World;
use crate::{
    failure::{Failure, Result},
    machine::ascii,
    options::Options,
    report::{
        output::Console,
        table::{Cell, Table},
    },
};
use serde_json::json;
use wperf_abi::{ABI_MAJOR, record::Version};

/// What the program can do, as WindowsPerf writes it.
const FEATURES: &str = "+core";

/// Runs `--version`.
///
/// Errors: the driver keeps to another version of the contract; it is printed all the same.
pub fn run(options: &Options, console: &mut Console<'_>, world: &World<'_>) -> Result<()> {
    let mut table = Table::new(&["Component", "Version", "GitVer", "FeatureString"]);
    let version = env!("CARGO_PKG_VERSION");
    table.push(
        ["wperf", version, BUILD_ID, FEATURES]
            .map(Cell::text)
            .to_vec(),
    );
    let driver = match (world.open_running)()? {
        Some(mut opened) => Some(opened.client.query_version()?),
        None => None,
    };
    table.push(match &driver {
        Some(version) => driver_row(version),
        None => ["wperf-driver", "not loaded", "", ""]
            .map(Cell::text)
            .to_vec(),
    });
    console.answer(&table.to_text())?;
    console.json(&json!({ "Version": table.to_json() }), options)?;
    match driver {
        Some(version) if version.abi_major != ABI_MAJOR => Err(Failure::other(format!(
            "wperf-driver keeps to version {} of the contract, this program to {ABI_MAJOR}",
            version.abi_major
        ))),
        _ => Ok(()),
    }
}

fn driver_row(version: &Version) -> Vec<Cell> {
    let number = format!(
        "{}.{}.{}",
        version.driver_major, version.driver_minor, version.driver_patch
    );
    vec![
        Cell::text("wperf-driver"),
        Cell::text(number),
        Cell::text(ascii(&version.build)),
        Cell::text(format!("abi {}.{}", version.abi_major, version.abi_minor)),
    ]
}

/// The commit this was built from.
const BUILD_ID: &str = env!("WPERF_BUILD_ID");

/// The lines printed without a command.
#[must_use]
pub fn banner() -> String {
    let profile = if cfg!(debug_assertions) {
        "Debug"
    } else {
        "Release"
    };
    format!(
        "WindowsPerf ver. {} ({}/{profile}{FEATURES}) WOA profiling with performance counters.\nReport bugs to: {}/issues\nUse --help for help.\n",
        env!("CARGO_PKG_VERSION"),
        BUILD_ID,
        env!("CARGO_PKG_REPOSITORY"),
    )
}
