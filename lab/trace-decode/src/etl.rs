//! Event trace logs (`.etl`) of messages.
//!
//! ```text
//! buffer  WMI_BUFFER_HEADER (72 bytes), records at multiples of 8, 0xFF up to the end
//!   0     SYSTEM_TRACE_HEADER (32), TRACE_LOGFILE_HEADER (280), names of session and file
//!   n     MESSAGE_TRACE records of one processor
//! ```
//! Sources: `TRACE_LOGFILE_HEADER` of evntrace.h; the other two as ntwmi.h has them in public headers. Both
//! are what Windows writes as far as those say; no tool of Windows has read a file of this yet.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

use crate::cursor::Cursor;

const BUFFER_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 72;
const SYSTEM_HEADER_BYTES: usize = 32;
const LOGFILE_HEADER_BYTES: usize = 280;
/// `EVENT_TRACE_CLOCK_SYSTEMTIME`: times are 100 ns since 1601.
const CLOCK_SYSTEM_TIME: u32 = 2;
/// `ETW_BUFFER_FLAG_PROC_INDEX`.
const FLAG_PROCESSOR_INDEX: u16 = 0x20;
/// `ETW_BUFFER_TYPE_GENERIC`, `_HEADER`.
const TYPE_GENERIC: u16 = 0;
const TYPE_HEADER: u16 = 4;
/// `EtwBufferStateFlush`.
const STATE_FLUSH: u32 = 3;
/// `EVENT_TRACE_FILE_MODE_SEQUENTIAL`.
const MODE_SEQUENTIAL: u32 = 1;
const SESSION: u16 = 1;

/// What a log says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Name of the session.
    pub session: String,
    /// Name of the file.
    pub file: String,
    /// Processors of the machine.
    pub processors: u32,
    /// Build of Windows.
    pub build: u32,
    /// Rate of the processors. Units: MHz, at least 1: readers divide by it.
    pub mhz: u32,
    /// When it began. Units: 100 ns since 1601.
    pub start: u64,
}

/// Records of one processor that are not in the file yet.
struct Buffer {
    bytes: Vec<u8>,
    time: u64,
}

/// Writes a log. It is complete once it is [finished](Self::finish).
pub struct Writer<W: Write + Seek> {
    to: W,
    about: About,
    buffers: BTreeMap<u16, Buffer>,
    written: u32,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins one.
    ///
    /// Errors: those of `to`.
    pub fn new(to: W, about: About) -> io::Result<Self> {
        let mut writer = Self {
            to,
            about,
            buffers: BTreeMap::new(),
            written: 0,
        };
        let start = writer.about.start;
        writer.flush_header(start, 0)?;
        writer.written = 1;
        Ok(writer)
    }

    /// Appends a record. `time`: 100 ns since 1601.
    ///
    /// Errors: those of the file; a record that is longer than a buffer is `InvalidInput`.
    pub fn push(&mut self, processor: u16, time: u64, record: &[u8]) -> io::Result<()> {
        let room = BUFFER_BYTES - HEADER_BYTES;
        let length = record.len().next_multiple_of(8);
        if length > room {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a record of {} bytes", record.len()),
            ));
        }
        let buffer = self.buffers.entry(processor).or_insert(Buffer {
            bytes: Vec::new(),
            time,
        });
        if buffer.bytes.len() + length > room {
            let full = core::mem::take(&mut buffer.bytes);
            self.flush(processor, time, &full)?;
        }
        if let Some(buffer) = self.buffers.get_mut(&processor) {
            buffer.bytes.extend_from_slice(record);
            buffer
                .bytes
                .resize(buffer.bytes.len() - record.len() + length, 0);
            buffer.time = time;
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// Errors: those of the file.
    pub fn finish(mut self, lost: u32) -> io::Result<W> {
        let mut end = self.about.start;
        for (processor, buffer) in core::mem::take(&mut self.buffers) {
            end = end.max(buffer.time);
            self.flush(processor, buffer.time, &buffer.bytes)?;
        }
        self.to.seek(SeekFrom::Start(0))?;
        self.flush_header(end, lost)?;
        self.to.seek(SeekFrom::End(0))?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn flush(&mut self, processor: u16, time: u64, records: &[u8]) -> io::Result<()> {
        let sequence = u64::from(self.written);
        self.written += 1;
        self.buffer(processor, time, sequence, TYPE_GENERIC, records)
    }

    fn flush_header(&mut self, end: u64, lost: u32) -> io::Result<()> {
        let record = self.header_record(end, lost);
        self.buffer(0, end, 0, TYPE_HEADER, &record)
    }

    fn buffer(
        &mut self,
        processor: u16,
        time: u64,
        sequence: u64,
        kind: u16,
        records: &[u8],
    ) -> io::Result<()> {
        let used = u32_of(HEADER_BYTES + records.len());
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        for number in [u32_of(BUFFER_BYTES), used, used, 0] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(time.to_le_bytes());
        bytes.extend(sequence.to_le_bytes());
        // Clock type and frequency are for a debugger's buffers.
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(processor.to_le_bytes());
        bytes.extend(SESSION.to_le_bytes());
        bytes.extend(STATE_FLUSH.to_le_bytes());
        bytes.extend(used.to_le_bytes());
        bytes.extend(FLAG_PROCESSOR_INDEX.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(records);
        bytes.resize(BUFFER_BYTES, 0xFF);
        self.to.write_all(&bytes)
    }

    /// The record that a log begins with.
    fn header_record(&self, end: u64, lost: u32) -> Vec<u8> {
        /// 100 ns a tick: what the performance counter of the lab has.
        const FREQUENCY: u64 = 10_000_000;
        /// Of the clock interrupt. Units: 100 ns.
        const RESOLUTION: u32 = 156_250;
        let about = &self.about;
        let mut names = Vec::new();
        for name in [&about.session, &about.file] {
            names.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        let size = SYSTEM_HEADER_BYTES + LOGFILE_HEADER_BYTES + names.len();
        let mut record = Vec::with_capacity(size);
        // Version 2, a header with 64-bit pointers, flags of an event trace.
        record.extend([2, 0, 2, 0xC0]);
        record.extend(u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes());
        // Type and group: information, of the log.
        record.extend([0; 2]);
        record.extend([0; 8]);
        record.extend(about.start.to_le_bytes());
        record.extend([0; 8]);
        record.extend(u32_of(BUFFER_BYTES).to_le_bytes());
        // Version 10.0, layout 2.0.
        record.extend([10, 0, 2, 0]);
        record.extend(about.build.to_le_bytes());
        record.extend(about.processors.to_le_bytes());
        record.extend(end.to_le_bytes());
        for number in [
            RESOLUTION,
            0,
            MODE_SEQUENTIAL,
            self.written,
            1,
            8,
            lost,
            about.mhz,
        ] {
            record.extend(number.to_le_bytes());
        }
        // Pointers to the names, time zone: none, as all times are UTC.
        record.extend([0; 16]);
        record.extend([0; 176]);
        record.extend(about.start.to_le_bytes());
        record.extend(FREQUENCY.to_le_bytes());
        record.extend(about.start.to_le_bytes());
        record.extend(CLOCK_SYSTEM_TIME.to_le_bytes());
        record.extend(0u32.to_le_bytes());
        record.extend(names);
        record.resize(record.len().next_multiple_of(8), 0);
        record
    }
}

fn u32_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Why a log cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EtlError {
    /// A buffer is not what it should be.
    #[error("no event trace log: the buffer at byte {0} is malformed")]
    Buffer(usize),
    /// A record is not what it should be.
    #[error("malformed event trace log: record at byte {0}")]
    Record(usize),
}

/// A record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Processor that it was written on.
    pub processor: u16,
    /// Its bytes, from its header on.
    pub bytes: &'a [u8],
}

/// The records of a log, buffer by buffer; the first is the log's own.
///
/// Errors: [`EtlError`].
pub fn records(log: &[u8]) -> Result<Vec<Record<'_>>, EtlError> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < log.len() {
        let wrong = EtlError::Buffer(at);
        let (bytes, used, processor) = buffer_at(log, at).ok_or(wrong)?;
        let mut offset = HEADER_BYTES;
        while offset < used {
            let rest = &log[at + offset..at + used];
            let size = size_of_record(rest).filter(|size| *size >= 8 && *size <= rest.len());
            let size = size.ok_or(EtlError::Record(at + offset))?;
            all.push(Record {
                processor,
                bytes: &rest[..size],
            });
            offset += size.next_multiple_of(8);
        }
        at += bytes;
    }
    Ok(all)
}

/// Size, used bytes and processor of a buffer.
fn buffer_at(log: &[u8], at: usize) -> Option<(usize, usize, u16)> {
    let mut cursor = Cursor(log.get(at..)?);
    let size = usize::try_from(cursor.u32()?).ok()?;
    let used = usize::try_from(cursor.u32()?).ok()?;
    let processor = Cursor(log.get(at + 40..)?).u16()?;
    let fits = (HEADER_BYTES..=size).contains(&used) && log.len() - at >= size;
    fits.then_some((size, used, processor))
}

/// Messages and event headers have their size first, the system's own headers behind the marker.
fn size_of_record(record: &[u8]) -> Option<usize> {
    let mut cursor = Cursor(record);
    let first = cursor.u16()?;
    let [kind, flags] = cursor.bytes(2)?.try_into().ok()?;
    // SYSTEM32, SYSTEM64, COMPACT32, COMPACT64, PERFINFO32, PERFINFO64.
    let is_system = flags == 0xC0 && matches!(kind, 1..=4 | 16 | 17);
    Some(usize::from(if is_system { cursor.u16()? } else { first }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor as Bytes;

    fn about() -> About {
        About {
            session: "lab".into(),
            file: "lab.etl".into(),
            processors: 4,
            build: 26100,
            mhz: 2500,
            start: 133_000_000_000_000_000,
        }
    }

    /// A message of so many bytes.
    fn message(bytes: u16) -> Vec<u8> {
        let mut record = vec![0; 8];
        record[..2].copy_from_slice(&(8 + bytes).to_le_bytes());
        record[3] = nt::etw::MESSAGE_MARKER;
        record.resize(8 + usize::from(bytes), 7);
        record
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(messages in proptest::collection::vec((0u16..3, 0u16..9000), 0..60)) {
            let mut writer = Writer::new(Bytes::new(Vec::new()), about()).unwrap();
            for (processor, bytes) in &messages {
                writer.push(*processor, 1, &message(*bytes)).unwrap();
            }
            let log = writer.finish(3).unwrap().into_inner();
            prop_assert_eq!(log.len() % BUFFER_BYTES, 0);
            let read = records(&log).unwrap();
            for processor in 0..3 {
                let expected: Vec<_> = messages.iter().filter(|(on, _)| *on == processor).map(|(_, bytes)| message(*bytes)).collect();
                let found: Vec<_> = read.iter().skip(1).filter(|record| record.processor == processor).map(|record| record.bytes.to_vec()).collect();
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn whatever_the_bytes_are_there_is_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = records(&bytes);
            let mut log = Writer::new(Bytes::new(Vec::new()), about()).unwrap().finish(0).unwrap().into_inner();
            for (place, byte) in log.iter_mut().zip(&bytes) {
                *place ^= byte;
            }
            let _ = records(&log);
        }
    }

    #[test]
    fn the_header_counts_buffers_and_losses() {
        let mut writer = Writer::new(Bytes::new(Vec::new()), about()).unwrap();
        writer.push(2, about().start + 5, &message(10)).unwrap();
        let log = writer.finish(3).unwrap().into_inner();
        let header = &log[HEADER_BYTES + SYSTEM_HEADER_BYTES..];
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!((number(36), number(48)), (2, 3));
        assert_eq!(
            number(16),
            u32_of(usize::try_from((about().start + 5) & 0xFFFF_FFFF).unwrap())
        );
        let too_long = vec![0; BUFFER_BYTES];
        let mut writer = Writer::new(Bytes::new(Vec::new()), about()).unwrap();
        assert!(writer.push(0, 0, &too_long).is_err());
    }
}
