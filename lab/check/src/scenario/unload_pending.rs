//! Unloads the driver the moment a request is over: timers, DPCs and work items may still be under way.

use super::session::TYPICAL;
use super::{Plan, Scenario};
use crate::bench::{Bench, Halt};
use crate::case::Case;

pub(super) struct UnloadPending;

impl Scenario for UnloadPending {
    fn name(&self) -> &'static str {
        "unload-at-once"
    }

    fn about(&self) -> &'static str {
        "unloads it right after each request, with its work still under way"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_codes.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        let case = |code: u32, n| Case {
            codes: vec![code],
            seed: plan.seed.wrapping_add(n),
            iterations: 2,
            ..Case::of(self.name())
        };
        let seeds = plan.effort.pick(1, 4);
        let codes = plan.safe_codes.iter();
        codes.flat_map(|code| (0..seeds).map(move |n| case(*code, n))).collect()
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let case = bench.case;
        for _ in 0..case.iterations {
            if !bench.load()? {
                return Ok(());
            }
            if let Some(file) = bench.open_any()? {
                for &code in &case.codes {
                    bench.request(file, code, &[0; TYPICAL], &mut [0; TYPICAL])?;
                    bench.request(file, code, &[1; TYPICAL], &mut [0; TYPICAL])?;
                }
            }
            bench.unload()?;
            bench.step();
            // What the driver left behind was taken back; whatever it still runs would run now.
            bench.machine.sleep_ns(super::session::PAUSE_NS)?;
        }
        Ok(())
    }
}
