//! Registers in memory, mapped for as long as their owner needs them.
#![expect(unsafe_code, reason = "maps device memory, reads and writes registers")]

use crate::routine::Routine;
use crate::{Result, status, utf16};
use core::arch::asm;
use core::ffi::c_void;
use core::ptr::NonNull;
use nt::base::PHYSICAL_ADDRESS;
use nt::vm::{PAGE_NOCACHE, PAGE_READWRITE};
use pmu::backend::MappedRegisters;

type MapIoSpaceEx = unsafe extern "efiapi" fn(PHYSICAL_ADDRESS, usize, u32) -> *mut c_void;
type MapIoSpace = unsafe extern "efiapi" fn(PHYSICAL_ADDRESS, usize, i32) -> *mut c_void;
type UnmapIoSpace = unsafe extern "efiapi" fn(*mut c_void, usize);

/// Windows 10 and later; before it, `MmMapIoSpace`, which maps executable.
static MAP_EX: Routine<MapIoSpaceEx> =
    // SAFETY: the type is that of wdm.h, as `nt::vm` declares it.
    unsafe { Routine::new(utf16!("MmMapIoSpaceEx")) };
static MAP: Routine<MapIoSpace> =
    // SAFETY: the type is that of wdm.h, as `nt::mm` declares it.
    unsafe { Routine::new(utf16!("MmMapIoSpace")) };
static UNMAP: Routine<UnmapIoSpace> =
    // SAFETY: the type is that of wdm.h, as `nt::mm` declares it.
    unsafe { Routine::new(utf16!("MmUnmapIoSpace")) };

/// `MEMORY_CACHING_TYPE`, wdm.h.
const MM_NON_CACHED: i32 = 0;

/// Physical addresses of a page of registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// From the start: how far registers may be written. Units: bytes.
    written: u64,
}

impl Range {
    /// `None` for what can't be: registers across the end of all addresses, or not at a multiple of 4.
    pub(super) const fn new(start: u64, bytes: u64, written: u64) -> Option<Self> {
        let end = start.checked_add(bytes);
        match end {
            Some(end) if end <= i64::MAX.cast_unsigned() && start.is_multiple_of(4) => Some(Self {
                start,
                bytes,
                written,
            }),
            _ => None,
        }
    }
}

/// A mapping that this owns.
///
/// # Invariants
/// `base` is where `range` is mapped, uncached, and stays so until this is dropped.
struct Mapping {
    base: NonNull<c_void>,
    range: Range,
}

// SAFETY: device memory is nobody's in particular: any thread may access and unmap it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn try_new(range: Range) -> Result<Self> {
        let bytes = usize::try_from(range.bytes).unwrap_or(0);
        UNMAP.find().ok_or(status::STATUS_NOT_SUPPORTED)?;
        let start = range.start.cast_signed();
        let base = match (MAP_EX.find(), MAP.find()) {
            // SAFETY: the range is of device registers: invariant of `Registers`.
            (Some(map), _) => unsafe { map(start, bytes, PAGE_READWRITE | PAGE_NOCACHE) },
            // SAFETY: as above.
            (None, Some(map)) => unsafe { map(start, bytes, MM_NON_CACHED) },
            (None, None) => return Err(status::STATUS_NOT_SUPPORTED),
        };
        let base = NonNull::new(base).ok_or(status::STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { base, range })
    }

    /// Where a register is; `None` past `bytes`, or if it is not aligned.
    fn at(&self, offset: u32, bytes: u64) -> Option<*mut u32> {
        let end = u64::from(offset) + 4;
        let is_register = offset.is_multiple_of(4) && end <= bytes;
        is_register.then(|| {
            let offset = usize::try_from(offset).unwrap_or(0);
            self.base.as_ptr().wrapping_byte_add(offset).cast()
        })
    }
}

impl Drop for Mapping {
    /// IRQL: `<= DISPATCH_LEVEL`.
    fn drop(&mut self) {
        let bytes = usize::try_from(self.range.bytes).unwrap_or(0);
        if let Some(unmap) = UNMAP.found() {
            // SAFETY: mapped by `try_new` with this length, and unmapped once.
            unsafe { unmap(self.base.as_ptr(), bytes) };
        }
    }
}

/// Mapped registers of a unit; unmapped when dropped.
pub struct Mapped {
    page_0: Mapping,
    page_1: Option<Mapping>,
}

impl Mapped {
    pub(super) fn try_new(page_0: Range, page_1: Option<Range>) -> Result<Self> {
        let page_0 = Mapping::try_new(page_0)?;
        let page_1 = page_1.map(Mapping::try_new).transpose()?;
        Ok(Self { page_0, page_1 })
    }

    /// The pages of registers. One at a time may have them.
    ///
    /// IRQL: any.
    pub fn pages(&mut self) -> (Page<'_>, Option<Page<'_>>) {
        (Page(&mut self.page_0), self.page_1.as_mut().map(Page))
    }
}

/// A page of mapped registers.
pub struct Page<'a>(&'a mut Mapping);

impl MappedRegisters for Page<'_> {
    /// A register outside of the page reads as 0.
    fn read(&mut self, offset: u32) -> u32 {
        let mapping = &*self.0;
        mapping.at(offset, mapping.range.bytes).map_or(0, load)
    }

    /// A register past the last that may be written is not written.
    fn write(&mut self, offset: u32, value: u32) {
        let mapping = &*self.0;
        if let Some(at) = mapping.at(offset, mapping.range.written) {
            store(at, value);
        }
    }
}

/// One load of 32 bits, by an instruction that device memory takes on every processor.
fn load(at: *mut u32) -> u32 {
    let value: u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: within a mapping, aligned: `Mapping::at`. Reading a PMU's register touches no memory of ours.
    unsafe {
        asm!("mov {0:e}, dword ptr [{1}]", out(reg) value, in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("ldr {0:w}, [{1}]", "dmb oshld", out(reg) value, in(reg) at, options(nostack, preserves_flags));
    }
    value
}

/// One store of 32 bits.
fn store(at: *mut u32, value: u32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: within a mapping, aligned: `Mapping::at`, up to where registers of the PMU are: they count,
    // and reach no memory.
    unsafe {
        asm!("mov dword ptr [{1}], {0:e}", in(reg) value, in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("dmb oshst", "str {0:w}, [{1}]", in(reg) value, in(reg) at, options(nostack, preserves_flags));
    }
}
