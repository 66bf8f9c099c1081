//! `perf.data`, the file of Linux perf.
//!
//! Source: Linux, tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
//!
//! ```text
//!  header │ event ids │ attributes │ records │ feature table │ features
//! ```

use super::About;
use crate::profile::{Located, Mode, Module, Profile, Source};

const HEADER_BYTES: usize = 104;
/// `PERF_ATTR_SIZE_VER5`.
const ATTRIBUTE_BYTES: usize = 112;
const RAW_EVENT: u32 = 4;

mod sample_type {
    pub(super) const IP: u64 = 1;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

mod attribute_flags {
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const MMAP2: u64 = 1 << 23;
}

mod record_type {
    pub(super) const COMM: u32 = 3;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
}

/// Processor mode in a record's header.
mod misc {
    pub(super) const KERNEL: u16 = 1;
    pub(super) const USER: u16 = 2;
}

mod feature {
    pub(super) const ARCHITECTURE: u32 = 6;
    pub(super) const CORES: u32 = 7;
    pub(super) const COMMAND_LINE: u32 = 11;
    pub(super) const EVENTS: u32 = 12;
    pub(super) const SAMPLE_TIME: u32 = 21;
}

/// Strings of features fill up to a multiple of this.
const STRING_ALIGNMENT: usize = 64;

/// Bytes in the order of little-endian machines, which is what both ends of a profile are.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// A text with a zero behind it, filled up with zeros.
    fn text(&mut self, text: &str, alignment: usize) -> &mut Self {
        let end = (self.0.len() + text.len() + 1).next_multiple_of(alignment);
        self.0.extend(text.bytes());
        self.zeros(end - self.0.len())
    }

    /// A text of a feature: its length, then itself.
    fn feature_text(&mut self, text: &str) -> &mut Self {
        let length = (text.len() + 1).next_multiple_of(STRING_ALIGNMENT);
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
        self.0.extend(text.bytes());
        self.zeros(length - text.len())
    }
}

fn offset(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The file of a profile.
pub(super) fn encode(profile: &Profile, about: &About) -> Vec<u8> {
    let mut file = Bytes::default();
    file.zeros(HEADER_BYTES);
    let ids_at = file.0.len();
    for id in identifiers(profile) {
        file.u64(id);
    }
    let attributes_at = file.0.len();
    for (index, source) in profile.sources.iter().enumerate() {
        attribute(&mut file, source, about);
        file.u64(offset(ids_at + index * 8)).u64(8);
    }
    let data_at = file.0.len();
    records(&mut file, profile);
    let data_end = file.0.len();
    let features = features(profile, about);
    feature_sections(&mut file, &features);
    let header = header(
        (attributes_at, data_at - attributes_at),
        (data_at, data_end - data_at),
        &features,
    );
    file.0[..HEADER_BYTES].copy_from_slice(&header.0);
    file.0
}

/// Numbers by which records name events: from 1.
fn identifiers(profile: &Profile) -> impl Iterator<Item = u64> {
    1..=offset(profile.sources.len())
}

fn identifier(source: usize) -> u64 {
    offset(source) + 1
}

fn header(attributes: (usize, usize), data: (usize, usize), features: &[(u32, Vec<u8>)]) -> Bytes {
    let mut header = Bytes::default();
    header.0.extend(b"PERFILE2");
    header
        .u64(offset(HEADER_BYTES))
        .u64(offset(ATTRIBUTE_BYTES + 16));
    for (start, length) in [attributes, data, (0, 0)] {
        header.u64(offset(start)).u64(offset(length));
    }
    let bits = features.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
    header.u64(bits).u64(0).u64(0).u64(0);
    header
}

/// `struct perf_event_attr`.
fn attribute(file: &mut Bytes, source: &Source, about: &About) {
    use attribute_flags::{COMM, EXCLUDE_KERNEL, MMAP, MMAP2, SAMPLE_ID_ALL};
    use sample_type::{CPU, IDENTIFIER, IP, PERIOD, TID, TIME};
    let start = file.0.len();
    let kernel = if about.kernel { 0 } else { EXCLUDE_KERNEL };
    file.u32(RAW_EVENT)
        .u32(u32::try_from(ATTRIBUTE_BYTES).unwrap_or(u32::MAX))
        .u64(source.code.into())
        .u64(source.interval)
        .u64(IDENTIFIER | IP | TID | TIME | CPU | PERIOD)
        .u64(0)
        .u64(MMAP | MMAP2 | COMM | SAMPLE_ID_ALL | kernel);
    let rest = start + ATTRIBUTE_BYTES - file.0.len();
    file.zeros(rest);
}

fn records(file: &mut Bytes, profile: &Profile) {
    let mut samples: Vec<&Located> = profile.samples.iter().collect();
    samples.sort_by_key(|located| located.sample.time_ns);
    // Processes and modules are known from the beginning, for a reader.
    let start = samples.first().map_or(0, |first| first.sample.time_ns);
    for (pid, name) in &profile.processes {
        record(file, record_type::COMM, misc::USER, |record| {
            record.u32(*pid).u32(*pid).text(name, 8);
            trailer(record, *pid, start);
        });
    }
    for module in &profile.modules {
        modules_records(file, module, start);
    }
    for located in samples {
        sample_record(file, profile, located);
    }
}

/// A record: its header, and what `fill` makes its body.
fn record(file: &mut Bytes, kind: u32, mode: u16, fill: impl FnOnce(&mut Bytes)) {
    let mut body = Bytes::default();
    fill(&mut body);
    // Names are at most a path long.
    let size = u16::try_from(body.0.len() + 8).unwrap_or(u16::MAX);
    file.u32(kind).u16(mode).u16(size);
    file.0.extend(body.0);
}

/// What stands at the end of records that are no samples.
fn trailer(record: &mut Bytes, pid: u32, time: u64) {
    record.u32(pid).u32(pid).u64(time).u32(0).u32(0).u64(1);
}

fn modules_records(file: &mut Bytes, module: &Module, time: u64) {
    const READ_EXECUTE: u32 = 1 | 4;
    const PRIVATE: u32 = 2;
    let path: String = module.path.to_string_lossy().chars().take(1024).collect();
    for piece in &module.pieces {
        record(file, record_type::MMAP2, misc::USER, |record| {
            record
                .u32(module.pid)
                .u32(module.pid)
                .u64(piece.start)
                .u64(piece.end.saturating_sub(piece.start))
                .u64(piece.offset)
                .zeros(24)
                .u32(READ_EXECUTE)
                .u32(PRIVATE)
                .text(&path, 8);
            trailer(record, module.pid, time);
        });
    }
}

fn sample_record(file: &mut Bytes, profile: &Profile, located: &Located) {
    let sample = &located.sample;
    let mode = match sample.mode {
        Mode::User => misc::USER,
        Mode::Kernel => misc::KERNEL,
    };
    let interval = profile.sources.get(sample.source).map_or(0, |s| s.interval);
    record(file, record_type::SAMPLE, mode, |record| {
        record
            .u64(identifier(sample.source))
            .u64(sample.address)
            .u32(sample.pid)
            .u32(sample.tid)
            .u64(sample.time_ns)
            .u32(sample.core)
            .u32(0)
            .u64(interval);
    });
}

/// In the order of their bits.
fn features(profile: &Profile, about: &About) -> Vec<(u32, Vec<u8>)> {
    let mut architecture = Bytes::default();
    architecture.feature_text(std::env::consts::ARCH);
    let mut cores = Bytes::default();
    cores.u32(about.cores).u32(about.cores);
    let mut command = Bytes::default();
    command.u32(u32::try_from(about.command.len()).unwrap_or(u32::MAX));
    for word in &about.command {
        command.feature_text(word);
    }
    let mut events = Bytes::default();
    events
        .u32(u32::try_from(profile.sources.len()).unwrap_or(u32::MAX))
        .u32(u32::try_from(ATTRIBUTE_BYTES).unwrap_or(u32::MAX));
    for (index, source) in profile.sources.iter().enumerate() {
        attribute(&mut events, source, about);
        events.u32(1).feature_text(&source.name);
        events.u64(identifier(index));
    }
    let times = profile.samples.iter().map(|located| located.sample.time_ns);
    let mut time = Bytes::default();
    time.u64(times.clone().min().unwrap_or_default())
        .u64(times.max().unwrap_or_default());
    vec![
        (feature::ARCHITECTURE, architecture.0),
        (feature::CORES, cores.0),
        (feature::COMMAND_LINE, command.0),
        (feature::EVENTS, events.0),
        (feature::SAMPLE_TIME, time.0),
    ]
}

/// The table of the features' places, then the features.
fn feature_sections(file: &mut Bytes, features: &[(u32, Vec<u8>)]) {
    let mut at = file.0.len() + features.len() * 16;
    for (_, content) in features {
        file.u64(offset(at)).u64(offset(content.len()));
        at += content.len();
    }
    for (_, content) in features {
        file.0.extend(content);
    }
}
