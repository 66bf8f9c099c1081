//! A case: everything that decides what a run of a scenario does.

use rand::Rng;
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
    /// Requests that it sends.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// Indices of the fallible kernel calls that fail, counted from the first of the case; at most two.
    #[serde(default)]
    pub fail: Vec<u64>,
    /// Point at which something interrupts, for scenarios that sweep over points.
    #[serde(default)]
    pub point: Option<u64>,
    /// What happens there.
    #[serde(default)]
    pub event: Option<Interruption>,
    /// Host threads that run the driver at the same time: with more than one, no run is exactly like another.
    #[serde(default = "one")]
    pub host_threads: u16,
    /// Whether pool blocks begin behind a guard page, instead of ending before one.
    #[serde(default)]
    pub guard_front: bool,
    /// Devices that the machine has, by their kinds, one as often as there are such devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

fn one() -> u16 {
    1
}

/// What happens before an instruction of a driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    /// Another processor serves a second request, to its end.
    Processors,
    /// Another thread of the same processor does.
    Threads,
    /// The request is cancelled on another processor.
    Cancel,
    /// The DPCs queued on the processor run.
    Dpcs,
    /// Time passes until the next timer is due.
    Timer,
    /// The profile interrupt comes.
    Profile,
    /// The interrupt of this vector comes.
    Interrupt(u32),
}

impl std::fmt::Display for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Processors => "a second request on another processor",
            Self::Threads => "a second request on the same processor",
            Self::Cancel => "cancelling",
            Self::Dpcs => "DPCs",
            Self::Timer => "the next timer",
            Self::Profile => "the profile interrupt",
            Self::Interrupt(vector) => return write!(f, "interrupt {vector:#x}"),
        })
    }
}

/// A control request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The control code.
    pub code: u32,
    /// Bytes of input.
    pub input: u32,
    /// Bytes of output.
    pub output: u32,
    /// What the input is made of.
    pub content: Content,
}

/// What an input is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Zeros.
    Zeros,
    /// 0xFF.
    Ones,
    /// The little-endian 32-bit number 1, and zeros: a plausible count, followed by what it counts.
    One,
    /// Little-endian 32-bit numbers from 1 on: plausible counts and indices.
    Small,
    /// Whatever the seed gives.
    Random,
}

impl Call {
    /// A request of typical lengths.
    #[must_use]
    pub fn typical(code: u32) -> Self {
        Self {
            code,
            input: 64,
            output: 64,
            content: Content::Zeros,
        }
    }

    /// Its input.
    #[must_use]
    pub fn bytes(&self, random: &mut impl Rng) -> Vec<u8> {
        let len = self.input as usize;
        match self.content {
            Content::Zeros => vec![0; len],
            Content::Ones => vec![0xFF; len],
            Content::One => [1]
                .into_iter()
                .chain(std::iter::repeat(0))
                .take(len)
                .collect(),
            Content::Small => (1u32..).flat_map(u32::to_le_bytes).take(len).collect(),
            Content::Random => {
                let mut bytes = vec![0; len];
                random.fill_bytes(&mut bytes);
                bytes
            }
        }
    }
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
    /// More or fewer host threads than one per processor.
    #[error("{threads} host threads for {cpus} processors")]
    HostThreads {
        /// How many are asked for.
        threads: u16,
        /// How many processors there are.
        cpus: u16,
    },
    /// There is no such device.
    #[error("there is no device `{0}`")]
    Device(String),
    /// It would end before it had done anything.
    #[error("it runs nothing: {0}")]
    Nothing(&'static str),
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

/// Most host threads of a case.
const MAX_HOST_THREADS: u16 = 64;
/// Most requests of a case.
const MAX_CALLS: usize = 4096;
/// Most bytes of a request's input or output.
const MAX_BYTES: u32 = 16 << 20;
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
            calls: Vec::new(),
            fail: Vec::new(),
            point: None,
            event: None,
            host_threads: 1,
            guard_front: false,
            devices: Vec::new(),
        }
    }

    /// Checks a case from outside.
    ///
    /// Errors: the first thing in it that can't be.
    pub fn validate(&self) -> Result<(), CaseError> {
        let Some(scenario) = crate::scenario::by_name(&self.scenario) else {
            return Err(CaseError::Scenario(self.scenario.clone()));
        };
        if !(1..=lab_ntos::MAX_CPUS).contains(&usize::from(self.cpus)) {
            return Err(CaseError::Cpus(self.cpus));
        }
        if !(1..=self.cpus.min(MAX_HOST_THREADS)).contains(&self.host_threads) {
            return Err(CaseError::HostThreads {
                threads: self.host_threads,
                cpus: self.cpus,
            });
        }
        let known = |name: &&String| lab_devices::platform::Kind::by_name(name).is_some();
        if let Some(unknown) = self.devices.iter().find(|name| !known(name)) {
            return Err(CaseError::Device(unknown.clone()));
        }
        if self.fail.len() > 2 {
            return Err(CaseError::Fail(self.fail.len()));
        }
        let lengths = self.calls.iter().map(|call| call.input.max(call.output));
        let longest = lengths.max().unwrap_or(0);
        let limits = [
            ("requests", self.calls.len(), MAX_CALLS),
            ("bytes of a request", longest as usize, MAX_BYTES as usize),
            ("rounds", self.iterations as usize, MAX_ITERATIONS as usize),
        ];
        for (what, number, most) in limits {
            if number > most {
                return Err(CaseError::TooMany { what, number, most });
            }
        }
        if self.iterations == 0 {
            return Err(CaseError::Nothing("no rounds"));
        }
        match scenario.lacks(self) {
            Some(what) => Err(CaseError::Nothing(what)),
            None => Ok(()),
        }
    }

    /// What tells this case from others of its scenario, in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        match self.calls.as_slice() {
            [] => {}
            [call] => words.push(format!("code {:#x}", call.code)),
            calls => words.push(format!("{} requests", calls.len())),
        }
        if self.start > 0 {
            words.push(format!("from step {}", self.start));
        }
        match self.fail.as_slice() {
            [] => {}
            [one] => words.push(format!("call {one} fails")),
            [one, two, ..] => words.push(format!("calls {one} and {two} fail")),
        }
        match (self.point, self.event) {
            (Some(point), Some(event)) => words.push(format!("{event} before instruction {point}")),
            (Some(point), None) => words.push(format!("at point {point}")),
            (None, _) => {}
        }
        if self.guard_front {
            words.push("guard pages in front".to_owned());
        }
        if !self.devices.is_empty() {
            words.push(self.devices.join(" and "));
        }
        if self.host_threads > 1 {
            words.push(format!("{} host threads", self.host_threads));
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
            calls: vec![Call::typical(0x22_2000)],
            fail: vec![3, 9],
            point: Some(4),
            event: Some(Interruption::Interrupt(0x51)),
            devices: vec!["dmc620".to_owned()],
            ..Case::of("load-unload")
        };
        let text = serde_json::to_string(&case).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Case>(&text).expect("as written"),
            case
        );
        assert_eq!(case.validate(), Ok(()));
    }

    #[test]
    fn what_no_machine_can_run_is_refused() {
        let good = Case::of("load-unload");
        let bad = [
            Case::of("no-such-thing"),
            Case {
                cpus: 0,
                ..good.clone()
            },
            Case {
                cpus: 2049,
                ..good.clone()
            },
            Case {
                devices: vec!["cspmu".to_owned(), "dmc-9000".to_owned()],
                ..good.clone()
            },
            Case {
                host_threads: 0,
                ..good.clone()
            },
            Case {
                cpus: 2,
                host_threads: 3,
                ..good.clone()
            },
            Case {
                fail: vec![1, 2, 3],
                ..good.clone()
            },
            Case {
                iterations: u32::MAX,
                ..good.clone()
            },
            Case {
                calls: vec![Call::typical(0); 5000],
                ..good.clone()
            },
            Case {
                calls: vec![Call {
                    input: u32::MAX,
                    ..Call::typical(0)
                }],
                ..good
            },
        ];
        let nothing = [
            Case {
                iterations: 0,
                ..Case::of("load-unload")
            },
            Case::of("ioctl-smoke"),
            Case {
                calls: vec![Call::typical(0)],
                start: 4000,
                ..Case::of("ioctl-smoke")
            },
            Case::of("cancel"),
            Case::of("unload-at-once"),
            Case::of("schedules"),
            Case::of("sweep"),
            Case {
                start: 1000,
                ..Case::of("plug-and-play")
            },
        ];
        for case in nothing {
            let answer = case.validate();
            assert!(
                matches!(answer, Err(CaseError::Nothing(_))),
                "{case:?}: {answer:?}"
            );
        }
        for case in bad {
            assert!(case.validate().is_err(), "{case:?}");
        }
    }
}
