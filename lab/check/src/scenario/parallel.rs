//! Many requests at once on several host threads: driver code truly overlaps, and no run is like another.

use lab_ntos::{Client, FileId};
use rand::Rng;
use rand_xorshift::XorShiftRng;

use super::{Plan, Scenario, one_of, random};
use crate::bench::{Bench, Halt};
use crate::case::Case;
use crate::interface::ADMINISTRATOR;

/// Clients with requests under way at once.
const CLIENTS: u64 = 6;
/// Host threads that are tried in turn.
const HOST_THREADS: [u16; 2] = [2, 4];

pub(super) struct Parallel;

impl Scenario for Parallel {
    fn name(&self) -> &'static str {
        "parallel"
    }

    fn about(&self) -> &'static str {
        "several clients at once on 2 and 4 host threads; no run repeats"
    }

    fn repeats(&self) -> bool {
        false
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.safe_calls.is_empty() || plan.interface.paths.is_empty() {
            return Vec::new();
        }
        (0..plan.effort.pick(2u64, 12))
            .zip(HOST_THREADS.iter().cycle())
            .map(|(n, host_threads)| Case {
                calls: plan.safe_calls.clone(),
                seed: plan.seed.wrapping_add(n),
                cpus: 4,
                host_threads: *host_threads,
                iterations: plan.effort.pick(8, 32),
                ..Case::of(self.name())
            })
            .collect()
    }

    fn draw(&self, plan: &Plan<'_>, random: &mut XorShiftRng) -> Option<Case> {
        let mut case = one_of(&self.plan(plan), random)?.clone();
        case.seed = random.next_u64() | 1;
        Some(case)
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        if !bench.load()? {
            return Ok(());
        }
        let mut random = random(bench.case);
        let mut files = Vec::new();
        for round in 0..bench.case.iterations {
            reopen(bench, &mut files, &mut random)?;
            // Now all ask for the same, now each for something else.
            together(bench, &files, round % 2 == 0, &mut random)?;
            bench.step();
        }
        bench.unload()
    }
}

/// Sees to it that every client has a file; now and then one has closed its own.
fn reopen(
    bench: &mut Bench<'_>,
    files: &mut Vec<FileId>,
    random: &mut XorShiftRng,
) -> Result<(), Halt> {
    if !files.is_empty() && random.next_u32().is_multiple_of(2) {
        let index = random.next_u32() as usize % files.len();
        bench.machine.close(files.swap_remove(index))?;
    }
    for n in files.len() as u64..CLIENTS {
        let client = Client {
            process: ADMINISTRATOR.process + 4 * n,
            ..ADMINISTRATOR
        };
        files.extend(bench.open_by(client)?);
    }
    Ok(())
}

/// A request of each client, all under way at once; some are cancelled.
fn together(
    bench: &mut Bench<'_>,
    files: &[FileId],
    same: bool,
    random: &mut XorShiftRng,
) -> Result<(), Halt> {
    let case = bench.case;
    let mut begun = Vec::new();
    let common = one_of(&case.calls, random);
    for &file in files {
        let own = one_of(&case.calls, random);
        let Some(call) = common.filter(|_| same).or(own) else {
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
