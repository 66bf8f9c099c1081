//! The same work of several clients under many schedules: orders of processors, numbers of them.

use lab_ntos::{Client, Privilege};
use rand::Rng;
use rand_xorshift::XorShiftRng;

use super::session::PAUSE_NS;
use super::{Plan, Scenario, one_of, random};
use crate::bench::{Bench, Halt};
use crate::case::Case;
use crate::interface::READ_WRITE;

/// Clients with requests under way at once.
const CLIENTS: u64 = 4;
/// Numbers of processors that are tried in turn.
const CPUS: [u16; 5] = [2, 1, 4, 3, 8];

pub(super) struct Explore;

impl Scenario for Explore {
    fn name(&self) -> &'static str {
        "schedules"
    }

    fn about(&self) -> &'static str {
        "several clients at once, under many orders and numbers of processors"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_calls.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        (0..plan.effort.pick(16u64, 200))
            .zip(CPUS.iter().cycle())
            .map(|(n, cpus)| Case {
                calls: plan.safe_calls.clone(),
                seed: plan.seed.wrapping_add(n),
                cpus: *cpus,
                iterations: 4,
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
        let mut random = random(bench.case);
        let mut files = Vec::new();
        let paths = bench.paths.clone();
        for n in 0..CLIENTS {
            let client = Client {
                process: 1000 + 4 * n,
                privilege: Privilege::Administrator,
            };
            let Some(path) = one_of(&paths, &mut random) else {
                break;
            };
            files.extend(bench.open(path, READ_WRITE, client)?);
        }
        for _ in 0..bench.case.iterations {
            round(bench, &files, &mut random)?;
            bench.step();
        }
        if random.next_u32().is_multiple_of(2) {
            bench.machine.sleep_ns(PAUSE_NS)?;
        }
        bench.unload()
    }
}

/// One request of each client, all under way at once; some are cancelled.
fn round(
    bench: &mut Bench<'_>,
    files: &[lab_ntos::FileId],
    random: &mut XorShiftRng,
) -> Result<(), Halt> {
    let case = bench.case;
    let mut begun = Vec::new();
    for &file in files {
        let Some(call) = one_of(&case.calls, random) else {
            break;
        };
        let request = bench.queue(file, call, random)?;
        begun.extend(request.ok().map(|request| (request, call)));
    }
    bench.machine.poll()?;
    for (request, call) in begun {
        if random.next_u32().is_multiple_of(4) && !bench.machine.is_complete(&request) {
            bench.machine.cancel(&request)?;
        }
        bench.settle(request, call)?;
    }
    Ok(())
}
