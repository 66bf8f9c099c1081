//! Confines a process for good, before it runs a driver: no files, no network, no other programs, bounded resources.
//!
//! Landlock and a filter of system calls each refuse files and network, so a
//! host that lacks one is still protected by the other; what is lacking is
//! said. The filter also knows where the host's own code is: a system call
//! from anywhere else is the driver's, and becomes a finding.

mod filter;
mod landlock;
mod limits;
mod text;

use serde::{Deserialize, Serialize};

/// How a process is confined.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether it is confined at all.
    pub confined: bool,
    /// Parts that the host does not have, in words.
    pub lacking: Vec<String>,
}

impl Confinement {
    /// None, because somebody wanted it so.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// What a reader of a report should know of it.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        if !self.confined {
            return vec!["the driver ran unconfined".to_owned()];
        }
        let lacking = self.lacking.iter();
        lacking.map(|part| format!("not confined by {part}")).collect()
    }
}

/// Confines this process for good.
#[must_use]
pub fn confine() -> Confinement {
    // While the kernel still tells.
    let own_code = text::ranges();
    // Read once, from where it can't be read later.
    let _ = rustix::param::page_size();
    let parts = [
        ("no_new_privs", limits::no_new_privileges()),
        ("resource limits", limits::set()),
        ("Landlock", landlock::restrict()),
        // Last: what the others need is not allowed any more.
        ("the filter of system calls", own_code.and_then(|code| filter::install(&code))),
    ];
    let lacking = parts.into_iter().filter_map(|(name, result)| {
        let why = result.err()?;
        Some(format!("{name}: {why}"))
    });
    Confinement {
        lacking: lacking.collect(),
        confined: true,
    }
}
