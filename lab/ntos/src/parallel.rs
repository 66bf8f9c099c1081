//! Stress mode: driver code on several host threads at once.
//!
//! One lock, the kernel's, protects the machine: whoever runs the lab's own
//! code holds it. It is released on the way into driver code and taken on the
//! way out – at thunks, patched instructions and in signal handlers – so only
//! driver code overlaps, and all that the machine keeps in cells is still used
//! by one host thread at a time. What is a host thread's own (which context
//! it runs, on which processor, where its scheduler's stack is) is its
//! [`View`], swapped in with the lock.
//!
//! Each worker schedules the processors whose number is its own, modulo the
//! number of workers, and sleeps when none of them can run; the first worker
//! is the caller of the machine. What must not wait for driver code to call
//! the kernel – an interrupt or DPC on another worker's processor, the end of
//! the run, a call on all processors – is brought by a signal.
#![expect(
    unsafe_code,
    reason = "shares a machine between host threads, under the kernel's lock"
)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::ClockKind;
use crate::fault;
use crate::kernel_lock::{self, KernelLock};
use crate::layout::pending;
use crate::machine::{Machine, current};
use crate::sched::{Ran, ThreadId};
use crate::watchdog;

/// How long to wait before the workers that have not come to the end of a run are reminded.
const REMIND: Duration = Duration::from_millis(1);

/// What a host thread has of its own in a machine.
#[derive(Clone, Copy, Default)]
struct View {
    running: Option<ThreadId>,
    current_cpu: usize,
    gs_cpu: usize,
    main_rsp: u64,
    visiting: bool,
}

/// A host thread that runs driver code.
#[derive(Default)]
struct Worker {
    view: Cell<View>,
    /// Whether it is in driver code.
    in_driver: Cell<bool>,
    /// Contexts it has switched to.
    switches: Cell<u64>,
    tid: AtomicI32,
}

/// The workers of a machine.
pub(crate) struct Parallel {
    workers: Box<[Worker]>,
    lock: KernelLock,
    /// Whether they run.
    on: Cell<bool>,
    /// Bumped when sleepers are to look again.
    events: AtomicU32,
    /// Bumped when there may be work for others: who was idle no longer counts as such.
    work: Cell<u64>,
    idle: Cell<usize>,
    over: Cell<Option<Ran>>,
    /// The worker that lets nobody else out of driver code.
    gate: Cell<Option<usize>>,
    /// Bumped at the start of each run.
    go: AtomicU32,
    /// Workers that have not ended the run.
    left: AtomicU32,
    quit: AtomicBool,
    threads: RefCell<Vec<JoinHandle<()>>>,
}

thread_local! {
    /// Which worker this host thread is.
    static ME: Cell<usize> = const { Cell::new(0) };
    /// Whether this host thread holds the kernel's lock, or is about to.
    static IN_KERNEL: Cell<bool> = const { Cell::new(true) };
}

/// A machine on its way to a worker.
struct Shared(*const Machine);

// SAFETY: the machine is used under its lock, and its worker threads are joined before it is dropped.
unsafe impl Send for Shared {}

/// The kernel's lock, for as long as an instruction of the driver is carried out.
pub(crate) struct InKernel<'a>(&'a Machine);

impl Drop for InKernel<'_> {
    fn drop(&mut self) {
        self.0.leave_kernel();
    }
}

/// What a signal handler found out about the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupted {
    /// One host thread runs the machine.
    Alone,
    /// Driver code, and the lock was taken.
    Driver,
    /// The lab's own code.
    Kernel,
}

/// Takes the lock at a kernel call.
pub(crate) unsafe extern "efiapi" fn enter() {
    current().enter_kernel();
}

/// Releases the lock behind a kernel call.
pub(crate) unsafe extern "efiapi" fn leave() {
    current().leave_kernel();
}

impl Parallel {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            workers: (0..threads.max(1)).map(|_| Worker::default()).collect(),
            lock: KernelLock::default(),
            on: Cell::new(false),
            events: AtomicU32::new(0),
            work: Cell::new(0),
            idle: Cell::new(0),
            over: Cell::new(None),
            gate: Cell::new(None),
            go: AtomicU32::new(0),
            left: AtomicU32::new(0),
            quit: AtomicBool::new(false),
            threads: RefCell::default(),
        }
    }

    /// Whether the machine is to be run by several host threads.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.workers.len() > 1
    }

    /// Host threads that run the machine.
    pub(crate) fn host_threads(&self) -> u32 {
        u32::try_from(self.workers.len()).unwrap_or(u32::MAX)
    }

    /// Whether several host threads run it now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Tells idle workers that there may be work.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.on.get() {
            self.work.set(self.work.get() + 1);
            self.idle.set(0);
            self.ring();
        }
    }

    fn ring(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        kernel_lock::wake(&self.events, i32::MAX);
    }

    fn finish(&self, ran: Ran) {
        if self.over.get().is_none() {
            self.over.set(Some(ran));
        }
        self.ring();
    }

    /// Sleeps until something is told, without the lock.
    fn sleep(&self, limit: Option<Duration>) {
        let seen = self.events.load(Ordering::Relaxed);
        self.lock.unlock();
        kernel_lock::wait(&self.events, seen, limit);
        self.lock.lock();
    }

    /// Waits, with the lock, while another worker keeps the gate closed.
    fn pass_gate(&self, me: usize) {
        while self.gate.get().is_some_and(|owner| owner != me) {
            self.sleep(Some(REMIND));
        }
    }

    /// Sends a signal to a worker that is in driver code.
    fn kick(&self, worker: usize) {
        let worker = &self.workers[worker];
        if worker.in_driver.get() {
            watchdog::signal_thread(worker.tid.load(Ordering::Relaxed));
        }
    }

    fn kick_others(&self, me: usize) {
        (0..self.workers.len())
            .filter(|worker| *worker != me)
            .for_each(|worker| self.kick(worker));
    }

    /// Whether an access that faulted is to be made once more: another worker may have given the
    /// memory back since.
    pub(crate) fn tries_again(&self, rip: u64, address: u64) -> bool {
        thread_local! { static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) }; }
        self.on.get() && LAST.replace((rip, address)) != (rip, address)
    }

    /// Switches made by this worker: what the watchdog looks at.
    pub(crate) fn my_switches(&self) -> u64 {
        self.workers[ME.get()].switches.get()
    }

    /// Ends the worker threads.
    pub(crate) fn shut_down(&self) {
        self.quit.store(true, Ordering::Relaxed);
        self.go.fetch_add(1, Ordering::Release);
        kernel_lock::wake(&self.go, i32::MAX);
        for thread in self.threads.take() {
            // A worker does not panic outside kernel calls, and there is nobody to tell if one did.
            let _ = thread.join();
        }
    }
}

impl Machine {
    /// Takes the kernel's lock, coming from driver code.
    #[inline]
    pub(crate) fn enter_kernel(&self) {
        if self.parallel.is_on() {
            self.take_lock();
        }
    }

    /// Releases the kernel's lock, going into driver code.
    #[inline]
    pub(crate) fn leave_kernel(&self) {
        if self.parallel.is_on() {
            self.release_lock_of_kernel();
        }
    }

    /// The kernel's lock for an instruction that is carried out in place of the processor.
    #[inline]
    pub(crate) fn in_kernel(&self) -> InKernel<'_> {
        self.enter_kernel();
        InKernel(self)
    }

    // Not inlined: a context may go on on another host thread, whose locals are elsewhere.
    #[inline(never)]
    fn take_lock(&self) {
        IN_KERNEL.set(true);
        let me = ME.get();
        let parallel = &self.parallel;
        parallel.lock.lock();
        parallel.workers[me].in_driver.set(false);
        parallel.pass_gate(me);
        self.show(parallel.workers[me].view.get());
    }

    #[inline(never)]
    fn release_lock_of_kernel(&self) {
        let worker = &self.parallel.workers[ME.get()];
        worker.view.set(self.view());
        worker.in_driver.set(true);
        self.parallel.lock.unlock();
        IN_KERNEL.set(false);
    }

    fn view(&self) -> View {
        View {
            running: self.running.get(),
            current_cpu: self.current_cpu.get(),
            gs_cpu: self.gs_cpu.get(),
            main_rsp: self.main_rsp.get(),
            visiting: self.visiting.get(),
        }
    }

    fn show(&self, view: View) {
        self.running.set(view.running);
        self.current_cpu.set(view.current_cpu);
        self.gs_cpu.set(view.gs_cpu);
        self.main_rsp.set(view.main_rsp);
        self.visiting.set(view.visiting);
    }

    /// Takes the lock in a signal handler, if it interrupted driver code.
    #[inline(never)]
    pub(crate) fn enter_from_signal(&self) -> Interrupted {
        if !self.parallel.is_on() {
            return Interrupted::Alone;
        }
        if IN_KERNEL.get() {
            return Interrupted::Kernel;
        }
        self.take_lock();
        Interrupted::Driver
    }

    /// Releases what [`Self::enter_from_signal`] took, unless the handler sends the thread into the
    /// lab's own code.
    pub(crate) fn leave_from_signal(&self, interrupted: Interrupted, redirected: bool) {
        if interrupted == Interrupted::Driver && !redirected {
            self.release_lock_of_kernel();
        }
    }

    /// Makes the context on a processor look for work soon, whichever worker runs it.
    pub(crate) fn nudge(&self, cpu: usize) {
        self.request_schedule();
        if self.parallel.is_on() {
            self.cpus[cpu].request(pending::SCHEDULE);
            let worker = self.worker_of(cpu);
            if worker != ME.get() {
                self.parallel.kick(worker);
            }
        }
    }

    fn worker_of(&self, cpu: usize) -> usize {
        cpu % self.parallel.workers.len()
    }

    /// Keeps the other workers from driver code until [`Self::open_gate`]; returns when none is in it.
    pub(crate) fn close_gate(&self) {
        let parallel = &self.parallel;
        if !parallel.is_on() {
            return;
        }
        let (me, view) = (ME.get(), self.view());
        parallel.pass_gate(me);
        parallel.gate.set(Some(me));
        while parallel.workers.iter().any(|worker| worker.in_driver.get()) {
            parallel.kick_others(me);
            parallel.sleep(Some(REMIND / 10));
        }
        self.show(view);
    }

    /// Lets the other workers go on.
    pub(crate) fn open_gate(&self) {
        if self.parallel.is_on() {
            self.parallel.gate.set(None);
            self.parallel.ring();
        }
    }

    /// [`Machine::run_until`] with every worker.
    pub(crate) fn run_parallel(&self, done: &dyn Fn() -> bool) -> Ran {
        let parallel = &self.parallel;
        self.start_workers();
        let others = u32::try_from(parallel.workers.len() - 1).unwrap_or(u32::MAX);
        parallel.lock.lock();
        parallel.over.set(None);
        parallel.idle.set(0);
        parallel.left.store(others, Ordering::Relaxed);
        parallel.on.set(true);
        parallel.go.fetch_add(1, Ordering::Release);
        kernel_lock::wake(&parallel.go, i32::MAX);
        self.work(0, Some(done));
        while parallel.left.load(Ordering::Acquire) > 0 {
            parallel.kick_others(0);
            parallel.sleep(Some(REMIND));
        }
        parallel.on.set(false);
        parallel.lock.unlock();
        self.gs_cpu.set(usize::MAX);
        self.running.set(None);
        parallel.over.get().unwrap_or(Ran::Stopped)
    }

    fn start_workers(&self) {
        self.parallel.workers[0]
            .tid
            .store(watchdog::thread_id(), Ordering::Relaxed);
        let mut threads = self.parallel.threads.borrow_mut();
        for worker in threads.len() + 1..self.parallel.workers.len() {
            let shared = Shared(self);
            threads.push(std::thread::spawn(move || {
                let shared = shared;
                // SAFETY: the machine joins this thread before it goes.
                let machine = unsafe { &*shared.0 };
                machine.worker_main(worker);
            }));
        }
    }

    fn worker_main(&self, me: usize) {
        let parallel = &self.parallel;
        let _stack = fault::SignalStack::new();
        let _timer = watchdog::Timer::start();
        ME.set(me);
        self.enter();
        parallel.workers[me]
            .tid
            .store(watchdog::thread_id(), Ordering::Relaxed);
        let mut seen = 0;
        loop {
            while parallel.go.load(Ordering::Acquire) == seen {
                kernel_lock::wait(&parallel.go, seen, None);
            }
            seen = seen.wrapping_add(1);
            if parallel.quit.load(Ordering::Relaxed) {
                return;
            }
            parallel.lock.lock();
            self.work(me, None);
            parallel.left.fetch_sub(1, Ordering::Release);
            parallel.ring();
            parallel.lock.unlock();
        }
    }

    /// Runs contexts of this worker's processors to the end of the run, with the lock.
    fn work(&self, me: usize, done: Option<&dyn Fn() -> bool>) {
        let parallel = &self.parallel;
        let worker = &parallel.workers[me];
        IN_KERNEL.set(true);
        worker.in_driver.set(false);
        parallel.pass_gate(me);
        self.show(View {
            gs_cpu: usize::MAX,
            current_cpu: me,
            ..View::default()
        });
        while parallel.over.get().is_none() {
            if self.has_stopped() {
                // Whoever closed it does not come back.
                parallel.gate.set(None);
                parallel.finish(Ran::Stopped);
                parallel.kick_others(me);
                break;
            }
            self.fire_due_timers();
            if let Some((cpu, thread)) = self.pick_among(me, parallel.workers.len()) {
                self.resume(cpu, thread);
                worker.switches.set(worker.switches.get() + 1);
                self.breathe(me);
            } else {
                self.rest(me, done);
            }
        }
    }

    /// Lets another worker have the lock, if one sleeps on it.
    fn breathe(&self, me: usize) {
        let parallel = &self.parallel;
        if parallel.lock.is_contended() || parallel.gate.get().is_some() {
            let view = self.view();
            parallel.lock.unlock();
            std::thread::yield_now();
            parallel.lock.lock();
            parallel.pass_gate(me);
            self.show(view);
        }
    }

    /// Sleeps until there may be work; the first worker decides what is next when all sleep.
    fn rest(&self, me: usize, done: Option<&dyn Fn() -> bool>) {
        let parallel = &self.parallel;
        let (mark, view) = (parallel.work.get(), self.view());
        parallel.idle.set(parallel.idle.get() + 1);
        let all_idle = || parallel.idle.get() == parallel.workers.len();
        if all_idle() {
            // For the first worker.
            parallel.ring();
        }
        while parallel.over.get().is_none() && parallel.work.get() == mark {
            match done {
                Some(done) if all_idle() => self.conclude_run(done),
                _ => parallel.sleep(None),
            }
        }
        parallel.pass_gate(me);
        self.show(view);
    }

    fn conclude_run(&self, done: &dyn Fn() -> bool) {
        self.watch.rest();
        let next = self.next_due();
        if done() {
            return self.parallel.finish(Ran::Done);
        }
        match (self.clock.kind(), next) {
            (ClockKind::Virtual, Some(due)) => {
                self.clock.advance_to(due);
                self.parallel.notify();
            }
            (_, next) => self.parallel.finish(Ran::Idle(next)),
        }
    }
}
