//! Where the machine's memory is, so that nobody maps it as registers.
#![expect(unsafe_code, reason = "reads a list that the memory manager made")]

use super::io_space::Range;
use crate::routine::Routine;
use crate::{Result, status, utf16};
use core::ptr::NonNull;
use nt::vm::PHYSICAL_MEMORY_RANGE;

type PhysicalMemoryRanges = unsafe extern "efiapi" fn() -> *mut PHYSICAL_MEMORY_RANGE;

static RANGES: Routine<PhysicalMemoryRanges> =
    // SAFETY: the type is that of ntddk.h, as `nt::vm` declares it.
    unsafe { Routine::new(utf16!("MmGetPhysicalMemoryRanges")) };

/// The runs of physical memory; of a kernel that does not say, none.
///
/// # Invariants
/// A list of the memory manager's, which this owns; its last entry is of zeros.
pub(super) struct MemoryMap(Option<NonNull<PHYSICAL_MEMORY_RANGE>>);

impl MemoryMap {
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    /// Source: `MmGetPhysicalMemoryRanges`, ntddk.h.
    pub(super) fn query() -> Result<Self> {
        let Some(query) = RANGES.find() else {
            return Ok(Self(None));
        };
        // SAFETY: takes nothing; callers are at `PASSIVE_LEVEL`.
        let list = NonNull::new(unsafe { query() });
        list.map(|list| Self(Some(list)))
            .ok_or(status::STATUS_INSUFFICIENT_RESOURCES)
    }

    fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut next = self.0;
        core::iter::from_fn(move || {
            let at = next?;
            // SAFETY: an entry of the list, as none before it was the last.
            let run = unsafe { at.read() };
            let (start, bytes) = (
                run.BaseAddress.cast_unsigned(),
                run.NumberOfBytes.cast_unsigned(),
            );
            if (start, bytes) == (0, 0) {
                return None;
            }
            // SAFETY: an entry follows: this was not the last.
            next = Some(unsafe { at.add(1) });
            Some((start, start.saturating_add(bytes)))
        })
    }

    /// Whether any of the range is memory.
    pub(super) fn overlaps(&self, range: Range) -> bool {
        let end = range.start + range.bytes;
        self.runs().any(|(from, to)| range.start < to && from < end)
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        if let Some(list) = self.0 {
            // SAFETY: pool that the memory manager gave to the caller, freed once; 0 stands for any tag.
            unsafe { nt::ex::ExFreePoolWithTag(list.as_ptr().cast(), 0) };
        }
    }
}
