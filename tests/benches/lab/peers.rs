//! What others take for the same event: a fixed text and two numbers, with the time, kept in memory.
//!
//! Each is given its best: nothing is written to a file, no other thread looks, no lock is contended.
#![expect(
    unsafe_code,
    reason = "the logger of a peer promises what its buffer relies on"
)]

use std::cell::UnsafeCell;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;

use super::{SLOTS, timed};

/// Bytes of a buffer, as a ring has.
const BYTES: usize = SLOTS * 32;

/// A buffer that is written round and round, by one thread.
struct Ram(UnsafeCell<([u8; BYTES], usize)>);

// SAFETY: only the thread that runs the benchmarks logs.
unsafe impl Sync for Ram {}

static RAM: Ram = Ram(UnsafeCell::new(([0; BYTES], 0)));

impl Ram {
    fn push(&self, bytes: &[u8]) {
        // SAFETY: one thread, and nothing in here logs.
        let (buffer, used) = unsafe { &mut *self.0.get() };
        if *used + bytes.len() > BYTES {
            *used = 0;
        }
        if let Some(place) = buffer.get_mut(*used..*used + bytes.len()) {
            place.copy_from_slice(bytes);
            *used += bytes.len();
        }
    }

    fn used(&self) -> usize {
        // SAFETY: one thread.
        unsafe { (*self.0.get()).1 }
    }
}

/// `defmt` into memory, without framing.
#[defmt::global_logger]
struct Logger;

// SAFETY: one thread logs, so that each frame is released before the next is acquired.
unsafe impl defmt::Logger for Logger {
    fn acquire() {}
    unsafe fn flush() {}
    unsafe fn release() {}
    unsafe fn write(bytes: &[u8]) {
        RAM.push(bytes);
    }
}

defmt::timestamp!("{=u64}", trace::thunk::now());

/// `tracing` with a subscriber that stores time and numbers in slots of 32 bytes, and formats nothing.
struct Storing {
    slots: Vec<[AtomicU64; 4]>,
    position: AtomicU64,
}

/// Stores numbers.
struct Numbers<'a>(std::slice::Iter<'a, AtomicU64>);

impl tracing::field::Visit for Numbers<'_> {
    fn record_u64(&mut self, _: &tracing::field::Field, value: u64) {
        if let Some(place) = self.0.next() {
            place.store(value, Ordering::Relaxed);
        }
    }
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

impl tracing::Subscriber for Storing {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let position = self.position.load(Ordering::Relaxed);
        self.position.store(position + 1, Ordering::Relaxed);
        let index = usize::try_from(position).unwrap_or(0) % SLOTS;
        let [head, time, numbers @ ..] = &self.slots[index];
        time.store(trace::thunk::now(), Ordering::Relaxed);
        event.record(&mut Numbers(numbers.iter()));
        let site = std::ptr::from_ref(event.metadata()).addr() as u64;
        head.store(site, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// `log` with a logger that writes time and text into memory.
struct Lines(Mutex<String>);

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        let Ok(mut lines) = self.0.lock() else { return };
        if lines.len() > BYTES - 256 {
            lines.clear();
        }
        let now = trace::thunk::now();
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{now} {} {}", record.level(), record.args());
    }
    fn flush(&self) {}
}

static LINES: Lines = Lines(Mutex::new(String::new()));

/// The figures of the peers.
pub(super) fn peers(group: &mut BenchmarkGroup<'_, WallTime>) {
    let before = RAM.used();
    event_of_defmt(0);
    assert_ne!(RAM.used(), before, "it logs");
    group.bench_function("defmt", |bencher| {
        bencher.iter_custom(|times| timed(times, event_of_defmt));
    });
    tracing::subscriber::set_global_default(Storing {
        slots: (0..SLOTS).map(|_| Default::default()).collect(),
        position: AtomicU64::new(0),
    })
    .expect("there is no other");
    group.bench_function("tracing", |bencher| {
        bencher.iter_custom(|times| timed(times, event_of_tracing));
    });
    let text = tracing_subscriber::fmt()
        .with_writer(std::io::sink)
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(text, || {
        group.bench_function("tracing_fmt", |bencher| {
            bencher.iter_custom(|times| timed(times, event_of_tracing));
        });
    });
    log::set_logger(&LINES).expect("there is no other");
    log::set_max_level(log::LevelFilter::Info);
    event_of_log(0);
    assert!(!LINES.0.lock().expect("one thread").is_empty(), "it logs");
    group.bench_function("log", |bencher| {
        bencher.iter_custom(|times| timed(times, event_of_log));
    });
}

fn event_of_log(number: u64) {
    log::info!("event number={number} other={}", number ^ 7);
}

fn event_of_defmt(number: u64) {
    defmt::error!("event {=u64} {=u64}", number, number ^ 7);
}

fn event_of_tracing(number: u64) {
    tracing::info!(number, other = number ^ 7, "event");
}
