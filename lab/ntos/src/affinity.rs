//! Moving threads between processors.
#![expect(
    unsafe_code,
    reason = "the affinity of a thread is shared between its fiber and the scheduler"
)]

use lab_verifier::RuleId;
use nt::base::GROUP_AFFINITY;

use crate::machine::Machine;
use crate::sched::State;

impl Machine {
    /// Restricts the running thread to processors of a group and moves it there; returns the former affinity.
    pub(crate) fn set_affinity(&self, group: u16, mask: u64) -> GROUP_AFFINITY {
        let legal = self.group_mask(group) as u64;
        if mask & legal == 0 {
            self.violate(
                RuleId::BadObject,
                [u64::from(group), mask, legal, 0],
                format!("affinity {mask:#x} names no processor of group {group}"),
            );
        }
        let mut set = vec![0; usize::from(group) + 1];
        set[usize::from(group)] = mask & legal;
        self.replace_affinity(Some(set))
    }

    /// Lets the running thread run anywhere again.
    pub(crate) fn clear_affinity(&self) {
        self.replace_affinity(None);
    }

    /// Puts a former affinity back; an all-zero one stands for "any processor".
    pub(crate) fn restore_affinity(&self, previous: GROUP_AFFINITY) {
        if previous.Mask == 0 {
            self.clear_affinity();
        } else {
            self.set_affinity(previous.Group, previous.Mask);
        }
    }

    fn replace_affinity(&self, set: Option<Vec<u64>>) -> GROUP_AFFINITY {
        let Some(id) = self.running.get() else {
            return GROUP_AFFINITY::default();
        };
        let thread = self.thread(id);
        // SAFETY: one host thread; no reference to the affinity is held across this.
        let old = unsafe { std::mem::replace(&mut *thread.affinity.get(), set) };
        if !self.may_run_on(id, self.current_cpu.get()) {
            // Off this processor; the scheduler finds it one that it may run on.
            self.cpu().thread.set(None);
            thread.state.set(State::Runnable);
            self.ready.borrow_mut().push_back(id);
            self.leave_processor();
            self.yield_to_scheduler();
        }
        let word = old
            .iter()
            .flatten()
            .enumerate()
            .find(|(_, word)| **word != 0);
        word.map_or_else(GROUP_AFFINITY::default, |(group, mask)| GROUP_AFFINITY {
            Mask: *mask,
            Group: u16::try_from(group).unwrap_or(0),
            Reserved: [0; 3],
        })
    }
}
