//! What the check itself must survive; never planned, only replayed.

use super::{Plan, Scenario};
use crate::bench::{Bench, Halt};
use crate::case::Case;

pub(super) struct SelfTest;

impl Scenario for SelfTest {
    fn name(&self) -> &'static str {
        "self-test"
    }

    fn about(&self) -> &'static str {
        "kills (point 1) or silences (point 2) the worker that runs it"
    }

    fn plan(&self, _: &Plan<'_>) -> Vec<Case> {
        Vec::new()
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        match bench.case.point {
            Some(1) => std::process::abort(),
            Some(2) => loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            },
            _ => Ok(()),
        }
    }
}
