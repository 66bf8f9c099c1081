//! The rules of the lab, and what it says when one is broken.
//!
//! A [`Rule`] is one item of one table: its stop code as Driver Verifier or
//! the kernel reports it, what it means and what to do about it. A broken
//! rule is a [`Finding`]; what a whole run amounts to is a [`Verdict`].
#![forbid(unsafe_code)]

mod assert;
mod markdown;
pub mod report;
pub mod rules;

pub use markdown::markdown;
pub use report::{Access, Cpu, Finding, Frame, Leak, Trace, Verdict};
pub use rules::{Class, RULES, Rule, RuleId, Severity};
