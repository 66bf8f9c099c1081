//! Confines a worker before it runs a driver: placeholder until the parts are in.

use serde::{Deserialize, Serialize};

/// How a process is confined.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether it is confined at all.
    pub confined: bool,
    /// Parts that the host's kernel does not have, in words.
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
            return vec!["workers were not confined".to_owned()];
        }
        let lacking = self.lacking.iter();
        lacking.map(|part| format!("not confined by {part}")).collect()
    }
}

/// Confines this process for good.
#[must_use]
pub fn confine() -> Confinement {
    Confinement::off()
}
