//! Starts requests and takes them back: cancels, closes, while they are with the driver.

use lab_ntos::Request;

use super::{Plan, Scenario, random};
use crate::bench::{Bench, Halt};
use crate::case::{Call, Case};

pub(super) struct Pending;

impl Scenario for Pending {
    fn name(&self) -> &'static str {
        "cancel"
    }

    fn about(&self) -> &'static str {
        "cancels requests at once, after a while, and as their process dies"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_calls.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        (0..plan.effort.pick(2, 8))
            .map(|n| Case {
                calls: plan.safe_calls.clone(),
                seed: plan.seed.wrapping_add(n),
                iterations: 3,
                ..Case::of(self.name())
            })
            .collect()
    }

    fn lacks(&self, case: &Case) -> Option<&'static str> {
        case.calls.is_empty().then_some("no requests")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        if !bench.load()? {
            return Ok(());
        }
        let case = bench.case;
        let mut random = random(case);
        for way in 0..case.iterations {
            for call in &case.calls {
                let Some(file) = bench.open_any()? else { break };
                // Two at a time: the second finds the driver with one under way.
                let begun = [
                    bench.queue(file, call, &mut random)?,
                    bench.queue(file, call, &mut random)?,
                ];
                match way {
                    0 => {}
                    1 => drop(bench.machine.poll()?),
                    _ => bench.machine.sleep_ns(1_000_000)?,
                }
                take_back(bench, call, begun.into_iter().flatten().collect())?;
                bench.machine.close(file)?;
                bench.step();
            }
        }
        bench.unload()
    }
}

/// Cancels all, then waits for each.
fn take_back(bench: &mut Bench<'_>, call: &Call, requests: Vec<Request>) -> Result<(), Halt> {
    for request in &requests {
        if !bench.machine.is_complete(request) {
            bench.machine.cancel(request)?;
        }
    }
    for request in requests {
        bench.settle(request, call)?;
    }
    Ok(())
}
