//! User programs' memory, and probing it.

use nt::status::{STATUS_ACCESS_VIOLATION, STATUS_DATATYPE_MISALIGNMENT};

use crate::exports::data::USER_PROBE_ADDRESS;
use crate::guest::{self, attempt};
use crate::machine::Machine;

const PAGE: u64 = 4096;

impl Machine {
    /// `ProbeForRead`: raises unless a range is aligned and in a user program's part of the address space.
    pub(crate) fn probe_for_read(&self, address: u64, len: usize, alignment: u32) {
        self.probe(address, len, alignment);
    }

    /// `ProbeForWrite`: the same, and that every page can be written to.
    pub(crate) fn probe_for_write(&self, address: u64, len: usize, alignment: u32) {
        if !self.probe(address, len, alignment) {
            return;
        }
        let written = attempt(move || {
            let mut byte = address;
            while byte < address + len as u64 {
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
        let end = address.checked_add(len as u64);
        let wrong = if address & u64::from(alignment.max(1) - 1) != 0 {
            STATUS_DATATYPE_MISALIGNMENT
        } else if end.is_none_or(|end| end > USER_PROBE_ADDRESS) {
            STATUS_ACCESS_VIOLATION
        } else {
            return true;
        };
        self.raise_status(wrong);
        false
    }
}
