//! The trace in a crash dump: what the driver added when the system stopped, or the rings in memory.

use lab_dump::{Blob, Dump, DumpError, Source};
use trace_format::dump::{
    BLOCK_MAGIC, HEAD_SLOTS, Head, RING_HEAD_SLOTS, RING_LIMIT, RING_MAGIC, RING_POSITION,
    RING_START, RingHead, TAG_FAMILY, tag,
};
use trace_format::request::{Clocks, ReadReply};
use trace_format::slot::SLOT_BYTES;
use zerocopy::FromBytes;

use crate::catalogue::{Build, Catalogue};
use crate::stream::{Batch, Header, Stream, TraceError};

/// Why a dump gives no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpTraceError {
    /// The dump itself.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The trace in it.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is none.
    #[error("no trace of this driver is in the dump: no data with its tag{}", .searched)]
    NoTrace {
        /// What else there is to say.
        searched: &'static str,
    },
}

/// Where a trace was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The driver added it when the system stopped.
    Added,
    /// In the memory that was dumped.
    Memory,
}

/// Where its bytes are.
#[derive(Debug)]
enum Place {
    Blobs(Vec<Blob>),
    /// At an address.
    Memory,
}

/// A trace in a dump.
#[derive(Debug)]
pub struct DumpTrace<'d, S> {
    dump: &'d Dump<S>,
    place: Place,
    head: Head,
    header: Header,
}

/// Bytes of the head, of a ring's head, and of the part of a ring's control record that is read.
const HEAD: usize = HEAD_SLOTS * SLOT_BYTES;
const RING_HEAD: usize = RING_HEAD_SLOTS * SLOT_BYTES;
const CONTROL: usize = RING_START + 8;

impl<'d, S: Source> DumpTrace<'d, S> {
    /// Finds the trace of the catalogue's build.
    ///
    /// Errors: [`DumpTraceError`]: of another build, malformed, cut off, or none.
    pub fn find(dump: &'d Dump<S>, catalogue: &Catalogue) -> Result<Self, DumpTraceError> {
        let ours = catalogue.build();
        let own_tag = tag(ours.identity);
        let own = dump.blobs(|tag| *tag == own_tag)?;
        if !own.is_empty() {
            return Self::added(dump, own, ours);
        }
        let (in_memory, readable) = match Self::in_memory(dump, ours) {
            Err(DumpTraceError::Dump(DumpError::Kind(_))) => (Err(None), false),
            found => (found?, true),
        };
        let other = match in_memory {
            Ok(trace) => return Ok(trace),
            Err(other) => other,
        };
        // Of somebody else then: say whose.
        let others = dump.blobs(|tag| tag.starts_with(&TAG_FAMILY))?;
        if !others.is_empty() {
            return Self::added(dump, others, ours);
        }
        match other {
            Some(theirs) => Err(TraceError::OtherBuild { theirs, ours }.into()),
            None => Err(DumpTraceError::NoTrace {
                searched: if readable {
                    ", and no rings in its memory"
                } else {
                    "; its memory is not laid out in a way that is known"
                },
            }),
        }
    }

    /// What a driver added.
    fn added(dump: &'d Dump<S>, blobs: Vec<Blob>, ours: Build) -> Result<Self, DumpTraceError> {
        let mut bytes = [0; HEAD];
        read_blobs(dump, &blobs, 0, &mut bytes)?;
        let head = parse::<Head>(&bytes).filter(|head| head.magic == BLOCK_MAGIC);
        let head = head.ok_or(TraceError::Malformed(
            "the driver's data do not begin as a trace",
        ))?;
        let header = checked(&head, ours)?;
        Ok(Self {
            dump,
            place: Place::Blobs(blobs),
            head,
            header,
        })
    }

    /// The rings in memory; else a build of another driver file whose rings are there.
    ///
    /// Memory that was freed may hold what an earlier load left: the latest is it.
    fn in_memory(
        dump: &'d Dump<S>,
        ours: Build,
    ) -> Result<Result<Self, Option<Build>>, DumpTraceError> {
        let (mut best, mut other): (Option<(Head, Header)>, _) = (None, None);
        dump.search_memory(&BLOCK_MAGIC, |physical| {
            let Some(head) = head_at(dump, physical)? else {
                return Ok(true);
            };
            match checked(&head, ours) {
                Ok(header) => {
                    let begun = |head: &Head| head.information.clocks.system_time;
                    if best
                        .as_ref()
                        .is_none_or(|(other, _)| begun(other) < begun(&head))
                    {
                        best = Some((head, header));
                    }
                }
                Err(TraceError::OtherBuild { theirs, .. }) => other = Some(theirs),
                Err(_) => {}
            }
            Ok(true)
        })?;
        Ok(match best {
            Some((head, header)) => Ok(Self {
                dump,
                place: Place::Memory,
                head,
                header,
            }),
            None => Err(other),
        })
    }

    /// Whose it is.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Where it was found.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self.place {
            Place::Blobs(_) => Origin::Added,
            Place::Memory => Origin::Memory,
        }
    }

    /// Decodes it; gives also how many rings are not in the dump.
    ///
    /// Errors: [`DumpTraceError`].
    pub fn decode(&self, stream: &mut Stream<'_>) -> Result<(Batch, u32), DumpTraceError> {
        let rings = self.header.rings();
        let slots = u64::from(self.header.information().slots);
        let ring_bytes = slots * SLOT_BYTES as u64;
        if ring_bytes.saturating_mul(rings.into()) > self.dump.bytes()
            && self.origin() == Origin::Memory
        {
            return Err(TraceError::Malformed("rings larger than the dump").into());
        }
        let mut batch = Batch::default();
        let mut positions = vec![0; usize::try_from(rings).unwrap_or(0)];
        let found = match &self.place {
            Place::Blobs(blobs) => {
                self.rings_of_blobs(blobs, stream, &mut batch, &mut positions)?
            }
            Place::Memory => self.rings_in_memory(stream, &mut batch, &mut positions)?,
        };
        stream.finish(&positions, &mut batch);
        batch.sort();
        Ok((batch, rings.saturating_sub(found)))
    }

    fn rings_of_blobs(
        &self,
        blobs: &[Blob],
        stream: &mut Stream<'_>,
        batch: &mut Batch,
        positions: &mut [u64],
    ) -> Result<u32, DumpTraceError> {
        let total: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        let slots = self.header.information().slots;
        let (mut at, mut found) = (HEAD as u64, 0);
        while at + RING_HEAD as u64 <= total {
            let mut bytes = [0; RING_HEAD];
            read_blobs(self.dump, blobs, at, &mut bytes)?;
            let head = parse::<RingHead>(&bytes);
            let head = head.filter(|head| head.magic == RING_MAGIC && head.slots == slots);
            let head = head.ok_or(TraceError::Malformed("no ring where one should be"))?;
            at += RING_HEAD as u64;
            let length = (u64::from(slots) * SLOT_BYTES as u64).min(total - at);
            let mut data = vec![0; usize::try_from(length).unwrap_or(0)];
            read_blobs(self.dump, blobs, at, &mut data)?;
            at += length;
            found += 1;
            self.ring(&head, &data, stream, batch, positions)?;
        }
        Ok(found)
    }

    fn rings_in_memory(
        &self,
        stream: &mut Stream<'_>,
        batch: &mut Batch,
        positions: &mut [u64],
    ) -> Result<u32, DumpTraceError> {
        let slots = self.header.information().slots;
        let length = usize::try_from(slots)
            .unwrap_or(usize::MAX)
            .saturating_mul(SLOT_BYTES);
        let each = (RING_HEAD as u64).saturating_add(length as u64);
        let mut data = vec![0; length];
        let mut found = 0;
        for ring in 0..self.header.rings() {
            let mut control = [0; CONTROL];
            let record = u64::from(ring).saturating_mul(self.head.ring_bytes.into());
            let record = self.head.rings.saturating_add(record);
            if self.dump.read_virtual(record, &mut control)? != CONTROL {
                continue;
            }
            let word = |at: usize| {
                let bytes = control
                    .get(at..at + 8)
                    .and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u64::from_le_bytes)
            };
            let head = RingHead {
                ring,
                slots,
                position: word(RING_POSITION) / SLOT_BYTES as u64,
                limit: word(RING_LIMIT) / SLOT_BYTES as u64,
                start: word(RING_START),
                ..RingHead::default()
            };
            data.fill(0);
            let place = u64::from(ring).saturating_mul(each) + (HEAD + RING_HEAD) as u64;
            let place = self.head.address.saturating_add(place);
            self.dump.read_virtual(place, &mut data)?;
            found += 1;
            self.ring(&head, &data, stream, batch, positions)?;
        }
        Ok(found)
    }

    /// Decodes a ring as it lies in memory: what is not complete is lost, what is behind it is not.
    fn ring(
        &self,
        head: &RingHead,
        data: &[u8],
        stream: &mut Stream<'_>,
        batch: &mut Batch,
        positions: &mut [u64],
    ) -> Result<(), DumpTraceError> {
        let index = usize::try_from(head.ring).unwrap_or(usize::MAX);
        let position = positions.get_mut(index);
        let position = position.ok_or(TraceError::Malformed("a ring that is not there"))?;
        if *position != 0 || head.start > head.position {
            return Err(TraceError::Malformed("positions that cannot be").into());
        }
        *position = head.position;
        let slots = u64::from(head.slots);
        let written = head.position.min(head.limit);
        let oldest = written
            .saturating_sub(slots)
            .max(head.start)
            .min(head.position);
        let count = (head.position - oldest).min(slots);
        let (places, _) = data.as_chunks::<SLOT_BYTES>();
        let ordered: Vec<u8> = (oldest..oldest + count)
            .flat_map(|position| {
                let place = usize::try_from(position % slots).ok();
                *place
                    .and_then(|place| places.get(place))
                    .unwrap_or(&[0; SLOT_BYTES])
            })
            .collect();
        let stopped = self.head.stopped;
        let clocks = match stopped {
            Clocks { ticks: 0, .. } => self.head.information.clocks,
            _ => stopped,
        };
        let end = oldest + count;
        let mut from = oldest;
        loop {
            let skipped = usize::try_from(from - oldest).unwrap_or(usize::MAX);
            let rest = ordered
                .get(skipped.saturating_mul(SLOT_BYTES)..)
                .unwrap_or_default();
            let reply = ReadReply {
                ring: head.ring,
                slots: u32::try_from(end - from).unwrap_or(u32::MAX),
                first: from,
                position: head.position,
                start: head.start,
                clocks,
            };
            stream.push(&reply, rest, batch)?;
            // Where it stands still, a slot is not complete, and never will be.
            from = stream.next(head.ring).saturating_add(1);
            if from >= end {
                break;
            }
        }
        Ok(())
    }
}

/// Whose a head is, if it is of our build.
fn checked(head: &Head, ours: Build) -> Result<Header, TraceError> {
    let header = Header::new(head.information)?;
    let theirs = Build::of(header.information());
    if theirs != ours {
        return Err(TraceError::OtherBuild { theirs, ours });
    }
    Ok(header)
}

/// The head at a physical address, if it is one and lies where it says.
fn head_at<S: Source>(dump: &Dump<S>, physical: u64) -> Result<Option<Head>, DumpError> {
    // Its address is on the page of its beginning: blocks are aligned to 16 bytes.
    let mut address = [0; 8];
    if !dump.read_physical(physical.saturating_add(8), &mut address)? {
        return Ok(None);
    }
    let address = u64::from_le_bytes(address);
    if dump.translate(address)? != Some(physical) {
        return Ok(None);
    }
    let mut bytes = [0; HEAD];
    let there = dump.read_virtual(address, &mut bytes)?;
    Ok(parse::<Head>(&bytes).filter(|_| there == HEAD))
}

fn parse<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_bytes(bytes).ok()
}

/// Reads from blobs as if they were one.
fn read_blobs<S: Source>(
    dump: &Dump<S>,
    blobs: &[Blob],
    mut at: u64,
    mut to: &mut [u8],
) -> Result<(), DumpTraceError> {
    for blob in blobs {
        if at >= blob.bytes {
            at -= blob.bytes;
            continue;
        }
        let here = usize::try_from(blob.bytes - at)
            .unwrap_or(usize::MAX)
            .min(to.len());
        let (now, rest) = to.split_at_mut(here);
        dump.read_blob(blob, at, now)?;
        (to, at) = (rest, 0);
    }
    if to.is_empty() {
        Ok(())
    } else {
        Err(DumpError::CutOff(dump.bytes()).into())
    }
}
