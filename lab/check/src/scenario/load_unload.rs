//! Loads and unloads the driver, many times on one machine: does anything stay?

use std::time::Instant;

use lab_ntos::Footprint;
use lab_verifier::RuleId;

use super::{Effort, Plan, Scenario};
use crate::bench::{Bench, Halt};
use crate::case::Case;
use crate::found::{Found, Spot};

pub(super) struct LoadUnload;

impl Scenario for LoadUnload {
    fn name(&self) -> &'static str {
        "load-unload"
    }

    fn about(&self) -> &'static str {
        "loads and unloads it many times; nothing may grow"
    }

    fn comes_late(&self) -> bool {
        false
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        let iterations = if plan.effort == Effort::Normal { 1000 } else { 100 };
        let base = Case::of(self.name());
        vec![
            Case { iterations, seed: plan.seed, ..base.clone() },
            Case { cpus: 64, iterations: 3, seed: plan.seed, ..base },
        ]
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let mut before = None;
        for cycle in 0..bench.case.iterations {
            let started = Instant::now();
            let loaded = bench.load()?;
            bench.unload()?;
            bench.cycle(started);
            bench.step();
            if !bench.outcome.findings.is_empty() || !loaded {
                return Ok(());
            }
            // The first cycle makes what the machine keeps.
            let after = bench.machine.footprint();
            let first = *before.get_or_insert(after);
            if held(&after) > held(&first) {
                bench.outcome.findings.push(growth(&first, &after, cycle));
                return Ok(());
            }
        }
        Ok(())
    }
}

fn held(footprint: &Footprint) -> usize {
    footprint.pool_blocks + footprint.objects + footprint.timers + footprint.modules
}

fn growth(first: &Footprint, after: &Footprint, cycles: u32) -> Found {
    let what = format!(
        "after {cycles} more cycles of load and unload the machine holds {} pool blocks, {} objects and {} timers, where it held {}, {} and {}",
        after.pool_blocks, after.objects, after.timers, first.pool_blocks, first.objects, first.timers
    );
    let grown = (held(after) - held(first)) as u64;
    Found::by_check(RuleId::FootprintGrowth.rule(), [0x62, grown, 0, 0], what, Spot::default())
}
