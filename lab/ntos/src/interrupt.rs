//! Interrupts: lines, who is connected to them, and their delivery.
//!
//! An interrupt is raised on a processor and stays pending there until the
//! processor's IRQL is below the line's and interrupts are enabled. It is
//! serviced on a fiber of the processor's own, on top of the DPC and the
//! thread that it interrupts: when the scheduler looks at the processor, that
//! is at the end of a kernel call, between contexts, or before the driver
//! instruction at which it was raised ([`crate::step`]). A higher interrupt
//! that comes while one is serviced nests on the same fiber.
#![expect(unsafe_code, reason = "lays out a trap frame for the driver")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use lab_devices::Place;
use lab_verifier::RuleId;
use nt::hal::trap_frame;
use nt::interrupt::LevelSensitive;
use nt::ke::{DISPATCH_LEVEL, HIGH_LEVEL, KIRQL, KSPIN_LOCK, PASSIVE_LEVEL, PROFILE_LEVEL};

use crate::cpu::CpuSet;
use crate::guest;
use crate::latency::Routine;
use crate::machine::Machine;
use crate::sched::{Job, State, ThreadId};

/// Vectors below are the processor's own.
const FIRST_VECTOR: u32 = 0x30;

/// An interrupt that was raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupt {
    pub(crate) irql: KIRQL,
    pub(crate) source: Source,
}

/// Where an interrupt comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The line with this vector.
    Line(u32),
    /// The performance-monitoring unit.
    Profile,
}

/// A routine that is connected to a line.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Address of the `KINTERRUPT`.
    pub(crate) object: u64,
    pub(crate) routine: u64,
    pub(crate) context: u64,
    /// Address of the spin lock held while the routine runs.
    pub(crate) lock: u64,
    pub(crate) vector: u32,
    pub(crate) synchronize_irql: KIRQL,
    pub(crate) mode: i32,
    pub(crate) shared: bool,
    pub(crate) cpus: CpuSet,
    pub(crate) taken_at: u64,
}

/// Interrupt lines of a machine, and who is connected.
#[derive(Default)]
pub(crate) struct Interrupts {
    /// Vector → IRQL.
    lines: BTreeMap<u32, KIRQL>,
    connections: Vec<Connection>,
    /// The handler of the profile interrupt and where it was set; 0 = none.
    profile: (u64, u64),
    /// Interrupts that every connected routine disclaimed.
    unclaimed: u64,
}

/// Why a line can't be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// The vector is the processor's own, or past the last one.
    #[error("vector {0:#x} is not a device's: those are {FIRST_VECTOR:#x} to 0xff")]
    Vector(u32),
    /// Device interrupts have an IRQL between DISPATCH_LEVEL and CLOCK_LEVEL.
    #[error("IRQL {0} is not a device's: those are 3 to 12")]
    Irql(u8),
    /// Nothing is at this vector.
    #[error("the machine has no interrupt line with vector {0:#x}")]
    NoLine(u32),
    /// The machine has fewer processors.
    #[error("the machine has no processor {0}")]
    NoProcessor(usize),
}

/// Interrupts that somebody is connected to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sources {
    /// Vectors of lines, in ascending order.
    pub vectors: Vec<u32>,
    /// The profile interrupt.
    pub profile: bool,
}

impl Machine {
    /// Gives the machine an interrupt line, which a driver can connect to.
    ///
    /// Errors: a vector or IRQL that no device has.
    pub fn add_line(&self, vector: u32, irql: u8) -> Result<(), LineError> {
        if !(FIRST_VECTOR..=0xFF).contains(&vector) {
            return Err(LineError::Vector(vector));
        }
        if !(DISPATCH_LEVEL + 1..nt::ke::CLOCK_LEVEL).contains(&irql) {
            return Err(LineError::Irql(irql));
        }
        self.interrupts.borrow_mut().lines.insert(vector, irql);
        Ok(())
    }

    /// Raises an interrupt on a processor, from a device or a test; it is serviced when the
    /// processor permits ([`Self::poll`] lets it). False if it is pending there already.
    ///
    /// Errors: no such line or processor.
    pub fn raise_interrupt(&self, vector: u32, cpu: usize) -> Result<bool, LineError> {
        let irql = self.interrupts.borrow().lines.get(&vector).copied();
        let irql = irql.ok_or(LineError::NoLine(vector))?;
        let source = Source::Line(vector);
        self.pend(cpu, Interrupt { irql, source })
    }

    /// Raises the profile interrupt on a processor, as its PMU does when a counter overflows.
    ///
    /// Errors: no such processor.
    pub fn raise_profile(&self, cpu: usize) -> Result<bool, LineError> {
        let source = Source::Profile;
        let irql = PROFILE_LEVEL;
        self.pend(cpu, Interrupt { irql, source })
    }

    /// What a driver would notice: the vectors and the profile interrupt that routines are connected to.
    pub fn interrupt_sources(&self) -> Sources {
        let interrupts = self.interrupts.borrow();
        let connections = interrupts.connections.iter();
        let mut vectors: Vec<u32> = connections.map(|connection| connection.vector).collect();
        vectors.sort_unstable();
        vectors.dedup();
        Sources {
            vectors,
            profile: interrupts.profile.0 != 0,
        }
    }

    /// Interrupts that no connected routine claimed.
    pub fn unclaimed_interrupts(&self) -> u64 {
        self.interrupts.borrow().unclaimed
    }

    fn pend(&self, index: usize, interrupt: Interrupt) -> Result<bool, LineError> {
        let cpu = self.cpus.get(index).ok_or(LineError::NoProcessor(index))?;
        let mut pending = cpu.interrupts.borrow_mut();
        if pending.contains(&interrupt) {
            return Ok(false);
        }
        pending.push(interrupt);
        self.raised.set(self.raised.get() + 1);
        drop(pending);
        self.nudge(index);
        Ok(true)
    }

    /// The highest pending interrupt of a processor above an IRQL.
    fn next_interrupt(&self, cpu: usize, above: KIRQL) -> Option<Interrupt> {
        let cpu = &self.cpus[cpu];
        let pending = cpu.interrupts.borrow();
        let highest = pending.iter().copied().max_by_key(|pending| pending.irql)?;
        // HIGH_LEVEL and PROFILE_LEVEL are one number on x86-64: code at it is never interrupted.
        (cpu.interrupts_enabled() && highest.irql > above).then_some(highest)
    }

    /// Whether a pending interrupt of the running processor could be serviced now.
    pub(crate) fn interrupt_is_due(&self) -> bool {
        self.raised.get() > 0
            && self
                .next_interrupt(self.current_cpu.get(), self.irql())
                .is_some()
    }

    fn take_interrupt(&self, cpu: usize, above: KIRQL) -> Option<Interrupt> {
        let interrupt = self.next_interrupt(cpu, above)?;
        self.cpus[cpu]
            .interrupts
            .borrow_mut()
            .retain(|pending| *pending != interrupt);
        self.raised.set(self.raised.get() - 1);
        Some(interrupt)
    }

    /// The interrupt context of a processor, if it has something to service at its IRQL.
    pub(crate) fn start_interrupts(&self, index: usize) -> Option<ThreadId> {
        let cpu = &self.cpus[index];
        let below = cpu
            .top()
            .map_or(PASSIVE_LEVEL, |id| self.thread(id).irql.get());
        if cpu.in_isr.get() || self.next_interrupt(index, below).is_none() {
            return None;
        }
        let id = self.interrupt_context(index)?;
        let thread = self.thread(id);
        thread.job.set(Job::Interrupts { cpu: index, below });
        thread.state.set(State::Runnable);
        // Nothing else gets in before the first one is taken.
        thread.irql.set(HIGH_LEVEL);
        cpu.in_isr.set(true);
        self.active.set(self.active.get() + 1);
        Some(id)
    }

    fn interrupt_context(&self, index: usize) -> Option<ThreadId> {
        let cpu = &self.cpus[index];
        if cpu.isr_thread.get().is_none() {
            match self.add_thread() {
                Ok(id) => cpu.isr_thread.set(Some(id)),
                Err(_) => self.record(
                    RuleId::HostFault,
                    [0; 4],
                    "no memory for an interrupt stack".into(),
                    0,
                ),
            }
        }
        cpu.isr_thread.get()
    }

    /// Services what is pending above an IRQL, on the interrupt fiber.
    pub(crate) fn run_interrupts(&self, cpu: usize, below: KIRQL) {
        while let Some(interrupt) = self.take_interrupt(cpu, below) {
            self.service(interrupt);
        }
        self.set_irql(below);
    }

    /// Services what interrupts the interrupt routine that is leaving a kernel call.
    pub(crate) fn nest_interrupts(&self) {
        if self.raised.get() == 0 || !self.cpu().in_isr.get() {
            return;
        }
        let (cpu, irql) = (self.current_cpu.get(), self.irql());
        while let Some(interrupt) = self.take_interrupt(cpu, irql) {
            self.service(interrupt);
            self.set_irql(irql);
        }
    }

    fn service(&self, interrupt: Interrupt) {
        self.set_irql(interrupt.irql);
        match interrupt.source {
            Source::Line(vector) => self.service_line(vector),
            Source::Profile => self.service_profile(),
        }
    }

    fn service_line(&self, vector: u32) {
        let cpu = self.current_cpu.get();
        let connections: Vec<Connection> = {
            let interrupts = self.interrupts.borrow();
            let here = |connection: &&Connection| {
                let word = connection.cpus.get(cpu / 64).copied().unwrap_or(0);
                connection.vector == vector && word >> (cpu % 64) & 1 != 0
            };
            interrupts
                .connections
                .iter()
                .filter(here)
                .cloned()
                .collect()
        };
        let mut claimed = false;
        for connection in connections {
            claimed |= self.call_service_routine(&connection);
            // A level-triggered line is looked at again after each claim; the device has let go of it.
            if claimed && connection.mode == LevelSensitive {
                break;
            }
        }
        if !claimed {
            let mut interrupts = self.interrupts.borrow_mut();
            interrupts.unclaimed += 1;
        }
    }

    fn call_service_routine(&self, connection: &Connection) -> bool {
        let line_irql = self.irql();
        let irql = connection.synchronize_irql.max(line_irql);
        self.set_irql(irql);
        self.acquire(connection.lock as *mut KSPIN_LOCK);
        let args = [connection.object, connection.context, 0, 0];
        let result = self.timed(Routine::Isr, connection.routine, args);
        self.release_lock(connection.lock as *mut KSPIN_LOCK);
        self.set_irql(line_irql);
        result & 0xFF != 0
    }

    fn service_profile(&self) {
        let (handler, _) = self.interrupts.borrow().profile;
        let place = self.take_interrupted();
        if handler == 0 {
            self.interrupts.borrow_mut().unclaimed += 1;
            return;
        }
        let frame = TrapFrame(RefCell::new([0; trap_frame::SIZE / 8]));
        match place {
            Some(place) => frame.set_place(place),
            None => self.fill_trap_frame(&frame),
        }
        let cpu = self.cpu();
        cpu.in_program.set(place);
        self.timed(Routine::Isr, handler, [frame.0.as_ptr() as u64, 0, 0, 0]);
        cpu.in_program.set(None);
    }

    /// Where the interrupted context was: for driver code its registers as the kernel call under
    /// way, or the interrupted instruction, has them; the volatile ones are not told.
    fn fill_trap_frame(&self, frame: &TrapFrame) {
        let below = self
            .cpu()
            .contexts()
            .filter(|id| Some(*id) != self.running.get())
            .last();
        let Some(id) = below else {
            return frame.set(trap_frame::RIP, idle as *const () as u64);
        };
        // SAFETY: one host thread; the context is switched out, so nothing changes its saved registers.
        let slot = unsafe { &(*self.thread(id).fiber.get()).slot };
        let in_driver = self.thread(id).depth.get() > 0 && slot.rsp != 0;
        let rip = if in_driver {
            guest::read(slot.rsp as *const u64)
        } else {
            idle as *const () as u64
        };
        for (offset, value) in [
            (trap_frame::RIP, rip),
            (trap_frame::RSP, slot.rsp + 8),
            (trap_frame::RBP, slot.rbp),
            (trap_frame::RBX, slot.rbx),
            (trap_frame::RSI, slot.rsi),
            (trap_frame::RDI, slot.rdi),
            (trap_frame::EFLAGS, 0x202),
            (trap_frame::SEG_CS, 0x10),
            (trap_frame::SEG_SS, 0x18),
        ] {
            frame.set(offset, value);
        }
    }

    /// Connects a routine; the `KINTERRUPT`, or `None` when there is no memory for it.
    pub(crate) fn connect(&self, mut connection: Connection) -> Option<u64> {
        let object = self.allocate_object(KINTERRUPT, b"IoIn", crate::object::Kind::Interrupt)?;
        connection.object = object;
        if connection.lock == 0 {
            connection.lock = object + LOCK;
        }
        self.interrupts.borrow_mut().connections.push(connection);
        Some(object)
    }

    /// IRQL of the line with this vector.
    pub(crate) fn line_irql(&self, vector: u32) -> Option<KIRQL> {
        self.interrupts.borrow().lines.get(&vector).copied()
    }

    /// Whether a routine can be connected to a line next to those that are.
    pub(crate) fn line_is_free(&self, vector: u32, shared: bool) -> bool {
        let interrupts = self.interrupts.borrow();
        let mut others = interrupts
            .connections
            .iter()
            .filter(|other| other.vector == vector);
        others.all(|other| shared && other.shared)
    }

    /// The connection with this `KINTERRUPT`; stops when it is none.
    pub(crate) fn connection(&self, object: u64) -> Connection {
        let interrupts = self.interrupts.borrow();
        let found = interrupts
            .connections
            .iter()
            .find(|known| known.object == object);
        match found.cloned() {
            Some(connection) => connection,
            None => {
                drop(interrupts);
                self.violate(
                    RuleId::BadObject,
                    [object, 0, 0, 0],
                    format!("{object:#x} is not an interrupt that is connected"),
                )
            }
        }
    }

    /// Takes a connection away, once its routine runs nowhere.
    pub(crate) fn disconnect(&self, object: u64) {
        let connection = self.connection(object);
        self.interrupts
            .borrow_mut()
            .connections
            .retain(|known| known.object != object);
        while self.cpus.iter().any(|cpu| cpu.in_isr.get()) {
            self.yield_to_scheduler();
        }
        let last = !self
            .interrupts
            .borrow()
            .connections
            .iter()
            .any(|c| c.vector == connection.vector);
        if last {
            self.drop_pending(|source| source == Source::Line(connection.vector));
        }
        self.free_object(object);
    }

    fn drop_pending(&self, which: impl Fn(Source) -> bool) {
        let mut left = 0;
        for cpu in &self.cpus {
            let mut pending = cpu.interrupts.borrow_mut();
            pending.retain(|pending| !which(pending.source));
            left += pending.len();
        }
        self.raised.set(u32::try_from(left).unwrap_or(u32::MAX));
    }

    /// Sets the handler of the profile interrupt; 0 takes it back.
    pub(crate) fn set_profile_handler(&self, handler: u64) {
        let site = self.call_site();
        self.interrupts.borrow_mut().profile = (handler, site);
    }

    /// What a driver left connected: in words, and where it was connected.
    pub(crate) fn connected(&self) -> Vec<(String, u64)> {
        let interrupts = self.interrupts.borrow();
        let lines = interrupts.connections.iter().map(|connection| {
            let what = format!("interrupt routine at vector {:#x}", connection.vector);
            (what, connection.taken_at)
        });
        let (handler, site) = interrupts.profile;
        let profile = (handler != 0).then(|| ("handler of the profile interrupt".to_owned(), site));
        lines.chain(profile).collect()
    }

    /// Forgets what a driver that is gone was connected to.
    pub(crate) fn disconnect_all(&self) {
        let left = {
            let mut interrupts = self.interrupts.borrow_mut();
            interrupts.profile = (0, 0);
            std::mem::take(&mut interrupts.connections)
        };
        for connection in left {
            self.free_object(connection.object);
        }
        self.drop_pending(|_| true);
    }
}

/// Bytes of a `KINTERRUPT` (opaque to drivers), and where its own lock is.
const KINTERRUPT: u64 = 0x120;
const LOCK: u64 = 0x60;

/// A `KTRAP_FRAME` in memory of the lab's, which the driver may read and write while its handler runs.
struct TrapFrame(RefCell<[u64; trap_frame::SIZE / 8]>);

impl TrapFrame {
    fn set(&self, offset: usize, value: u64) {
        self.0.borrow_mut()[offset / 8] = value;
    }

    /// Where a counted program was: of its registers, only the address is known.
    fn set_place(&self, place: Place) {
        let (code, data) = if place.user {
            (0x33, 0x2B)
        } else {
            (0x10, 0x18)
        };
        self.set(trap_frame::RIP, place.pc);
        self.set(trap_frame::SEG_CS, code);
        self.set(trap_frame::SEG_SS, data);
        self.set(trap_frame::EFLAGS, 0x202);
    }
}

/// What the instruction pointer of an interrupted processor points at that runs no driver code.
extern "sysv64" fn idle() {}
