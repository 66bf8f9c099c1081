//! A virtual machine: processors, kernel objects, devices, time.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use elsa::FrozenVec;
use lab_devices::{NoPmu, Platform, Registers};
use nt::ke::KIRQL;

use crate::buffers::Buffers;
use crate::clock::{Clock, ClockKind};
use crate::cpu::Cpu;
use crate::etw::Tracing;
use crate::fault;
use crate::files::Files;
use crate::findings::{Found, Stopped};
use crate::guest::{self, get};
use crate::interrupt::Interrupts;
use crate::irp::Irps;
use crate::latency::Latencies;
use crate::layout::{Slot, pending};
use crate::locate::Module;
use crate::locks::Locks;
use crate::object::Objects;
use crate::overflow;
use crate::paged::Paging;
use crate::parallel::Parallel;
use crate::pool::{Guard, Pool, PoolLevel};
use crate::process::{Process, SYSTEM_PROCESS};
use crate::resources::Resources;
use crate::sched::{Thread, ThreadId};
use crate::services::Services;
use crate::step::Stepper;
use crate::thunk::{Thunks, locking_thunks, thunks};
use crate::timer::Timers;
use crate::unwind::Registers as CpuRegisters;
use crate::user::UserMemory;
use crate::watchdog::{self, Limits, Watch};

/// How a machine is made.
pub struct Config {
    /// Number of virtual processors, 1 to 2048; independent of the host's.
    pub cpus: usize,
    /// Which time it lives in.
    pub clock: ClockKind,
    /// How strictly pool is checked.
    pub pool: PoolLevel,
    /// Which side of a pool block ends at a guard page; a thorough check runs both ways.
    pub guard: Guard,
    /// Whether paged pool and `PAGE…` sections are taken away at `DISPATCH_LEVEL` and above, as by
    /// Driver Verifier's force IRQL checking. 6–12 µs for a raise of the IRQL after they were used.
    pub force_irql: bool,
    /// Processor time that a driver may run without giving control back.
    pub hang_limit: Duration,
    /// Processor time that its routines may take at raised IRQL.
    pub limits: Limits,
    /// Whether privileged instructions become jumps where that is safe; otherwise each one traps.
    pub patch: bool,
    /// Host threads that run driver code at the same time, at most one per processor: with more than
    /// one, what the driver's code does between kernel calls truly overlaps, and no run repeats.
    pub host_threads: usize,
    /// Order in which processors run: 0 = round robin, else pseudo-random.
    pub seed: u64,
    /// What its processors' model-specific registers are.
    pub devices: Box<dyn Registers>,
    /// Devices with registers in memory, and how firmware describes them.
    pub platform: Platform,
    /// Where `DbgPrint` goes.
    pub debug_print: Box<dyn Fn(&str)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cpus: 4,
            clock: ClockKind::Virtual,
            pool: PoolLevel::Strict,
            guard: Guard::End,
            force_irql: true,
            hang_limit: Duration::from_secs(10),
            limits: Limits::default(),
            patch: true,
            host_threads: 1,
            seed: 0,
            devices: Box::new(NoPmu),
            platform: Platform::default(),
            debug_print: Box::new(|_| {}),
        }
    }
}

/// Processors of a machine, at most: 32 groups of 64.
pub const MAX_CPUS: usize = 2048;

/// Why a machine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A number of processors that Windows can't have.
    #[error("{0} processors asked for; a machine has 1 to {MAX_CPUS}")]
    Cpus(usize),
    /// The host has no memory left.
    #[error("cannot map memory for the machine: {0}")]
    Memory(#[from] std::io::Error),
    /// The kernel's own objects don't fit.
    #[error("cannot make the machine's first threads: {0}")]
    Threads(nt::NTSTATUS),
}

/// A virtual machine. One host thread runs it.
pub struct Machine {
    pub(crate) cpus: Vec<Cpu>,
    threads: FrozenVec<Box<Thread>>,
    pub(crate) free_threads: RefCell<Vec<ThreadId>>,
    pub(crate) ready: RefCell<VecDeque<ThreadId>>,
    /// Contexts that are on a processor.
    pub(crate) active: Cell<u32>,
    pub(crate) queued_dpcs: Cell<u32>,
    /// Threads that wait until no DPC is queued or running.
    pub(crate) flushing: Cell<u32>,
    /// Interrupts that are pending on any processor.
    pub(crate) raised: Cell<u32>,
    pub(crate) interrupts: RefCell<Interrupts>,
    pub(crate) overflow_schedule: overflow::Schedule,
    pub(crate) stepper: Stepper,
    pub(crate) parallel: Parallel,
    /// A context that goes on when nothing else can.
    pub(crate) held: Cell<Option<ThreadId>>,
    pub(crate) latencies: Latencies,
    pub(crate) current_cpu: Cell<usize>,
    /// Processor that `gs` points at.
    pub(crate) gs_cpu: Cell<usize>,
    /// The context that runs now; `None` while the scheduler does.
    pub(crate) running: Cell<Option<ThreadId>>,
    /// Whether the running context is on another processor than its own, called there by an
    /// interprocessor interrupt: nothing else may run before it is back.
    pub(crate) visiting: Cell<bool>,
    /// Saved stack pointer of the scheduler.
    pub(crate) main_rsp: Cell<u64>,
    pub(crate) schedule_seed: Cell<u64>,
    pub(crate) clock: Clock,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) waiters: RefCell<HashMap<u64, VecDeque<ThreadId>>>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) buffers: RefCell<Buffers>,
    pub(crate) user: RefCell<UserMemory>,
    /// Whether what requests return is looked at.
    pub(crate) judges_output: bool,
    /// Whether a loaded driver has the bounds of user memory to compare addresses with itself.
    pub(crate) probes_inline: Cell<bool>,
    pub(crate) paging: Paging,
    pub(crate) objects: RefCell<Objects>,
    pub(crate) irps: RefCell<Irps>,
    pub(crate) processes: RefCell<Vec<Process>>,
    pub(crate) files: RefCell<Files>,
    pub(crate) modules: RefCell<Vec<Module>>,
    pub(crate) resources: RefCell<Resources>,
    pub(crate) locks: Locks,
    pub(crate) services: RefCell<Services>,
    pub(crate) tracing: RefCell<Tracing>,
    /// Address of the bus driver's object; 0 before the first device.
    pub(crate) bus: Cell<u64>,
    /// Whether a loaded driver reads times from the shared page.
    pub(crate) shares_page: Cell<bool>,
    /// The system cancel spin lock, where drivers can't see it.
    pub(crate) cancel_lock: Box<Cell<usize>>,
    pub(crate) devices: Box<dyn Registers>,
    pub(crate) platform: Platform,
    /// What the host's processor says of itself, by leaf and subleaf.
    pub(crate) host_cpuid: RefCell<HashMap<(u32, u32), [u32; 4]>>,
    pub(crate) patch: bool,
    /// Address of the patched instruction that was refused last.
    pub(crate) refused: Cell<u64>,
    pub(crate) debug_print: Box<dyn Fn(&str)>,
    pub(crate) found: Found,
    dpcs_run: Cell<u64>,
    /// Switches to a context since the machine was made.
    pub(crate) switches: Cell<u64>,
    /// Digest of which context ran where, in order.
    pub(crate) schedule_hash: Cell<u64>,
    pub(crate) watch: Watch,
    /// Fallible kernel calls made so far, and the one to fail.
    fallible: Cell<u64>,
    fail_at: Cell<[Option<u64>; 2]>,
}

thread_local! {
    static CURRENT: Cell<*const Machine> = const { Cell::new(std::ptr::null()) };
}

/// The machine whose driver code or kernel call runs on this host thread.
pub(crate) fn current() -> &'static Machine {
    match try_current() {
        Some(machine) => machine,
        None => unreachable!("kernel code runs on a machine's fibers only"),
    }
}

/// The machine of this host thread, if there is one.
pub(crate) fn try_current() -> Option<&'static Machine> {
    let machine = CURRENT.get();
    #[expect(unsafe_code, reason = "the machine is kept alive by whoever runs it")]
    // SAFETY: set by `enter` to a machine that is borrowed for as long as its fibers run, and cleared
    // when it is dropped; `Machine` is not `Send`, so no other thread can drop it meanwhile.
    unsafe {
        machine.as_ref()
    }
}

impl Machine {
    /// Makes a machine. It is boxed because running fibers know its address.
    ///
    /// Errors: too many processors, or no memory.
    pub fn new(config: Config) -> Result<Box<Self>, MachineError> {
        if !(1..=MAX_CPUS).contains(&config.cpus) {
            return Err(MachineError::Cpus(config.cpus));
        }
        fault::install();
        watchdog::start();
        let mut machine = Box::new(Self {
            cpus: Vec::new(),
            threads: FrozenVec::new(),
            free_threads: RefCell::default(),
            ready: RefCell::default(),
            active: Cell::new(0),
            queued_dpcs: Cell::new(0),
            flushing: Cell::new(0),
            raised: Cell::new(0),
            interrupts: RefCell::default(),
            overflow_schedule: overflow::Schedule::default(),
            stepper: Stepper::default(),
            parallel: Parallel::new(config.host_threads.min(config.cpus)),
            held: Cell::new(None),
            latencies: Latencies::default(),
            current_cpu: Cell::new(0),
            gs_cpu: Cell::new(usize::MAX),
            running: Cell::new(None),
            visiting: Cell::new(false),
            main_rsp: Cell::new(0),
            schedule_seed: Cell::new(config.seed),
            clock: Clock::new(config.clock),
            timers: RefCell::default(),
            waiters: RefCell::default(),
            pool: RefCell::new(Pool::new(config.pool, config.guard)?),
            buffers: RefCell::default(),
            user: RefCell::default(),
            probes_inline: Cell::new(false),
            paging: Paging::new(config.force_irql),
            judges_output: config.pool != PoolLevel::Off,
            objects: RefCell::default(),
            irps: RefCell::new(Irps::new(config.pool)),
            processes: RefCell::default(),
            files: RefCell::default(),
            modules: RefCell::default(),
            resources: RefCell::default(),
            locks: Locks::default(),
            services: RefCell::default(),
            tracing: RefCell::default(),
            bus: Cell::new(0),
            shares_page: Cell::new(false),
            cancel_lock: Box::default(),
            devices: config.devices,
            platform: config.platform,
            host_cpuid: RefCell::default(),
            patch: config.patch,
            refused: Cell::new(0),
            debug_print: config.debug_print,
            found: Found::default(),
            dpcs_run: Cell::new(0),
            switches: Cell::new(0),
            schedule_hash: Cell::new(0),
            watch: Watch::new(config.hang_limit, config.limits),
            fallible: Cell::new(0),
            fail_at: Cell::new([None; 2]),
        });
        machine.describe_devices();
        machine
            .process(SYSTEM_PROCESS)
            .map_err(MachineError::Threads)?;
        for index in 0..config.cpus {
            let dpc_thread = machine.add_thread().map_err(MachineError::Threads)?;
            machine.cpus.push(Cpu::new(index, dpc_thread)?);
        }
        Ok(machine)
    }

    /// Makes this the machine of the host thread; every public call that runs code does.
    pub(crate) fn enter(&self) {
        if !std::ptr::eq(CURRENT.replace(self), self) {
            self.gs_cpu.set(usize::MAX);
        }
    }

    /// What counts events, in one word.
    pub fn pmu_source(&self) -> &'static str {
        self.devices.source()
    }

    /// Number of virtual processors.
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// Tells that a virtual processor executes a process of the host now, or no longer.
    ///
    /// Errors: words for the user.
    pub fn attach(&self, cpu: usize, process: Option<u32>) -> Result<(), String> {
        if cpu >= self.cpus.len() {
            return Err(format!(
                "no processor {cpu}: the machine has {}",
                self.cpus.len()
            ));
        }
        self.devices.attach(cpu, process)
    }

    /// Nanoseconds since the machine booted.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Wall time of the machine. Units: 100 ns since 1601.
    pub fn wall_time(&self) -> u64 {
        self.clock.filetime()
    }

    /// Lets time pass: jumps in virtual time, sleeps in host time; timers fire on the way.
    pub fn sleep_ns(&self, ns: u64) -> Result<(), Stopped> {
        self.check_running()?;
        let end = self.clock.now_ns() + ns;
        loop {
            let due = self.next_due().map_or(end, |due| due.min(end));
            match self.clock.kind() {
                ClockKind::Virtual => self.clock.advance_to(due),
                ClockKind::Host => {
                    let wait = due.saturating_sub(self.clock.now_ns());
                    std::thread::sleep(Duration::from_nanos(wait));
                }
            }
            self.poll()?;
            if self.clock.now_ns() >= end {
                return Ok(());
            }
        }
    }

    /// Makes the n-th fallible kernel call from now on fail (from 0), once.
    pub fn fail_nth(&self, n: u64) {
        self.fail_at.set([Some(self.fallible.get() + n), None]);
    }

    /// Makes two fallible kernel calls from now on fail, once each.
    pub fn fail_both(&self, first: u64, second: u64) {
        let now = self.fallible.get();
        self.fail_at.set([Some(now + first), Some(now + second)]);
    }

    /// Fallible kernel calls that drivers have made.
    pub fn fallible_calls(&self) -> u64 {
        self.fallible.get()
    }

    /// Whether the fallible call under way is to fail.
    pub(crate) fn must_fail(&self) -> bool {
        let n = self.fallible.get();
        self.fallible.set(n + 1);
        self.fail_at.get().contains(&Some(n))
    }

    pub(crate) fn count_dpc(&self) {
        self.dpcs_run.set(self.dpcs_run.get() + 1);
    }

    /// DPCs that have run since the machine was made.
    pub fn dpcs_run(&self) -> u64 {
        self.dpcs_run.get()
    }

    /// Digest of which context has run on which processor, in order: equal for runs that took the
    /// same course.
    pub fn schedule_hash(&self) -> u64 {
        self.schedule_hash.get()
    }

    /// The thread with this index.
    #[inline]
    pub(crate) fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0]
    }

    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn push_thread(&self, thread: Thread) {
        self.threads.push(Box::new(thread));
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter()
    }

    /// The processor that runs now.
    #[inline]
    pub(crate) fn cpu(&self) -> &Cpu {
        &self.cpus[self.current_cpu.get()]
    }

    /// The IRQL of the processor that runs now.
    #[inline]
    pub(crate) fn irql(&self) -> KIRQL {
        self.cpu().irql()
    }

    /// The driver's registers at its last kernel call.
    #[inline]
    pub(crate) fn slot(&self) -> Slot {
        get!(self.cpu().area(), slot)
    }

    /// Address in driver code behind the kernel call under way; 0 outside one.
    pub(crate) fn call_site(&self) -> u64 {
        let in_driver = self
            .running
            .get()
            .is_some_and(|id| self.thread(id).depth.get() > 0);
        if !in_driver {
            return 0;
        }
        // Zero until the first kernel call of a thread; else where its last one put its return address.
        let rsp: u64 = get!(self.cpu().area(), slot.rsp);
        if rsp == 0 {
            return 0;
        }
        guest::read(rsp as *const u64)
    }

    /// The driver's registers as its kernel call returns: what to unwind from.
    pub(crate) fn call_registers(&self) -> CpuRegisters {
        let slot = self.slot();
        let mut gpr = [0; 16];
        gpr[3] = slot.rbx;
        gpr[5] = slot.rbp;
        gpr[6] = slot.rsi;
        gpr[7] = slot.rdi;
        gpr[12..].copy_from_slice(&[slot.r12, slot.r13, slot.r14, slot.r15]);
        gpr[4] = slot.rsp + 8;
        CpuRegisters {
            rip: self.call_site(),
            gpr,
            ..CpuRegisters::NONE
        }
    }

    pub(crate) fn on_kernel_stack(&self, id: ThreadId, address: u64) -> bool {
        self.with_fiber(id, |fiber| fiber.on_kernel_stack(address))
    }

    /// The bounds of the running thread's kernel stack.
    pub(crate) fn stack_limits(&self) -> (usize, usize) {
        self.running.get().map_or((0, 0), |id| {
            self.with_fiber(id, crate::fiber::Fiber::kernel_stack)
        })
    }

    /// Pages of a thread's kernel stack.
    pub(crate) fn kernel_stack_of(&self, id: ThreadId) -> std::ops::Range<u64> {
        self.with_fiber(id, crate::fiber::Fiber::kernel_pages)
    }

    pub(crate) fn in_stack_guard(&self, id: ThreadId, address: u64) -> bool {
        self.with_fiber(id, |fiber| fiber.in_guard(address))
    }

    fn with_fiber<R>(&self, id: ThreadId, f: impl FnOnce(&crate::fiber::Fiber) -> R) -> R {
        let thread = self.thread(id);
        #[expect(
            unsafe_code,
            reason = "a fiber is shared between its thread and the scheduler"
        )]
        // SAFETY: one host thread; the reference ends with the call, in which nothing switches.
        let fiber = unsafe { &*thread.fiber.get() };
        f(fiber)
    }

    /// Makes the running context give way as soon as its kernel call ends.
    #[inline]
    pub(crate) fn request_schedule(&self) {
        if self.running.get().is_some() {
            self.cpu().request(pending::SCHEDULE);
        }
        self.parallel.notify();
    }

    /// Enters the machine, unless it has stopped.
    pub(crate) fn check_running(&self) -> Result<(), Stopped> {
        self.enter();
        if self.has_stopped() {
            Err(self.stop())
        } else {
            Ok(())
        }
    }

    /// Name of the n-th unknown import of the module that a call came from.
    pub(crate) fn unknown_import_name(&self, call_site: u64, n: u64) -> String {
        self.with_module(call_site, |module| {
            usize::try_from(n)
                .ok()
                .and_then(|n| module.unknown.get(n).cloned())
        })
        .flatten()
        .unwrap_or_else(|| format!("unknown import {n}"))
    }

    /// What this machine's drivers are bound to.
    pub(crate) fn thunks(&self) -> &'static Thunks {
        if self.parallel.is_wanted() {
            locking_thunks()
        } else {
            thunks()
        }
    }

    /// Address of a kernel routine for `MmGetSystemRoutineAddress`, which finds variables, too.
    pub(crate) fn routine_address(&self, name: &str) -> u64 {
        let routine = self.thunks().address(name);
        routine.or_else(|| self.variable(name)).unwrap_or(0)
    }
}

/// Thread id as drivers see it: never 0, multiples of 4.
pub(crate) fn thread_id(id: ThreadId) -> u64 {
    (id.0 as u64 + 1) * 4
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.parallel.shut_down();
        if std::ptr::eq(CURRENT.get(), self) {
            CURRENT.set(std::ptr::null());
        }
    }
}
