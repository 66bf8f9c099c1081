//! Samples of a real program: the host's kernel takes them, the driver serves an interrupt for each.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::scene::source;
use e2e::wperf::{OWNER, dock, perf, unload_cleanly};
use lab_devices::Architectural::Cycles;
use lab_dock::{Options, PmuSource, host_can_count};
use lab_ntos::ClockKind;
use wperf_abi::EventFilter;
use wperf_abi::record::{AcquireMode, Sample, SampleSource, sample_flags};

/// A program that only computes, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let shell = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn();
        Self(shell.expect("a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether an address is code of a process.
fn is_code(process: u32, address: u64) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it runs");
    maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else {
            return false;
        };
        let bounds = range.split_once('-').and_then(|(from, to)| {
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(from)?..number(to)?)
        });
        access.contains('x') && bounds.is_some_and(|bounds| bounds.contains(&address))
    })
}

#[test]
fn a_program_of_the_host_is_sampled_where_it_is() {
    if !host_can_count() {
        panic!("this host does not let processes be counted: kernel.perf_event_paranoid");
    }
    let busy = Busy::start();
    let process = busy.0.id();
    let dock = dock(Options {
        pmu: PmuSource::Perf,
        clock: ClockKind::Host,
        cpus: 2,
        ..Options::default()
    });
    let machine = dock.machine();
    machine.attach(1, Some(process)).expect("it runs");
    let mut perf = perf(machine, OWNER);
    perf.acquire(AcquireMode::NORMAL, &[1]).expect("free");
    // Cycles at 1 GHz where there is no hardware to count them, more elsewhere: at least each millisecond.
    let sources = [SampleSource {
        filter: EventFilter::EXCLUDE_KERNEL,
        ..source(Cycles, 1_000_000)
    }];
    perf.sample_assign(&[1], &sources, 0).expect("fits");
    perf.start(&[1]).expect("armed");
    let (begun, mut samples) = (Instant::now(), Vec::<Sample>::new());
    while samples.len() < 50 && begun.elapsed() < Duration::from_secs(60) {
        perf.sample_wait(&[1], 20).expect("sampling");
        samples.extend(perf.sample_read(&[1], 1000).expect("sampling").samples);
    }
    perf.stop(&[1]).expect("sampling");
    let last = perf.sample_read(&[1], 10_000).expect("armed");
    samples.extend(last.samples);
    let counts = last.cores[0];
    assert!(samples.len() >= 50, "{counts:?}");
    assert_eq!(counts.delivered, samples.len() as u64);
    assert_eq!(counts.generated, counts.delivered + counts.lost);
    assert!(samples.is_sorted_by_key(|sample| sample.time_ns));
    for sample in &samples {
        assert_eq!((sample.pid, sample.tid), (process, process), "{sample:?}");
        assert_eq!(sample.flags, sample_flags::USER);
        assert!(is_code(process, sample.pc), "{sample:?}");
    }
    machine.attach(1, None).expect("there");
    unload_cleanly(dock);
}
