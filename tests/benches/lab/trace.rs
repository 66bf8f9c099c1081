//! What an event costs, beside what it must cost: reading the time and storing 32 bytes.

#[path = "decode.rs"]
mod decode;
#[path = "peers.rs"]
mod peers;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use criterion::Criterion;
use rustix::time::{ClockId, clock_gettime};
use trace::host::Processor;
use trace::{Flag, hot};

/// Slots of a ring: 64 KiB, as the limit has.
const SLOTS: usize = 2048;

const ON: Flag = Flag::new(0, "ON");
const OFF: Flag = Flag::new(1, "OFF");

/// Processor time of this thread: what others do to the machine is not in it.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it began at zero")
}

/// Time for so many rounds.
fn timed(times: u64, mut round: impl FnMut(u64)) -> Duration {
    let started = now();
    for number in 0..times {
        round(black_box(number));
    }
    now() - started
}

/// Stores 32 bytes into a ring.
#[inline(always)]
fn store(slots: &[[AtomicU64; 4]], words: [u64; 4]) {
    let [_, _, number, _] = words;
    let index = usize::try_from(number).unwrap_or(0) % SLOTS;
    for (place, word) in slots[index].iter().zip(words) {
        place.store(word, Ordering::Relaxed);
    }
}

/// Every eighth event has a time of its own.
#[inline(always)]
fn burst_of_eight(here: &Processor, number: u64) {
    if number.is_multiple_of(8) {
        hot!(at here; Verbose, ON, "first", number: u64 = number, other: u64 = number ^ 7);
    } else {
        hot!(burst here; Verbose, ON, "next", number: u64 = number, other: u64 = number ^ 7);
    }
}

/// The figures of tracing.
pub(crate) fn trace(criterion: &mut Criterion) {
    let here = &Processor::become_one(0, SLOTS).expect("nobody else is processor 0");
    trace::recorder::select(5, ON.mask());
    let mut group = criterion.benchmark_group("trace");
    let slots: Vec<[AtomicU64; 4]> = (0..SLOTS).map(|_| Default::default()).collect();
    group.bench_function("limit", |bencher| {
        bencher.iter_custom(|times| {
            timed(times, |number| {
                store(&slots, [trace::thunk::now(), 1, number, number ^ 7]);
            })
        });
    });
    group.bench_function("dispatch", |bencher| {
        bencher.iter_custom(|times| {
            timed(times, |number| {
                hot!(at here; Verbose, ON, "event", number: u64 = number, other: u64 = number ^ 7);
            })
        });
    });
    group.bench_function("any_irql", |bencher| {
        bencher.iter_custom(|times| {
            timed(times, |number| {
                hot!(Verbose, ON, "event", number: u64 = number, other: u64 = number ^ 7);
            })
        });
    });
    group.bench_function("burst", |bencher| {
        bencher.iter_custom(|times| {
            timed(times, |number| {
                hot!(burst here; Verbose, ON, "next", number: u64 = number, other: u64 = number ^ 7);
            })
        });
    });
    group.bench_function("burst_of_eight", |bencher| {
        bencher.iter_custom(|times| timed(times, |number| burst_of_eight(here, number)));
    });
    // What a site that is off adds to a path that does something: stores 32 bytes.
    group.bench_function("disabled", |bencher| {
        bencher.iter_custom(|times| {
            timed(times, |number| {
                hot!(Verbose, OFF, "event", number: u64 = number, other: u64 = number ^ 7);
                store(&slots, [1, 2, number, number ^ 7]);
            })
        });
    });
    group.bench_function("nothing", |bencher| {
        bencher
            .iter_custom(|times| timed(times, |number| store(&slots, [1, 2, number, number ^ 7])));
    });
    peers::peers(&mut group);
    group.finish();
    decode::decoder(criterion);
}
