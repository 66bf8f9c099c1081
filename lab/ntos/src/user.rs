//! User programs' memory: what requests with `METHOD_NEITHER` point to.
//!
//! A program's buffer is mapped twice: at an address below
//! `MmSystemRangeStart` for the driver, and at a kernel address for the lab
//! and for MDLs. The pages at the user's address begin inaccessible; at the
//! first access to each, it is judged whether the driver took the care that
//! hostile programs call for ([`Machine::judge_user_access`]), and the page
//! is opened.

use std::collections::BTreeMap;

use lab_verifier::RuleId;
use nt::ke::DISPATCH_LEVEL;
use nt::status::{STATUS_ACCESS_VIOLATION, STATUS_DATATYPE_MISALIGNMENT};

use crate::buffers::Buffer;
use crate::exports::data::USER_PROBE_ADDRESS;
use crate::fault::Touch;
use crate::guest::{self, attempt};
use crate::machine::Machine;
use crate::memory::{self, READ_WRITE};

const PAGE: u64 = memory::PAGE as u64;
/// Length of a recycled mapping.
const LEN: usize = 64 * 1024;

/// A program's memory.
#[derive(Debug)]
struct Region {
    len: usize,
    /// Address of the same memory for the lab.
    kernel: u64,
    /// Whether a request has it.
    in_use: bool,
    /// Ranges that the driver has probed, from start to end.
    probed: Vec<(u64, u64)>,
    /// MDLs that have pages of it locked.
    locked: u32,
    /// Whether a page is accessible.
    opened: bool,
}

/// All of a machine's programs' memory, by its user address.
#[derive(Default)]
pub(crate) struct UserMemory {
    regions: BTreeMap<u64, Region>,
    free: Vec<u64>,
}

impl UserMemory {
    fn take(&mut self, len: usize) -> std::io::Result<(u64, &mut Region)> {
        let map_len = len.next_multiple_of(memory::PAGE).max(LEN);
        let recycled = (map_len == LEN).then(|| self.free.pop()).flatten();
        let start = match recycled {
            Some(start) => start,
            None => {
                let (start, kernel) = memory::map_user(map_len)?;
                let region = Region {
                    len: map_len,
                    kernel,
                    in_use: false,
                    probed: Vec::new(),
                    locked: 0,
                    opened: false,
                };
                self.regions.insert(start, region);
                start
            }
        };
        match self.regions.get_mut(&start) {
            Some(region) => Ok((start, region)),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    fn put(&mut self, start: u64) {
        let Some(region) = self.regions.get_mut(&start) else {
            return;
        };
        region.in_use = false;
        region.probed.clear();
        if region.opened {
            region.opened = !memory::protect(start, region.len, libc::PROT_NONE);
        }
        if region.len == LEN {
            self.free.push(start);
        } else {
            let (kernel, len) = (region.kernel, region.len);
            self.regions.remove(&start);
            unmap(start, kernel, len);
        }
    }

    /// The region in use that an address is in, and where it starts.
    fn at(&mut self, address: u64) -> Option<(u64, &mut Region)> {
        let (start, region) = self.regions.range_mut(..=address).next_back()?;
        let inside = region.in_use && address < start + region.len as u64;
        inside.then_some((*start, region))
    }

    /// The regions in use that a range touches.
    fn touched(&mut self, start: u64, end: u64) -> impl Iterator<Item = &mut Region> {
        let touched = self.regions.range_mut(..end);
        touched
            .filter(move |(begin, region)| region.in_use && **begin + region.len as u64 > start)
            .map(|(_, region)| region)
    }

    /// Whether a range is in one region.
    fn covers(&mut self, start: u64, end: u64) -> bool {
        self.at(start)
            .is_some_and(|(begin, region)| end <= begin + region.len as u64)
    }
}

fn unmap(user: u64, kernel: u64, len: usize) {
    memory::unmap(user, len);
    memory::unmap(kernel, len + memory::PAGE);
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        for (start, region) in &self.regions {
            unmap(*start, region.kernel, region.len);
        }
    }
}

impl Machine {
    /// A program's buffer, ending at an inaccessible page.
    pub(crate) fn take_user_buffer(&self, data: &[u8], len: usize) -> std::io::Result<Buffer> {
        let len = len.max(data.len()).max(1);
        let mut user = self.user.borrow_mut();
        let (start, region) = user.take(len)?;
        region.in_use = true;
        let buffer = Buffer::at_end(start, region.kernel, region.len, len);
        buffer.fill(data);
        Ok(buffer)
    }

    /// Takes a request's buffer back.
    pub(crate) fn put_buffer(&self, buffer: Buffer) {
        if buffer.is_user() {
            self.user.borrow_mut().put(buffer.map());
        } else {
            self.buffers.borrow_mut().put(buffer);
        }
    }

    /// The kernel's address of a program's memory; `None` for what is none of it.
    pub(crate) fn kernel_address_of(&self, user: u64) -> Option<u64> {
        let mut memory = self.user.borrow_mut();
        let (start, region) = memory.at(user)?;
        Some(region.kernel + (user - start))
    }

    /// Notes that an MDL locks or unlocks a range.
    pub(crate) fn lock_user_range(&self, start: u64, len: u64, lock: bool) {
        for region in self.user.borrow_mut().touched(start, start + len) {
            region.locked = if lock {
                region.locked + 1
            } else {
                region.locked.saturating_sub(1)
            };
        }
    }

    /// Whether the pages of a range are there, to be locked for reading.
    pub(crate) fn is_mapped(&self, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len.max(1));
        if self.user.borrow_mut().covers(start, end) {
            return true;
        }
        let first = start & !(PAGE - 1);
        (first..end).step_by(memory::PAGE).all(|page| {
            let address = page.max(start);
            self.make_resident(address);
            self.is_readable(address)
        })
    }

    /// For the fault handler: opens a page of a program's memory, after judging the access. False if
    /// the address is in none.
    pub(crate) fn open_user_page(&self, touch: &Touch) -> bool {
        let found = self.user.try_borrow_mut().ok().and_then(|mut user| {
            let (start, region) = user.at(touch.address)?;
            region.opened = true;
            let probed = region
                .probed
                .iter()
                .any(|(begin, end)| (*begin..*end).contains(&touch.address));
            Some((touch.address - start, probed, region.locked > 0))
        });
        let Some((_, probed, locked)) = found else {
            return false;
        };
        if !locked {
            self.judge_user_access(touch, probed);
        }
        memory::protect(touch.address & !(PAGE - 1), memory::PAGE, READ_WRITE)
    }

    /// What the driver did wrong in accessing a program's memory at its user address.
    fn judge_user_access(&self, touch: &Touch, probed: bool) {
        let Touch { address, kind, .. } = *touch;
        let parameters = [address, u64::from(self.irql()), touch.registers.rip, 0];
        if self.irql() >= DISPATCH_LEVEL {
            let what = format!(
                "{kind} of a user program's memory at {address:#x} at IRQL {}, where it can't be paged in",
                self.irql()
            );
            self.note_touch(touch, RuleId::PagedMemoryAtDispatch, parameters, what);
            return;
        }
        if !probed && !self.probes_inline.get() {
            let what = format!(
                "{kind} of a user program's buffer at {address:#x}, whose address was not probed"
            );
            self.note_touch(touch, RuleId::UserMemoryUnprobed, parameters, what);
        }
        if !self.is_guarded(&touch.registers) {
            let what =
                format!("{kind} of a user program's memory at {address:#x} outside any __try");
            self.note_touch(touch, RuleId::UserMemoryUnguarded, parameters, what);
        }
    }

    /// `ProbeForRead`: raises unless a range is aligned and in a user program's part of the address space.
    pub(crate) fn probe_for_read(&self, address: u64, len: usize, alignment: u32) {
        self.probe(address, len, alignment);
    }

    /// `ProbeForWrite`: the same, and that every page can be written to.
    pub(crate) fn probe_for_write(&self, address: u64, len: usize, alignment: u32) {
        if !self.probe(address, len, alignment) {
            return;
        }
        let end = address + len as u64;
        // It is known that these can be; to touch them would be to have them opened.
        if self.user.borrow_mut().covers(address, end) {
            return;
        }
        let written = attempt(move || {
            let mut byte = address;
            while byte < end {
                guest::poke(byte as *mut u8);
                byte = (byte & !(PAGE - 1)) + PAGE;
            }
        });
        if let Err(fault) = written {
            self.raise_fault(fault);
        }
    }

    /// False when it raises, or has nothing to probe.
    fn probe(&self, address: u64, len: usize, alignment: u32) -> bool {
        if len == 0 {
            return false;
        }
        let end = address
            .checked_add(len as u64)
            .filter(|end| *end <= USER_PROBE_ADDRESS);
        if address & u64::from(alignment.max(1) - 1) != 0 {
            self.raise_status(STATUS_DATATYPE_MISALIGNMENT);
            return false;
        }
        let Some(end) = end else {
            self.raise_status(STATUS_ACCESS_VIOLATION);
            return false;
        };
        for region in self.user.borrow_mut().touched(address, end) {
            region.probed.push((address, end));
        }
        true
    }
}
