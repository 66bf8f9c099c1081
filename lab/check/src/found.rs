//! A finding as it travels from a worker to the report.

use std::fmt;

use lab_verifier::rules::RULES;
use lab_verifier::{Finding, Frame, Leak, Rule, RuleId, Trace};
use serde::{Deserialize, Serialize};

/// Rules that are broken by taking too long: each case that does so takes seconds.
const TOO_LONG: [RuleId; 5] = [
    RuleId::Hang,
    RuleId::DpcWatchdog,
    RuleId::IsrTooLong,
    RuleId::IrqlTooLong,
    RuleId::SpinLockTooLong,
];

/// Whether a rule is one that is broken by taking too long.
pub(crate) fn is_too_long(rule: &str) -> bool {
    TOO_LONG.iter().any(|known| known.rule().name == rule)
}

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
    /// Other places that matter, each with what happened there.
    #[serde(default)]
    pub others: Vec<Other>,
    /// Everything the machine had to say, as it prints it.
    pub text: String,
    /// How often it happened in its case.
    pub count: u64,
    /// The control code it is about, where no place in the driver tells one from another.
    #[serde(default)]
    pub code: Option<u32>,
}

/// Another place that a finding is about: where a lock was taken, or a block freed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Other {
    /// What happened there.
    pub what: String,
    /// Driver frames, innermost first.
    pub stack: Vec<Spot>,
}

impl From<&Trace> for Other {
    fn from(trace: &Trace) -> Self {
        Self {
            what: trace.what.clone(),
            stack: trace.stack.iter().map(Spot::from).collect(),
        }
    }
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
            others: Vec::new(),
            text: String::new(),
            count: 1,
            code: None,
        };
        let [p1, p2, p3, p4] = parameters;
        let place = match found.at {
            ref at if *at == Spot::default() => String::new(),
            ref at => format!("\n  at          {at}"),
        };
        found.text = format!(
            "{}\n  rule        {}\n  parameters  {p1:#x}, {p2:#x}, {p3:#x}, {p4:#x}{place}\n  meaning     {}\n  remedy      {}",
            found.headline(),
            rule.name,
            rule.meaning,
            rule.remedy
        );
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
        if is_too_long(&self.rule) {
            return self.key_of_long();
        }
        let in_driver = self.stack.iter().filter(|spot| spot.module.is_some());
        let mut places: Vec<String> = in_driver.take(KEY_FRAMES).map(Spot::short).collect();
        if places.is_empty() && self.at.module.is_some() {
            places.push(self.at.short());
        }
        if places.is_empty() {
            // Nowhere in the driver: what is said has to do, without the numbers that differ from run to run.
            let has_no_number = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
            places.extend(
                self.what
                    .split_whitespace()
                    .filter(has_no_number)
                    .map(str::to_owned),
            );
        }
        places.extend(self.code.map(|code| format!("{code:#x}")));
        Key(format!("{} {}", self.rule, places.join(" ")))
    }

    /// What takes too long is stopped anywhere in its loop: the function tells, and the request.
    fn key_of_long(&self) -> Key {
        let outermost = self.stack.last().unwrap_or(&self.at);
        let names = [&outermost.module, &outermost.function];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        let code = self.code.unwrap_or_default();
        Key(format!("{} {} {code:#x}", self.rule, names.join(" ")))
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
            others: finding.others.iter().map(Other::from).collect(),
            text: finding.to_string(),
            count: finding.count,
            code: None,
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
            others: Vec::new(),
            text: leak.to_string(),
            count: 1,
            code: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: RuleId, what: &str, rvas: &[u64]) -> Found {
        let spot = |rva: &u64| Spot {
            module: Some("x".into()),
            rva: *rva,
            ..Spot::default()
        };
        Found {
            stack: rvas.iter().map(spot).collect(),
            ..Found::by_check(rule.rule(), [0; 4], what.into(), Spot::default())
        }
    }

    #[test]
    fn rule_and_innermost_frames_make_findings_the_same() {
        let one = found(RuleId::PageFault, "read of 0x1", &[1, 2, 3, 4]);
        assert_eq!(
            one.key(),
            found(RuleId::PageFault, "read of 0x2", &[1, 2, 3, 5]).key()
        );
        assert_ne!(
            one.key(),
            found(RuleId::PageFault, "read of 0x1", &[1, 2, 4]).key()
        );
        assert_ne!(
            one.key(),
            found(RuleId::NullPointer, "read of 0x1", &[1, 2, 3, 4]).key()
        );
    }

    #[test]
    fn a_loop_is_the_same_wherever_it_is_stopped_and_another_request_is_not() {
        let one = found(RuleId::Hang, "it loops", &[0x10]);
        assert_eq!(one.key(), found(RuleId::Hang, "it loops", &[0x20]).key());
        let code = Some(0x22_2004);
        assert_ne!(
            one.key(),
            Found {
                code,
                ..one.clone()
            }
            .key()
        );
    }

    #[test]
    fn without_a_place_numbers_make_no_difference() {
        let timer = |at: &str| {
            found(
                RuleId::TimerLeft,
                &format!("left behind: timer at {at}"),
                &[],
            )
        };
        assert_eq!(timer("0x7f0f6ec6efc0").key(), timer("0x7f98b60cafc0").key());
        assert_ne!(
            timer("0x1").key(),
            found(RuleId::TimerLeft, "left behind: DPC at 0x1", &[]).key()
        );
    }

    #[test]
    fn a_finding_survives_the_way_from_its_worker() {
        let one = found(RuleId::WorkerLost, "gone <&\u{1b}\"", &[7]);
        let text = serde_json::to_string(&one).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Found>(&text).expect("as written"),
            one
        );
    }
}
