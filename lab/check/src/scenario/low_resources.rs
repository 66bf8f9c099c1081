//! Lets each resource that the driver asks for be refused, one after the other, then in pairs.

use rand::Rng;
use rand_xorshift::XorShiftRng;

use super::{Plan, Scenario, session};
use crate::bench::{Bench, Halt, Outcome};
use crate::case::Case;

pub(super) struct LowResources;

impl Scenario for LowResources {
    fn name(&self) -> &'static str {
        "low-resources"
    }

    fn about(&self) -> &'static str {
        "refuses each resource it asks for in turn, then pairs of them"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        // One that counts, for each side of the guard pages: nothing fails.
        let case = |guard_front| Case {
            calls: plan.safe_calls.clone(),
            seed: plan.seed,
            guard_front,
            ..Case::of(self.name())
        };
        vec![case(false), case(true)]
    }

    fn follow(&self, case: &Case, outcome: &Outcome, plan: &Plan<'_>) -> Vec<Case> {
        let with = |fail: Vec<u64>| Case {
            fail,
            ..case.clone()
        };
        match *case.fail.as_slice() {
            [] if outcome.stopped => Vec::new(),
            [] => {
                let calls = outcome.fallible_calls.min(plan.effort.pick(200, 2000));
                (0..calls).map(|n| with(vec![n])).collect()
            }
            // After one failure the driver takes another way: what it asks for there fails too.
            [one] if !case.guard_front => {
                let most = plan.effort.pick(2, 8);
                let second = one + 1..outcome.fallible_calls.min(one + 1 + most);
                second.map(|two| with(vec![one, two])).collect()
            }
            _ => Vec::new(),
        }
    }

    fn draw(&self, plan: &Plan<'_>, random: &mut XorShiftRng) -> Option<Case> {
        let mut case = self.plan(plan).into_iter().next()?;
        let one = u64::from(random.next_u32() % 64);
        case.fail = vec![one, one + 1 + u64::from(random.next_u32() % 64)];
        case.seed = random.next_u64() | 1;
        Some(case)
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        session::whole(bench)?;
        bench.step();
        // What failed once works the next time.
        if !bench.case.fail.is_empty() && bench.outcome.findings.is_empty() {
            session::whole(bench)?;
            bench.step();
        }
        Ok(())
    }
}
