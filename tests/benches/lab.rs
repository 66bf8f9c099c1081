//! The lab's published figures, each beside a reference from the same run.
#![expect(
    missing_docs,
    reason = "criterion's macro makes an undocumented function"
)]

#[path = "lab/trace.rs"]
mod trace_figures;

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use e2e::{dock, open, read};
use faulty_driver::{DEVICE, Fault};
use lab_dock::Options;
use lab_ntos::{Loaded, PoolLevel};
use wperf_abi::Ioctl;

/// A buffered IOCTL through `wperf-driver.sys`, in process.
fn ioctl(criterion: &mut Criterion) {
    let dock = dock("wperf-driver", Options::default());
    let machine = dock.machine();
    let file = open(machine, r"\\.\WperfDriver");
    let mut output = [0; 4096];
    let code = Ioctl::QueryVersion.code();
    let len = Ioctl::QueryVersion.output().fixed_bytes;
    let mut group = criterion.benchmark_group("ioctl");
    group.bench_function("roundtrip", |bencher| {
        bencher.iter(|| {
            let completion = machine
                .ioctl(file, code, &[], &mut output[..len])
                .expect("no rule broken");
            assert!(completion.status.is_success());
        });
    });
    group.bench_function("host_syscall", |bencher| {
        bencher.iter(|| black_box(rustix::process::getppid()))
    });
    group.finish();
}

/// Load, DriverEntry, DriverUnload, unmap; the file is read and analysed once.
fn cycle(criterion: &mut Criterion) {
    let read = read("wperf-driver");
    let machine = Options::default().machine(|_| {}).expect("a machine");
    let mut group = criterion.benchmark_group("driver");
    group.bench_function("cycle", |bencher| {
        bencher.iter(|| match machine.load(&read.driver).expect("loads") {
            Loaded::Running(driver) => {
                assert!(machine.unload(driver).expect("no rule broken").is_empty())
            }
            Loaded::Failed(status, _) => panic!("{status}"),
        });
    });
    group.bench_function("host_process", |bencher| {
        bencher.iter(|| Command::new("/bin/true").status().expect("runs"));
    });
    group.finish();
}

/// One `rdpmc` in driver code: many in one IOCTL, divided.
fn counter_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pmu");
    for (name, patch) in [("counter_read", true), ("counter_read_trapped", false)] {
        let options = Options {
            patch,
            hang_limit: Duration::from_secs(3600),
            ..Options::default()
        };
        let dock = dock("faulty-driver", options);
        let machine = dock.machine();
        let file = open(machine, DEVICE);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let started = Instant::now();
                let reads = times.to_le_bytes();
                machine
                    .ioctl(file, Fault::ReadCounter.code(), &reads, &mut [])
                    .expect("no rule broken");
                started.elapsed()
            });
        });
    }
    group.finish();
}

/// What the verifier costs: a request that does nothing else, and one that takes pool and locks.
fn verifier(criterion: &mut Criterion) {
    let levels = [
        ("full", PoolLevel::Strict),
        ("fuzz", PoolLevel::Poison),
        ("off", PoolLevel::Off),
    ];
    let mut group = criterion.benchmark_group("verifier");
    for (name, pool) in levels {
        let options = Options {
            pool,
            ..Options::default()
        };
        let query = Ioctl::QueryVersion;
        let mut output = [0; 64];
        let output = &mut output[..query.output().fixed_bytes];
        let dock = dock("wperf-driver", options);
        let file = open(dock.machine(), r"\\.\WperfDriver");
        group.bench_function(name, |bencher| {
            bencher.iter(|| dock.machine().ioctl(file, query.code(), &[], output));
        });
        let dock = e2e::dock("faulty-driver", options);
        let file = open(dock.machine(), DEVICE);
        group.bench_function(format!("work_{name}"), |bencher| {
            bencher.iter(|| {
                dock.machine()
                    .ioctl(file, Fault::Work.code(), &[], &mut [])
                    .expect("no rule broken")
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = figures;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    targets = ioctl, cycle, counter_read, verifier, trace_figures::trace
}
criterion_main!(figures);
