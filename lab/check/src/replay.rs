//! Files that replay a finding.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::case::{Case, CaseError};
use crate::found::{Found, Spot};
use crate::report::{CheckReport, DriverIdentity};

/// Version of the files.
const VERSION: u32 = 1;
/// What they say they are.
const FORMAT: &str = "drydock-replay";
/// Bytes of a replay file, at most.
const MAX_BYTES: u64 = 1 << 20;

/// A replay file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// `drydock-replay`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// The driver it was found in.
    pub driver: DriverIdentity,
    /// What to run.
    pub case: Case,
    /// Rule that it breaks.
    pub rule: String,
    /// Where.
    pub place: String,
    /// The whole finding: what it is compared with.
    pub found: Found,
}

/// Why a file can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file system's answer.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Larger than such a file ever is.
    #[error("{} is no replay file: it has more than {MAX_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
    /// Not the JSON that it should be.
    #[error("{path} is no replay file", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// Something else, or of another version.
    #[error("{path} is `{format}` version {version}; this is for `{FORMAT}` version {VERSION}", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        format: String,
        /// Its version.
        version: u32,
    },
    /// A case that can't be run.
    #[error("{path}: the case can't be run", path = path.display())]
    Case {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CaseError,
    },
    /// For another driver.
    #[error(
        "{path} is for {} ({} bytes, SHA-256 {}), and the driver given is {} ({} bytes, SHA-256 {})",
        .recorded.name, .recorded.size, .recorded.sha256, .given.name, .given.size, .given.sha256,
        path = path.display()
    )]
    OtherDriver {
        /// The file.
        path: PathBuf,
        /// What it was recorded with.
        recorded: Box<DriverIdentity>,
        /// What was given.
        given: Box<DriverIdentity>,
    },
}

impl Replay {
    /// Reads a replay file for a driver.
    ///
    /// Errors: it can't be read, is none, asks for what can't be run, or is for a driver of another name
    /// and contents.
    pub fn read(path: &Path, driver: &DriverIdentity) -> Result<Self, ReplayError> {
        let failed = |source| ReplayError::Read {
            path: path.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ReplayError::TooLong(path.to_owned()));
        }
        let replay: Self =
            serde_json::from_slice(&bytes).map_err(|source| ReplayError::Malformed {
                path: path.to_owned(),
                source,
            })?;
        if replay.format != FORMAT || replay.version != VERSION {
            return Err(ReplayError::Version {
                path: path.to_owned(),
                format: replay.format,
                version: replay.version,
            });
        }
        replay.case.validate().map_err(|source| ReplayError::Case {
            path: path.to_owned(),
            source,
        })?;
        if replay.is_of_other_build(driver) && replay.driver.name != driver.name {
            return Err(ReplayError::OtherDriver {
                path: path.to_owned(),
                recorded: Box::new(replay.driver),
                given: Box::new(driver.clone()),
            });
        }
        Ok(replay)
    }

    /// Whether it was recorded with another file than this one.
    #[must_use]
    pub fn is_of_other_build(&self, driver: &DriverIdentity) -> bool {
        (&self.driver.sha256, self.driver.size) != (&driver.sha256, driver.size)
    }
}

/// Writes a replay file for each finding of a report into a folder, and notes it in the report.
///
/// Errors: the file system's answer.
pub fn write_all(report: &mut CheckReport, folder: &Path) -> std::io::Result<()> {
    if report.findings.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    let stem = Path::new(&report.driver.name).with_extension("");
    for (number, reported) in report.findings.iter_mut().enumerate() {
        let found = &reported.found;
        let replay = Replay {
            format: FORMAT.to_owned(),
            version: VERSION,
            driver: report.driver.clone(),
            case: reported.case.clone(),
            rule: found.rule.clone(),
            place: place(&found.at),
            found: found.clone(),
        };
        let name = format!("{}-{:03}-{}.json", stem.display(), number + 1, found.rule);
        let path = folder.join(name);
        let text = serde_json::to_vec_pretty(&replay)?;
        std::fs::write(&path, text)?;
        reported.replay = Some(path);
    }
    Ok(())
}

fn place(at: &Spot) -> String {
    if *at == Spot::default() {
        "nowhere in the driver".to_owned()
    } else {
        at.to_string()
    }
}
