//! The samples of the driver, each of them: the model PMU knows when and where every one is due.

use std::collections::HashMap;

use e2e::scene::source;
use e2e::wperf::{CLOCK_NS, Handle, OWNER, Perf, STRANGER, dock, perf, unload_cleanly};
use lab_devices::Architectural::{Branches, CacheMisses, Cycles, Instructions};
use lab_devices::{Event, Model, Place};
use lab_dock::{Options, PmuSource};
use lab_ntos::Machine;
use wperf_abi::client::{CallError, SampleBatch, encode_core_set, encode_sample_wait};
use wperf_abi::record::{AcquireMode, Sample, SampleSource, WaitOutcome, read_flags, sample_flags};
use wperf_abi::{EventFilter, Ioctl, Refusal, SAMPLE_INTERVAL_MIN, State};

const US: u64 = 1000;
const MS: u64 = 1_000_000;
/// Reading the virtual clock takes a little time, several times per interrupt.
const SLACK_NS: u64 = 2000;

/// A client that holds cores with sources assigned.
fn armed<'m>(machine: &'m Machine, cores: &[u32], sources: &[SampleSource]) -> Perf<'m> {
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, cores).expect("free");
    perf.sample_assign(cores, sources, 0).expect("fits");
    perf
}

fn of(source: &SampleSource) -> Event {
    Event {
        code: u16::try_from(source.code.0).expect("an event of the hardware"),
        user: source.filter.counts_user(),
        kernel: source.filter.counts_kernel(),
    }
}

/// How many samples of a source are due on a core between two instants.
fn due(core: u32, source: &SampleSource, from_ns: u64, to_ns: u64) -> u64 {
    let total = |ns| Model::total(core as usize, of(source), ns);
    (total(to_ns) - total(from_ns)) / source.interval
}

fn is_at(sample: &Sample, place: &Place) -> bool {
    sample.pc == place.pc
        && u64::from(sample.pid) == place.process
        && u64::from(sample.tid) == place.thread
        && (sample.flags & sample_flags::USER != 0) == place.user
}

/// Whether each sample was due when it was taken, as many events after `from_ns` as its number says, and
/// is where the model was. Of counters that overflow at the same time, one interrupt serves all.
fn are_right(samples: &[Sample], sources: &[SampleSource], from_ns: u64) -> Result<(), String> {
    let mut numbers: HashMap<u16, u64> = HashMap::new();
    for sample in samples {
        let source = &sources[usize::from(sample.source)];
        let number = numbers.entry(sample.source).or_default();
        *number += 1;
        let cpu = sample.core as usize;
        let total = Model::total(cpu, of(source), from_ns) + *number * source.interval;
        let at_ns = Model::time_of(cpu, of(source), total).expect("it counts");
        // The clock's resolution cuts off what is below.
        let is_in_time = (at_ns - CLOCK_NS + 1..at_ns + SLACK_NS).contains(&sample.time_ns);
        let served = (at_ns - SLACK_NS..=at_ns).rev().step_by(50);
        let mut places = served
            .flat_map(|ns| sources.iter().map(move |of_it| (ns, of_it)))
            .map(|(ns, of_it)| Model::place(cpu, of(of_it), ns));
        let is_there = places.any(|place| is_at(sample, &place));
        if !is_in_time || !is_there || sample.code != source.code {
            return Err(format!("{sample:?} was due at {at_ns}"));
        }
    }
    Ok(())
}

#[test]
fn every_sample_is_the_one_that_was_due() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let user_only = SampleSource {
        filter: EventFilter::EXCLUDE_KERNEL,
        ..source(Branches, 20_000)
    };
    let sources = [
        source(Instructions, 70_000),
        user_only,
        source(CacheMisses, 1000),
    ];
    let cores = [0, 1, 3];
    let mut perf = armed(machine, &cores, &sources);
    let begin = machine.now_ns();
    perf.start(&cores).expect("armed");
    let from = machine.now_ns();
    machine.sleep_ns(5 * MS).expect("no rule broken");
    perf.stop(&cores).expect("sampling");
    let to = machine.now_ns();
    let batch = perf.sample_read(&cores, 10_000).expect("armed");
    assert_eq!(batch.flags, 0);
    for (index, &core) in cores.iter().enumerate() {
        let counts = batch.cores[index];
        assert_eq!(counts.core, core);
        let right: u64 = sources
            .iter()
            .map(|source| due(core, source, from, to))
            .sum();
        assert!(
            counts.generated.abs_diff(right) <= sources.len() as u64,
            "{counts:?}, not {right}"
        );
        assert_eq!((counts.delivered, counts.lost), (counts.generated, 0));
        assert_eq!(counts.state, State::Armed as u32);
        let own = batch.samples.iter().filter(|sample| sample.core == core);
        let own: Vec<_> = own.copied().collect();
        assert_eq!(own.len() as u64, counts.delivered);
        assert!(own.is_sorted_by_key(|sample| sample.time_ns));
        let is_of_run = |sample: &Sample| sample.generation == counts.generation;
        assert!(own.iter().all(is_of_run));
        // Somewhere in the call the counters were started.
        let began = (begin..=from).find(|&from| are_right(&own, &sources, from).is_ok());
        assert!(began.is_some(), "{:?}", are_right(&own, &sources, from));
    }
    unload_cleanly(dock);
}

/// Reads until a wait says that the cores stand still, or `rounds` are over.
fn drain(perf: &mut Perf<'_>, cores: &[u32], rounds: usize) -> (Vec<Sample>, SampleBatch) {
    let mut samples = Vec::new();
    for _ in 0..rounds {
        let woken = perf.sample_wait(cores, 1000).expect("own");
        let batch = perf.sample_read(cores, 10_000).expect("own");
        samples.extend(&batch.samples);
        if woken.outcome == WaitOutcome::STOPPED {
            return (samples, batch);
        }
        assert_eq!(woken.outcome, WaitOutcome::HALF_FULL);
    }
    let batch = perf.sample_read(cores, 10_000).expect("own");
    samples.extend(&batch.samples);
    (samples, batch)
}

#[test]
fn a_reader_that_keeps_up_loses_none_at_a_sample_per_microsecond() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    // Cycles at 3 per ns, branches at 1.2: about a million samples a second each.
    let sources = [source(Cycles, 3000), source(Branches, 1200)];
    let cores = [0, 2];
    let mut perf = armed(machine, &cores, &sources);
    perf.start(&cores).expect("armed");
    let from = machine.now_ns();
    let (mut samples, _) = drain(&mut perf, &cores, 40);
    perf.stop(&cores).expect("sampling");
    let to = machine.now_ns();
    let (rest, last) = drain(&mut perf, &cores, 1);
    samples.extend(rest);
    for counts in &last.cores {
        let right: u64 = sources
            .iter()
            .map(|of| due(counts.core, of, from, to))
            .sum();
        assert!(
            counts.generated.abs_diff(right) <= 2,
            "{counts:?}, not {right}"
        );
        assert_eq!(counts.delivered + counts.lost, counts.generated);
        assert_eq!(counts.lost - counts.late, 0, "no ring was ever full");
        let own = samples.iter().filter(|sample| sample.core == counts.core);
        assert_eq!(own.count() as u64, counts.delivered);
    }
    assert!(samples.len() > 40 * 2048, "{}", samples.len());
    unload_cleanly(dock);
}

#[test]
fn at_the_shortest_interval_a_reader_that_keeps_up_loses_none() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    // Three million samples a second.
    let sources = [source(Cycles, SAMPLE_INTERVAL_MIN)];
    let mut perf = armed(machine, &[0], &sources);
    perf.start(&[0]).expect("armed");
    let from = machine.now_ns();
    let (mut samples, running) = drain(&mut perf, &[0], 30);
    assert_eq!(running.cores[0].lost, 0, "{:?}", running.cores);
    perf.stop(&[0]).expect("sampling");
    let to = machine.now_ns();
    let (rest, last) = drain(&mut perf, &[0], 1);
    samples.extend(rest);
    let counts = last.cores[0];
    assert!(counts.generated.abs_diff(due(0, &sources[0], from, to)) <= 4);
    assert!(counts.generated > 30 * 2048, "{counts:?}");
    // What was due in the very call that stops comes late.
    assert!(counts.lost == counts.late && counts.late <= 4, "{counts:?}");
    assert_eq!(samples.len() as u64, counts.delivered);
    unload_cleanly(dock);
}

#[test]
fn a_reader_that_does_not_come_loses_exactly_what_is_counted_and_sampling_goes_on() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let sources = [source(Cycles, 30_000)];
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, &[1]).expect("free");
    let reply = perf.sample_assign(&[1], &sources, 100).expect("fits");
    assert_eq!(reply.ring_samples, 128);
    perf.start(&[1]).expect("armed");
    let from = machine.now_ns();
    machine.sleep_ns(3 * MS).expect("no rule broken");
    let batch = perf.sample_read(&[1], 50).expect("sampling");
    let counts = batch.cores[0];
    assert_eq!(batch.flags, read_flags::MORE);
    assert_eq!((counts.delivered, counts.waiting), (50, 78));
    assert_eq!(counts.generated, 128 + counts.lost);
    assert!(counts.lost > 100 && counts.late == 0, "{counts:?}");
    // The oldest were kept, and what there is room for again comes in.
    machine.sleep_ns(100 * US).expect("no rule broken");
    let batch = perf.sample_read(&[1], 1000).expect("sampling");
    assert!(batch.samples.len() > 78, "{}", batch.samples.len());
    perf.stop(&[1]).expect("sampling");
    let to = machine.now_ns();
    let counts = perf.sample_read(&[1], 1000).expect("armed").cores[0];
    let right = due(1, &sources[0], from, to);
    assert!(
        counts.generated.abs_diff(right) <= 1,
        "{counts:?}, not {right}"
    );
    assert_eq!(counts.generated, counts.delivered + counts.lost);
    unload_cleanly(dock);
}

#[test]
fn a_wait_ends_when_a_ring_is_half_full_at_its_time_or_at_the_stop() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    let cores = [0, 1];
    perf.acquire(AcquireMode::NORMAL, &cores).expect("free");
    perf.sample_assign(&cores, &[source(Cycles, 300_000)], 64)
        .expect("fits");
    let woken = perf.sample_wait(&cores, 1000).expect("armed");
    assert_eq!((woken.outcome, woken.core), (WaitOutcome::STOPPED, 0));
    perf.start(&cores).expect("armed");
    let from = machine.now_ns();
    let woken = perf.sample_wait(&cores, 1).expect("sampling");
    assert_eq!(woken.outcome, WaitOutcome::TIME_UP);
    assert!((MS..MS + SLACK_NS * 20).contains(&(machine.now_ns() - from)));
    // 32 samples of 100 µs (core 1 is a hundredth faster).
    let woken = perf.sample_wait(&cores, 1000).expect("sampling");
    assert_eq!((woken.outcome, woken.core), (WaitOutcome::HALF_FULL, 1));
    let took = machine.now_ns() - from;
    assert!((3100 * US..3250 * US).contains(&took), "{took}");
    let woken = perf.sample_wait(&[1], 1000).expect("it is still half full");
    assert_eq!(woken.outcome, WaitOutcome::HALF_FULL);
    let woken = perf.sample_wait(&[0], 0).expect("a look");
    assert!(woken.outcome == WaitOutcome::TIME_UP || woken.outcome == WaitOutcome::HALF_FULL);
    drop(perf);
    unload_cleanly(dock);
}

#[test]
fn a_pending_wait_ends_with_the_stop_the_cancellation_or_the_handle() {
    for how in 0..4 {
        let dock = dock(Options::default());
        let machine = dock.machine();
        let handle = Handle::open(machine, OWNER);
        let mut perf = handle.client();
        perf.acquire(AcquireMode::NORMAL, &[0, 1]).expect("free");
        perf.sample_assign(&[0, 1], &[source(Cycles, 30_000_000)], 0)
            .expect("fits");
        perf.start(&[0, 1]).expect("armed");
        let code = Ioctl::SampleWait.code();
        let input = encode_sample_wait(&[0, 1], 5000);
        let request = machine
            .begin_ioctl(handle.file, code, &input, 8)
            .expect("no rule broken")
            .expect("begun");
        machine.poll().expect("no rule broken");
        assert!(!machine.is_complete(&request), "it waits");
        let second = perf.sample_wait(&[1], 1000);
        assert!(
            matches!(second, Err(CallError::Refused(_, Refusal::Waiting))),
            "{second:?}"
        );
        let expected = match how {
            0 => {
                perf.stop(&[1]).expect("sampling");
                Some(WaitOutcome::STOPPED)
            }
            1 => {
                machine.cancel(&request).expect("no rule broken");
                None
            }
            2 => {
                let mut other = e2e::wperf::perf(machine, STRANGER);
                other.acquire(AcquireMode::FORCE, &[0]).expect("by force");
                Some(WaitOutcome::STOPPED)
            }
            _ => {
                assert!(machine.close(handle.file).expect("no rule").is_success());
                None
            }
        };
        machine.poll().expect("no rule broken");
        assert!(machine.is_complete(&request), "{how}");
        let mut output = [0; 8];
        let completion = machine.finish(request, &mut output);
        match expected {
            Some(outcome) => {
                assert!(completion.status.is_success(), "{how}: {completion:?}");
                assert_eq!(output[..4], outcome.0.to_le_bytes());
            }
            None => assert_eq!(completion.status, nt::status::STATUS_CANCELLED, "{how}"),
        }
        unload_cleanly(dock);
    }
}

#[test]
fn the_interrupt_is_held_only_while_a_core_samples() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let is_held = || machine.interrupt_sources().profile;
    let sources = [source(Cycles, 100_000)];
    let mut first = armed(machine, &[0, 1], &sources);
    assert!(!is_held(), "nobody samples yet");
    first.start(&[0, 1]).expect("armed");
    assert!(is_held());
    let mut second = perf(machine, STRANGER);
    second.acquire(AcquireMode::NORMAL, &[2]).expect("free");
    second.sample_assign(&[2], &sources, 0).expect("fits");
    second.start(&[2]).expect("armed");
    first.stop(&[0, 1]).expect("sampling");
    assert!(is_held(), "the other samples");
    second.release(&[2]).expect("sampling");
    assert!(!is_held());
    first.start(&[0]).expect("armed");
    assert!(is_held());
    // Its process dies.
    machine.close_all().expect("no rule broken");
    assert!(!is_held());
    let mut third = armed(machine, &[0], &sources);
    third.start(&[0]).expect("armed");
    let mut forces = perf(machine, STRANGER);
    forces.acquire(AcquireMode::FORCE, &[0]).expect("by force");
    assert!(!is_held(), "its last sampler was forced out");
    unload_cleanly(dock);
}

#[test]
fn interrupts_for_nothing_and_after_the_stop_leave_no_trace() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut perf = armed(machine, &[0, 1], &[source(Cycles, 30_000)]);
    perf.start(&[0, 1]).expect("armed");
    machine.raise_profile(0).expect("there");
    machine.raise_profile(3).expect("there");
    machine.sleep_ns(95 * US).expect("no rule broken");
    perf.stop(&[0]).expect("sampling");
    machine.raise_profile(0).expect("there");
    machine.poll().expect("no rule broken");
    let batch = perf.sample_read(&[0], 100).expect("armed");
    assert_eq!((batch.samples.len(), batch.cores[0].generated), (9, 9));
    unload_cleanly(dock);
}

#[test]
fn only_the_process_that_was_asked_for_is_sampled() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let pid = u32::try_from(Model::place(1, of(&source(Cycles, 1000)), 0).process).expect("small");
    let sources = [SampleSource {
        pid,
        ..source(Cycles, 30_000)
    }];
    let mut perf = armed(machine, &[0, 1], &sources);
    perf.start(&[0, 1]).expect("armed");
    machine.sleep_ns(MS).expect("no rule broken");
    perf.stop(&[0, 1]).expect("sampling");
    let batch = perf.sample_read(&[0, 1], 1000).expect("armed");
    assert_eq!(batch.cores[0].generated, 0, "another process runs there");
    assert!(batch.cores[1].generated > 90, "{:?}", batch.cores);
    assert!(batch.samples.iter().all(|sample| sample.pid == pid));
    unload_cleanly(dock);
}

#[test]
fn sources_do_with_whatever_counters_are_left_and_are_refused_beyond() {
    for taken in 0u64..1 << 4 {
        let dock = dock(Options {
            counters_taken: taken,
            ..Options::default()
        });
        let machine = dock.machine();
        let free = 4 - taken.count_ones() as usize;
        let mut perf = perf(machine, OWNER);
        perf.acquire(AcquireMode::NORMAL, &[0]).expect("free");
        // Three fixed counters: instructions, cycles, reference cycles; branches need a general one.
        let cycles = source(Cycles, 50_000);
        let mut sources = vec![cycles; 1];
        sources.extend(vec![source(Branches, 50_000); free]);
        perf.sample_assign(&[0], &sources, 0).expect("fits");
        perf.start(&[0]).expect("armed");
        machine.sleep_ns(MS).expect("no rule broken");
        perf.stop(&[0]).expect("sampling");
        let batch = perf.sample_read(&[0], 10_000).expect("armed");
        for number in 0..sources.len() {
            let samples = batch.samples.iter();
            let own = samples.filter(|sample| usize::from(sample.source) == number);
            assert!(own.count() > 20, "{taken:#x}: source {number}");
        }
        sources.push(source(Branches, 50_000));
        let refused = perf.sample_assign(&[0], &sources, 0);
        assert!(
            matches!(refused, Err(CallError::Refused(_, Refusal::GroupTooLarge))),
            "{taken:#x}: {refused:?}"
        );
        unload_cleanly(dock);
    }
}

#[test]
fn counters_that_are_taken_between_the_query_and_the_start_are_done_without() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut perf = perf(machine, OWNER);
    let (_, config) = perf.query_config().expect("always legal");
    assert_eq!(config[0].counters_free, 4);
    assert!(machine.take_counters(0b1011 | 0b010 << 32));
    let reply = perf.acquire(AcquireMode::NORMAL, &[0]).expect("free");
    assert_eq!(reply.counters_free_min, 1);
    // The fixed cycle counter is somebody's, too: cycles go to the last general one.
    let cycles = [source(Cycles, 50_000)];
    perf.sample_assign(&[0], &cycles, 0).expect("fits");
    let refused = perf.sample_assign(&[0], &[cycles[0], source(Branches, 5000)], 0);
    assert!(
        matches!(refused, Err(CallError::Refused(_, Refusal::GroupTooLarge))),
        "{refused:?}"
    );
    perf.start(&[0]).expect("armed");
    machine.sleep_ns(MS).expect("no rule broken");
    perf.stop(&[0]).expect("sampling");
    let batch = perf.sample_read(&[0], 1000).expect("armed");
    assert!(
        (55..=60).contains(&batch.samples.len()),
        "{}",
        batch.samples.len()
    );
    unload_cleanly(dock);
}

#[test]
fn without_a_pmu_sampling_is_refused_by_name() {
    let dock = dock(Options {
        pmu: PmuSource::None,
        ..Options::default()
    });
    let mut perf = perf(dock.machine(), OWNER);
    perf.acquire(AcquireMode::NORMAL, &[0]).expect("free");
    let cycles = [SampleSource {
        code: wperf_abi::EventCode::CYCLES,
        ..source(Cycles, 5000)
    }];
    let refused = perf.sample_assign(&[0], &cycles, 0);
    assert!(
        matches!(refused, Err(CallError::Refused(_, Refusal::NoInterrupt))),
        "{refused:?}"
    );
    unload_cleanly(dock);
}

#[test]
fn the_time_that_its_interrupt_routine_takes_is_measured_core_by_core() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let mut perf = armed(machine, &[1], &[source(Cycles, 30_000)]);
    perf.start(&[1]).expect("armed");
    machine.sleep_ns(MS).expect("no rule broken");
    perf.stop(&[1]).expect("sampling");
    let times = perf.query_isr_times(1).expect("always legal");
    let samples = perf.sample_read(&[1], 1000).expect("armed").cores[0].generated;
    assert!(times.count.abs_diff(samples) <= 1, "{times:?}, {samples}");
    assert_eq!(times.ranges.iter().sum::<u64>(), times.count);
    assert!(times.total_ns >= times.longest_ns && times.longest_ns > 0);
    assert_eq!(perf.query_isr_times(0).expect("always legal").count, 0);
    assert!(machine.latency().isr.count >= times.count);
    unload_cleanly(dock);
}

#[test]
fn a_read_without_room_for_the_counts_is_refused_and_takes_nothing() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    let handle = Handle::open(machine, OWNER);
    let mut perf = handle.client();
    perf.acquire(AcquireMode::NORMAL, &[0, 1]).expect("free");
    perf.sample_assign(&[0, 1], &[source(Cycles, 30_000)], 0)
        .expect("fits");
    perf.start(&[0, 1]).expect("armed");
    machine.sleep_ns(MS).expect("no rule broken");
    perf.stop(&[0, 1]).expect("sampling");
    let input = encode_core_set(&[0, 1]);
    let (status, _) = handle.call(Ioctl::SampleRead.code(), &input, 16 + 2 * 56 - 1);
    assert_eq!(status, Refusal::OutputTooSmall.ntstatus());
    // Room for three: shared.
    let batch = perf.sample_read(&[0, 1], 3).expect("armed");
    let of = |core| {
        batch
            .samples
            .iter()
            .filter(|sample| sample.core == core)
            .count()
    };
    assert_eq!((of(0), of(1), batch.flags), (1, 2, read_flags::MORE));
    unload_cleanly(dock);
}

/// Samples from the opening of the handle to its closing; what is refused is passed over.
fn sample_once(machine: &Machine) -> Option<u64> {
    let client = lab_ntos::Client {
        process: OWNER,
        privilege: lab_ntos::Privilege::Administrator,
    };
    let opened = machine.open(wperf_abi::CLIENT_PATH, e2e::READ_WRITE, client);
    let file = opened.expect("no rule broken").ok()?;
    let mut perf = Handle { machine, file }.client();
    let cores = [0, 2];
    // Whoever is refused once goes on regardless: nothing of it may stay behind.
    drop(perf.acquire(AcquireMode::NORMAL, &cores));
    drop(perf.sample_assign(
        &cores,
        &[source(Cycles, 30_000), source(Branches, 9000)],
        64,
    ));
    drop(perf.start(&cores));
    drop(perf.sample_wait(&cores, 5));
    drop(perf.stop(&cores));
    let batch = perf.sample_read(&cores, 1000);
    assert!(machine.close(file).expect("no rule broken").is_success());
    batch.ok().map(|batch| batch.cores[0].generated)
}

#[test]
fn whatever_runs_out_nothing_is_left_behind() {
    let dock = dock(Options::default());
    let machine = dock.machine();
    assert!(sample_once(machine).is_some_and(|generated| generated > 0));
    let before = machine.fallible_calls();
    sample_once(machine);
    let calls = machine.fallible_calls() - before;
    assert!(calls > 10, "{calls}");
    let mut refused = 0;
    for n in 0..calls {
        machine.fail_nth(n);
        refused += u64::from(sample_once(machine).is_none());
        assert!(!machine.interrupt_sources().profile, "call {n}");
        assert!(
            sample_once(machine).is_some_and(|generated| generated > 0),
            "call {n}"
        );
    }
    assert!(refused > 3, "{refused} of {calls}");
    unload_cleanly(dock);
}
