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
            self.violate(
                RuleId::BadObject,
                [item, 0, 0, 0],
                "a work item was queued that does not exist, or that is queued".into(),
            );
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
