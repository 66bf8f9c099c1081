//! Work items.

use lab_verifier::RuleId;

use crate::machine::Machine;
use crate::process::SYSTEM_PROCESS;
use crate::resources::WorkItem;
use crate::sched::Job;

impl Machine {
    pub(in crate::exports) fn queue_work_item(
        &self,
        item: u64,
        routine: u64,
        context: u64,
        extended: bool,
    ) {
        let mut resources = self.resources.borrow_mut();
        let queued = resources
            .work_items
            .get_mut(&item)
            .filter(|entry| !entry.queued)
            .map(|entry| {
                *entry = WorkItem {
                    routine,
                    context,
                    extended,
                    queued: true,
                    ..entry.clone()
                };
            });
        drop(resources);
        if queued.is_none() {
            self.report_work_item(item);
            return;
        }
        let process = self.process(SYSTEM_PROCESS).unwrap_or_default();
        match self.free_thread(process) {
            Ok(thread) => self.start(thread, Job::WorkItem { item }),
            Err(status) => self.violate(
                RuleId::HostFault,
                [0; 4],
                format!("no thread for a work item: {status}"),
            ),
        }
        self.request_schedule();
    }

    /// Reports a work item that was queued and can't be.
    fn report_work_item(&self, item: u64) {
        let known = self.resources.borrow().work_items.get(&item).cloned();
        let Some(known) = known else {
            self.no_work_item(item)
        };
        let what = format!(
            "the work item allocated at {} was queued, and is queued already",
            self.site_in_words(known.allocated_at)
        );
        self.report(RuleId::WorkItemQueued, [0, item, 0, 0], what);
    }

    fn no_work_item(&self, item: u64) -> ! {
        self.violate(
            RuleId::BadObject,
            [item, 0, 0, 0],
            format!("{item:#x} is no work item, or was freed"),
        )
    }

    /// `IoFreeWorkItem`.
    pub(super) fn free_work_item(&self, item: u64) {
        let freed = self.resources.borrow_mut().work_items.remove(&item);
        let Some(freed) = freed else {
            self.no_work_item(item)
        };
        if freed.queued {
            let what = format!(
                "the work item allocated at {} was freed, and is queued",
                self.site_in_words(freed.allocated_at)
            );
            self.report(RuleId::WorkItemFreed, [0, item, 0, 0], what);
        }
    }

    /// Runs a work item on a system thread.
    pub(crate) fn run_work_item(&self, item: u64) {
        let mut resources = self.resources.borrow_mut();
        let Some(entry) = resources.work_items.get_mut(&item) else {
            return;
        };
        // It may be queued again, or freed, from its routine.
        entry.queued = false;
        let entry = entry.clone();
        if entry.once {
            resources.work_items.remove(&item);
        }
        drop(resources);
        let arguments = if entry.extended {
            [entry.device, entry.context, item, 0]
        } else {
            [entry.device, entry.context, 0, 0]
        };
        self.call(entry.routine, arguments);
    }
}
