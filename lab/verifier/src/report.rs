//! What a broken rule looks like on paper.
#![expect(missing_docs, reason = "most field names say all there is to say")]

use std::fmt;

use nt::stop::StopCode;
use serde::Serialize;

use crate::rules::{Rule, RuleId};

/// A broken rule: what, where, and in which circumstances.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub rule: &'static str,
    #[serde(serialize_with = "stop_code")]
    pub stop_code: StopCode,
    pub stop_name: Option<&'static str>,
    #[serde(serialize_with = "hex4")]
    pub parameters: [u64; 4],
    /// What happened, in one sentence with the values at hand.
    pub what: String,
    /// The driver instruction concerned.
    pub at: Frame,
    pub instruction: Option<String>,
    pub access: Option<Access>,
    /// The kernel function in whose call it happened.
    pub api: Option<String>,
    pub cpu: Cpu,
    /// Innermost first.
    pub stack: Vec<Frame>,
    /// Other places that matter: where the other locks of a circle were acquired.
    pub others: Vec<Trace>,
    /// How often the rule was broken at this place.
    pub count: u64,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

/// The processor at the time of the finding.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Cpu {
    pub index: usize,
    pub irql: u8,
    pub thread: u64,
    pub process: u64,
}

/// A memory access that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Access {
    /// `read`, `write` or `execute`.
    pub kind: &'static str,
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// What is, or was, at that address.
    pub target: Option<String>,
}

/// One place in driver code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Frame {
    pub module: Option<String>,
    /// Offset from the start of the module, or the address where there is none.
    #[serde(serialize_with = "hex")]
    pub rva: u64,
    pub function: Option<String>,
    /// Bytes from the start of the function.
    pub offset: Option<u64>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// Another place that a finding is about.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// What happened there.
    pub what: String,
    /// Innermost first.
    pub stack: Vec<Frame>,
}

/// Something that the driver left behind.
#[derive(Clone, Debug, Serialize)]
pub struct Leak {
    pub rule: &'static str,
    /// What was left: kind, size, name.
    pub what: String,
    /// Where the driver took it.
    pub taken_at: Option<Frame>,
}

/// What a run amounts to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    pub leaks: Vec<Leak>,
    /// Habits that are worth mending but broke nothing.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// No rule broken, nothing left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.leaks.is_empty()
    }
}

impl Finding {
    /// A finding under `rule`, to be completed with where it happened.
    #[must_use]
    pub fn new(rule: RuleId, parameters: [u64; 4], what: String, cpu: Cpu) -> Self {
        let rule = rule.rule();
        let Rule {
            name,
            stop,
            meaning,
            remedy,
            ..
        } = rule;
        Self {
            rule: name,
            stop_code: *stop,
            stop_name: stop.name(),
            parameters: rule.reported(parameters),
            what,
            at: Frame::default(),
            instruction: None,
            access: None,
            api: None,
            cpu,
            stack: Vec::new(),
            others: Vec::new(),
            count: 1,
            meaning,
            remedy,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p1, p2, p3, p4] = self.parameters;
        writeln!(
            f,
            "STOP {:#010X} {}: {}",
            self.stop_code.0,
            self.stop_name.unwrap_or("(unknown)"),
            self.what
        )?;
        writeln!(f, "  rule        {}", self.rule)?;
        writeln!(f, "  parameters  {p1:#x}, {p2:#x}, {p3:#x}, {p4:#x}")?;
        writeln!(f, "  at          {}", self.at)?;
        if let Some(instruction) = &self.instruction {
            writeln!(f, "  instruction {instruction}")?;
        }
        if let Some(access) = &self.access {
            write!(f, "  access      {} at {:#x}", access.kind, access.address)?;
            if let Some(target) = &access.target {
                write!(f, ": {target}")?;
            }
            writeln!(f)?;
        }
        if let Some(api) = &self.api {
            writeln!(f, "  called      {api}")?;
        }
        let Cpu {
            index,
            irql,
            thread,
            process,
        } = self.cpu;
        writeln!(
            f,
            "  processor   {index}, IRQL {irql}, thread {thread}, process {process}"
        )?;
        write_stack(f, "stack", &self.stack)?;
        for other in &self.others {
            writeln!(f, "  also        {}", other.what)?;
            write_stack(f, "", &other.stack)?;
        }
        if self.count > 1 {
            writeln!(f, "  times       {}", self.count)?;
        }
        writeln!(f, "  meaning     {}", self.meaning)?;
        write!(f, "  remedy      {}", self.remedy)
    }
}

fn write_stack(f: &mut fmt::Formatter<'_>, title: &str, stack: &[Frame]) -> fmt::Result {
    for (depth, frame) in stack.iter().enumerate() {
        let title = if depth == 0 { title } else { "" };
        writeln!(f, "  {title:<11} {frame}")?;
    }
    Ok(())
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module {
            Some(module) => write!(f, "{module}+{:#x}", self.rva)?,
            None => write!(f, "{:#x}", self.rva)?,
        }
        if let Some(function) = &self.function {
            write!(f, " {function}")?;
            if let Some(offset) = self.offset.filter(|offset| *offset != 0) {
                write!(f, "+{offset:#x}")?;
            }
        }
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, " ({file}:{line})")?;
        }
        Ok(())
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LEFT BEHIND {} [{}]", self.what, self.rule)?;
        match &self.taken_at {
            Some(frame) => write!(f, ", taken at {frame}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}\n")?;
        }
        for leak in &self.leaks {
            writeln!(f, "{leak}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        match (self.findings.len(), self.leaks.len()) {
            (0, 0) => write!(f, "verdict: clean"),
            (findings, leaks) => write!(
                f,
                "verdict: {findings} finding(s), {leaks} thing(s) left behind"
            ),
        }
    }
}

fn hex<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

fn hex4<S: serde::Serializer>(values: &[u64; 4], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| format!("{value:#x}")))
}

fn stop_code<S: serde::Serializer>(code: &StopCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:#x}", code.0))
}
