//! Who runs: one context at a time, on as many virtual processors as wanted.
//!
//! A machine is run by one host thread. Each NT thread, and each processor's
//! DPC queue, has a [`Fiber`]; the scheduler runs on the host thread's own
//! stack and switches to one of them at a time. It gets control back where a
//! fiber waits, spins, ends, or leaves the kernel while there is work for
//! another context (queued DPCs, a due timer): so the order of everything is
//! decided here, by the seed, and repeats.
#![expect(unsafe_code, reason = "switches stacks")]

use std::cell::{Cell, UnsafeCell};

use lab_verifier::RuleId;
use nt::ke::{DISPATCH_LEVEL, KIRQL, PASSIVE_LEVEL};

use crate::clock::ClockKind;
use crate::cpu::{Cpu, CpuSet};
use crate::fiber::Fiber;
use crate::layout::{Slot, pending};
use crate::locks::returned::Called;
use crate::machine::{Machine, current};
use crate::reach::Unchecked;
use crate::wait::Wait;
use crate::{asm, guest, latency, seh};

/// Index of a thread in its machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct ThreadId(pub(crate) usize);

/// What a fiber does when it is next switched to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    None,
    /// Calls a routine of the driver and keeps its result.
    Call {
        function: u64,
        args: [u64; 4],
    },
    /// Sends an IRP to the top of a device stack.
    Dispatch {
        device: u64,
        irp: u64,
    },
    /// Runs the DPCs queued on a processor.
    Dpcs {
        cpu: usize,
    },
    /// Services the interrupts of a processor whose context below is at this IRQL.
    Interrupts {
        cpu: usize,
        below: KIRQL,
    },
    /// Runs a queued work item.
    WorkItem {
        item: u64,
    },
    /// Cancels an IRP.
    Cancel {
        irp: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No job.
    Free,
    /// In the ready queue, or running on a processor.
    Runnable,
    /// Busy-waiting for a spin lock at this address.
    Spinning(u64),
    /// Blocked in a wait.
    Waiting,
}

/// An NT thread, or a processor's DPC context.
pub(crate) struct Thread {
    pub(crate) fiber: UnsafeCell<Fiber>,
    /// Address of the `KTHREAD` that drivers see.
    pub(crate) object: Cell<u64>,
    /// Address of the process it belongs to.
    pub(crate) process: Cell<u64>,
    pub(crate) state: Cell<State>,
    pub(crate) job: Cell<Job>,
    pub(crate) result: Cell<u64>,
    /// IRQL while switched out.
    pub(crate) irql: Cell<KIRQL>,
    pub(crate) affinity: UnsafeCell<Option<CpuSet>>,
    pub(crate) wait: UnsafeCell<Option<Wait>>,
    pub(crate) wait_result: Cell<i32>,
    pub(crate) priority: Cell<i32>,
    /// Created by `PsCreateSystemThread`.
    pub(crate) is_system_thread: Cell<bool>,
    /// Last processor it ran on.
    pub(crate) cpu: Cell<usize>,
    /// The request it was started with, if any program can send it.
    pub(crate) unchecked: Cell<Option<Unchecked>>,
    /// Nested calls into driver code.
    pub(crate) depth: Cell<u32>,
    /// Whether it runs a routine whose time is taken.
    pub(crate) timing: Cell<bool>,
    /// Time-stamp ticks that others have run during that routine.
    pub(crate) away: Cell<u64>,
    /// Looks of the watchdog that found it at raised IRQL, since it was raised.
    pub(crate) ticks: Cell<u32>,
    /// Exceptions under way.
    pub(crate) seh: seh::State,
}

/// Why the scheduler gave control back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// What was waited for has happened.
    Done,
    /// Nothing can run before this time (ns since boot), or ever.
    Idle(Option<u64>),
    /// A rule was broken; the machine has stopped.
    Stopped,
}

/// Entry of every fiber: does one job after the other.
pub(crate) unsafe extern "sysv64" fn fiber_main(thread: u64) -> ! {
    let machine = current();
    let id = ThreadId(guest::size(thread));
    loop {
        machine.do_job(id);
        machine.thread(id).state.set(State::Free);
        machine.yield_to_scheduler();
    }
}

/// What [`leave_kernel`] answers when an exception takes the place of the return; flags have no such bit set
/// that driver code could be resumed with.
pub(crate) const RAISES: u64 = 1 << 31;

/// Way out of a kernel call when the processor has something pending: gives flags to set behind it, or
/// [`RAISES`].
pub(crate) unsafe extern "efiapi" fn leave_kernel() -> u64 {
    let machine = current();
    machine.enter_kernel();
    if machine.has_pending_exception() {
        return RAISES;
    }
    let asked = if machine.visiting.get() {
        0
    } else {
        machine.cpu().take_requests()
    };
    if asked & pending::OVERDUE != 0 {
        machine.overdue();
    }
    if asked & pending::SCHEDULE != 0 {
        machine.nest_interrupts();
        machine.yield_to_scheduler();
    }
    machine.leave_kernel();
    machine.stepper.flags()
}

impl Machine {
    /// Runs contexts until `done`, or nothing can run, or the machine stops.
    pub(crate) fn run_until(&self, done: impl Fn() -> bool) -> Ran {
        // Stepping is about one instruction at a time.
        if self.parallel.is_wanted() && !self.stepper.is_open() {
            return self.run_parallel(&done);
        }
        loop {
            if self.has_stopped() {
                return Ran::Stopped;
            }
            self.fire_due_timers();
            if let Some((cpu, thread)) = self.pick() {
                self.resume(cpu, thread);
                continue;
            }
            if self.held.take().is_some() {
                continue;
            }
            self.watch.rest();
            if done() {
                return Ran::Done;
            }
            let next = self.next_due();
            match (self.clock.kind(), next) {
                (ClockKind::Virtual, Some(due)) => self.clock.advance_to(due),
                (_, next) => return Ran::Idle(next),
            }
        }
    }

    /// As [`Self::run_until`], and sleeps through host time.
    pub(crate) fn run_blocking(&self, done: impl Fn() -> bool) -> Ran {
        loop {
            match self.run_until(&done) {
                Ran::Idle(Some(due)) => {
                    let wait = due.saturating_sub(self.clock.now_ns());
                    std::thread::sleep(std::time::Duration::from_nanos(wait));
                }
                ran => return ran,
            }
        }
    }

    /// The next processor and context to run, by the seed's order.
    fn pick(&self) -> Option<(usize, ThreadId)> {
        self.pick_among(0, 1)
    }

    /// As [`Self::pick`], of the processors whose number is `remainder` modulo `divisor`.
    pub(crate) fn pick_among(&self, remainder: usize, divisor: usize) -> Option<(usize, ThreadId)> {
        let idle = self.active.get() == 0 && self.queued_dpcs.get() == 0 && self.raised.get() == 0;
        if idle && self.ready.borrow().is_empty() {
            return None;
        }
        let count = self.cpus.len();
        let first = self.first_candidate();
        (0..count)
            .map(|step| (first + step) % count)
            .filter(|cpu| divisor == 1 || cpu % divisor == remainder)
            .find_map(|cpu| Some((cpu, self.runnable_on(cpu)?)))
    }

    /// Where the search for a context starts: round robin, or by the seed.
    fn first_candidate(&self) -> usize {
        let seed = self.schedule_seed.get();
        if seed == 0 {
            return self.current_cpu.get() + 1;
        }
        // xorshift64: any full-period generator will do; this one needs no state but a word.
        let mut next = seed;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.schedule_seed.set(next);
        usize::try_from(next >> 33).unwrap_or(0)
    }

    /// The context that processor `cpu` would run now.
    fn runnable_on(&self, index: usize) -> Option<ThreadId> {
        let cpu = &self.cpus[index];
        if self.raised.get() > 0
            && let Some(id) = self.start_interrupts(index)
        {
            return Some(id);
        }
        if cpu.can_start_dpc(|id| self.thread(id).irql.get()) {
            return Some(self.start_dpcs(index));
        }
        if let Some(id) = cpu.top() {
            return match self.thread(id).state.get() {
                State::Runnable if self.held.get() != Some(id) => Some(id),
                _ => None,
            };
        }
        let id = self.take_ready(index)?;
        cpu.thread.set(Some(id));
        self.active.set(self.active.get() + 1);
        Some(id)
    }

    fn start_dpcs(&self, index: usize) -> ThreadId {
        let cpu = &self.cpus[index];
        let thread = self.thread(cpu.dpc_thread);
        thread.job.set(Job::Dpcs { cpu: index });
        thread.state.set(State::Runnable);
        thread.irql.set(DISPATCH_LEVEL);
        cpu.in_dpc.set(true);
        self.active.set(self.active.get() + 1);
        cpu.dpc_thread
    }

    fn take_ready(&self, cpu: usize) -> Option<ThreadId> {
        let mut ready = self.ready.borrow_mut();
        let position = ready
            .iter()
            .position(|id| self.may_run_on(*id, cpu) && self.held.get() != Some(*id))?;
        ready.remove(position)
    }

    /// Whether a thread's affinity includes a processor.
    pub(crate) fn may_run_on(&self, id: ThreadId, cpu: usize) -> bool {
        // SAFETY: a machine is used by one host thread, and the reference ends in this expression.
        let affinity = unsafe { &*self.thread(id).affinity.get() };
        affinity.as_ref().is_none_or(|set| {
            set.get(cpu / 64)
                .is_some_and(|word| word >> (cpu % 64) & 1 != 0)
        })
    }

    /// Gives a free thread a job and runs it at once if its processor is free.
    pub(crate) fn start(&self, id: ThreadId, job: Job) {
        let thread = self.thread(id);
        thread.job.set(job);
        thread.irql.set(PASSIVE_LEVEL);
        thread.state.set(State::Runnable);
        self.ready.borrow_mut().push_back(id);
        self.parallel.notify();
    }

    /// Runs a free thread's job on an idle processor without going through
    /// the queue: the path of an IOCTL that completes at once.
    pub(crate) fn run_now(&self, id: ThreadId, job: Job) {
        let idle = self.active.get() == 0 && self.queued_dpcs.get() == 0 && self.raised.get() == 0;
        if !idle || !self.ready.borrow().is_empty() || self.parallel.is_wanted() {
            return self.start(id, job);
        }
        let thread = self.thread(id);
        thread.job.set(job);
        thread.irql.set(PASSIVE_LEVEL);
        thread.state.set(State::Runnable);
        let cpu = thread.cpu.get();
        self.cpus[cpu].thread.set(Some(id));
        self.active.set(1);
        self.resume(cpu, id);
    }

    /// Switches to a context on a processor; returns when it yields.
    pub(crate) fn resume(&self, index: usize, id: ThreadId) {
        let cpu = &self.cpus[index];
        self.enter_cpu(index);
        self.running.set(Some(id));
        self.switches.set(self.switches.get() + 1);
        self.note_switch(index, id);
        let thread = self.thread(id);
        thread.cpu.set(index);
        thread.state.set(State::Runnable);
        self.set_irql(thread.irql.get());
        if !cpu.in_dpc.get() && !cpu.in_isr.get() {
            cpu.set_current_thread(thread.object.get());
        }
        if self.stepper.is_on() {
            cpu.request(pending::STEP);
        }
        if self.shares_page.get() {
            crate::shared_page::set_times(
                self.clock.now_ns(),
                self.clock.filetime(),
                self.cpus.len(),
            );
        }
        let area = cpu.area();
        let fiber = thread.fiber.get();
        if thread.depth.get() > 0 {
            guest::set!(area, slot = guest::get!(fiber, slot));
        } else {
            // Not in driver code: no kernel call to remember.
            guest::set!(area, slot.rsp = 0u64);
        }
        guest::set!(area, host_rsp = guest::get!(fiber, host_rsp));
        let saved = guest::get!(fiber, saved_rsp);
        // SAFETY: the fiber's context was saved by `switch` or prepared by `Fiber::new`, and nothing runs on it.
        unsafe { asm::switch(self.main_rsp.as_ptr(), saved) };
        if thread.depth.get() > 0 {
            guest::set!(fiber, slot = guest::get!(area, slot));
        }
        guest::set!(fiber, host_rsp = guest::get!(area, host_rsp));
        thread.irql.set(cpu.irql());
        self.running.set(None);
        self.settle(index, id);
    }

    /// Takes a context that ended or waits off its processor.
    fn settle(&self, index: usize, id: ThreadId) {
        let cpu = &self.cpus[index];
        if !matches!(self.thread(id).state.get(), State::Free | State::Waiting) {
            return;
        }
        if cpu.in_isr.get() && cpu.isr_thread.get() == Some(id) {
            cpu.in_isr.set(false);
        } else if cpu.in_dpc.get() && cpu.dpc_thread == id {
            cpu.in_dpc.set(false);
        } else {
            cpu.thread.set(None);
        }
        self.active.set(self.active.get() - 1);
        self.dpcs_settled();
    }

    /// Adds a switch to the digest of the run.
    fn note_switch(&self, cpu: usize, id: ThreadId) {
        // The multiplier of FxHash: spreads what is added over the whole word.
        const SPREAD: u64 = 0x517C_C1B7_2722_0A95;
        let step = (cpu as u64) << 32 | id.0 as u64;
        let hash = self.schedule_hash.get().rotate_left(5) ^ step;
        self.schedule_hash.set(hash.wrapping_mul(SPREAD));
    }

    /// Gives control to the scheduler; returns when it resumes this fiber.
    pub(crate) fn yield_to_scheduler(&self) {
        let Some(id) = self.running.get() else { return };
        let thread = self.thread(id);
        let left = if thread.timing.get() {
            latency::now()
        } else {
            0
        };
        let saved = guest::field!(thread.fiber.get(), saved_rsp);
        // SAFETY: the scheduler's context was saved when it switched to this fiber.
        unsafe { asm::switch(saved, self.main_rsp.get()) };
        if left != 0 {
            thread
                .away
                .set(thread.away.get() + latency::now().saturating_sub(left));
        }
    }

    /// Yields to the other processors, from a busy-wait of this one.
    pub(crate) fn yield_while_busy(&self) {
        let waiting = self.queued_dpcs.get() > 0 || self.raised.get() > 0;
        if self.active.get() > 1 || waiting || self.next_due().is_some() {
            self.yield_to_scheduler();
        }
    }

    /// Busy-waits until a spin lock is free.
    pub(crate) fn spin(&self, lock: u64) {
        let Some(id) = self.running.get() else { return };
        while guest::read(lock as *const usize) != 0 {
            self.thread(id).state.set(State::Spinning(lock));
            if self.visiting.get() || !self.anyone_else_can_run() {
                self.violate(
                    RuleId::Deadlock,
                    [0, lock, 0, 0],
                    format!(
                        "no processor can run to release spin lock {lock:#x}, {}",
                        self.holder_in_words(lock)
                    ),
                );
            }
            self.yield_to_scheduler();
        }
        self.thread(id).state.set(State::Runnable);
    }

    /// Lets the contexts go on that busy-wait for a lock which is free now.
    pub(crate) fn wake_spinners(&self, lock: u64) {
        for id in self.cpus.iter().flat_map(Cpu::contexts) {
            if self.thread(id).state.get() == State::Spinning(lock) {
                self.thread(id).state.set(State::Runnable);
                self.request_schedule();
            }
        }
    }

    pub(crate) fn anyone_else_can_run(&self) -> bool {
        let can_go_on = |id: ThreadId| self.thread(id).state.get() == State::Runnable;
        let elsewhere = self.cpus.iter().enumerate().any(|(index, cpu)| {
            index != self.current_cpu.get()
                && (cpu.can_start_dpc(|id| self.thread(id).irql.get())
                    || cpu.contexts().any(can_go_on))
        });
        elsewhere || self.raised.get() > 0 || !self.ready.borrow().is_empty()
    }

    /// Carries out a fiber's job, on that fiber.
    fn do_job(&self, id: ThreadId) {
        let thread = self.thread(id);
        thread.unchecked.set(None);
        match thread.job.replace(Job::None) {
            Job::None => {}
            Job::Call { function, args } => thread.result.set(self.call(function, args)),
            Job::Dispatch { device, irp } => {
                thread.unchecked.set(self.unchecked_request(irp as *mut _));
                let status = self.call_device(device as *mut _, irp as *mut _);
                thread.result.set(u64::from(status.to_u32()));
            }
            Job::Dpcs { cpu } => self.run_dpcs(cpu),
            Job::Interrupts { cpu, below } => self.run_interrupts(cpu, below),
            Job::WorkItem { item } => {
                self.run_work_item(item);
                self.reuse_thread(id);
            }
            Job::Cancel { irp } => {
                self.cancel_irp(irp as *mut _);
                self.reuse_thread(id);
            }
        }
        if thread.is_system_thread.get() {
            self.end_system_thread(id);
        }
    }

    /// Leaves the running fiber for good: its thread has ended inside a kernel call.
    pub(crate) fn abandon_fiber(&self, id: ThreadId) -> ! {
        self.thread(id).depth.set(0);
        self.thread(id).seh.reset();
        self.thread(id).state.set(State::Free);
        let fiber = self.thread(id).fiber.get();
        // SAFETY: one host thread; the scheduler is about to switch away, and the frame laid out here
        // is at the top of the host stack, far above the frames in use.
        unsafe { (*fiber).prepare(id) };
        let mut abandoned = 0;
        // SAFETY: the scheduler's context was saved when it switched to this fiber; this fiber's
        // own context is the new one that `prepare` laid out.
        unsafe { asm::switch(&raw mut abandoned, self.main_rsp.get()) };
        unreachable!("nothing switches back to an abandoned context")
    }

    /// Takes the running context off its processor's books.
    pub(crate) fn leave_processor(&self) {
        self.active.set(self.active.get() - 1);
    }

    /// Calls a routine on another processor, on the running fiber's stack.
    pub(crate) fn call_on(&self, cpu: usize, function: u64, args: [u64; 4]) -> u64 {
        let home = self.current_cpu.get();
        let slot = self.slot();
        self.enter_cpu(cpu);
        let area = self.cpu().area();
        let (irql, old_slot): (KIRQL, Slot) = (self.irql(), guest::get!(area, slot));
        // With several host threads that processor's may be on its way into a kernel call.
        let target: u64 = guest::get!(area, locked_target);
        self.set_irql(nt::ke::IPI_LEVEL);
        guest::set!(area, slot = slot);
        self.visiting.set(true);
        let result = self.call(function, args);
        self.visiting.set(false);
        guest::set!(area, slot = old_slot);
        guest::set!(area, locked_target = target);
        self.set_irql(irql);
        self.enter_cpu(home);
        result
    }

    fn enter_cpu(&self, index: usize) {
        self.current_cpu.set(index);
        if self.gs_cpu.replace(index) != index {
            self.cpus[index].load_gs();
        }
    }

    /// Calls a routine of the driver on the running fiber's kernel stack.
    ///
    /// Checks that it returns at the IRQL it was called at.
    pub(crate) fn call(&self, function: u64, args: [u64; 4]) -> u64 {
        self.call_expecting(function, args, self.irql())
    }

    /// Calls a routine that takes five or six arguments.
    pub(crate) fn call_with(&self, function: u64, args: [u64; 4], more: [u64; 2]) -> u64 {
        let Some(id) = self.running.get() else {
            return 0;
        };
        // Above the home slots of the first four.
        guest::write(self.call_stack_top(id) as *mut [u64; 2], more);
        self.call(function, args)
    }

    /// Where the stack ends that the next call into the driver runs on; 0x40 bytes from there on are free.
    fn call_stack_top(&self, id: ThreadId) -> u64 {
        let rsp = self.slot().rsp;
        if self.thread(id).depth.get() > 0 && self.on_kernel_stack(id, rsp) {
            return (rsp - 0x40) & !15;
        }
        // SAFETY: the fiber belongs to the running thread and is not dropped while it runs.
        let fiber = unsafe { &*self.thread(id).fiber.get() };
        (fiber.kernel_top() - 0x40) & !15
    }

    /// Calls a routine that must return at `irql`.
    pub(crate) fn call_expecting(&self, function: u64, args: [u64; 4], irql: KIRQL) -> u64 {
        self.call_as(Called::Other, function, args, irql)
    }

    /// Calls a routine that must return at `irql`, with the locks and in the regions it was called.
    pub(crate) fn call_as(
        &self,
        called: Called,
        function: u64,
        args: [u64; 4],
        irql: KIRQL,
    ) -> u64 {
        let before = self.running.get().map(|id| (id, self.before_call(id)));
        let result = self.call_freely(function, args);
        if let Some((id, before)) = before {
            self.check_returned(id, called, function, irql, before);
        }
        result
    }

    /// Calls a routine that may return at another IRQL and without locks: a `__finally` block that
    /// releases a lock does.
    pub(crate) fn call_freely(&self, function: u64, args: [u64; 4]) -> u64 {
        let Some(id) = self.running.get() else {
            return 0;
        };
        let depth = &self.thread(id).depth;
        // The outermost call comes from no kernel call that would have to be remembered.
        let outer = depth.get().checked_sub(1).map(|_| self.slot());
        let stack = self.call_stack_top(id);
        depth.set(depth.get() + 1);
        let function = self.stepper.entry(self.cpu(), function);
        self.leave_kernel();
        // SAFETY: gs points at this processor's block (`resume`); the stack is this fiber's; what
        // the driver's routine does is the driver's business, and faults in it are caught.
        let result = unsafe { asm::call_driver(function, &raw const args, stack) };
        self.enter_kernel();
        depth.set(depth.get() - 1);
        // The thread may have moved to another processor meanwhile.
        let area = self.cpu().area();
        match outer {
            Some(slot) => guest::set!(area, slot = slot),
            None => guest::set!(area, slot.rsp = 0u64),
        }
        result
    }
}
