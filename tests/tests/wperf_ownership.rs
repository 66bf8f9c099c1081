//! Who holds the PMU: one owner per core, and everybody else is told who it is.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::scene::{CORES, EVENTS};
use e2e::served::{Holding, Served, json, stderr, wait_until};
use e2e::wperf::{Handle, OWNER, STRANGER, assigned, count, dock, event, perf, unload_cleanly};
use lab_devices::Architectural::Cycles;
use lab_dock::Options;
use wperf_abi::client::CallError;
use wperf_abi::record::{self, AcquireMode, AcquireOutcome, config_flags};
use wperf_abi::{Ioctl, Refusal};

/// Boot of the lab's virtual clock: 2024-01-01, in FILETIME units.
const BOOT: u64 = 133_485_408_000_000_000;

#[test]
fn the_second_client_is_told_who_holds_a_core_and_since_when() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut first = perf(machine, OWNER);
    machine.sleep_ns(5_000_000_000).expect("no rule broken");
    let before = BOOT + machine.now_ns() / 100;
    first.acquire(AcquireMode::NORMAL, &[1, 2]).expect("free");
    let after = BOOT + machine.now_ns() / 100;
    machine.sleep_ns(5_000_000_000).expect("no rule broken");
    let mut second = perf(machine, STRANGER);
    let reply = second.acquire(AcquireMode::NORMAL, &[0, 2, 3]);
    let reply = reply.expect("busy is an answer");
    assert_eq!(reply.outcome, AcquireOutcome::BUSY);
    assert_eq!((reply.core, u64::from(reply.holder_pid)), (2, OWNER));
    assert!((before..=after).contains(&reply.holder_since), "{reply:?}");
    let cores = second.query_ownership().expect("always legal");
    let busy = [false, true, true, false];
    for (core, busy) in cores.iter().zip(busy) {
        let holding = if busy {
            record::Holding::BUSY
        } else {
            record::Holding::IDLE
        };
        assert_eq!(core.holding, holding, "all or none: {core:?}");
        let since = if busy { reply.holder_since } else { 0 };
        assert_eq!(core.since, since);
    }
    unload_cleanly(dock);
}

#[test]
fn two_clients_count_on_cores_of_their_own() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut first = assigned(machine, &[0, 1], &EVENTS);
    let mut second = perf(machine, STRANGER);
    second.acquire(AcquireMode::NORMAL, &[2, 3]).expect("free");
    second
        .assign(&[2, 3], &[event(Cycles, 0)], 10)
        .expect("fits");
    second.start(&[2, 3]).expect("assigned");
    let of_first = count(&mut first, machine, &[0, 1], 20_000_000);
    first.release(&[0, 1]).expect("held");
    machine.sleep_ns(20_000_000).expect("no rule broken");
    for core in [2, 3] {
        let (head, counts) = second.read(core).expect("counting");
        assert!(head.enabled_ns > 40_000_000, "it went on: {head:?}");
        assert!(counts[0].value > of_first[0].1[0].value);
    }
    unload_cleanly(dock);
}

#[test]
fn a_former_owner_is_told_once_that_it_was_forced_out() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut first = assigned(machine, &CORES, &EVENTS);
    first.start(&CORES).expect("assigned");
    let mut second = perf(machine, STRANGER);
    let reply = second
        .acquire(AcquireMode::FORCE, &CORES)
        .expect("by force");
    assert_eq!(reply.outcome, AcquireOutcome::FORCED);
    assert_eq!(u64::from(reply.holder_pid), OWNER);
    let refusal = |result: Result<_, _>| match result {
        Err(CallError::Refused(_, refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(first.read(CORES[0])), Refusal::ForcedOut);
    assert_eq!(refusal(first.read(CORES[0])), Refusal::NotOwner);
    second.assign(&CORES, &EVENTS, 10).expect("the new owner's");
    unload_cleanly(dock);
}

#[test]
fn closing_the_handle_frees_what_it_holds_and_nothing_else() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let first = Handle::open(machine, OWNER);
    let mut same_process = perf(machine, OWNER);
    let mut client = first.client();
    client.acquire(AcquireMode::NORMAL, &CORES).expect("free");
    client.assign(&CORES, &EVENTS, 10).expect("fits");
    client.start(&CORES).expect("assigned");
    same_process
        .acquire(AcquireMode::NORMAL, &[1])
        .expect("free");
    first.close();
    let cores = same_process.query_ownership().expect("always legal");
    let held: Vec<u32> = cores
        .iter()
        .filter(|core| core.holding != record::Holding::IDLE)
        .map(|core| core.core)
        .collect();
    assert_eq!(held, [1]);
    let (status, _) = Handle { ..first }.call_closed(Ioctl::QueryVersion.code());
    assert_eq!(status, 0xC000_0008, "STATUS_INVALID_HANDLE");
    unload_cleanly(dock);
}

/// A call on a handle that is closed.
trait CallClosed {
    fn call_closed(&self, code: u32) -> (u32, Vec<u8>);
}

impl CallClosed for Handle<'_> {
    fn call_closed(&self, code: u32) -> (u32, Vec<u8>) {
        self.call(code, &[], 64)
    }
}

#[test]
fn hardware_counters_are_reserved_while_and_only_while_a_core_is_held() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut watcher = perf(machine, STRANGER);
    let mut is_reserved = move || {
        let (head, _) = watcher.query_config().expect("always legal");
        head.flags & config_flags::FREE_IS_CURRENT != 0
    };
    assert!(!is_reserved(), "nobody holds a core");
    let first = Handle::open(machine, OWNER);
    let mut client = first.client();
    client.acquire(AcquireMode::NORMAL, &[0, 1]).expect("free");
    assert!(is_reserved());
    client.release(&[0]).expect("held");
    assert!(is_reserved(), "one core is left");
    client.release(&[1]).expect("held");
    assert!(!is_reserved());
    client.acquire(AcquireMode::NORMAL, &[2]).expect("free");
    first.close();
    assert!(!is_reserved(), "the owner is gone");
    // The system agrees: another driver can have every counter now.
    assert!((0..4).all(|counter| machine.take_counter(counter)));
    unload_cleanly(dock);
}

#[test]
fn a_busy_pmu_is_exit_code_3_and_names_process_and_time() {
    let served = Served::start(&["--pmu", "model"]);
    let holder = Holding::lock(&served, "-c 0,2");
    for line in [
        "lock -c 1-3 --timeout 1ms",
        "stat -e cpu-cycles -c 2 --timeout 1ms",
    ] {
        let output = served.run(line);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        let name = format!("process {} (wperf)", holder.child.id());
        assert!(text.contains(&name), "{text}");
        assert!(text.contains("since 20"), "{text}");
    }
    let rows = served.ownership();
    let states: Vec<_> = rows.as_array().expect("rows").iter().collect();
    assert_eq!(states.len(), 4, "{rows}");
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&"busy".into(), &"idle".into())
    );
    end_by_signal(holder);
    served.end();
}

/// Ctrl-C, as a terminal sends it.
fn end_by_signal(holder: Holding) {
    let pid = holder.child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(holder.end().0, Some(0));
}

#[test]
fn different_processes_hold_different_cores() {
    let served = Served::start(&["--pmu", "model"]);
    let first = Holding::lock(&served, "-c 0-1");
    let second = Holding::lock(&served, "-c 3");
    let output = served.run("stat -e cpu-cycles -c 2 --timeout 20ms --json");
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = served.ownership();
    let holder = |row: usize| rows[row]["holder"].as_str().unwrap_or_default().to_owned();
    assert!(holder(0).contains(&first.child.id().to_string()), "{rows}");
    assert_eq!(rows[1]["state"], "idle", "{rows}");
    assert!(holder(2).contains(&second.child.id().to_string()), "{rows}");
    end_by_signal(first);
    end_by_signal(second);
    served.end();
}

#[test]
fn a_forced_takeover_ends_the_former_owner_with_exit_code_4() {
    let served = Served::start(&["--pmu", "model"]);
    let former = Holding::lock(&served, "-c 0");
    let output = served.run("stat --force-lock -e cpu-cycles -c 0 --timeout 30ms --json");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        json(&output)["core"]["cores"][0]["Performance_counter"][0]["counter_value"].as_u64()
            > Some(0)
    );
    let (code, text) = former.end();
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("force"), "{text}");
    served.end();
}

#[test]
fn a_killed_owner_frees_its_cores_at_once_twenty_times() {
    let served = Served::start(&["--pmu", "model"]);
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let mut owner = served
            .wperf("stat -e cpu-cycles,branches -c 0-3 --timeout 10m -q".split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wperf runs");
        wait_until("the owner counts", || {
            served.ownership()[0]["state"] == "busy"
        });
        // In the middle of a count, with no chance to say good-bye.
        owner.kill().expect("it runs");
        let killed = Instant::now();
        assert_eq!(owner.wait().expect("it ends").signal(), Some(9));
        wait_until("the cores are free", || {
            served.ownership()[0]["state"] == "idle"
        });
        longest = longest.max(killed.elapsed());
        let next = served.run("stat -e cpu-cycles -c 0-3 --timeout 1ms --json");
        assert!(next.status.success(), "{}", stderr(&next));
    }
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    served.end();
}
