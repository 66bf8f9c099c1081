//! Interrupts, DPCs and other processors come before every instruction of a
//! driver: what it counts without a lock gets lost at the same instructions
//! in every run, what it counts with one never does.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lab_ntos::{
    Action, Client, Config, DriverFile, Event, FileId, Limits, Machine, Plan, Privilege, Steps,
};

const VECTOR: u32 = 0x51;
const IRQL: u8 = 5;
const CLIENT: Client = Client {
    process: 1000,
    privilege: Privilege::Administrator,
};

/// What the requests of `interrupts.c` do.
#[derive(Clone, Copy)]
enum Ask {
    Add = 0,
    AddInStep = 1,
    Read = 2,
    AddLocked = 3,
    LockTimer = 4,
    SetTimer = 5,
    Compute = 6,
    AddByHand = 7,
    AddInterruptsOff = 8,
    StayRaised = 9,
    KeepLock = 10,
    AddBehindDpc = 11,
}

impl Ask {
    fn code(self) -> u32 {
        0x22_0000 | (0x800 + self as u32) << 2
    }
}

/// What the driver has counted.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    count: u64,
    serviced: u64,
    samples: u64,
    sampled_rip: u64,
    dpcs: u64,
}

struct Scene {
    machine: Box<Machine>,
    driver: lab_ntos::Driver,
    file: FileId,
}

impl Scene {
    fn new(file: &DriverFile, config: Config) -> Self {
        let machine = Machine::new(config).expect("a machine");
        machine.add_line(VECTOR, IRQL).expect("a legal line");
        let driver = common::load(&machine, file);
        let file = open(&machine);
        Self {
            machine,
            driver,
            file,
        }
    }

    fn ask(&self, ask: Ask) -> [u64; 5] {
        let mut output = [0; 40];
        let done = self.machine.ioctl(self.file, ask.code(), &[], &mut output);
        let done = done.unwrap_or_else(|stop| panic!("{stop}"));
        assert!(done.status.is_success(), "{}", done.status);
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(output.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        words
    }

    fn counts(&self) -> Counts {
        let [count, serviced, samples, sampled_rip, dpcs] = self.ask(Ask::Read);
        Counts {
            count,
            serviced,
            samples,
            sampled_rip,
            dpcs,
        }
    }

    /// Steps through a request, with an event before its `point`-th instruction.
    fn step(&self, ask: Ask, event: Event, point: Option<u64>) -> Steps {
        self.step_after(None, ask, event, point)
    }

    fn step_after(
        &self,
        action: Option<Action>,
        ask: Ask,
        event: Event,
        point: Option<u64>,
    ) -> Steps {
        let plan = Plan {
            action,
            event,
            point,
        };
        let ((), steps) = self.machine.stepping(plan, || {
            self.ask(ask);
        });
        self.machine.poll().expect("nothing stops");
        steps
    }

    fn end(self) {
        self.machine.close(self.file).expect("nothing stops");
        let leaks = self.machine.unload(self.driver).expect("nothing stops");
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}

fn open(machine: &Machine) -> FileId {
    match machine.open(r"\\.\Count", 0xC000_0000, CLIENT) {
        Ok(Ok(file)) => file,
        other => panic!("{other:?}"),
    }
}

fn driver() -> DriverFile {
    common::build("interrupts.c", "interrupts", &[])
}

/// The points of a request at which an event makes the driver lose a count.
fn lost(file: &DriverFile, ask: Ask, event: &Event, before: &[Ask], expected: u64) -> Vec<u64> {
    let mut lost = Vec::new();
    for point in 0.. {
        let scene = Scene::new(file, Config::default());
        for ask in before {
            scene.ask(*ask);
        }
        let steps = scene.step(ask, event.clone(), Some(point));
        if steps.hit.is_none() {
            assert_eq!(
                steps.instructions, point,
                "every instruction was a point once"
            );
            break;
        }
        assert_eq!(steps.instructions, point);
        scene
            .machine
            .sleep_ns(2_000_000_000)
            .expect("nothing stops");
        if scene.counts().count != expected {
            lost.push(point);
        }
        scene.end();
    }
    lost
}

#[test]
fn an_interrupt_is_serviced_at_its_irql_and_its_dpc_runs_behind_it() {
    let scene = Scene::new(&driver(), Config::default());
    for cpu in 0..4 {
        assert_eq!(scene.machine.raise_interrupt(VECTOR, cpu), Ok(true));
        assert_eq!(
            scene.machine.raise_interrupt(VECTOR, cpu),
            Ok(false),
            "it is pending"
        );
    }
    scene.machine.poll().expect("nothing stops");
    let counts = scene.counts();
    assert_eq!((counts.count, counts.serviced), (4, 4));
    assert!(
        (1..=4).contains(&counts.dpcs),
        "one DPC object, queued {} times",
        counts.dpcs
    );
    let latency = scene.machine.latency();
    assert_eq!(latency.isr.count, 4);
    assert_eq!(latency.dpc.count, counts.dpcs);
    assert!(latency.isr.longest.is_some_and(|longest| longest.ns > 0));
    assert!(scene.machine.raise_interrupt(0x52, 0).is_err());
    assert!(scene.machine.raise_interrupt(VECTOR, 4).is_err());
    scene.end();
}

#[test]
fn an_interrupt_nobody_is_connected_to_is_counted_and_changes_nothing() {
    let scene = Scene::new(&driver(), Config::default());
    scene.machine.add_line(0x60, 8).expect("a legal line");
    scene.machine.raise_interrupt(0x60, 1).expect("a line");
    scene.machine.poll().expect("nothing stops");
    assert_eq!(scene.machine.unclaimed_interrupts(), 1);
    scene.end();
}

#[test]
fn a_sweep_finds_the_unlocked_count_at_the_same_instructions_every_time() {
    let file = driver();
    let event = Event::Interrupt(VECTOR);
    let first = lost(&file, Ask::Add, &event, &[], 2);
    // Between the load and the store.
    assert!((1..=2).contains(&first.len()), "{first:?}");
    for _ in 0..2 {
        assert_eq!(lost(&file, Ask::Add, &event, &[], 2), first);
    }
    for locked in [Ask::AddInStep, Ask::AddByHand, Ask::AddInterruptsOff] {
        assert_eq!(lost(&file, locked, &event, &[], 2), [], "{}", locked as u32);
    }
    // A spin lock does not hold interrupts off.
    assert_eq!(
        lost(&file, Ask::AddLocked, &event, &[], 2).len(),
        first.len()
    );
}

#[test]
fn a_sweep_finds_the_count_a_timers_dpc_takes_away() {
    let file = driver();
    let before = [Ask::SetTimer];
    let first = lost(&file, Ask::Add, &Event::Timer, &before, 2);
    assert!((1..=2).contains(&first.len()), "{first:?}");
    assert_eq!(lost(&file, Ask::Add, &Event::Timer, &before, 2), first);
    assert_eq!(
        lost(
            &file,
            Ask::AddLocked,
            &Event::Timer,
            &[Ask::LockTimer, Ask::SetTimer],
            2
        ),
        []
    );
}

/// The points at which a second request, begun there, takes a count away from the first.
fn raced(file: &DriverFile, cpus: usize, ask: Ask, event: &Event) -> Vec<u64> {
    let mut lost = Vec::new();
    for point in 0.. {
        let scene = Scene::new(
            file,
            Config {
                cpus,
                ..Config::default()
            },
        );
        let second = open(&scene.machine);
        let request = Rc::new(RefCell::new(None));
        let begun = Rc::clone(&request);
        let begin: Action = Rc::new(move |machine: &Machine| {
            let begin = machine.begin_ioctl(second, ask.code(), &[], 0);
            *begun.borrow_mut() = begin.expect("it runs").ok();
        });
        let steps = scene.step_after(Some(begin), ask, event.clone(), Some(point));
        if steps.hit.is_none() {
            return lost;
        }
        let request = request.borrow_mut().take().expect("it was begun");
        assert!(scene.machine.is_complete(&request));
        scene.machine.finish(request, &mut []);
        if scene.counts().count != 2 {
            lost.push(point);
        }
        scene.machine.close(second).expect("nothing stops");
        scene.end();
    }
    lost
}

#[test]
fn a_second_request_takes_a_count_away_unless_both_lock() {
    let file = driver();
    for (cpus, event) in [(4, Event::Processors), (1, Event::Threads)] {
        let first = raced(&file, cpus, Ask::Add, &event);
        assert!((1..=2).contains(&first.len()), "{first:?}");
        assert_eq!(raced(&file, cpus, Ask::Add, &event), first);
        for locked in [Ask::AddLocked, Ask::AddByHand, Ask::AddInStep] {
            assert_eq!(raced(&file, cpus, locked, &event), [], "{}", locked as u32);
        }
    }
    // On one processor disabling interrupts is enough; on two it is not.
    assert_eq!(raced(&file, 1, Ask::AddInterruptsOff, &Event::Threads), []);
    assert!(!raced(&file, 2, Ask::AddInterruptsOff, &Event::Processors).is_empty());
}

#[test]
fn the_registers_of_an_interrupted_computation_are_kept() {
    let file = driver();
    let scene = Scene::new(&file, Config::default());
    let expected = scene.ask(Ask::Compute)[0];
    for point in (0..400).step_by(7) {
        let plan = Plan {
            action: None,
            event: Event::Interrupt(VECTOR),
            point: Some(point),
        };
        let (result, steps) = scene.machine.stepping(plan, || scene.ask(Ask::Compute)[0]);
        assert!(steps.hit.is_some_and(|hit| hit.irql == 0));
        assert_eq!(result, expected, "interrupted before instruction {point}");
    }
    scene.end();
}

#[test]
fn the_profile_interrupt_tells_where_the_driver_was() {
    let file = driver();
    let scene = Scene::new(&file, Config::default());
    let plan = Plan {
        action: None,
        event: Event::Profile,
        point: Some(200),
    };
    let ((), steps) = scene.machine.stepping(plan, || {
        scene.ask(Ask::Compute);
    });
    let hit = steps.hit.expect("the computation has more instructions");
    let counts = scene.counts();
    assert_eq!(counts.samples, 1);
    assert_eq!(
        counts.sampled_rip & 0xFFF,
        hit.at.rva & 0xFFF,
        "{hit:?} {counts:x?}"
    );
    scene.machine.raise_profile(3).expect("a processor");
    scene.machine.poll().expect("nothing stops");
    assert_eq!(scene.counts().samples, 2);
    scene.end();
}

#[test]
fn the_same_seed_takes_the_same_course() {
    let file = driver();
    let run = |seed| {
        let scene = Scene::new(
            &file,
            Config {
                seed,
                ..Config::default()
            },
        );
        for cpu in 0..4 {
            let _ = scene.ask(Ask::AddBehindDpc);
            scene.machine.raise_interrupt(VECTOR, cpu).expect("a line");
            scene.ask(Ask::AddLocked);
        }
        let steps = scene.step(Ask::Add, Event::Interrupt(VECTOR), Some(9));
        let course = (
            scene.machine.schedule_hash(),
            scene.machine.dpcs_run(),
            steps.instructions,
        );
        scene.end();
        course
    };
    for seed in [0, 1, 7, 0xDEAD] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1).0, run(7).0);
}

#[test]
fn an_interrupt_routine_that_changes_the_irql_breaks_a_rule() {
    let file = common::build("interrupts.c", "interrupts-raises", &["-DRAISES"]);
    let scene = Scene::new(&file, Config::default());
    scene.machine.raise_interrupt(VECTOR, 2).expect("a line");
    let stop = scene.machine.poll().expect_err("it stops");
    assert_eq!((stop.0.rule, stop.0.cpu.index), ("irql-changed", 2));
}

#[test]
fn an_interrupt_left_connected_is_told() {
    let file = common::build("interrupts.c", "interrupts-leave", &["-DLEAVE"]);
    let scene = Scene::new(&file, Config::default());
    scene.machine.close(scene.file).expect("nothing stops");
    let leaks = scene.machine.unload(scene.driver).expect("nothing stops");
    let rules: Vec<_> = leaks
        .iter()
        .map(|leak| (leak.rule, leak.what.as_str()))
        .collect();
    assert_eq!(
        rules,
        [
            ("interrupt-left", "interrupt routine at vector 0x51"),
            ("interrupt-left", "handler of the profile interrupt"),
        ]
    );
    assert!(leaks.iter().all(|leak| leak.taken_at.is_some()));
}

fn short() -> Config {
    let limit = Duration::from_millis(100);
    let limits = Limits {
        dpc: limit,
        isr: limit,
        raised: limit,
    };
    Config {
        limits,
        ..Config::default()
    }
}

fn rule_of(file: &DriverFile, run: impl Fn(&Scene) -> Option<lab_ntos::Stopped>) -> &'static str {
    let scene = Scene::new(file, short());
    run(&scene).expect("it stops").0.rule
}

fn asks(scene: &Scene, ask: Ask) -> Option<lab_ntos::Stopped> {
    scene
        .machine
        .ioctl(scene.file, ask.code(), &[], &mut [])
        .err()
}

#[test]
fn routines_that_take_too_long_are_stopped_each_under_its_own_rule() {
    let slow = common::build("interrupts.c", "interrupts-slow", &["-DSLOW"]);
    let isr = rule_of(&slow, |scene| {
        scene.machine.raise_interrupt(VECTOR, 0).expect("a line");
        scene.machine.poll().err()
    });
    assert_eq!(isr, "isr-too-long");
    let dpc = rule_of(&slow, |scene| asks(scene, Ask::AddBehindDpc));
    assert_eq!(dpc, "dpc-watchdog");
    let raised = rule_of(&slow, |scene| asks(scene, Ask::StayRaised));
    assert_eq!(raised, "irql-too-long");
    let locked = rule_of(&slow, |scene| asks(scene, Ask::KeepLock));
    assert_eq!(locked, "spin-lock-held-too-long");
}
