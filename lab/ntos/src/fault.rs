//! Faults of driver code.
//!
//! The signal handler does one of two things: it answers an instruction that
//! a processor in kernel mode would have executed ([`crate::emulate`]), or it
//! copies the registers and redirects the thread to [`landed`], which runs
//! on the fiber's host stack as ordinary code: it offers the fault to the
//! driver's exception handlers ([`crate::seh`]) where Windows would, else
//! classifies it, records the finding and never returns to the driver.
#![expect(unsafe_code, reason = "signal handling")]

use std::cell::UnsafeCell;
use std::sync::Once;

use lab_verifier::RuleId;
use nt::ke::DISPATCH_LEVEL;
use nt::seh::EXCEPTION_RECORD;
use nt::status::{
    STATUS_ILLEGAL_INSTRUCTION, STATUS_INTEGER_DIVIDE_BY_ZERO, STATUS_PRIVILEGED_INSTRUCTION,
};

use crate::asm;
use crate::emulate::Emulated;
use crate::guest::{self, get};
use crate::locate::Raw;
use crate::machine::{Machine, current, try_current};
use crate::memory;
use crate::pool::Region;
use crate::seh::{self, Fault};
use crate::unwind::Registers;

/// x86 exception vectors, as `gregs[REG_TRAPNO]` has them.
const DIVIDE_ERROR: i64 = 0;
const DEBUG: i64 = 1;
const INVALID_OPCODE: i64 = 6;
const GENERAL_PROTECTION: i64 = 13;
const PAGE_FAULT: i64 = 14;
/// Bits of a page fault's error code.
const WRITE: i64 = 2;
const EXECUTE: i64 = 16;
/// Flags with which host code begins.
const DEFAULT_FLAGS: i64 = 0x202;

/// A fault as the handler copied it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capture {
    pub(crate) signal: i32,
    pub(crate) vector: i64,
    pub(crate) error: i64,
    pub(crate) address: u64,
    pub(crate) registers: Registers,
    /// Whether host code faulted, on behalf of the driver.
    pub(crate) in_host: bool,
}

/// An access that faulted, and that the fault handler may let pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) address: u64,
    /// `read`, `write` or `execute`.
    pub(crate) kind: &'static str,
    /// The driver's registers: at the access, or at its call into the kernel.
    pub(crate) registers: Registers,
    /// Whether host code faulted, on behalf of the driver.
    pub(crate) in_host: bool,
    /// Whether driver code runs at all, or the lab is about its own business.
    pub(crate) in_call: bool,
}

thread_local! {
    static CAPTURE: UnsafeCell<Capture> = const { UnsafeCell::new(Capture {
        signal: 0, vector: 0, error: 0, address: 0,
        registers: Registers::NONE, in_host: false,
    }) };
}

/// Index in `gregs` of each general-purpose register, in the order of their encoding.
pub(crate) const GREGS: [usize; 16] = [
    libc::REG_RAX as usize,
    libc::REG_RCX as usize,
    libc::REG_RDX as usize,
    libc::REG_RBX as usize,
    libc::REG_RSP as usize,
    libc::REG_RBP as usize,
    libc::REG_RSI as usize,
    libc::REG_RDI as usize,
    libc::REG_R8 as usize,
    libc::REG_R9 as usize,
    libc::REG_R10 as usize,
    libc::REG_R11 as usize,
    libc::REG_R12 as usize,
    libc::REG_R13 as usize,
    libc::REG_R14 as usize,
    libc::REG_R15 as usize,
];

/// Installs the handlers, once per process, and an alternate stack for this host thread.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            install_handler(signal, on_fault);
        }
    });
    install_stack();
}

/// A handler that gets the faulting context.
pub(crate) type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs a handler that runs on the alternate stack.
pub(crate) fn install_handler(signal: i32, handler: Handler) {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: the handler has the signature SA_SIGINFO asks for, and lives for ever.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert!(result == 0, "sigaction failed");
}

/// Bytes of the alternate stack: emulation decodes instructions and asks devices on it, and what is
/// found at an access is explained on it, symbols and all.
const SIGNAL_STACK: usize = 512 * 1024;

fn install_stack() {
    thread_local! { static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) }; }
    if !DONE.replace(true) {
        // For as long as the thread lives, which is its owner's business.
        std::mem::forget(SignalStack::new());
    }
}

/// The alternate stack of a host thread, which is the thread's until this is dropped.
pub(crate) struct SignalStack(Box<[u8]>);

impl SignalStack {
    pub(crate) fn new() -> Self {
        let mut memory = vec![0u8; SIGNAL_STACK].into_boxed_slice();
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIGNAL_STACK,
        };
        // SAFETY: the memory stays where it is until it is no longer the thread's stack.
        let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        assert!(result == 0, "sigaltstack failed");
        Self(memory)
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t {
            ss_sp: self.0.as_mut_ptr().cast(),
            ss_flags: libc::SS_DISABLE,
            ss_size: SIGNAL_STACK,
        };
        // SAFETY: no handler runs on the stack: this thread is here.
        unsafe { libc::sigaltstack(&raw const none, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes a valid context to an SA_SIGINFO handler; it is ours until we return.
    let context = unsafe { &mut (*context).uc_mcontext };
    // SAFETY: likewise the information.
    let info = unsafe { &*info };
    // SAFETY: the signals this handles carry an address.
    let address = unsafe { info.si_addr() } as u64;
    let handled = try_current().is_some_and(|machine| {
        let interrupted = machine.enter_from_signal();
        let handled = machine.on_fault(signal, address, context);
        machine.leave_from_signal(interrupted, machine.is_redirected(&context.gregs));
        handled
    });
    if !handled {
        // Not the driver's: let it end the process as it would have without us.
        // SAFETY: restoring the default action has no preconditions.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

impl Machine {
    /// Whether a handler has sent the interrupted thread into the lab's own code.
    pub(crate) fn is_redirected(&self, gregs: &[i64; 23]) -> bool {
        let rip = gregs[libc::REG_RIP as usize].cast_unsigned();
        [
            landed as *const () as u64,
            halted as *const () as u64,
            asm::interrupted as *const () as u64,
        ]
        .contains(&rip)
    }

    /// Another worker asks this one, or its watchdog reminds it, to look what it has to do.
    pub(crate) fn on_reminder(&self, gregs: &mut [i64; 23]) {
        let rip = gregs[libc::REG_RIP as usize].cast_unsigned();
        if self.with_module(rip, |_| ()).is_none() {
            return;
        }
        if self.has_stopped() {
            self.send_to(gregs, halted as *const () as u64);
        } else if self.interrupt_is_due() || self.cpu().can_start_dpc(|_| self.irql()) {
            self.interrupt_here(gregs);
        }
    }

    /// Makes the interrupted thread go on in a function, on its host stack.
    fn send_to(&self, gregs: &mut [i64; 23], function: u64) {
        let host_rsp: u64 = get!(self.cpu().area(), host_rsp);
        // As if called: the stack pointer is 8 below a 16-byte boundary.
        gregs[libc::REG_RSP as usize] = ((host_rsp & !15) - 8).cast_signed();
        gregs[libc::REG_RIP as usize] = function.cast_signed();
        gregs[libc::REG_EFL as usize] = DEFAULT_FLAGS;
    }

    /// Handles a fault; false if it is none of the driver's.
    fn on_fault(&self, signal: i32, address: u64, context: &mut libc::mcontext_t) -> bool {
        let in_call = self
            .running
            .get()
            .is_some_and(|id| self.thread(id).depth.get() > 0);
        let rip = context.gregs[libc::REG_RIP as usize].cast_unsigned();
        let in_driver = self.with_module(rip, |_| ()).is_some();
        let vector = context.gregs[libc::REG_TRAPNO as usize];
        if vector == PAGE_FAULT && self.let_pass(address, context, in_driver, in_call) {
            return true;
        }
        if vector == PAGE_FAULT && self.parallel.tries_again(rip, address) {
            return true;
        }
        if !in_call {
            return false;
        }
        if vector == PAGE_FAULT && in_driver && self.access_device(address, context) {
            self.behind_emulated(&mut context.gregs);
            return true;
        }
        if rip == asm::refused as *const () as u64 {
            context.gregs[libc::REG_RIP as usize] = self.refused.get().cast_signed();
            let capture = Capture {
                signal: libc::SIGSEGV,
                vector: GENERAL_PROTECTION,
                registers: registers_of(context),
                ..Capture::default()
            };
            self.redirect(&mut context.gregs, capture);
            return true;
        }
        if in_driver && vector == GENERAL_PROTECTION && self.unchecked().is_some() {
            self.judge_instruction(&registers_of(context));
        }
        let gregs = &mut context.gregs;
        if vector == DEBUG && self.on_step(in_driver, gregs) {
            return true;
        }
        if in_driver && vector != PAGE_FAULT && self.emulate(gregs) == Emulated::Done {
            self.behind_emulated(gregs);
            return true;
        }
        let error = gregs[libc::REG_ERR as usize];
        let wild_jump = vector == PAGE_FAULT && error & EXECUTE != 0;
        let in_host = !in_driver && !wild_jump && !self.thunks().contains(rip);
        let write = error & WRITE != 0;
        if in_host
            && vector == PAGE_FAULT
            && self.break_off_attempt(gregs, Fault { address, write })
        {
            return true;
        }
        let capture = Capture {
            signal,
            vector,
            error,
            address,
            registers: registers_of(context),
            in_host,
        };
        self.redirect(&mut context.gregs, capture);
        true
    }

    /// Makes memory accessible that was only taken away to see who touches it, and judges who does.
    fn let_pass(
        &self,
        address: u64,
        context: &libc::mcontext_t,
        in_driver: bool,
        in_call: bool,
    ) -> bool {
        let error = context.gregs[libc::REG_ERR as usize];
        if !self.may_be_taken_away(address) {
            return false;
        }
        let touch = Touch {
            address,
            kind: access_name(error),
            registers: if in_driver || !in_call {
                registers_of(context)
            } else {
                self.call_registers()
            },
            in_host: !in_driver,
            in_call,
        };
        if memory::is_user(address) {
            touch.kind != EXECUTED && in_call && self.open_user_page(&touch)
        } else {
            self.page_in(&touch)
        }
    }

    /// Records a broken rule that was seen at an access; the access then goes on.
    pub(crate) fn note_touch(
        &self,
        touch: &Touch,
        rule: RuleId,
        parameters: [u64; 4],
        what: String,
    ) {
        self.note(&Raw {
            rule,
            parameters,
            what,
            registers: touch.registers,
            access: Some((touch.kind, touch.address)),
            api: touch.in_host.then(|| self.slot().api),
            after_call: touch.in_host,
            cpu: self.cpu_state(),
            thread: self.running.get(),
        });
    }

    /// Ends an attempt of the host's to access the driver's memory, where an exception may come of it.
    fn break_off_attempt(&self, gregs: &mut [i64; 23], met: Fault) -> bool {
        if !self.may_raise_page_fault(met.address) {
            return false;
        }
        let Some(stack) = guest::break_off_attempt(met) else {
            return false;
        };
        gregs[libc::REG_RSP as usize] = stack.cast_signed();
        gregs[libc::REG_RIP as usize] = (asm::attempt_failed as *const () as u64).cast_signed();
        gregs[libc::REG_EFL as usize] = DEFAULT_FLAGS;
        true
    }

    /// A signal that driver code is stopped by (the watchdog's, a refused system call's): whether it is its code
    /// that runs.
    pub(crate) fn on_watchdog(&self, signal: i32, context: &mut libc::mcontext_t) -> bool {
        let running = self
            .running
            .get()
            .is_some_and(|id| self.thread(id).depth.get() > 0);
        let registers = registers_of(context);
        let in_driver = running && self.with_module(registers.rip, |_| ()).is_some();
        if in_driver {
            let capture = Capture {
                signal,
                vector: -1,
                registers,
                ..Capture::default()
            };
            self.redirect(&mut context.gregs, capture);
        }
        in_driver
    }

    /// Makes the interrupted thread go on in [`landed`].
    fn redirect(&self, gregs: &mut [i64; 23], capture: Capture) {
        // SAFETY: thread-local; nothing else refers to it while the handler runs.
        CAPTURE.with(|cell| unsafe { *cell.get() = capture });
        guest::forget_attempt();
        self.send_to(gregs, landed as *const () as u64);
    }

    /// Offers a captured fault to the driver's handlers; if none has it, classifies it and stops.
    fn conclude(&self, capture: Capture) -> ! {
        if let Some((registers, mut record)) = self.exception_of(&capture) {
            self.raise_at(&registers, &mut record);
        }
        self.stop_with(self.classify(capture))
    }

    /// The exception that Windows makes of a fault, unless it stops; and the registers it is raised at.
    fn exception_of(&self, capture: &Capture) -> Option<(Registers, EXCEPTION_RECORD)> {
        if capture.in_host {
            return None;
        }
        let mut registers = capture.registers;
        let rip = registers.rip;
        let record = match capture.vector {
            PAGE_FAULT if !self.may_raise_page_fault(capture.address) => return None,
            PAGE_FAULT => {
                if capture.error & EXECUTE != 0 {
                    // A call to nowhere: raised in the caller, as there is no function here to unwind.
                    registers.rip = self.return_address(registers.rsp())?;
                    registers.set_rsp(registers.rsp() + 8);
                }
                seh::access_violation(rip, access_code(capture.error), capture.address)
            }
            GENERAL_PROTECTION | INVALID_OPCODE => match self.refused_instruction(capture) {
                Some((RuleId::PrivilegedInstruction, ..)) => {
                    seh::record(STATUS_PRIVILEGED_INSTRUCTION, rip, &[])
                }
                Some(_) => return None,
                None if capture.vector == INVALID_OPCODE => {
                    seh::record(STATUS_ILLEGAL_INSTRUCTION, rip, &[])
                }
                None => seh::access_violation(rip, 0, u64::MAX),
            },
            DIVIDE_ERROR => seh::record(STATUS_INTEGER_DIVIDE_BY_ZERO, rip, &[]),
            _ => return None,
        };
        Some((registers, record))
    }

    fn classify(&self, capture: Capture) -> Raw {
        let mut registers = capture.registers;
        let mut access = None;
        let mut after_call = capture.in_host;
        let (rule, parameters, what) = if capture.vector == PAGE_FAULT {
            let kind = access_name(capture.error);
            access = Some((kind, capture.address));
            self.classify_page_fault(capture, kind)
        } else {
            self.classify_exception(capture)
        };
        if capture.in_host {
            registers = self.call_registers();
        } else if access.is_some_and(|(kind, _)| kind == "execute")
            && let Some(caller) = self.return_address(registers.rsp())
        {
            // A call to nowhere: the instruction concerned is the call.
            after_call = true;
            registers.rip = caller;
            registers.set_rsp(registers.rsp() + 8);
        }
        let api = capture.in_host.then(|| self.slot().api);
        Raw {
            rule,
            parameters,
            what,
            registers,
            access,
            api,
            after_call,
            cpu: self.cpu_state(),
            thread: self.running.get(),
        }
    }

    /// The word at the top of the kernel stack, if it points into a driver.
    fn return_address(&self, rsp: u64) -> Option<u64> {
        let id = self.running.get()?;
        let word = (self.on_kernel_stack(id, rsp) && rsp.is_multiple_of(8))
            .then(|| guest::read(rsp as *const u64))?;
        self.with_module(word, |_| word)
    }

    fn classify_page_fault(&self, capture: Capture, kind: &str) -> (RuleId, [u64; 4], String) {
        let Capture {
            address, registers, ..
        } = capture;
        let irql = u64::from(self.irql());
        let code = access_code(capture.error);
        let at_address = [address, code, registers.rip, irql];
        let in_guard = self
            .running
            .get()
            .is_some_and(|id| self.in_stack_guard(id, address));
        if in_guard {
            return (
                RuleId::StackOverflow,
                [8, address, registers.rip, 0],
                format!("kernel stack overflow: {kind} at {address:#x}"),
            );
        }
        let region = self.pool_region(address);
        // Live pool can be read and written: what is left is a jump to it.
        if let Some(region) = region.filter(|region| *region != Region::Live || kind != "execute") {
            return match region {
                Region::Freed => (
                    RuleId::PoolUseAfterFree,
                    at_address,
                    format!("{kind} of freed pool at {address:#x}"),
                ),
                Region::BeforeStart => (
                    RuleId::PoolUnderrun,
                    at_address,
                    format!("{kind} before the start of a pool block at {address:#x}"),
                ),
                Region::PastEnd | Region::Live => (
                    RuleId::PoolOverrun,
                    at_address,
                    format!("{kind} past the end of a pool block at {address:#x}"),
                ),
            };
        }
        if self.is_irp_memory(address) {
            return (
                RuleId::IrpTouched,
                at_address,
                format!("{kind} of an IRP at {address:#x} that was completed or freed"),
            );
        }
        if !capture.in_host
            && let Some(words) = self.device_access_words(registers.rip, address)
        {
            return (RuleId::HostFault, at_address, words);
        }
        if address < 0x1_0000 {
            return (
                RuleId::NullPointer,
                [0, registers.rip, address, irql],
                format!("{kind} of address {address:#x}, near null"),
            );
        }
        if kind == "execute" {
            return (
                RuleId::ExecuteNoExecute,
                at_address,
                format!("jump to {address:#x}, which is not code"),
            );
        }
        if kind == "write" && self.with_module(address, |_| ()).is_some() {
            return (
                RuleId::WriteReadOnly,
                at_address,
                format!("write to a read-only part of the image at {address:#x}"),
            );
        }
        let at_irql = if irql >= u64::from(DISPATCH_LEVEL) {
            " at DISPATCH_LEVEL or above"
        } else {
            ""
        };
        (
            RuleId::PageFault,
            [address, code, registers.rip, irql],
            format!("{kind} of {address:#x}, where nothing is mapped{at_irql}"),
        )
    }

    fn classify_exception(&self, capture: Capture) -> (RuleId, [u64; 4], String) {
        let rip = capture.registers.rip;
        if capture.signal == libc::SIGVTALRM {
            return self.overdue_words(rip);
        }
        if capture.signal == libc::SIGSYS {
            return (
                RuleId::SystemCall,
                [0xC000_0096, rip, 0, 0],
                "a system call of the host".into(),
            );
        }
        if let Some((rule, parameters, what)) = self.refused_instruction(&capture) {
            return (rule, parameters, what);
        }
        match (capture.vector, capture.signal) {
            (DIVIDE_ERROR, _) | (_, libc::SIGFPE) => (
                RuleId::DivideError,
                [0, rip, 0, 0],
                "division by zero, or a quotient too large".into(),
            ),
            (INVALID_OPCODE, _) => (
                RuleId::IllegalInstruction,
                [0xC000_001D, rip, 0, 0],
                "illegal instruction".into(),
            ),
            (_, libc::SIGTRAP) => (
                RuleId::Breakpoint,
                [0x8000_0003, rip, 0, 0],
                "breakpoint".into(),
            ),
            (GENERAL_PROTECTION, _) => (
                RuleId::AccessViolation,
                [0xC000_0005, rip, 0, 0],
                "access to a non-canonical address, or misaligned".into(),
            ),
            (vector, signal) => (
                RuleId::IllegalInstruction,
                [0xC000_001D, rip, 0, 0],
                format!("exception {vector} (signal {signal})"),
            ),
        }
    }

    fn is_irp_memory(&self, address: u64) -> bool {
        self.irps
            .try_borrow()
            .is_ok_and(|irps| irps.contains(address))
    }

    fn pool_region(&self, address: u64) -> Option<Region> {
        let pool = self.pool.try_borrow().ok()?;
        let block = pool.block_at(address)?;
        Some(pool.region(&block, address))
    }
}

/// A kind of access as Windows has it in exceptions and stops.
fn access_code(error: i64) -> u64 {
    match error {
        error if error & EXECUTE != 0 => 8,
        error if error & WRITE != 0 => 1,
        _ => 0,
    }
}

/// The kind of access that an instruction fetch is.
pub(crate) const EXECUTED: &str = "execute";

fn access_name(error: i64) -> &'static str {
    match access_code(error) {
        8 => EXECUTED,
        1 => "write",
        _ => "read",
    }
}

pub(crate) fn registers_of(context: &libc::mcontext_t) -> Registers {
    let gregs = &context.gregs;
    let mut registers = Registers {
        rip: gregs[libc::REG_RIP as usize].cast_unsigned(),
        gpr: GREGS.map(|index| gregs[index].cast_unsigned()),
        flags: gregs[libc::REG_EFL as usize].cast_unsigned(),
        ..Registers::NONE
    };
    if !context.fpregs.is_null() {
        // SAFETY: the kernel points it at the floating-point state it saved, which is ours until the
        // handler returns.
        let vectors = unsafe { &*context.fpregs };
        registers.mxcsr = vectors.mxcsr;
        for (to, from) in registers.xmm.iter_mut().zip(&vectors._xmm) {
            let words = from.element.map(u128::from);
            *to = words[3] << 96 | words[2] << 64 | words[1] << 32 | words[0];
        }
    }
    registers
}

/// Where the handler sends a thread whose driver code faulted.
unsafe extern "sysv64" fn landed() -> ! {
    // SAFETY: thread-local; the handler that wrote it has returned.
    let capture = CAPTURE.with(|cell| unsafe { *cell.get() });
    current().conclude(capture)
}

/// Where a thread is sent whose machine has stopped at another host thread's finding.
unsafe extern "sysv64" fn halted() -> ! {
    let machine = current();
    loop {
        // The scheduler does not come back to a fiber of a stopped machine.
        machine.yield_to_scheduler();
    }
}
