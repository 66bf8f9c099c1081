//! Several host threads run one driver: what it does without a lock is lost,
//! what it does with one is not, and a broken rule on one of them stops all.

mod common;

use std::time::Duration;

use lab_ntos::{Client, Config, Driver, FileId, Machine, Privilege, Stopped};

const CLIENT: Client = Client {
    process: 1000,
    privilege: Privilege::Administrator,
};
const CLIENTS: u32 = 8;
/// Additions of one `Ask::Add`.
const ADDS: u32 = 4_000_000;

/// What the requests of `parallel.c` do.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Add = 0,
    AddLocked = 1,
    AddAtomically = 2,
    Read = 3,
    Fault = 4,
    Loop = 5,
    CallProcessors = 6,
    QueueDpcs = 7,
    Sleep = 8,
    Allocate = 9,
}

impl Ask {
    fn code(self) -> u32 {
        0x22_0000 | (0x800 + self as u32) << 2
    }
}

struct Scene {
    machine: Box<Machine>,
    driver: Driver,
    files: Vec<FileId>,
}

impl Scene {
    fn new(host_threads: usize) -> Self {
        let file = common::build("parallel.c", "parallel", &[]);
        let config = Config {
            host_threads,
            hang_limit: Duration::from_secs(5),
            ..Config::default()
        };
        let machine = Machine::new(config).expect("a machine");
        let driver = common::load(&machine, &file);
        let files = (0..CLIENTS).map(|_| open(&machine)).collect();
        Self {
            machine,
            driver,
            files,
        }
    }

    /// A request of every client, all at the same time.
    fn all(&self, asks: &[Ask]) -> Result<(), Stopped> {
        let mut requests = Vec::new();
        for (file, ask) in self.files.iter().zip(asks.iter().cycle()) {
            let request = self.machine.begin_ioctl(*file, ask.code(), &[], 0)?;
            requests.push(request.expect("the client may"));
        }
        while !requests
            .iter()
            .all(|request| self.machine.is_complete(request))
        {
            let next = self.machine.poll()?;
            let waits = requests
                .iter()
                .any(|request| !self.machine.is_complete(request));
            if waits {
                self.machine
                    .sleep_ns(next.expect("a request waits for nothing"))?;
            }
        }
        for request in requests {
            assert!(self.machine.finish(request, &mut []).status.is_success());
        }
        Ok(())
    }

    /// Count, atomic count, and what was wrong.
    fn counts(&self) -> [u32; 3] {
        let mut output = [0; 12];
        let done = self
            .machine
            .ioctl(self.files[0], Ask::Read.code(), &[], &mut output);
        assert!(done.expect("nothing stops").status.is_success());
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(output.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        words
    }

    fn end(self) {
        for file in self.files {
            self.machine.close(file).expect("nothing stops");
        }
        let leaks = self.machine.unload(self.driver).expect("nothing stops");
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}

fn open(machine: &Machine) -> FileId {
    match machine.open(r"\\.\Parallel", 0xC000_0000, CLIENT) {
        Ok(Ok(file)) => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_host_thread_loses_nothing_and_several_lose_what_is_not_locked() {
    let scene = Scene::new(1);
    scene.all(&[Ask::Add]).expect("nothing stops");
    assert_eq!(scene.counts()[0], CLIENTS * ADDS);
    scene.end();

    let scene = Scene::new(4);
    // On a loaded host with one free processor, driver code overlaps where the host switches.
    let mut rounds = 0;
    while scene.counts()[0] == rounds * CLIENTS * ADDS && rounds < 20 {
        scene.all(&[Ask::Add]).expect("nothing stops");
        rounds += 1;
    }
    let [count, ..] = scene.counts();
    assert!(
        count < rounds * CLIENTS * ADDS,
        "nothing was lost in {rounds} rounds"
    );
    scene.end();
}

#[test]
fn what_is_locked_or_atomic_is_never_lost() {
    for host_threads in [2, 3, 4] {
        let scene = Scene::new(host_threads);
        for _ in 0..5 {
            scene
                .all(&[Ask::AddLocked, Ask::AddAtomically])
                .expect("nothing stops");
        }
        let [count, atomic, wrong] = scene.counts();
        assert_eq!(
            (count, atomic),
            (5 * CLIENTS / 2 * 500, 5 * CLIENTS / 2 * 200_000)
        );
        assert_eq!(wrong, 0);
        scene.end();
    }
}

#[test]
fn dpcs_run_on_their_processor_and_calls_to_all_find_nobody_else_running() {
    let scene = Scene::new(4);
    for _ in 0..5 {
        scene.all(&[Ask::QueueDpcs]).expect("nothing stops");
        let [count, queued, wrong] = scene.counts();
        assert_eq!((count, wrong), (queued, 0));
    }
    scene.end();

    let scene = Scene::new(4);
    for round in 1..=5 {
        scene
            .all(&[Ask::CallProcessors, Ask::AddAtomically])
            .expect("nothing stops");
        let [count, _, wrong] = scene.counts();
        assert_eq!((count, wrong), (round * CLIENTS / 2 * 20 * 4, 0));
    }
    scene.end();
}

#[test]
fn everything_at_once_ends_and_leaves_nothing_behind() {
    let scene = Scene::new(4);
    let mut footprint = None;
    for _ in 0..20 {
        let mix = [
            Ask::AddLocked,
            Ask::Sleep,
            Ask::QueueDpcs,
            Ask::Allocate,
            Ask::CallProcessors,
            Ask::AddAtomically,
        ];
        scene.all(&mix).expect("nothing stops");
        let blocks = scene.machine.footprint().pool_blocks;
        assert_eq!(
            footprint.get_or_insert(blocks),
            &blocks,
            "nothing grows from the first round on"
        );
    }
    assert_eq!(scene.counts()[2], 0);
    scene.end();
}

#[test]
fn a_fault_on_one_host_thread_stops_the_machine_and_the_process_lives_on() {
    for _ in 0..3 {
        let scene = Scene::new(4);
        let asks = [
            Ask::Loop,
            Ask::AddLocked,
            Ask::AddAtomically,
            Ask::Sleep,
            Ask::Fault,
        ];
        let stop = scene.all(&asks).expect_err("it stops");
        assert_eq!(stop.0.rule, "null-pointer");
        assert!(scene.machine.poll().is_err());
    }
    let scene = Scene::new(4);
    scene.all(&[Ask::AddLocked]).expect("nothing stops");
    scene.end();
}

#[test]
fn a_loop_on_one_host_thread_is_found_while_others_work() {
    let file = common::build("parallel.c", "parallel-loop", &[]);
    let config = Config {
        host_threads: 2,
        hang_limit: Duration::from_millis(300),
        ..Config::default()
    };
    let machine = Machine::new(config).expect("a machine");
    common::load(&machine, &file);
    let (first, second) = (open(&machine), open(&machine));
    for (file, ask) in [(first, Ask::Loop), (second, Ask::AddLocked)] {
        machine
            .begin_ioctl(file, ask.code(), &[], 0)
            .expect("it runs")
            .expect("the client may");
    }
    let stop = machine.poll().expect_err("it stops");
    assert_eq!(stop.0.rule, "hang");
}
