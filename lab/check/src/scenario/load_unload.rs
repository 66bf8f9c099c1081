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
        let iterations = if plan.effort == Effort::Normal {
            1000
        } else {
            100
        };
        let base = Case::of(self.name());
        vec![
            Case {
                iterations,
                seed: plan.seed,
                ..base.clone()
            },
            Case {
                cpus: 64,
                iterations: 3,
                seed: plan.seed,
                ..base
            },
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
            if let Some(found) = growth(&first, &after, cycle) {
                bench.outcome.findings.push(found);
                return Ok(());
            }
        }
        Ok(())
    }
}

fn held(footprint: &Footprint) -> usize {
    footprint.pool_blocks + footprint.objects + footprint.timers + footprint.modules
}

/// What it means that the machine holds more after some more cycles than after the first.
fn growth(first: &Footprint, after: &Footprint, cycles: u32) -> Option<Found> {
    let grown = held(after)
        .checked_sub(held(first))
        .filter(|grown| *grown > 0)?;
    let what = format!(
        "after {cycles} more cycles of load and unload the machine holds {} pool blocks, {} objects and {} timers, where it held {}, {} and {}",
        after.pool_blocks,
        after.objects,
        after.timers,
        first.pool_blocks,
        first.objects,
        first.timers
    );
    Some(Found::by_check(
        RuleId::FootprintGrowth.rule(),
        [0x60, grown as u64, 0, 0],
        what,
        Spot::default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_holds_more_than_after_the_first_cycle_has_grown() {
        let machine = lab_ntos::Machine::new(lab_ntos::Config::default()).expect("a machine");
        let first = machine.footprint();
        for more in [
            Footprint {
                pool_blocks: first.pool_blocks + 2,
                ..first
            },
            Footprint {
                objects: first.objects + 2,
                ..first
            },
            Footprint {
                timers: first.timers + 2,
                ..first
            },
            Footprint {
                modules: first.modules + 2,
                ..first
            },
        ] {
            let found = growth(&first, &more, 7).expect("it has grown");
            assert_eq!(found.rule, "footprint-growth");
            assert_eq!(found.parameters[1], 2, "{found:?}");
            assert!(growth(&more, &first, 7).is_none(), "it has shrunk");
        }
        assert!(growth(&first, &first, 7).is_none());
    }
}
