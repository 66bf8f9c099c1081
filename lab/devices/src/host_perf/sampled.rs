//! Samples of a process of the host: one stream per thread and host processor.
//!
//! The kernel keeps counts of inherited events apart by processor, and so there is a stream for each.
//! The virtual counter moves with the records: one record is one interval.

use std::collections::VecDeque;

use perf_event::data::Record;
use perf_event::{Builder, SampleFlag, Sampler};

use super::{Backing, builder};
use crate::source::{Event, Place};

/// Bytes of a stream that the kernel fills while nobody looks.
const STREAM_BYTES: usize = 256 << 10;
/// `PERF_RECORD_MISC_CPUMODE_MASK` and the value for user mode (linux/perf_event.h).
const MODE_MASK: u16 = 7;
const MODE_USER: u16 = 2;

/// A counter that interrupts.
pub(super) struct Sampled {
    pub(super) event: Event,
    /// Events from one record to the next.
    pub(super) period: u64,
    streams: Vec<Sampler>,
    /// What came and was not delivered yet, with its time.
    queue: VecDeque<(u64, Place)>,
    /// Records that the kernel had no room for, and that were not counted yet.
    lost: u64,
    /// Records that were counted since the counter was started.
    counted: u64,
}

impl Sampled {
    pub(super) const fn new(event: Event, period: u64) -> Self {
        Self {
            event,
            period,
            streams: Vec::new(),
            queue: VecDeque::new(),
            lost: 0,
            counted: 0,
        }
    }

    /// Follows a process, all of its threads, and what it starts; or nothing any more.
    pub(super) fn attach(&mut self, backing: Option<Backing>, process: Option<u32>) {
        self.poll();
        self.streams.clear();
        let (Some(backing), Some(process)) = (backing, process) else {
            return;
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for thread in threads(process) {
            for cpu in 0..cpus {
                self.streams.extend(self.stream(backing, thread, cpu));
            }
        }
    }

    /// A stream; without kernel mode, where this user may not look at that.
    fn stream(&self, backing: Backing, thread: i32, cpu: usize) -> Option<Sampler> {
        let user_only = Event {
            kernel: false,
            ..self.event
        };
        [self.event, user_only].into_iter().find_map(|event| {
            let mut builder: Builder<'_> = builder(backing, event);
            let counter = builder
                .observe_pid(thread)
                .one_cpu(cpu)
                .sample_period(self.period)
                .sample(SampleFlag::IP)
                .sample(SampleFlag::TID)
                .sample(SampleFlag::TIME)
                .build();
            let mut sampler = counter.ok()?.sampled(STREAM_BYTES).ok()?;
            sampler.enable().ok()?;
            Some(sampler)
        })
    }

    /// Starts counting from zero. What is on its way stays so.
    pub(super) const fn start(&mut self) {
        self.counted = 0;
    }

    pub(super) const fn value(&self) -> u64 {
        self.counted.saturating_mul(self.period)
    }

    /// The next record; the counter has counted it, and those that were lost before it, then.
    pub(super) fn next(&mut self) -> Option<Place> {
        if self.queue.is_empty() {
            self.poll();
        }
        let (_, place) = self.queue.pop_front()?;
        self.counted += 1 + std::mem::take(&mut self.lost);
        Some(place)
    }

    /// Takes what the kernel has recorded.
    fn poll(&mut self) {
        for stream in &mut self.streams {
            while let Some(record) = stream.next_record() {
                let is_user = record.misc() & MODE_MASK == MODE_USER;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => self.queue.push_back((
                        sample.time().unwrap_or(0),
                        Place {
                            pc: sample.ip().unwrap_or(0),
                            user: is_user,
                            process: sample.pid().unwrap_or(0).into(),
                            thread: sample.tid().unwrap_or(0).into(),
                        },
                    )),
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    // Throttling and the like say nothing about samples.
                    Ok(_) => {}
                    Err(_) => self.lost += 1,
                }
            }
        }
        self.queue.make_contiguous().sort_by_key(|(time, _)| *time);
    }
}

/// The threads of a process at this moment; those that it starts later are followed by the kernel.
fn threads(process: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let names = tasks.into_iter().flatten().flatten();
    names
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}
