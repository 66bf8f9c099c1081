//! Drivers whose code runs on several host threads at once break no rule and lose nothing.

use e2e::scene::source;
use e2e::wperf::{Handle, OWNER, unload_cleanly};
use e2e::{ADMINISTRATOR, READ_WRITE, open};
use kernel_test_driver::protocol;
use lab_devices::Architectural::{Branches, Cycles};
use lab_dock::Options;
use lab_ntos::{Client, FileId, Machine};
use nt::status::STATUS_SUCCESS;
use wperf_abi::record::{AcquireMode, WaitOutcome};
use wperf_abi::{CLIENT_PATH, Ioctl};

const CLIENTS: u64 = 6;
const ROUNDS: u32 = 30;

fn options(host_threads: usize) -> Options {
    Options {
        host_threads,
        ..Options::default()
    }
}

/// A call: code, input, bytes of output.
type Call = (u32, Vec<u8>, usize);

/// Every client makes a call at the same time; gives how each ended and what it returned.
fn all(machine: &Machine, files: &[FileId], calls: &[Call]) -> Vec<(u32, Vec<u8>)> {
    let mut requests = Vec::new();
    for (file, (code, input, room)) in files.iter().zip(calls.iter().cycle()) {
        let begun = machine.begin_ioctl(*file, *code, input, *room);
        let begun = begun.unwrap_or_else(|stopped| panic!("{stopped}"));
        requests.push((begun.expect("the client may"), *room));
    }
    while requests
        .iter()
        .any(|(request, _)| !machine.is_complete(request))
    {
        let next = machine.poll().unwrap_or_else(|stopped| panic!("{stopped}"));
        let pending = requests
            .iter()
            .any(|(request, _)| !machine.is_complete(request));
        if pending {
            let next = next.expect("somebody brings a pending request on");
            machine
                .sleep_ns(next)
                .unwrap_or_else(|stopped| panic!("{stopped}"));
        }
    }
    let finish = |(request, room)| {
        let mut output = vec![0; room];
        let completion = machine.finish(request, &mut output);
        let returned = if completion.status.is_error() {
            0
        } else {
            completion.information
        };
        output.truncate(returned);
        (completion.status.to_u32(), output)
    };
    requests.into_iter().map(finish).collect()
}

#[test]
fn the_safe_kernel_api_holds_up_when_its_driver_runs_in_parallel() {
    for host_threads in [2, 4] {
        let dock = e2e::dock("kernel-test-driver", options(host_threads));
        let machine = dock.machine();
        let files: Vec<_> = (0..CLIENTS)
            .map(|_| open(machine, protocol::DEVICE))
            .collect();
        let number = |n: u32| n.to_le_bytes().to_vec();
        let calls = [
            (protocol::POOL, number(40), 8),
            (protocol::PER_CPU, Vec::new(), 16),
            (protocol::WORK, number(3), 8),
        ];
        for _ in 0..ROUNDS {
            let results = all(machine, &files, &calls);
            for (index, (status, output)) in results.iter().enumerate() {
                assert_eq!(*status, STATUS_SUCCESS.to_u32(), "client {index}");
                if index % calls.len() == 0 {
                    let sum: u64 = (0..40).map(|n| n * n).sum();
                    assert_eq!(output[..], sum.to_le_bytes());
                }
            }
        }
        let mut output = [0; 12];
        let done = machine.ioctl(files[0], protocol::FILES, &[], &mut output);
        assert!(done.expect("no rule broken").status.is_success());
        assert_eq!(
            output[..4],
            u32::try_from(CLIENTS).expect("few").to_le_bytes()
        );
        unload_cleanly(dock);
    }
}

#[test]
fn wperf_clients_that_call_at_the_same_time_get_answers_and_break_nothing() {
    for host_threads in [2, 4] {
        let dock = e2e::wperf::dock(options(host_threads));
        let machine = dock.machine();
        let clients = (0..CLIENTS).map(|n| Client {
            process: OWNER + n,
            ..ADMINISTRATOR
        });
        let files: Vec<FileId> = clients
            .map(
                |client| match machine.open(CLIENT_PATH, READ_WRITE, client) {
                    Ok(Ok(file)) => file,
                    other => panic!("{CLIENT_PATH}: {other:?}"),
                },
            )
            .collect();
        let handle = Handle {
            machine,
            file: files[0],
        };
        for round in 0..ROUNDS {
            // Whatever they answer to inputs of this length: alone or together, no rule is broken.
            for code in Ioctl::ALL {
                let input = vec![0; round as usize];
                let results = all(machine, &files, &[(code.code(), input, 64)]);
                assert_eq!(results.len(), files.len());
            }
        }
        handle.close();
        unload_cleanly(dock);
    }
}

/// Interrupts, wake-ups and readers on several processors, truly at the same time.
#[test]
fn sampling_holds_up_when_its_driver_runs_in_parallel() {
    const CORES: [u32; 4] = [0, 1, 2, 3];
    for host_threads in [2, 4] {
        let dock = e2e::wperf::dock(options(host_threads));
        let machine = dock.machine();
        let mut perf = e2e::wperf::perf(machine, OWNER);
        perf.acquire(AcquireMode::NORMAL, &CORES).expect("free");
        let sources = [source(Cycles, 20_000), source(Branches, 30_000)];
        let mut read = [0; CORES.len()];
        for _ in 0..ROUNDS {
            perf.sample_assign(&CORES, &sources, 64).expect("fits");
            perf.start(&CORES).expect("armed");
            read.fill(0);
            loop {
                let woken = perf.sample_wait(&CORES, 1).expect("own");
                let batch = perf.sample_read(&CORES, 1000).expect("own");
                for sample in &batch.samples {
                    read[sample.core as usize] += 1;
                    let generation = batch.cores[sample.core as usize].generation;
                    assert_eq!(sample.generation, generation);
                }
                for (counts, read) in batch.cores.iter().zip(read) {
                    assert_eq!(counts.delivered, read, "{counts:?}");
                    let sum = counts.delivered + counts.waiting + counts.lost;
                    assert_eq!(counts.generated, sum);
                }
                match woken.outcome {
                    WaitOutcome::STOPPED => break,
                    _ if batch.cores.iter().all(|counts| counts.generated > 200) => {
                        perf.stop(&CORES).expect("sampling");
                    }
                    _ => {}
                }
            }
        }
        unload_cleanly(dock);
    }
}
