//! When the kernel refuses a resource, whichever it is, the driver says so, keeps nothing and works the next time.

use e2e::read;
use e2e::wperf::{OWNER, unload_cleanly};
use e2e::wperf::{Perf, dock, event, perf};
use lab_devices::Architectural::{BranchMisses, Branches, CacheMisses, CacheReferences, Slots};
use lab_devices::platform::Kind;
use lab_dock::Options;
use lab_ntos::{Client, Loaded, Machine, Privilege, Stopped};
use wperf_abi::client::CallError;
use wperf_abi::record::{AcquireMode, AssignEvent};
use wperf_abi::{CLIENT_PATH, EventCode, EventFilter};

/// A load that must do without its n-th resource: fails with a status, or works all the same.
#[test]
fn a_load_that_fails_anywhere_leaves_nothing_and_the_next_one_works() {
    let read = read("wperf-driver");
    let machine = options().machine(|_| {}).expect("a machine");
    let load = || match machine.load(&read.driver) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    };
    let unload = |loaded| match loaded {
        Loaded::Running(driver) => assert!(machine.unload(driver).expect("clean").is_empty()),
        Loaded::Failed(status, _) => panic!("with every resource: {status}"),
    };
    let start = machine.fallible_calls();
    unload(load());
    let calls = machine.fallible_calls() - start;
    assert!(calls >= 5, "DriverEntry asks for {calls} resources");
    let before = machine.footprint();
    let mut failed = 0;
    for n in 0..calls {
        machine.fail_nth(n);
        match load() {
            Loaded::Failed(status, leaks) => {
                assert!(status.is_error(), "resource {n}: {status}");
                assert!(leaks.is_empty(), "resource {n}: {leaks:?}");
                failed += 1;
            }
            running => unload(running),
        }
        unload(load());
        let after = machine.footprint();
        assert_eq!(
            (
                after.pool_blocks,
                after.objects,
                after.timers,
                after.modules,
                after.mappings
            ),
            (
                before.pool_blocks,
                before.objects,
                before.timers,
                before.modules,
                0
            ),
            "resource {n}"
        );
    }
    // Rings take two, being in crash dumps one, going out through ETW six: what the driver does without.
    const OF_TRACING: u64 = 9;
    assert_eq!(calls - failed, OF_TRACING, "of {calls}");
}

fn events() -> Vec<AssignEvent> {
    // More than fit, so that windows take turns and timers run.
    let general = [Branches, BranchMisses, CacheMisses, CacheReferences, Slots];
    general
        .into_iter()
        .zip(0..)
        .map(|(code, group)| event(code, group))
        .collect()
}

/// One whole count. A refusal of the driver ends it, as it ends a client's.
fn whole_count(machine: &Machine) -> Result<(), Option<CallError<Stopped>>> {
    let client = Client {
        process: OWNER,
        privilege: Privilege::Administrator,
    };
    let opened = machine.open(CLIENT_PATH, e2e::READ_WRITE, client);
    let file = match opened {
        Ok(Ok(file)) => file,
        Ok(Err(_)) => return Err(None),
        Err(Stopped(finding)) => panic!("{finding}"),
    };
    let mut perf = e2e::wperf::Handle { machine, file }.client();
    let result = calls(&mut perf, machine);
    machine.close(file).expect("no rule broken");
    if let Err(CallError::Transport(Stopped(finding))) = &result {
        panic!("{finding}");
    }
    result.map_err(Some)
}

fn calls(perf: &mut Perf<'_>, machine: &Machine) -> Result<(), CallError<Stopped>> {
    let cores = [0, 3];
    perf.query_config()?;
    perf.query_ownership()?;
    perf.acquire(AcquireMode::NORMAL, &cores)?;
    perf.assign(&cores, &events(), 10)?;
    perf.start(&cores)?;
    machine.sleep_ns(35_000_000).map_err(CallError::Transport)?;
    for core in cores {
        let (head, counts) = perf.read(core)?;
        assert!(head.enabled_ns >= 35_000_000);
        assert!(counts.iter().all(|count| count.running_ns > 0));
    }
    perf.stop(&cores)?;
    perf.reset(&cores)?;
    perf.release(&cores)?;
    units(perf, machine)
}

/// The same on uncore units of each kind.
fn units(perf: &mut Perf<'_>, machine: &Machine) -> Result<(), CallError<Stopped>> {
    let units = [0, 1, 2];
    let event = AssignEvent {
        code: EventCode(0x12),
        group: 0,
        filter: EventFilter::NONE,
    };
    perf.query_units()?;
    perf.query_unit_ownership()?;
    perf.acquire_units(AcquireMode::NORMAL, &units)?;
    perf.assign_units(&units, &[event], 10)?;
    perf.start_units(&units)?;
    machine.sleep_ns(35_000_000).map_err(CallError::Transport)?;
    for unit in units {
        let (head, counts) = perf.read_unit(unit)?;
        assert!(head.enabled_ns >= 35_000_000 && counts[0].value > 0);
    }
    perf.stop_units(&units)?;
    perf.release_units(&units)
}

fn options() -> Options {
    let kinds = [Kind::Dmc620, Kind::CsPmu, Kind::CsPmu64];
    Options {
        devices: kinds.into_iter().collect(),
        ..Options::default()
    }
}

#[test]
fn a_count_that_fails_anywhere_leaves_nothing_and_the_next_one_works() {
    let dock = dock(options());
    let machine = dock.machine();
    // The first count may make what later ones keep: the machine's processors are looked at once.
    whole_count(machine).expect("with every resource");
    let start = machine.fallible_calls();
    whole_count(machine).expect("with every resource");
    let calls = machine.fallible_calls() - start;
    assert!(calls >= 4, "a count asks for {calls} resources");
    let before = machine.footprint();
    let mut refused = 0;
    for n in 0..calls {
        machine.fail_nth(n);
        if whole_count(machine).is_err() {
            refused += 1;
        }
        let free = perf(machine, OWNER)
            .query_ownership()
            .expect("always legal");
        assert!(free.iter().all(|core| core.pid == 0), "resource {n}");
        let units = perf(machine, OWNER)
            .query_unit_ownership()
            .expect("always legal");
        assert!(units.iter().all(|unit| unit.pid == 0), "resource {n}");
        assert_eq!(machine.footprint().mappings, 0, "resource {n}");
        machine.close_all().expect("no rule broken");
        whole_count(machine).unwrap_or_else(|error| panic!("after resource {n}: {error:?}"));
        let after = machine.footprint();
        assert_eq!(
            (
                after.pool_blocks,
                after.objects,
                after.timers,
                after.mappings
            ),
            (before.pool_blocks, before.objects, before.timers, 0),
            "resource {n}"
        );
    }
    assert!(refused > 0, "no failure was noticed");
    unload_cleanly(dock);
}

#[test]
fn the_first_count_after_a_load_may_fail_anywhere_too() {
    let calls = {
        let dock = dock(options());
        let start = dock.machine().fallible_calls();
        whole_count(dock.machine()).expect("with every resource");
        let calls = dock.machine().fallible_calls() - start;
        unload_cleanly(dock);
        calls
    };
    for n in 0..calls {
        let dock = dock(options());
        dock.machine().fail_nth(n);
        drop(whole_count(dock.machine()));
        whole_count(dock.machine()).unwrap_or_else(|error| panic!("after resource {n}: {error:?}"));
        unload_cleanly(dock);
    }
}
