//! Maps a driver so that it can run in this process.
//!
//! ```text
//! base                     base + image size       up to 64 KiB    4 KiB
//! │ headers │ sections …   │ slots │ trampolines │ guard │
//!   as the sections say      read, execute          none
//! ```
//! All of it is one mapping, protected run by run. Everything that depends on the file alone was decided by
//! [`Analysis`]; here it is only written down, and kept by the [`Loader`] for the next time.

#![deny(unsafe_code)]

mod layout;
mod loader;
mod region;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::analysis::{Analysis, SLOTS, Site, SiteKind, Treatment};
use crate::image::{Image, Import, Section};
pub use loader::Loader;
use region::Region;

/// Size of a page of the mapped image.
const PAGE: usize = 4096;

/// Why an image could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The kernel refused.
    #[error("cannot {doing} {len:#x} bytes for the image")]
    Memory {
        /// What was tried.
        doing: &'static str,
        /// On how many bytes.
        len: usize,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// The image can only be at its preferred base, which this process cannot promise.
    #[error("the image has no relocations and cannot leave its base {base:#x}")]
    NotRelocatable {
        /// The preferred base.
        base: u64,
    },
    /// This machine's pages are larger than the image's.
    #[error("this machine has pages of {host} bytes, the image's sections are for pages of 4096")]
    PageSize {
        /// The machine's page size.
        host: usize,
    },
}

/// What mapping needs from its caller.
///
/// # Routines
/// `routine` is asked once per kind for which trampolines exist ([`SiteKind::Rdmsr`], [`Wrmsr`](SiteKind::Wrmsr),
/// [`Rdpmc`](SiteKind::Rdpmc), [`ReadCr8`](SiteKind::ReadCr8), [`WriteCr8`](SiteKind::WriteCr8),
/// [`Cpuid`](SiteKind::Cpuid)); `None` leaves those
/// sites to trap. The address is called from driver code with:
/// - in: ecx = register or counter number; for `Wrmsr` also edx:eax = value; for `WriteCr8` rcx = value;
/// - out: `Rdmsr`, `Rdpmc`: rax and rdx, upper halves zero; `ReadCr8`: rax; `Cpuid`: rax, rbx, rcx, rdx; else nothing;
/// - every other register, the flags and the vector registers as they were;
/// - the stack pointer with any alignment, and the driver's stack below it for the routine to use.
pub struct MapOptions<'a> {
    /// The address for an import; called for each in the file's order.
    pub bind: &'a mut dyn FnMut(&Import) -> u64,
    /// The routine for a kind of site; see above.
    pub routine: &'a mut dyn FnMut(SiteKind) -> Option<u64>,
    /// Address of the page that stands for KUSER_SHARED_DATA.
    pub kusd_alias: u64,
    /// Initial value of the driver's stack cookie; Windows never uses zero or the linker's default.
    pub cookie: u64,
}

/// What a range of the mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// Reading and running.
    ReadExecute,
    /// Everything: a finding about the driver.
    ReadWriteExecute,
}

/// A driver in memory, until dropped.
///
/// Dropping unmaps it: nothing may run in it, or keep addresses of it, by then. Whoever calls into the driver holds
/// it alive.
#[derive(Debug)]
pub struct MappedImage {
    image: Arc<Image>,
    analysis: Arc<Analysis>,
    region: Region,
    runs: Vec<(Range<usize>, Protection)>,
    /// Which kinds have a routine, in the order of [`SLOTS`].
    routines: [bool; SLOTS.len()],
    /// Whether what Windows frees after `DriverEntry` is gone.
    discarded: AtomicBool,
}

impl MappedImage {
    /// Maps an image once; a [`Loader`] that is kept does it again at half the cost.
    pub fn map(
        image: &Arc<Image>,
        analysis: &Arc<Analysis>,
        options: MapOptions<'_>,
    ) -> Result<Self, MapError> {
        Loader::with_analysis(Arc::clone(image), Arc::clone(analysis)).map(options)
    }

    /// The image this is a mapping of.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// The analysis it was patched by.
    pub fn analysis(&self) -> &Arc<Analysis> {
        &self.analysis
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.region.address()
    }

    /// Addresses of the image proper, without trampolines and guard.
    pub fn range(&self) -> Range<u64> {
        self.base()..self.base() + u64::from(self.image.header().image_size)
    }

    /// Addresses of everything that is mapped for the image.
    pub fn reserved_range(&self) -> Range<u64> {
        self.base()..self.base() + self.region.len() as u64
    }

    /// Address of `DriverEntry`.
    pub fn entry(&self) -> u64 {
        self.address_of(self.image.header().entry)
    }

    /// The address of an rva.
    pub fn address_of(&self, rva: u32) -> u64 {
        self.base() + u64::from(rva)
    }

    /// The rva of an address of the image proper.
    pub fn rva_of(&self, address: u64) -> Option<u32> {
        let rva = u32::try_from(address.checked_sub(self.base())?).ok()?;
        (rva < self.image.header().image_size).then_some(rva)
    }

    /// The addresses of a section of this image.
    pub fn addresses_of(&self, section: &Section) -> Range<u64> {
        let range = section.range();
        self.address_of(range.start)..self.address_of(range.end)
    }

    /// The site whose first byte is at `rip`: what the lab must answer when this address faults.
    pub fn site_at(&self, rip: u64) -> Option<&Site> {
        self.analysis.site_at(self.rva_of(rip)?)
    }

    /// For an address in a trampoline, the address in the driver that it stands for: use it to attribute, look up
    /// exception handlers and unwind. For an address in the image, itself.
    pub fn origin_of(&self, rip: u64) -> Option<u64> {
        if self.rva_of(rip).is_some() {
            return Some(rip);
        }
        let rva = u32::try_from(rip.checked_sub(self.base())?).ok()?;
        let trampolines = self.analysis.trampolines();
        let within = (rva - self.image.header().image_size) as usize;
        let origin = (within < trampolines.code.len())
            .then(|| trampolines.origin_of(rva))
            .flatten()?;
        Some(self.address_of(origin))
    }

    /// Whether a site's work is done by a trampoline of this mapping.
    pub fn is_patched(&self, site: &Site) -> bool {
        site.treatment == Treatment::Trampoline
            && crate::analysis::slot_of(site.kind).is_some_and(|slot| self.routines[slot])
    }

    /// Ranges of addresses and their protections as mapped, ascending and without gaps.
    pub fn protections(&self) -> impl Iterator<Item = (Range<u64>, Protection)> {
        self.runs.iter().map(|(run, protection)| {
            let address = |offset: usize| self.base() + offset as u64;
            (address(run.start)..address(run.end), *protection)
        })
    }

    /// Takes away what Windows frees after `DriverEntry`: INIT sections and relocations. A later access faults.
    ///
    /// Pages shared with a section that stays are left.
    pub fn discard_init(&self) -> Result<(), MapError> {
        self.discarded.store(true, Ordering::Relaxed);
        for pages in layout::discardable_pages(&self.image) {
            self.protect(pages, Protection::None)?;
        }
        Ok(())
    }

    /// The addresses that [`Self::discard_init`] has taken away.
    pub fn discarded(&self) -> Vec<Range<u64>> {
        if !self.discarded.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.addresses(layout::discardable_pages(&self.image))
    }

    /// The addresses that [`Self::set_paged_out`] takes away.
    pub fn pageable(&self) -> Vec<Range<u64>> {
        self.addresses(layout::pageable_pages(&self.image))
    }

    fn addresses(&self, pages: Vec<Range<usize>>) -> Vec<Range<u64>> {
        let address = |offset: usize| self.base() + offset as u64;
        let ranges = pages.into_iter();
        ranges
            .map(|pages| address(pages.start)..address(pages.end))
            .collect()
    }

    /// Takes away, or gives back, the sections that may be paged out (`PAGE…`).
    ///
    /// Pages shared with a section that stays are left.
    pub fn set_paged_out(&self, paged: Paged) -> Result<(), MapError> {
        for pages in layout::pageable_pages(&self.image) {
            match paged {
                Paged::Out => self.protect(pages, Protection::None)?,
                Paged::In => {
                    for (run, protection) in &self.runs {
                        let both = run.start.max(pages.start)..run.end.min(pages.end);
                        if !both.is_empty() {
                            self.protect(both, *protection)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn protect(&self, pages: Range<usize>, protection: Protection) -> Result<(), MapError> {
        let len = pages.len();
        self.region
            .protect(pages, protection)
            .map_err(|errno| MapError::Memory {
                doing: "protect",
                len,
                source: errno.into(),
            })
    }
}

/// Whether pageable sections are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paged {
    /// Accessible, as mapped.
    In,
    /// Any access faults.
    Out,
}
