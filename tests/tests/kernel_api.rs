//! The safe kernel API, as a driver built on it sees it: `tests/kernel-driver` in the lab.

use std::cell::RefCell;
use std::rc::Rc;

use e2e::{ADMINISTRATOR, READ_WRITE, open, read};
use kernel_test_driver::protocol;
use lab_dock::{Dock, DockError, Options, PmuSource};
use lab_ntos::{Client, Completion, FileId, Machine, Privilege, Stopped};
use lab_verifier::Finding;
use nt::NTSTATUS;
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_INFO_LENGTH_MISMATCH,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INTERNAL_ERROR, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};

const DRIVER: &str = "kernel-test-driver";
const CPUS: u32 = 4;
/// Orders of processors that every scenario is run in.
const SEEDS: std::ops::Range<u64> = 0..8;
/// More calls than any scenario makes that can fail.
const MOST_FALLIBLE: u64 = 200;

/// The driver on a machine, with one handle open.
struct Lab {
    dock: Dock,
    file: FileId,
}

fn options(seed: u64) -> Options {
    Options {
        cpus: CPUS as usize,
        seed,
        ..Options::default()
    }
}

impl Lab {
    fn new(options: Options) -> Self {
        let dock = e2e::dock(DRIVER, options);
        let file = open(dock.machine(), protocol::DEVICE);
        Self { dock, file }
    }

    /// With what the driver prints.
    fn printing(options: Options, printed: &Rc<RefCell<String>>) -> Self {
        let output = printed.clone();
        let print = move |text: &str| output.borrow_mut().push_str(text);
        let dock = Dock::new(&read(DRIVER).driver, options, print);
        let dock = dock.unwrap_or_else(|error: DockError| panic!("{error}"));
        let file = open(dock.machine(), protocol::DEVICE);
        Self { dock, file }
    }

    fn machine(&self) -> &Machine {
        self.dock.machine()
    }

    fn send(&self, code: u32, input: &[u32], output: &mut [u8]) -> Result<Completion, Stopped> {
        let input: Vec<u8> = input
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        self.machine().ioctl(self.file, code, &input, output)
    }

    /// A call that succeeds and fills `N` bytes.
    fn call<const N: usize>(&self, code: u32, input: &[u32]) -> [u8; N] {
        let mut output = [0; N];
        let completion = self.send(code, input, &mut output).unwrap_or_else(broken);
        assert_eq!(
            (completion.status, completion.information),
            (STATUS_SUCCESS, N)
        );
        output
    }

    fn status(&self, code: u32, input: &[u32], room: usize) -> NTSTATUS {
        let completion = self.send(code, input, &mut vec![0; room]);
        completion.unwrap_or_else(broken).status
    }

    /// A call after which the machine stops.
    fn finding(&self, code: u32) -> Finding {
        let outcome = self.send(code, &[], &mut []);
        let mut reported = self.machine().take_findings();
        match outcome {
            _ if !reported.is_empty() => reported.swap_remove(0),
            Err(Stopped(finding)) => (*finding).clone(),
            Ok(completion) => panic!("the machine went on: {completion:?}"),
        }
    }

    /// Closes the handle and unloads; nothing may be left.
    fn end(mut self) {
        self.machine().close(self.file).unwrap_or_else(broken);
        let leaks = self.dock.unload().unwrap_or_else(broken);
        let findings = self.dock.machine().take_findings();
        assert!(findings.is_empty(), "{findings:#?}");
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}

fn broken<T>(stopped: Stopped) -> T {
    panic!("{stopped}")
}

/// Runs a scenario in every order of processors; each ends with a clean unload.
fn in_every_order(scenario: impl Fn(&Lab)) {
    for seed in SEEDS {
        let lab = Lab::new(options(seed));
        scenario(&lab);
        lab.end();
    }
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty() && numbers.len() == N);
    std::array::from_fn(|index| u64::from_le_bytes(numbers[index]))
}

fn small_numbers(bytes: &[u8]) -> Vec<u32> {
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    numbers.iter().copied().map(u32::from_le_bytes).collect()
}

#[test]
fn a_spin_lock_keeps_dpcs_ticks_and_threads_apart() {
    const ROUNDS: u32 = 50;
    in_every_order(|lab| {
        let sum = u64::from_le_bytes(lab.call(protocol::SPIN_LOCK, &[ROUNDS]));
        assert_eq!(sum, u64::from(ROUNDS * (CPUS + 1)), "an increment was lost");
    });
}

#[test]
fn a_timer_queues_its_dpc_until_it_is_cancelled_and_never_afterwards() {
    const TICKS: u32 = 5;
    in_every_order(|lab| {
        for core in 0..CPUS {
            let begin_ns = lab.machine().now_ns();
            let count = u32::from_le_bytes(lab.call(protocol::TICKS, &[core, TICKS]));
            assert!((TICKS..=TICKS + 1).contains(&count), "{count} ticks");
            let took_ns = lab.machine().now_ns() - begin_ns;
            assert!(took_ns >= u64::from(TICKS) * 1_000_000, "{took_ns} ns");
            lab.machine().sleep_ns(20_000_000).unwrap_or_else(broken);
            let later = u32::from_le_bytes(lab.call(protocol::TICK_COUNT, &[core]));
            assert_eq!(later, count, "a tick came after the last");
        }
        assert_eq!(
            lab.status(protocol::TICKS, &[CPUS, 1], 4),
            STATUS_INVALID_PARAMETER
        );
    });
}

#[test]
fn a_tick_that_comes_as_the_timer_is_cancelled_comes_before_the_end_or_never() {
    in_every_order(|lab| {
        for core in 0..CPUS {
            let counts = small_numbers(&lab.call::<8>(protocol::TICK_RACE, &[core]));
            assert_eq!(counts[0], counts[1], "a tick came after the last");
        }
    });
}

#[test]
fn a_timer_that_is_dropped_as_it_ticks_leaves_no_dpc() {
    in_every_order(|lab| {
        for core in 0..CPUS {
            let status = lab.status(protocol::DROP_TICKING, &[core], 0);
            assert_eq!(status, STATUS_SUCCESS);
            lab.machine().sleep_ns(5_000_000).unwrap_or_else(broken);
        }
    });
}

#[test]
fn a_work_item_runs_in_the_system_process_once_per_queueing() {
    const SYSTEM_PROCESS: u32 = 4;
    in_every_order(|lab| {
        let answer = small_numbers(&lab.call::<8>(protocol::WORK, &[20]));
        assert_eq!(answer, [20, SYSTEM_PROCESS]);
    });
}

#[test]
fn a_dpc_can_queue_a_work_item() {
    in_every_order(|lab| {
        for core in 0..CPUS {
            let runs = u32::from_le_bytes(lab.call(protocol::WORK_FROM_DPC, &[core]));
            assert!(runs >= 1);
        }
    });
}

/// Sends a call, closes and unloads at once; gives what work items print when they are dropped.
fn unload_after(seed: u64, code: u32, input: &[u32]) -> String {
    let printed = Rc::new(RefCell::new(String::new()));
    let lab = Lab::printing(options(seed), &printed);
    assert_eq!(lab.status(code, input, 0), STATUS_SUCCESS);
    lab.end();
    printed.take()
}

#[test]
fn unloading_waits_for_work_that_is_queued_or_under_way() {
    for seed in SEEDS {
        for (code, input) in [
            (protocol::WORK_AT_UNLOAD, &[][..]),
            (protocol::LONG_WORK, &[5]),
        ] {
            let printed = unload_after(seed, code, input);
            let after_one = format!("{} 1 ", protocol::DROPPED_AFTER);
            assert_eq!(printed.matches(&after_one).count(), 1, "{printed}");
        }
    }
}

#[test]
fn boxes_slices_and_vectors_keep_their_values_while_they_grow() {
    in_every_order(|lab| {
        for n in [0, 1, 4, 5, 40] {
            let sum = u64::from_le_bytes(lab.call(protocol::POOL, &[n]));
            let expected: u64 = (0..u64::from(n)).map(|n| n * n).sum();
            assert_eq!(sum, expected);
        }
    });
}

#[test]
fn every_failing_allocation_of_a_call_is_an_error_that_leaves_nothing() {
    const N: u32 = 6;
    let mut failed = 0;
    for n in 0..MOST_FALLIBLE {
        let lab = Lab::new(options(0));
        lab.machine().fail_nth(n);
        let status = lab.status(protocol::POOL, &[N], 8);
        lab.end();
        if status == STATUS_SUCCESS {
            break;
        }
        assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES, "call {n}");
        failed += 1;
    }
    // The slice, its boxes, the empty vector, the boxes in it, two growths.
    assert_eq!(failed, 1 + N + 1 + N + 2);
}

#[test]
fn every_failing_call_of_driver_entry_is_an_error_that_leaves_nothing() {
    let driver = read(DRIVER).driver;
    let mut failed = 0;
    for n in 0..MOST_FALLIBLE {
        let machine = options(n).machine(|_| {}).expect("memory");
        machine.fail_nth(n);
        match machine.load(&driver).expect("a sound image") {
            lab_ntos::Loaded::Failed(status, leaks) => {
                assert!(status.is_error() && leaks.is_empty(), "{status} {leaks:?}");
            }
            lab_ntos::Loaded::Running(driver) => {
                assert!(machine.unload(driver).unwrap_or_else(broken).is_empty());
                break;
            }
        }
        failed += 1;
    }
    // At least: device, protection, mutex, slots, and for each core an event and four for its work.
    assert!(failed > 4 + 5 * u64::from(CPUS), "only {failed} calls fail");
}

#[test]
fn a_file_is_opened_when_there_is_room_for_it_and_cleaned_up_and_dropped_once() {
    in_every_order(|lab| {
        let machine = lab.machine();
        let mut failed = 0;
        let other = loop {
            machine.fail_nth(failed);
            match machine.open(protocol::DEVICE, READ_WRITE, ADMINISTRATOR) {
                Ok(Ok(file)) => break file,
                Ok(Err(status)) => assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES),
                Err(stopped) => broken(stopped),
            }
            failed += 1;
        };
        assert!(failed > 0);
        let count = || small_numbers(&lab.call::<12>(protocol::FILES, &[]));
        assert_eq!(count(), [2, 0, 0], "opened, cleaned up, dropped");
        machine.close(other).unwrap_or_else(broken);
        assert_eq!(count(), [2, 1, 1], "opened, cleaned up, dropped");
    });
}

#[test]
fn work_runs_on_every_processor_itself() {
    for (cpus, seed) in [1, 3, 70]
        .into_iter()
        .flat_map(|cpus| SEEDS.map(move |seed| (cpus, seed)))
    {
        let lab = Lab::new(Options {
            cpus,
            ..options(seed)
        });
        let mut output = vec![0; cpus * 4];
        let completion = lab.send(protocol::PER_CPU, &[], &mut output);
        assert_eq!(completion.unwrap_or_else(broken).information, output.len());
        let expected: Vec<u32> = (0..).take(cpus).collect();
        assert_eq!(small_numbers(&output), expected);
        lab.end();
    }
}

#[test]
fn a_wait_ends_when_its_time_is_up() {
    in_every_order(|lab| {
        for timeout_ms in [0, 1, 250] {
            let answer: [u8; 12] = lab.call(protocol::EVENT_TIMEOUT, &[timeout_ms]);
            let (took_ns, timed_out) = answer.split_at(8);
            assert_eq!(small_numbers(timed_out), [1]);
            let [took_ns] = numbers(took_ns);
            let timeout_ns = u64::from(timeout_ms) * 1_000_000;
            assert!(
                (timeout_ns..timeout_ns + 1_000_000).contains(&took_ns),
                "{timeout_ms} ms took {took_ns} ns"
            );
        }
    });
}

#[test]
fn a_register_that_exists_is_read_and_one_that_does_not_is_not_touched() {
    in_every_order(|lab| {
        let [counters, written, absent] = numbers(&lab.call::<24>(protocol::MSR, &[]));
        assert_eq!((counters, written, absent), (4, 0x1234, 0));
    });
}

#[test]
fn counters_are_reserved_for_one_at_a_time() {
    in_every_order(|lab| {
        let reserved = numbers(&lab.call::<24>(protocol::COUNTERS, &[4]));
        assert_eq!(reserved, [0b1111, 0, 0b1111]);
        assert!(lab.machine().take_counter(1), "nobody holds it any more");
        let reserved = numbers(&lab.call::<24>(protocol::COUNTERS, &[4]));
        assert_eq!(reserved, [0b1101, 0, 0b1101]);
    });
}

#[test]
fn a_machine_without_counters_lends_none() {
    let lab = Lab::new(Options {
        pmu: PmuSource::None,
        ..options(0)
    });
    let reserved = numbers(&lab.call::<24>(protocol::COUNTERS, &[4]));
    assert_eq!(reserved, [0, 0, 0]);
    lab.end();
}

#[test]
fn what_a_call_expects_is_checked_before_it_runs() {
    let lab = Lab::new(options(0));
    let unknown = protocol::TRACE_KINDS + 4;
    assert_eq!(lab.status(unknown, &[], 64), STATUS_INVALID_DEVICE_REQUEST);
    let not_buffered = protocol::FILES | 3;
    assert_eq!(
        lab.status(not_buffered, &[], 64),
        STATUS_INVALID_DEVICE_REQUEST
    );
    for input in [&[][..], &[1, 2]] {
        assert_eq!(
            lab.status(protocol::POOL, input, 8),
            STATUS_INFO_LENGTH_MISMATCH
        );
    }
    assert_eq!(lab.status(protocol::POOL, &[1], 7), STATUS_BUFFER_TOO_SMALL);
    lab.end();
}

#[test]
fn an_error_that_is_none_does_not_reach_the_client() {
    let lab = Lab::new(options(0));
    assert_eq!(
        lab.status(protocol::WRONG_ERROR, &[], 0),
        STATUS_INTERNAL_ERROR
    );
    lab.end();
}

#[test]
fn only_administrators_open_a_device_that_says_nothing_else() {
    let lab = Lab::new(options(0));
    let client = Client {
        process: 2000,
        privilege: Privilege::User,
    };
    let opened = lab.machine().open(protocol::DEVICE, READ_WRITE, client);
    assert_eq!(
        opened.unwrap_or_else(broken).map(|_| ()),
        Err(STATUS_ACCESS_DENIED)
    );
    lab.end();
}

#[test]
fn a_panic_prints_its_message_and_stops_with_file_line_and_column() {
    const SOURCE: &str = include_str!("../kernel-driver/src/driver/calls.rs");
    const FILE: &str = "tests/kernel-driver/src/driver/calls.rs";
    let printed = Rc::new(RefCell::new(String::new()));
    let finding = Lab::printing(options(0), &printed).finding(protocol::PANIC);

    assert_eq!(
        (finding.rule, finding.stop_code.0),
        ("driver-bugcheck", 0xE2)
    );
    assert!(finding.what.contains("0xe0000d0c"), "{finding}");
    let (line, text) = (1..)
        .zip(SOURCE.lines())
        .find(|(_, text)| text.contains("panic!("))
        .expect("the driver panics somewhere");
    let column = text.find("panic!(").expect("found above") as u64 + 1;
    let [file, parameters @ ..] = finding.parameters;
    assert_eq!(parameters, [FILE.len() as u64, line, column]);
    assert_ne!(file, 0);
    assert!(
        printed.borrow().contains(protocol::PANIC_MESSAGE),
        "{printed:?}"
    );
    let is_named = |name: &str| {
        let mut functions = finding
            .stack
            .iter()
            .filter_map(|frame| frame.function.as_ref());
        functions.any(|function| function.contains(name))
    };
    assert!(is_named("calls::panic"), "{finding}");
}

#[test]
fn what_a_driver_forgets_stops_it_at_unload_instead_of_being_called_later() {
    for call in [protocol::FORGET_WORK, protocol::FORGET_TICKS] {
        let mut lab = Lab::new(options(0));
        assert_eq!(lab.status(call, &[], 0), STATUS_SUCCESS);
        lab.machine().close(lab.file).unwrap_or_else(broken);
        let Err(Stopped(finding)) = lab.dock.unload() else {
            panic!("unloaded in spite of what it forgot");
        };
        assert_eq!(finding.rule, "driver-bugcheck", "{finding}");
        assert!(finding.what.contains("0xe0000d0d"), "{finding}");
        assert_eq!(finding.parameters[0], 1, "{finding}");
    }
}
