//! Whatever is done to a core in whatever order, no sample or count of an older generation is ever read.

use std::collections::HashMap;

use e2e::scene::source;
use e2e::wperf::{CLOCK_NS, Handle, OWNER, STRANGER, dock, event, unload_cleanly};
use lab_devices::Architectural::{Branches, Cycles};
use lab_devices::{Event, Model};
use lab_dock::Options;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use wperf_abi::client::SampleBatch;
use wperf_abi::record::{AcquireMode, SampleSource};

/// A step that one of two clients takes on a core, or that the core takes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Force,
    Release,
    Assign,
    SampleAssign,
    Start,
    Stop,
    Reset,
    Read,
    SampleRead,
    SampleWait,
    /// The interrupt comes for nothing, or once more.
    Interrupt,
    Reopen,
}

/// Steps that lead on are more likely than those that end something.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Acquire),
        1 => Just(Step::Force),
        1 => Just(Step::Release),
        1 => Just(Step::Assign),
        3 => Just(Step::SampleAssign),
        5 => Just(Step::Start),
        2 => Just(Step::Stop),
        2 => Just(Step::Reset),
        2 => Just(Step::Read),
        4 => Just(Step::SampleRead),
        2 => Just(Step::SampleWait),
        3 => Just(Step::Interrupt),
        1 => Just(Step::Reopen),
    ]
}

const SOURCES: [SampleSource; 2] = [source(Cycles, 3000), source(Branches, 7000)];

/// Most samples that can have been due on a core in a time.
fn most(core: u32, from_ns: u64, to_ns: u64) -> u64 {
    let due = |source: &SampleSource| {
        let counted = Event {
            code: u16::try_from(source.code.0).expect("an event of the hardware"),
            user: true,
            kernel: true,
        };
        let total = |ns| Model::total(core as usize, counted, ns);
        (total(to_ns) - total(from_ns)) / source.interval
    };
    SOURCES.iter().map(due).sum()
}

/// When what can be read of each core began, and what its generation is.
#[derive(Default)]
struct Era {
    since_ns: HashMap<u32, u64>,
    generation: HashMap<u32, u64>,
}

impl Era {
    fn begin(&mut self, core: u32, now_ns: u64) {
        self.since_ns.insert(core, now_ns);
    }

    fn check_generation(&mut self, core: u32, generation: u64) {
        let last = self.generation.insert(core, generation).unwrap_or(0);
        assert!(generation >= last, "generations never go back");
    }

    /// Nothing is older than the last assignment or reset, and the numbers add up.
    fn check(&mut self, core: u32, batch: &SampleBatch, now_ns: u64) {
        let since_ns = self.since_ns[&core];
        let [counts] = batch.cores[..] else {
            panic!("{batch:?}")
        };
        self.check_generation(core, counts.generation);
        for sample in &batch.samples {
            assert_eq!(sample.generation, counts.generation, "{sample:?}");
            assert!(
                sample.time_ns + CLOCK_NS > since_ns,
                "{sample:?}: {since_ns}"
            );
            assert_eq!(sample.core, core);
        }
        let sum = counts.delivered + counts.waiting + counts.lost;
        assert_eq!(counts.generated, sum, "{counts:?}");
        let most = most(core, since_ns, now_ns);
        assert!(counts.generated <= most, "{counts:?}: at most {most}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn nothing_of_an_older_generation_is_ever_sampled_or_counted(
        steps in vec((step(), 0..2usize, 0..2u32, 0..300u32), 1..120),
        seed in 0..4u64,
    ) {
        let dock = dock(Options { seed, cpus: 2, ..Options::default() });
        let machine = dock.machine();
        let mut handles = [OWNER, STRANGER].map(|process| Handle::open(machine, process));
        let mut era = Era::default();
        for (step, who, core, ticks) in steps {
            machine.sleep_ns(u64::from(ticks) * CLOCK_NS).expect("no rule broken");
            let mut client = handles[who].client();
            let before = machine.now_ns();
            let cores = [core];
            match step {
                Step::Acquire => drop(client.acquire(AcquireMode::NORMAL, &cores)),
                Step::Force => drop(client.acquire(AcquireMode::FORCE, &cores)),
                Step::Release => drop(client.release(&cores)),
                Step::Assign => if client.assign(&cores, &[event(Branches, 0)], 10).is_ok() {
                    era.begin(core, before);
                },
                Step::SampleAssign => if client.sample_assign(&cores, &SOURCES, 64).is_ok() {
                    era.begin(core, before);
                },
                Step::Start => drop(client.start(&cores)),
                Step::Stop => drop(client.stop(&cores)),
                Step::Reset => if client.reset(&cores).is_ok() { era.begin(core, before) },
                Step::Read => if let Ok((head, _)) = client.read(core) {
                    era.check_generation(core, head.generation);
                    assert!(head.enabled_ns <= machine.now_ns() - era.since_ns[&core]);
                },
                Step::SampleRead => if let Ok(batch) = client.sample_read(&cores, ticks as usize) {
                    era.check(core, &batch, machine.now_ns());
                },
                Step::SampleWait => drop(client.sample_wait(&cores, 1)),
                Step::Interrupt => {
                    machine.raise_profile(core as usize).expect("there");
                }
                Step::Reopen => {
                    handles[who].close();
                    handles[who] = Handle::open(machine, [OWNER, STRANGER][who]);
                }
            }
        }
        unload_cleanly(dock);
    }
}
