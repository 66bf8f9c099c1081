//! Unloads the driver the moment a request is over: timers, DPCs and work items may still be under way.

use super::session::PAUSE_NS;
use super::{Plan, Scenario, random};
use crate::bench::{Bench, Halt};
use crate::case::{Call, Case};

pub(super) struct UnloadPending;

impl Scenario for UnloadPending {
    fn name(&self) -> &'static str {
        "unload-at-once"
    }

    fn about(&self) -> &'static str {
        "unloads it right after each request, with its work still under way"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_calls.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        let case = |call: Call, n| Case {
            calls: vec![call],
            seed: plan.seed.wrapping_add(n),
            iterations: 2,
            ..Case::of(self.name())
        };
        let seeds = plan.effort.pick(1, 4);
        let calls = plan.safe_calls.iter();
        calls
            .flat_map(|call| (0..seeds).map(move |n| case(*call, n)))
            .collect()
    }

    fn lacks(&self, case: &Case) -> Option<&'static str> {
        case.calls.is_empty().then_some("no requests")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let case = bench.case;
        let mut random = random(case);
        for _ in 0..case.iterations {
            if !bench.load()? {
                return Ok(());
            }
            if let Some(file) = bench.open_any()? {
                for call in &case.calls {
                    bench.request(file, call, &mut random)?;
                }
            }
            bench.unload()?;
            bench.step();
            // What the driver left behind was taken back; whatever it still runs would run now.
            bench.machine.sleep_ns(PAUSE_NS)?;
        }
        Ok(())
    }
}
