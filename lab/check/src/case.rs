//! A case: everything that decides what a run of a scenario does.

use serde::{Deserialize, Serialize};

/// One run of one scenario, fully determined: the same case on the same driver does the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the scenario.
    pub scenario: String,
    /// Order in which processors run, and what random contents are made of; 0 = round robin.
    pub seed: u64,
    /// Virtual processors.
    pub cpus: u16,
    /// Rounds, or the step after which the case ends; what that is, is the scenario's affair.
    pub iterations: u32,
    /// First round or step.
    #[serde(default)]
    pub start: u32,
    /// Control codes that it sends.
    #[serde(default)]
    pub codes: Vec<u32>,
    /// Indices of the fallible kernel calls that fail, counted from the first of the case; at most two.
    #[serde(default)]
    pub fail: Vec<u64>,
    /// Point at which something interrupts, for scenarios that sweep over points.
    #[serde(default)]
    pub point: Option<u64>,
}

/// Why a case that somebody wrote can't be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// No such scenario.
    #[error("there is no scenario `{0}`")]
    Scenario(String),
    /// More or fewer processors than a machine can have.
    #[error("{0} processors: a machine has 1 to {max}", max = lab_ntos::MAX_CPUS)]
    Cpus(u16),
    /// More than two calls are to fail.
    #[error("{0} calls are to fail: at most two can")]
    Fail(usize),
    /// More of something than a case is allowed.
    #[error("{what}: {number}, more than {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        number: usize,
        /// How many are allowed.
        most: usize,
    },
}

/// Most control codes of a case.
const MAX_CODES: usize = 4096;
/// Most rounds of a case.
const MAX_ITERATIONS: u32 = 10_000_000;

impl Case {
    /// A case of a scenario with everything else as plain as can be.
    #[must_use]
    pub fn of(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            seed: 0,
            cpus: 2,
            iterations: 1,
            start: 0,
            codes: Vec::new(),
            fail: Vec::new(),
            point: None,
        }
    }

    /// Checks a case from outside.
    ///
    /// Errors: the first thing in it that can't be.
    pub fn validate(&self) -> Result<(), CaseError> {
        if crate::scenario::by_name(&self.scenario).is_none() {
            return Err(CaseError::Scenario(self.scenario.clone()));
        }
        if !(1..=lab_ntos::MAX_CPUS).contains(&usize::from(self.cpus)) {
            return Err(CaseError::Cpus(self.cpus));
        }
        if self.fail.len() > 2 {
            return Err(CaseError::Fail(self.fail.len()));
        }
        let limits = [
            ("control codes", self.codes.len(), MAX_CODES),
            (
                "rounds",
                self.iterations as usize,
                MAX_ITERATIONS as usize,
            ),
        ];
        for (what, number, most) in limits {
            if number > most {
                return Err(CaseError::TooMany { what, number, most });
            }
        }
        Ok(())
    }

    /// What tells this case from others of its scenario, in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        match self.codes.as_slice() {
            [] => {}
            [code] => words.push(format!("code {code:#x}")),
            codes => words.push(format!("{} codes", codes.len())),
        }
        if self.start > 0 {
            words.push(format!("from step {}", self.start));
        }
        match self.fail.as_slice() {
            [] => {}
            [one] => words.push(format!("call {one} fails")),
            [one, two, ..] => words.push(format!("calls {one} and {two} fail")),
        }
        if let Some(point) = self.point {
            words.push(format!("at point {point}"));
        }
        words.push(format!("seed {}, {} processors", self.seed, self.cpus));
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_survives_being_written_down() {
        let case = Case {
            codes: vec![0x22_2000],
            fail: vec![3, 9],
            point: Some(4),
            ..Case::of("load-unload")
        };
        let text = serde_json::to_string(&case).expect("plain data");
        assert_eq!(serde_json::from_str::<Case>(&text).expect("as written"), case);
        assert_eq!(case.validate(), Ok(()));
    }

    #[test]
    fn what_no_machine_can_run_is_refused() {
        let good = Case::of("load-unload");
        let bad = [
            Case::of("no-such-thing"),
            Case { cpus: 0, ..good.clone() },
            Case { cpus: 2049, ..good.clone() },
            Case { fail: vec![1, 2, 3], ..good.clone() },
            Case { iterations: u32::MAX, ..good.clone() },
            Case { codes: vec![0; 5000], ..good },
        ];
        for case in bad {
            assert!(case.validate().is_err(), "{case:?}");
        }
    }
}
