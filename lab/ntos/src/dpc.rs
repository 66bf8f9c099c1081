//! Deferred procedure calls.

use lab_verifier::RuleId;
use nt::ke::{HighImportance, KDPC};

use crate::guest::{get, set};
use crate::latency::Routine;
use crate::machine::Machine;
use crate::sched::State;

/// `KDPC.Number` of a DPC bound to processor 0; 0 itself means "not bound".
/// (On Windows the bias is the kernel's own business too.)
pub(crate) const TARGET_BIAS: u16 = 0x800;

impl Machine {
    /// Whether a DPC was initialised; reports one that was not.
    pub(crate) fn is_dpc(&self, address: u64) -> bool {
        let initialized = get!(address as *mut KDPC, DeferredRoutine).is_some();
        if !initialized {
            self.report(
                RuleId::DpcUninitialized,
                [address, 0, 0, 0],
                format!(
                    "the DPC at {address:#x} was queued, or given to a timer, and not initialised"
                ),
            );
        }
        initialized
    }

    /// Sets a driver's timer; true if it was set already.
    pub(crate) fn set_driver_timer(&self, timer: u64, due: i64, period: u32, dpc: u64) -> bool {
        self.check_dispatcher(timer);
        let dpc = if dpc == 0 || self.is_dpc(dpc) { dpc } else { 0 };
        self.set_timer(timer, due, period, dpc)
    }

    /// Queues a DPC to its target, or to `cpu`; false if it is queued already.
    pub(crate) fn queue_dpc(
        &self,
        address: u64,
        cpu: usize,
        argument1: u64,
        argument2: u64,
    ) -> bool {
        let dpc = address as *mut KDPC;
        if !get!(dpc, DpcData).is_null() {
            return false;
        }
        let number = get!(dpc, Number);
        let target = match number.checked_sub(TARGET_BIAS) {
            Some(bound) => usize::from(bound).min(self.cpus.len() - 1),
            None => cpu,
        };
        set!(dpc, DpcData = self.cpus[target].address() as *mut _);
        set!(dpc, SystemArgument1 = argument1 as *mut _);
        set!(dpc, SystemArgument2 = argument2 as *mut _);
        let mut queue = self.cpus[target].dpcs.borrow_mut();
        if i32::from(get!(dpc, Importance)) == HighImportance {
            queue.push_front(address);
        } else {
            queue.push_back(address);
        }
        self.queued_dpcs.set(self.queued_dpcs.get() + 1);
        drop(queue);
        self.nudge(target);
        true
    }

    /// Takes a DPC off whichever queue it is on.
    pub(crate) fn remove_dpc(&self, address: u64) -> bool {
        for cpu in &self.cpus {
            let mut queue = cpu.dpcs.borrow_mut();
            if let Some(position) = queue.iter().position(|dpc| *dpc == address) {
                queue.remove(position);
                self.queued_dpcs.set(self.queued_dpcs.get() - 1);
                set!(address as *mut KDPC, DpcData = std::ptr::null_mut());
                drop(queue);
                self.dpcs_settled();
                return true;
            }
        }
        false
    }

    /// Runs a processor's queue empty, on its DPC fiber.
    pub(crate) fn run_dpcs(&self, cpu: usize) {
        loop {
            let Some(address) = self.cpus[cpu].dpcs.borrow_mut().pop_front() else {
                return;
            };
            self.queued_dpcs.set(self.queued_dpcs.get() - 1);
            self.run_dpc(address);
        }
    }

    fn run_dpc(&self, address: u64) {
        let dpc = address as *mut KDPC;
        let routine = get!(dpc, DeferredRoutine).map_or(0, |routine| routine as usize as u64);
        let of_timer = self.services.borrow().timer_dpcs.get(&address).copied();
        let arguments = match of_timer {
            Some([first, second]) => [first, second, 0, 0],
            None => [
                address,
                get!(dpc, DeferredContext) as u64,
                get!(dpc, SystemArgument1) as u64,
                get!(dpc, SystemArgument2) as u64,
            ],
        };
        // From here on the DPC can be queued again, also by its own routine.
        set!(dpc, DpcData = std::ptr::null_mut());
        self.count_dpc();
        self.timed(Routine::Dpc, routine, arguments);
    }

    /// Waits on the running thread until no DPC is queued or running.
    pub(crate) fn flush_dpcs(&self) {
        let Some(id) = self.running.get() else { return };
        self.flushing.set(self.flushing.get() + 1);
        while self.dpcs_are_active() {
            self.thread(id).state.set(State::Spinning(self.flush_key()));
            self.yield_to_scheduler();
        }
        self.flushing.set(self.flushing.get() - 1);
    }

    /// Lets those go on that wait for DPCs, once there are none.
    pub(crate) fn dpcs_settled(&self) {
        if self.flushing.get() > 0 && !self.dpcs_are_active() {
            self.wake_spinners(self.flush_key());
        }
    }

    /// What a thread busy-waits for that flushes DPCs: no address of the driver's.
    fn flush_key(&self) -> u64 {
        (&raw const self.flushing) as u64
    }

    /// Whether a DPC is queued or running on any processor.
    fn dpcs_are_active(&self) -> bool {
        self.queued_dpcs.get() > 0 || self.cpus.iter().any(|cpu| cpu.in_dpc.get())
    }
}
