//! The crash dump of a machine that has stopped.
#![expect(unsafe_code, reason = "a CONTEXT as bytes")]

use std::io::Write;
use std::ops::Range;

use lab_dump::{Contents, Memory, Module, Page};
use lab_image::{MappedImage, Protection};
use nt::seh::CONTEXT;

use crate::guest;
use crate::machine::Machine;
use crate::memory;
use crate::sched::ThreadId;
use crate::seh::context_of;
use crate::shared_page;

const PAGE: u64 = memory::PAGE as u64;

/// Where Windows has the page that is shared with programs.
const SHARED_PAGE: u64 = 0xFFFF_F780_0000_0000;

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The machine goes on.
    #[error("the machine has not stopped: there is nothing to dump")]
    Running,
    /// A context that was given up has what a dump is made of.
    #[error("the machine stopped in the middle of a kernel call that changes its memory")]
    Busy,
    /// It could not be written.
    #[error("cannot write the dump: {0}")]
    Io(#[from] std::io::Error),
}

/// Memory of the kernel that can be read.
struct Region {
    range: Range<u64>,
    writable: bool,
    executable: bool,
    /// Whether it stays at raised IRQL.
    nonpaged: bool,
}

/// The pages of a dump, and where each is read.
struct Kernel {
    pages: Vec<Page>,
    from: Vec<u64>,
}

impl Memory for Kernel {
    fn pages(&self) -> &[Page] {
        &self.pages
    }

    fn read(&self, index: usize, to: &mut [u8; memory::PAGE]) {
        let from = self.from[index] as *const [u8; memory::PAGE];
        *to = guest::read(from);
    }
}

impl Machine {
    /// Writes a crash dump: the stop, the kernel's memory, and what drivers gave when it stopped.
    ///
    /// Errors: [`DumpError`].
    pub fn write_dump(&self, to: &mut impl Write) -> Result<(), DumpError> {
        if !self.has_stopped() {
            return Err(DumpError::Running);
        }
        // Calls what was registered, unless that was done.
        self.stop();
        if !self.is_consistent() {
            return Err(DumpError::Busy);
        }
        self.enter();
        let contents = self.contents().ok_or(DumpError::Running)?;
        lab_dump::write(&contents, &self.kernel_memory(), to)?;
        Ok(())
    }

    fn contents(&self) -> Option<Contents> {
        let (stop, raw) = self.stopped_at()?;
        let modules = self.modules.borrow();
        let modules = modules.iter().map(|module| Module {
            name: format!("{}.sys", module.name),
            base: module.image.base(),
            bytes: module.image.image().header().image_size,
            entry: module.image.entry(),
        });
        Some(Contents {
            code: stop.code,
            parameters: stop.parameters,
            context: bytes_of(&context_of(&raw.registers)),
            instruction: raw.registers.rip,
            build: shared_page::BUILD,
            processors: u32::try_from(self.cpu_count()).unwrap_or(u32::MAX),
            system_time: self.clock.filetime(),
            up_time: self.now_ns() / 100,
            comment: format!("Drydock: {}: {}", raw.rule.rule().name, raw.what),
            modules: modules.collect(),
            blobs: self.found.given.borrow().clone(),
        })
    }

    fn kernel_memory(&self) -> Kernel {
        let mut pages: Vec<(Page, u64)> = Vec::new();
        for region in self.regions() {
            let first = region.range.start & !(PAGE - 1);
            let all = (first..region.range.end).step_by(guest::size(PAGE));
            pages.extend(all.map(|address| {
                let page = Page {
                    address,
                    writable: region.writable,
                    executable: region.executable,
                };
                (page, address)
            }));
        }
        let shared = Page {
            address: SHARED_PAGE,
            writable: false,
            executable: false,
        };
        pages.push((shared, shared_page::address()));
        pages.sort_unstable();
        pages.dedup_by_key(|(page, _)| page.address);
        let (pages, from) = pages.into_iter().unzip();
        Kernel { pages, from }
    }

    /// Memory of the kernel that can be read now.
    fn regions(&self) -> Vec<Region> {
        let data = |range: Range<u64>, nonpaged: bool| Region {
            range,
            writable: true,
            executable: false,
            nonpaged,
        };
        let mut regions = Vec::new();
        for module in self.modules.borrow().iter() {
            regions.extend(image_regions(&module.image));
        }
        let pool = self.pool.borrow();
        regions.extend(pool.live_pages().map(|(range, paged)| data(range, !paged)));
        let stacks = (0..self.thread_count()).map(|n| self.kernel_stack_of(ThreadId(n)));
        regions.extend(stacks.map(|range| data(range, true)));
        let cpus = self.cpus.iter().map(crate::cpu::Cpu::control_region);
        regions.extend(cpus.map(|range| data(range, true)));
        regions
    }

    /// Whether bytes are all in one piece of nonpaged memory of the kernel.
    pub(crate) fn is_resident(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        memory::is_kernel(address)
            && self.regions().iter().any(|region| {
                region.nonpaged && region.range.start <= address && end <= region.range.end
            })
    }
}

/// The parts of an image that are there, cut where the pageable ones begin and end.
fn image_regions(image: &MappedImage) -> Vec<Region> {
    let (discarded, pageable) = (image.discarded(), image.pageable());
    let within = |ranges: &[Range<u64>], page| ranges.iter().any(|range| range.contains(&page));
    let mut regions: Vec<Region> = Vec::new();
    let readable = image
        .protections()
        .filter(|(_, protection)| *protection != Protection::None);
    for (range, protection) in readable {
        let (writable, executable) = match protection {
            Protection::None | Protection::Read => (false, false),
            Protection::ReadWrite => (true, false),
            Protection::ReadExecute => (false, true),
            Protection::ReadWriteExecute => (true, true),
        };
        let end = range.end.min(image.range().end);
        let mut goes_on = false;
        for page in (range.start..end).step_by(guest::size(PAGE)) {
            if within(&discarded, page) {
                goes_on = false;
                continue;
            }
            let nonpaged = !within(&pageable, page);
            match regions.last_mut() {
                Some(last) if goes_on && last.nonpaged == nonpaged => last.range.end = page + PAGE,
                _ => regions.push(Region {
                    range: page..page + PAGE,
                    writable,
                    executable,
                    nonpaged,
                }),
            }
            goes_on = true;
        }
    }
    regions
}

fn bytes_of(context: &CONTEXT) -> Vec<u8> {
    let start = std::ptr::from_ref(context).cast::<u8>();
    // SAFETY: the structure has fields of integers only, without padding: its size is the sum of theirs.
    unsafe { std::slice::from_raw_parts(start, size_of::<CONTEXT>()) }.to_vec()
}
