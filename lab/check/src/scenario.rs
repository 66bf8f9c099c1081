//! Scenarios: each exercises a driver in one way.
//!
//! A scenario plans cases, and runs one of them on a [`Bench`]. It keeps no
//! state: everything a run depends on is in its [`Case`]. To add one, write
//! it in a file of its own and name it in [`ALL`].

mod explore;
mod load_unload;
mod low_resources;
mod parallel;
mod pending;
mod plug_and_play;
mod self_test;
mod session;
mod smoke;
mod storm;
mod sweep;
mod unload_pending;

use rand::{Rng, SeedableRng};
use rand_xorshift::XorShiftRng;

use crate::bench::{Bench, Halt, Outcome};
use crate::case::{Call, Case};
use crate::interface::Interface;

/// A way to exercise drivers.
pub trait Scenario: Sync {
    /// Kebab-case name.
    fn name(&self) -> &'static str;

    /// What it does, in a few words.
    fn about(&self) -> &'static str;

    /// Whether it needs to know which codes stop the machine, and so comes after those that find out.
    fn comes_late(&self) -> bool {
        true
    }

    /// Whether the same case does the same every time.
    fn repeats(&self) -> bool {
        true
    }

    /// Cases to begin with.
    fn plan(&self, plan: &Plan<'_>) -> Vec<Case>;

    /// Cases that follow from what became of one.
    fn follow(&self, _case: &Case, _outcome: &Outcome, _plan: &Plan<'_>) -> Vec<Case> {
        Vec::new()
    }

    /// One more case for a check that goes on until its time is over.
    fn draw(&self, plan: &Plan<'_>, random: &mut XorShiftRng) -> Option<Case> {
        let mut case = one_of(&self.plan(plan), random)?.clone();
        case.seed = random.next_u64() | 1;
        case.cpus = *one_of(&[1, 2, 3, 4, 8], random)?;
        Some(case)
    }

    /// What a case lacks without which it would do nothing.
    fn lacks(&self, _case: &Case) -> Option<&'static str> {
        None
    }

    /// Runs a case.
    ///
    /// Errors: why it ended early.
    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt>;
}

/// What planning depends on.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// What the driver offers.
    pub interface: &'a Interface,
    /// How much is to be done.
    pub effort: Effort,
    /// Seed of the whole check.
    pub seed: u64,
    /// Requests over which no machine has stopped, among them those that the driver accepts.
    pub safe_calls: Vec<Call>,
}

/// How much a check does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// A second or two.
    Quick,
    /// Some seconds.
    Normal,
    /// Cases that are drawn until time is over.
    Stress,
}

impl Effort {
    /// One number for a quick check, another for the others.
    #[must_use]
    pub fn pick<T>(self, quick: T, normal: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Normal | Self::Stress => normal,
        }
    }
}

/// The generator of a case.
fn random(case: &Case) -> XorShiftRng {
    XorShiftRng::seed_from_u64(case.seed)
}

/// One of several things.
fn one_of<'a, T>(things: &'a [T], random: &mut XorShiftRng) -> Option<&'a T> {
    let index = random.next_u32() as usize % things.len().max(1);
    things.get(index)
}

/// Every scenario, in the order in which they begin.
pub const ALL: &[&dyn Scenario] = &[
    &load_unload::LoadUnload,
    &storm::Storm,
    &smoke::Smoke,
    &pending::Pending,
    &unload_pending::UnloadPending,
    &explore::Explore,
    &low_resources::LowResources,
    &plug_and_play::PlugAndPlay,
    &sweep::Sweep,
    &parallel::Parallel,
    &self_test::SelfTest,
];

/// The scenario with this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for scenario in ALL {
            let found = by_name(scenario.name()).expect("registered");
            assert_eq!(found.about(), scenario.about());
        }
        assert!(by_name("").is_none());
    }
}
