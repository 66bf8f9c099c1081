//! Numbers and masks of processors.

use nt::base::{ALL_PROCESSOR_GROUPS, PROCESSOR_NUMBER};
use nt::ke::KAFFINITY;

use crate::machine::Machine;

impl Machine {
    pub(crate) fn index_of(&self, number: PROCESSOR_NUMBER) -> Option<usize> {
        let index = usize::from(number.Group) * 64 + usize::from(number.Number);
        (number.Number < 64 && number.Reserved == 0 && index < self.cpu_count()).then_some(index)
    }

    pub(crate) fn processors_in(&self, group: u16) -> u32 {
        let count = self.cpu_count();
        if group == ALL_PROCESSOR_GROUPS {
            return u32::try_from(count).unwrap_or(0);
        }
        u32::try_from(count.saturating_sub(usize::from(group) * 64).min(64)).unwrap_or(0)
    }

    pub(crate) fn group_mask(&self, group: u16) -> KAFFINITY {
        match self.processors_in(group) {
            0 => 0,
            count => usize::MAX >> (64 - count),
        }
    }
}
