//! A finding as it travels from a worker to the report.

use std::fmt;

use lab_verifier::rules::RULES;
use lab_verifier::{Finding, Frame, Leak, Rule};
use serde::{Deserialize, Serialize};

/// Frames that make one finding the same as another.
const KEY_FRAMES: usize = 3;

/// A broken rule, or something left behind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The rule's name.
    pub rule: String,
    /// Windows' stop code.
    pub stop_code: u32,
    /// The stop code's name, if it has one.
    pub stop_name: Option<String>,
    /// The four parameters of the stop.
    pub parameters: [u64; 4],
    /// What happened, in one sentence.
    pub what: String,
    /// Where.
    pub at: Spot,
    /// Driver frames, innermost first.
    pub stack: Vec<Spot>,
    /// Everything the machine had to say, as it prints it.
    pub text: String,
    /// How often it happened in its case.
    pub count: u64,
}

/// A place in driver code.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Spot {
    /// The image.
    pub module: Option<String>,
    /// Offset in it, or the address where there is no image.
    pub rva: u64,
    /// Function, with those it is inlined in.
    pub function: Option<String>,
    /// Bytes from the function's start.
    pub offset: Option<u64>,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// What makes two findings the same: the rule, and the innermost frames in the driver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(String);

impl Found {
    /// A finding of the check itself, which no machine reported.
    #[must_use]
    pub fn by_check(rule: &'static Rule, parameters: [u64; 4], what: String, at: Spot) -> Self {
        let mut found = Self {
            rule: rule.name.to_owned(),
            stop_code: rule.stop.0,
            stop_name: rule.stop.name().map(str::to_owned),
            parameters,
            what,
            at,
            stack: Vec::new(),
            text: String::new(),
            count: 1,
        };
        found.text = found.headline();
        found
    }

    /// One line: stop code and what happened.
    #[must_use]
    pub fn headline(&self) -> String {
        let name = self.stop_name.as_deref().unwrap_or("(unknown)");
        format!("STOP {:#010X} {name}: {}", self.stop_code, self.what)
    }

    /// The rule's entry in the table, if this lab still has it.
    #[must_use]
    pub fn rule_entry(&self) -> Option<&'static Rule> {
        RULES.iter().find(|rule| rule.name == self.rule)
    }

    /// What makes it the same as another one.
    #[must_use]
    pub fn key(&self) -> Key {
        let in_driver = self.stack.iter().filter(|spot| spot.module.is_some());
        let mut places: Vec<String> = in_driver.take(KEY_FRAMES).map(Spot::short).collect();
        if places.is_empty() && self.at.module.is_some() {
            places.push(self.at.short());
        }
        if places.is_empty() {
            // Nowhere in the driver: what is said has to do, without the numbers that differ from run to run.
            let words = self.what.split(|c: char| !c.is_alphabetic());
            places.extend(words.filter(|word| word.len() > 2).map(str::to_owned));
        }
        Key(format!("{} {}", self.rule, places.join(" ")))
    }
}

impl Spot {
    fn short(&self) -> String {
        format!("{}+{:#x}", self.module.as_deref().unwrap_or("?"), self.rva)
    }
}

impl From<&Frame> for Spot {
    fn from(frame: &Frame) -> Self {
        Self {
            module: frame.module.clone(),
            rva: frame.rva,
            function: frame.function.clone(),
            offset: frame.offset,
            file: frame.file.clone(),
            line: frame.line,
        }
    }
}

impl From<&Spot> for Frame {
    fn from(spot: &Spot) -> Self {
        Self {
            module: spot.module.clone(),
            rva: spot.rva,
            function: spot.function.clone(),
            offset: spot.offset,
            file: spot.file.clone(),
            line: spot.line,
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Frame::from(self).fmt(f)
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            rule: finding.rule.to_owned(),
            stop_code: finding.stop_code.0,
            stop_name: finding.stop_name.map(str::to_owned),
            parameters: finding.parameters,
            what: finding.what.clone(),
            at: Spot::from(&finding.at),
            stack: finding.stack.iter().map(Spot::from).collect(),
            text: finding.to_string(),
            count: finding.count,
        }
    }
}

impl From<&Leak> for Found {
    fn from(leak: &Leak) -> Self {
        let rule = RULES.iter().find(|rule| rule.name == leak.rule);
        Self {
            rule: leak.rule.to_owned(),
            stop_code: rule.map_or(0, |rule| rule.stop.0),
            stop_name: rule.and_then(|rule| rule.stop.name()).map(str::to_owned),
            parameters: [rule.and_then(|rule| rule.subcode).unwrap_or(0), 0, 0, 0],
            what: format!("left behind: {}", leak.what),
            at: leak.taken_at.as_ref().map(Spot::from).unwrap_or_default(),
            stack: Vec::new(),
            text: leak.to_string(),
            count: 1,
        }
    }
}
