//! Many processes open and close the devices, in every way and order; some die with files open.

use lab_ntos::{Client, FileId, Privilege};
use rand::Rng;
use rand_xorshift::XorShiftRng;

use super::{Plan, Scenario, one_of, random};
use crate::bench::{Bench, Halt};
use crate::case::Case;
use crate::interface::READ_WRITE;

/// Files that are open at once.
const OPEN: usize = 32;
/// Ways to ask for access: none, read, write, both, everything.
const ACCESS: [u32; 5] = [0, 0x8000_0000, 0x4000_0000, READ_WRITE, 0x1000_0000];

pub(super) struct Storm;

impl Scenario for Storm {
    fn name(&self) -> &'static str {
        "open-close"
    }

    fn about(&self) -> &'static str {
        "many processes open and close its devices; some die with files open"
    }

    fn comes_late(&self) -> bool {
        false
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.interface.paths.is_empty() {
            return Vec::new();
        }
        let seeds = plan.effort.pick(1, 4);
        (0..seeds)
            .map(|n| Case {
                seed: plan.seed.wrapping_add(n),
                cpus: 4,
                iterations: plan.effort.pick(200, 1000),
                ..Case::of(self.name())
            })
            .collect()
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        if !bench.load()? {
            return Ok(());
        }
        let mut random = random(bench.case);
        let mut open: Vec<FileId> = Vec::new();
        for _ in 0..bench.case.iterations {
            if open.len() < OPEN && !random.next_u32().is_multiple_of(3) {
                open.extend(open_one(bench, &mut random)?);
            } else if !open.is_empty() {
                let index = random.next_u32() as usize % open.len();
                bench.machine.close(open.swap_remove(index))?;
            }
            bench.step();
        }
        // What is still open belongs to processes that die now.
        bench.unload()
    }
}

fn open_one(bench: &mut Bench<'_>, random: &mut XorShiftRng) -> Result<Option<FileId>, Halt> {
    let Some(path) = one_of(&bench.paths, random).cloned() else {
        return Ok(None);
    };
    let client = Client {
        process: 1000 + u64::from(random.next_u32() % 8) * 4,
        privilege: if random.next_u32().is_multiple_of(4) {
            Privilege::User
        } else {
            Privilege::Administrator
        },
    };
    let access = one_of(&ACCESS, random).copied().unwrap_or(READ_WRITE);
    let path = match random.next_u32() % 8 {
        0 => format!(r"{path}\some\file"),
        _ => path,
    };
    bench.open(&path, access, client)
}
