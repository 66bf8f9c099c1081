//! What a check came to: one structure, from which every format is made.

pub mod html;
pub mod junit;
pub mod sarif;
pub mod text;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bench::Series;
use crate::case::Case;
use crate::found::Found;
use crate::interface::Interface;
use crate::sandbox::Confinement;

/// Version of the report's shape.
pub const VERSION: u32 = 1;

/// A driver file, by what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriverIdentity {
    /// File name.
    pub name: String,
    /// SHA-256 of the contents, in hexadecimal.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

impl DriverIdentity {
    /// Reads a file.
    ///
    /// Errors: the file system's answer.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let digest = Sha256::digest(&bytes);
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            size: bytes.len() as u64,
        })
    }
}

/// What a check came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckReport {
    /// Version of this shape.
    pub version: u32,
    /// What made it.
    pub tool: String,
    /// The driver.
    pub driver: DriverIdentity,
    /// In one word.
    pub verdict: Verdict,
    /// Why nothing could be checked.
    pub could_not_run: Option<String>,
    /// `quick`, `normal` or `stress`.
    pub effort: String,
    /// Seed of the check.
    pub seed: u64,
    /// Host time it took.
    pub seconds: f64,
    /// Cases that were run.
    pub cases: u64,
    /// Worker processes at once.
    pub workers: usize,
    /// Worker processes that died or went silent.
    pub workers_lost: u64,
    /// How workers were confined.
    pub confinement: Confinement,
    /// Why there are no function names, if there are none.
    pub no_symbols: Option<String>,
    /// What the driver offers.
    pub interface: Interface,
    /// What was done, in order.
    pub scenarios: Vec<ScenarioReport>,
    /// What was found: each once.
    pub findings: Vec<Reported>,
    /// Imports that the driver called and the lab lacks: cases end there, which is no fault of the driver.
    pub unsupported: Vec<String>,
    /// Habits that are worth mending, and what was not checked.
    pub warnings: Vec<String>,
    /// Samples for plots.
    pub series: Series,
}

/// What a check says of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was found, or nothing that came again.
    Clean,
    /// The driver breaks rules.
    Findings,
    /// The driver could not be run.
    CouldNotRun,
}

/// What a scenario came to.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Cases that were run.
    pub cases: u64,
    /// Cases for which there was no time.
    pub skipped: u64,
    /// Cases that could not be run.
    pub could_not_run: u64,
    /// Rounds or steps of them.
    pub steps: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests that the driver accepted.
    pub accepted: u64,
    /// Findings that it was the first to make.
    pub findings: u64,
    /// Worker time, in nanoseconds.
    pub ns: u64,
}

/// A finding in a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reported {
    /// What.
    pub found: Found,
    /// How often, over all cases.
    pub count: u64,
    /// The first case that found it.
    pub case: Case,
    /// Whether it came again.
    pub confirmation: Confirmation,
    /// File that replays it.
    pub replay: Option<PathBuf>,
}

/// Whether a finding came again when its case was run in a worker of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// It did.
    Confirmed,
    /// It did not.
    Unconfirmed,
    /// It did not, and need not: what its case does depends on the host's timing.
    Unrepeatable,
    /// Nobody tried.
    NotTried,
}

impl CheckReport {
    /// Whether a finding counts for the verdict.
    #[must_use]
    pub fn counts(&self, reported: &Reported) -> bool {
        self.effort == "stress" || reported.confirmation != Confirmation::Unconfirmed
    }

    /// Findings that count, and those that do not.
    #[must_use]
    pub fn sorted(&self) -> (Vec<&Reported>, Vec<&Reported>) {
        self.findings
            .iter()
            .partition(|reported| self.counts(reported))
    }

    /// Findings in groups, with what is to be said of the group: those that came again or were not tried, those that
    /// nobody can bring back at will, those that did not come again.
    #[must_use]
    pub fn groups(&self) -> [(&'static str, Vec<&Reported>); 3] {
        let (counting, unconfirmed) = self.sorted();
        let (seen, counting) = counting
            .into_iter()
            .partition(|reported| reported.confirmation == Confirmation::Unrepeatable);
        [
            ("", counting),
            (
                "Seen once, on several host threads; the same case may not show it again, the fault is there all the same",
                seen,
            ),
            (
                "Not confirmed: a second run of the same case did not show it",
                unconfirmed,
            ),
        ]
    }

    /// Cases that were not run for want of time.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.scenarios.iter().map(|scenario| scenario.skipped).sum()
    }
}
