//! Starts requests and takes them back: cancels, closes, while they are with the driver.

use super::session::TYPICAL;
use super::{Plan, Scenario};
use crate::bench::{Bench, Halt};
use crate::case::Case;

pub(super) struct Pending;

impl Scenario for Pending {
    fn name(&self) -> &'static str {
        "cancel"
    }

    fn about(&self) -> &'static str {
        "cancels requests at once, after a while, and as their process dies"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_codes.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        (0..plan.effort.pick(2, 8))
            .map(|n| Case {
                codes: plan.safe_codes.clone(),
                seed: plan.seed.wrapping_add(n),
                iterations: 3,
                ..Case::of(self.name())
            })
            .collect()
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        if !bench.load()? {
            return Ok(());
        }
        let case = bench.case;
        for way in 0..case.iterations {
            for &code in &case.codes {
                let Some(file) = bench.open_any()? else { break };
                // Two at a time: the second finds the driver with one under way.
                let begin = || {
                    let one = bench.machine.begin_ioctl(file, code, &[0; TYPICAL], TYPICAL)?;
                    let two = bench.machine.begin_ioctl(file, code, &[0xFF; TYPICAL], TYPICAL)?;
                    Ok::<_, lab_ntos::Stopped>([one, two])
                };
                let begun = bench.machine.queue(begin)?;
                bench.outcome.requests += 2;
                match way {
                    0 => {}
                    1 => drop(bench.machine.poll()?),
                    _ => bench.machine.sleep_ns(1_000_000)?,
                }
                let requests: Vec<_> = begun.into_iter().flatten().collect();
                for request in &requests {
                    if !bench.machine.is_complete(request) {
                        bench.machine.cancel(request)?;
                    }
                }
                for request in requests {
                    bench.settle(request, code, &mut [0; TYPICAL])?;
                }
                bench.machine.close(file)?;
                bench.step();
            }
        }
        bench.unload()
    }
}
