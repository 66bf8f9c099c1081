//! What drivers added to a dump.

use std::cell::Cell;

use zerocopy::FromBytes;

use super::{Dump, DumpError, Source};
use crate::layout::{BLOBS_MAGIC, BlobHeader, BlobsHeader, HEADER_BYTES};

/// Data of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its `GUID`, as in memory.
    pub tag: [u8; 16],
    /// Bytes of data that are there.
    pub bytes: u64,
    /// Whether the file ends before them.
    pub is_cut_off: bool,
    at: u64,
}

/// Blobs that are looked at, at most: a driver adds one or a few.
const MOST_BLOBS: u32 = 1 << 16;

impl<S: Source> Dump<S> {
    /// The data that have a tag which is wanted, in their order.
    ///
    /// They are looked for where the header says, then in the whole file: memory may hold an older
    /// copy, so the last ones are taken.
    ///
    /// Errors: [`DumpError`].
    pub fn blobs(&self, wanted: impl Fn(&[u8; 16]) -> bool) -> Result<Vec<Blob>, DumpError> {
        let budget = Cell::new(MOST_BLOBS);
        let at_end = self.header.required_dump_space.get();
        let mut found = self.chain(at_end, &wanted, &budget)?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.search(&BLOBS_MAGIC, HEADER_BYTES as u64..self.bytes, |at| {
            let chain = self.chain(at, &wanted, &budget)?;
            if !chain.is_empty() {
                found = chain;
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// The blobs behind a head at a place of the file, if one is there.
    fn chain(
        &self,
        at: u64,
        wanted: impl Fn(&[u8; 16]) -> bool,
        budget: &Cell<u32>,
    ) -> Result<Vec<Blob>, DumpError> {
        let mut found = Vec::new();
        let head = self.record::<BlobsHeader, 16>(at)?;
        if head.is_none_or(|head| head.magic != BLOBS_MAGIC || head.header_bytes.get() != 16) {
            return Ok(found);
        }
        let mut at = at + 16;
        while let Some(head) = self.record::<BlobHeader, 32>(at)? {
            if head.header_bytes.get() != 32 {
                break;
            }
            let Some(left) = budget.get().checked_sub(1) else {
                return Err(DumpError::Malformed(
                    "more data of drivers than there can be",
                ));
            };
            budget.set(left);
            let data = at + 32 + u64::from(head.padding_before.get());
            let (length, end) = (u64::from(head.data_bytes.get()), self.bytes);
            if wanted(&head.tag) && data < end {
                found.push(Blob {
                    tag: head.tag,
                    bytes: length.min(end - data),
                    is_cut_off: data + length > end,
                    at: data,
                });
            }
            at = data + length + u64::from(head.padding_behind.get());
        }
        Ok(found)
    }

    fn record<T: FromBytes, const N: usize>(&self, at: u64) -> Result<Option<T>, DumpError> {
        if at.checked_add(N as u64).is_none_or(|end| end > self.bytes) {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(T::read_from_bytes(&bytes).ok())
    }

    /// Reads a part of the data; it is there.
    ///
    /// Errors: [`DumpError`].
    pub fn read_blob(&self, blob: &Blob, from: u64, to: &mut [u8]) -> Result<(), DumpError> {
        self.read(blob.at.saturating_add(from), to)
    }
}
