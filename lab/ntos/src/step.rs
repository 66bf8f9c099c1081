//! One event before one instruction: interrupt sweeps and preemption.
//!
//! A window of a run is stepped with the processor's trap flag, driver code
//! only: the flag is cleared where the driver enters the kernel and set again
//! where it returns. Before the n-th driver instruction of the window the
//! planned event happens – an interrupt, a timer, another thread, another
//! processor – exactly where it would on a machine of that timing; from then
//! on the run is no longer stepped. Which instruction is the n-th follows
//! from the run alone, so every point replays.
#![expect(unsafe_code, reason = "a naked routine's address")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use lab_verifier::{Frame, RuleId};
use nt::ke::{DISPATCH_LEVEL, KIRQL};

use crate::asm;
use crate::cpu::Cpu;
use crate::guest;
use crate::interrupt::LineError;
use crate::layout::pending;
use crate::machine::{Machine, current};

/// x86's trap flag: a debug exception behind the next instruction.
const TRAP_FLAG: i64 = 0x100;

/// Instructions of a window without a point that are counted; it goes on without being stepped then.
pub const MOST_COUNTED: u64 = 20_000;

type Gregs = [i64; 23];
const RIP: usize = libc::REG_RIP as usize;
const RSP: usize = libc::REG_RSP as usize;
const EFL: usize = libc::REG_EFL as usize;

/// What happens at the planned instruction. Unless it says otherwise, the
/// interrupted context goes on only when nothing else can run.
#[derive(Clone)]
pub enum Event {
    /// The line with this vector is raised on the processor; the context goes on behind its routine.
    Interrupt(u32),
    /// The profile interrupt is raised on the processor; likewise.
    Profile,
    /// The DPCs queued on the processor run, if its IRQL permits; likewise.
    Dpcs,
    /// Time passes until the next timer is due.
    Timer,
    /// Other ready threads run on the processor, if its IRQL permits.
    Threads,
    /// The other processors run, and ready threads on them.
    Processors,
}

/// What is done on the machine first: it may begin requests, cancel them and raise interrupts, and
/// must not wait for anything.
pub type Action = Rc<dyn Fn(&Machine)>;

/// An event, and before which driver instruction of the window it happens (from 0).
#[derive(Clone)]
pub struct Plan {
    /// What is done before it.
    pub action: Option<Action>,
    /// What happens.
    pub event: Event,
    /// Before which instruction; `None` = never: the window is only counted.
    pub point: Option<u64>,
}

/// What a stepped window came to.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Driver instructions up to the event, or in the whole window if there was none.
    pub instructions: u64,
    /// Where the event happened; `None` when the window ended before.
    pub hit: Option<Hit>,
    /// Without a point: the address of each instruction, in order.
    pub path: Vec<u64>,
}

/// Where an event happened.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The instruction before which it happened.
    pub at: Frame,
    /// IRQL there.
    pub irql: KIRQL,
    /// The processor.
    pub cpu: usize,
}

/// The window that is being stepped.
#[derive(Default)]
pub(crate) struct Stepper {
    open: Cell<bool>,
    on: Cell<bool>,
    seen: Cell<u64>,
    point: Cell<Option<u64>>,
    /// Last instruction pointer: a repeated string instruction is one instruction.
    last: Cell<u64>,
    event: RefCell<Option<(Option<Action>, Event)>>,
    path: RefCell<Vec<u64>>,
    /// Instruction, IRQL and processor of the event.
    hit: Cell<Option<(u64, KIRQL, usize)>>,
}

impl Stepper {
    /// Whether driver code is being stepped.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Whether a window is open: its run is one host thread's.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Flags to set behind a kernel call.
    pub(crate) fn flags(&self) -> u64 {
        if self.on.get() {
            TRAP_FLAG.cast_unsigned()
        } else {
            0
        }
    }

    /// What to call instead of a routine of the driver, so that it is stepped.
    #[inline]
    pub(crate) fn entry(&self, cpu: &Cpu, function: u64) -> u64 {
        if !self.on.get() {
            return function;
        }
        guest::set!(cpu.area(), step_target = function);
        asm::step_entry as *const () as u64
    }

    fn start(&self, plan: Plan) {
        self.seen.set(0);
        self.last.set(0);
        self.hit.set(None);
        self.point.set(plan.point);
        *self.event.borrow_mut() = Some((plan.action, plan.event));
        self.open.set(true);
        self.on.set(true);
    }

    /// Counts a boundary between instructions; true if the event happens here.
    fn arrives(&self, rip: u64) -> bool {
        if self.last.replace(rip) == rip {
            return false;
        }
        let n = self.seen.get();
        if self.point.get() == Some(n) {
            return true;
        }
        self.seen.set(n + 1);
        if self.point.get().is_none() {
            // The signal came from driver code: nothing of the lab's is half done.
            self.path.borrow_mut().push(rip);
            self.on.set(n + 1 < MOST_COUNTED);
        }
        false
    }
}

impl Machine {
    /// Runs a window of a scenario with every driver instruction of it stepped, up to the planned event.
    ///
    /// Give the whole scenario, or the part to be swept: what runs the machine inside `window` is
    /// stepped, on whichever thread or processor. Stepping costs some ten microseconds an instruction.
    pub fn stepping<R>(&self, plan: Plan, window: impl FnOnce() -> R) -> (R, Steps) {
        self.stepper.start(plan);
        let result = window();
        self.stepper.on.set(false);
        self.stepper.open.set(false);
        self.stepper.event.borrow_mut().take();
        self.held.set(None);
        let hit = self.stepper.hit.take();
        let steps = Steps {
            instructions: self.stepper.seen.get(),
            path: self.stepper.path.take(),
            hit: hit.map(|(rip, irql, cpu)| Hit {
                at: self.frame(rip),
                irql,
                cpu,
            }),
        };
        (result, steps)
    }

    /// A debug exception; false if it is none of the stepper's.
    pub(crate) fn on_step(&self, in_driver: bool, gregs: &mut Gregs) -> bool {
        if gregs[EFL] & TRAP_FLAG == 0 {
            return false;
        }
        let rip = gregs[RIP].cast_unsigned();
        if in_driver {
            self.at_boundary(gregs);
        } else if !asm::saves_flags_first(rip) {
            // Into the kernel, or out of the driver's routine.
            gregs[EFL] &= !TRAP_FLAG;
            self.cpu().request(pending::STEP);
        }
        true
    }

    /// An instruction was carried out in place of the processor.
    pub(crate) fn behind_emulated(&self, gregs: &mut Gregs) {
        if gregs[EFL] & TRAP_FLAG != 0 {
            self.at_boundary(gregs);
        } else if self.interrupt_is_due() {
            self.interrupt_here(gregs);
        }
    }

    fn at_boundary(&self, gregs: &mut Gregs) {
        let rip = gregs[RIP].cast_unsigned();
        if !self.stepper.is_on() {
            gregs[EFL] &= !TRAP_FLAG;
        } else if self.stepper.arrives(rip) {
            self.stepper.on.set(false);
            self.stepper
                .hit
                .set(Some((rip, self.irql(), self.current_cpu.get())));
            self.interrupt_here(gregs);
        }
    }

    /// Makes the interrupted driver code call [`preempt`] before it goes on.
    pub(crate) fn interrupt_here(&self, gregs: &mut Gregs) {
        gregs[EFL] &= !TRAP_FLAG;
        gregs[RSP] -= 8;
        // Below the stack pointer: Win64 code keeps nothing there, for interrupts may come.
        guest::write(gregs[RSP] as *mut i64, gregs[RIP]);
        gregs[RIP] = (asm::interrupted as *const () as u64).cast_signed();
    }

    /// Lets the planned event happen, on the interrupted context.
    fn happen(&self, event: &Event) -> Result<(), LineError> {
        let cpu = self.current_cpu.get();
        match event {
            Event::Interrupt(vector) => {
                self.raise_interrupt(*vector, cpu)?;
                return Ok(());
            }
            Event::Profile => {
                self.raise_profile(cpu)?;
                return Ok(());
            }
            Event::Dpcs => return Ok(()),
            Event::Timer => {
                if let Some(due) = self.next_due() {
                    self.clock.advance_to(due);
                }
            }
            Event::Threads => self.give_way(),
            Event::Processors => {}
        }
        self.held.set(self.running.get());
        Ok(())
    }

    /// Takes the running thread off its processor, if its IRQL permits, so that another gets it.
    fn give_way(&self) {
        let cpu = self.cpu();
        let Some(id) = self
            .running
            .get()
            .filter(|id| cpu.thread.get() == Some(*id))
        else {
            return;
        };
        if self.irql() < DISPATCH_LEVEL && cpu.interrupts_enabled() {
            cpu.thread.set(None);
            self.leave_processor();
            self.ready.borrow_mut().push_back(id);
        }
    }
}

/// What [`asm::interrupted`] calls, on the host stack: the event, and whatever is due.
pub(crate) unsafe extern "efiapi" fn preempt() {
    crate::exports::guard(|| {
        let machine = current();
        // Without a plan it is an interrupt that the driver itself has just let in.
        let planned = machine
            .stepper
            .hit
            .get()
            .is_some()
            .then(|| machine.stepper.event.take())
            .flatten();
        if let Some((action, event)) = planned {
            if let Some(action) = action {
                action(machine);
            }
            if let Err(error) = machine.happen(&event) {
                machine.violate(
                    RuleId::HostFault,
                    [0; 4],
                    format!("the planned event: {error}"),
                );
            }
        }
        machine.cpu().take_requests();
        machine.nest_interrupts();
        machine.yield_to_scheduler();
    });
    // Taken where the driver was interrupted.
    current().leave_kernel();
}
