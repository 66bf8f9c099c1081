//! The memory in a dump.

use zerocopy::FromBytes;

use super::{Dump, DumpError, Source};
use crate::layout::{
    self, BITMAP_FULL, BITMAP_KERNEL, BITMAP_MAGIC, BitmapHeader, FULL, HEADER_BYTES, Header, PAGE,
};

const PAGE_BYTES: u64 = PAGE as u64;

/// Physical pages that are behind each other, in memory and in the file.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Number of the first page.
    first: u64,
    count: u64,
    /// Its place in the file.
    at: u64,
}

/// Where physical memory is in the file, by page number.
#[derive(Debug)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    /// Reads where the pages are; the kind of dump where that is not known.
    pub(super) fn read(
        source: &impl Source,
        bytes: u64,
        header: &Header,
    ) -> Result<Result<Self, u32>, DumpError> {
        Ok(match header.dump_type.get() {
            FULL => Ok(Self::of_runs(bytes, header)?),
            BITMAP_FULL | BITMAP_KERNEL => Ok(Self::of_bitmap(source, bytes)?),
            other => Err(other),
        })
    }

    fn of_runs(bytes: u64, header: &Header) -> Result<Self, DumpError> {
        let malformed = DumpError::Malformed("runs of memory that cannot be");
        let Ok((head, rest)) = layout::Runs::read_from_prefix(&header.physical_memory) else {
            return Err(malformed);
        };
        let (places, _) = rest.as_chunks::<16>();
        let count = usize::try_from(head.runs.get()).unwrap_or(usize::MAX);
        let Some(places) = places.get(..count) else {
            return Err(malformed);
        };
        let mut runs = Self(Vec::new());
        let mut at = HEADER_BYTES as u64;
        for place in places {
            let Ok(run) = layout::Run::read_from_bytes(place) else {
                return Err(malformed);
            };
            let run = (run.first.get(), run.count.get());
            // What is behind the end of the file is cut off: the rest can be read.
            let there = run.1.min(bytes.saturating_sub(at) / PAGE_BYTES);
            runs.add(run.0, there, at)?;
            at = at.saturating_add(run.1.saturating_mul(PAGE_BYTES));
        }
        runs.0.sort_by_key(|run| run.first);
        Ok(runs)
    }

    fn of_bitmap(source: &impl Source, bytes: u64) -> Result<Self, DumpError> {
        const WINDOW: u64 = 1 << 16;
        const HEAD: usize = size_of::<BitmapHeader>();
        let mut at = HEADER_BYTES as u64;
        if bytes < at + HEAD as u64 {
            return Err(DumpError::CutOff(bytes));
        }
        let mut head = [0; HEAD];
        source.read_at(at, &mut head)?;
        let head = BitmapHeader::read_from_bytes(&head).ok();
        let head = head.filter(|head| BITMAP_MAGIC.contains(&head.magic));
        let head = head.ok_or(DumpError::Malformed("no bitmap of memory"))?;
        at += HEAD as u64;
        let (pages, mut place) = (head.pages.get(), head.first_page.get());
        if pages.div_ceil(8) > bytes - at {
            return Err(DumpError::CutOff(bytes));
        }
        let mut runs = Self(Vec::new());
        let mut window = Vec::new();
        let (mut page, end) = (0, pages.div_ceil(8));
        let mut done = 0;
        while done < end {
            window.resize(usize::try_from((end - done).min(WINDOW)).unwrap_or(0), 0);
            source.read_at(at + done, &mut window)?;
            for bits in &window {
                if place >= bytes {
                    // The rest of the pages is cut off.
                    return Ok(runs);
                }
                for bit in (0..8).filter(|bit| bits >> bit & 1 != 0) {
                    let fits = place
                        .checked_add(PAGE_BYTES)
                        .is_some_and(|end| end <= bytes);
                    if fits && page + bit < pages {
                        runs.add(page + bit, 1, place)?;
                    }
                    place = place.saturating_add(PAGE_BYTES);
                }
                page += 8;
            }
            done += window.len() as u64;
        }
        Ok(runs)
    }

    /// Adds pages that come behind those there are.
    fn add(&mut self, first: u64, count: u64, at: u64) -> Result<(), DumpError> {
        let end = first
            .checked_add(count)
            .and_then(|end| end.checked_mul(PAGE_BYTES));
        if end.is_none() {
            return Err(DumpError::Malformed("a page of memory that cannot be"));
        }
        if count == 0 {
            return Ok(());
        }
        match self.0.last_mut() {
            Some(last)
                if last.first + last.count == first && last.at + last.count * PAGE_BYTES == at =>
            {
                last.count += count;
            }
            _ => self.0.push(Run { first, count, at }),
        }
        Ok(())
    }

    /// The place in the file of a physical address, and how many bytes of its page follow.
    fn place(&self, physical: u64) -> Option<(u64, u64)> {
        let page = physical / PAGE_BYTES;
        let behind = self.0.partition_point(|run| run.first <= page);
        let run = self.0.get(behind.checked_sub(1)?)?;
        let index = page - run.first;
        let within = physical % PAGE_BYTES;
        (index < run.count).then(|| (run.at + index * PAGE_BYTES + within, PAGE_BYTES - within))
    }

    /// The physical address at a place in the file.
    fn physical(&self, run: Run, place: u64) -> u64 {
        run.first * PAGE_BYTES + (place - run.at)
    }
}

impl<S: Source> Dump<S> {
    fn runs(&self) -> Result<&Runs, DumpError> {
        self.memory.as_ref().map_err(|kind| DumpError::Kind(*kind))
    }

    /// Looks for bytes in physical memory; `found` gets each address, and says whether to go on.
    ///
    /// Errors: [`DumpError`]: [`Kind`](DumpError::Kind) where memory cannot be read.
    pub fn search_memory(
        &self,
        needle: &[u8],
        mut found: impl FnMut(u64) -> Result<bool, DumpError>,
    ) -> Result<(), DumpError> {
        let runs = self.runs()?;
        let mut goes_on = true;
        for run in &runs.0 {
            let part = run.at..run.at + run.count * PAGE_BYTES;
            self.search(needle, part, |place| {
                goes_on = found(runs.physical(*run, place))?;
                Ok(goes_on)
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Reads physical memory within one page; false if it is not in the dump.
    ///
    /// Errors: [`DumpError`].
    pub fn read_physical(&self, address: u64, to: &mut [u8]) -> Result<bool, DumpError> {
        let place = self.runs()?.place(address);
        match place.filter(|(_, room)| *room >= to.len() as u64) {
            Some((at, _)) => self.read(at, to).map(|()| true),
            None => Ok(false),
        }
    }

    /// The physical address of a virtual one; `None` if it has none, or its tables are not in the dump.
    ///
    /// Errors: [`DumpError`].
    pub fn translate(&self, address: u64) -> Result<Option<u64>, DumpError> {
        const FRAME: u64 = 0x000F_FFFF_FFFF_F000;
        const LARGE: u64 = 1 << 7;
        let mut table = self.header.directory_table_base.get() & FRAME;
        for level in (0..4).rev() {
            let shift = 12 + 9 * level;
            let mut entry = [0; 8];
            if !self.read_physical(table + (address >> shift & 0x1FF) * 8, &mut entry)? {
                return Ok(None);
            }
            let entry = u64::from_le_bytes(entry);
            if entry & 1 == 0 {
                return Ok(None);
            }
            let below = (1u64 << shift) - 1;
            if level == 0 || level < 3 && entry & LARGE != 0 {
                return Ok(Some(entry & FRAME & !below | address & below));
            }
            table = entry & FRAME;
        }
        Ok(None)
    }

    /// Reads virtual memory; what is not in the dump is left as it was. Gives how many bytes were there.
    ///
    /// Errors: [`DumpError`].
    pub fn read_virtual(&self, address: u64, to: &mut [u8]) -> Result<usize, DumpError> {
        let (mut done, mut there) = (0, 0);
        while done < to.len() {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let room = usize::try_from(PAGE_BYTES - at % PAGE_BYTES).unwrap_or(PAGE);
            let length = room.min(to.len() - done);
            if let Some(physical) = self.translate(at)?
                && self.read_physical(physical, &mut to[done..done + length])?
            {
                there += length;
            }
            done += length;
        }
        Ok(there)
    }
}
