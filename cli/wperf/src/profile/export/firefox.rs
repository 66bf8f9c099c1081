//! The format of the Firefox Profiler.

use super::{About, folded};
use crate::profile::{Located, Place, Profile, Symbols};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo,
    Profile as Document, ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp,
};
use std::collections::BTreeMap;

/// Builds the document: a track per thread, in it a stack per sample.
pub(super) fn build(profile: &Profile, symbols: &mut Symbols, about: &About) -> Document {
    let times = profile.samples.iter().map(|located| located.sample.time_ns);
    let (first, last) = (times.clone().min(), times.max());
    let first = first.unwrap_or_default();
    let span = last.unwrap_or_default() - first;
    let count = u64::try_from(profile.samples.len()).unwrap_or(u64::MAX);
    let mut document = Document::new(
        &about.command.join(" "),
        ReferenceTimestamp::from_system_time(about.start),
        SamplingInterval::from_nanos((span / count.max(1)).max(1)),
    );
    let categories = Categories {
        user: document.add_category("User", CategoryColor::Yellow),
        kernel: document.add_category("Kernel", CategoryColor::Orange),
        unknown: document.add_category("Unknown", CategoryColor::Gray),
    };
    let threads = threads(&mut document, profile);
    let mut samples: Vec<&Located> = profile.samples.iter().collect();
    samples.sort_by_key(|located| located.sample.time_ns);
    for located in samples {
        let Some(&thread) = threads.get(&(located.sample.pid, located.sample.tid)) else {
            continue;
        };
        let category = categories.of(located.place);
        let stack = folded::stack(profile, symbols, located);
        let frames: Vec<FrameInfo> = stack
            .iter()
            .map(|name| FrameInfo {
                frame: Frame::Label(document.intern_string(name)),
                category_pair: category,
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = document.intern_stack_frames(thread, frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(located.sample.time_ns - first);
        document.add_sample(thread, time, stack, CpuDelta::ZERO, 1);
    }
    document
}

struct Categories {
    user: CategoryHandle,
    kernel: CategoryHandle,
    unknown: CategoryHandle,
}

impl Categories {
    fn of(&self, place: Place) -> CategoryPairHandle {
        match place {
            Place::Kernel => self.kernel.into(),
            Place::Module(_) => self.user.into(),
            Place::Unknown => self.unknown.into(),
        }
    }
}

fn threads(document: &mut Document, profile: &Profile) -> BTreeMap<(u32, u32), ThreadHandle> {
    let start = Timestamp::from_nanos_since_reference(0);
    let mut processes = BTreeMap::new();
    let mut threads = BTreeMap::new();
    for located in &profile.samples {
        let (pid, tid) = (located.sample.pid, located.sample.tid);
        let name = profile.process_name(pid);
        let process = *processes
            .entry(pid)
            .or_insert_with(|| document.add_process(&name, pid, start));
        threads.entry((pid, tid)).or_insert_with(|| {
            let thread = document.add_thread(process, tid, start, pid == tid);
            document.set_thread_name(thread, &name);
            thread
        });
    }
    threads
}
