//! Instructions that need kernel mode: what a processor would have done.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use lab_image::SiteKind;
use lab_verifier::RuleId;
use nt::ke::DISPATCH_LEVEL;

use crate::asm;
use crate::fault::{Capture, GREGS};
use crate::guest;
use crate::layout::pending;
use crate::machine::{Machine, current};

/// What became of a trapped instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Emulated {
    /// Carried out; the instruction pointer is behind it.
    Done,
    /// A processor in kernel mode would have faulted too.
    Fault,
    /// Not one of ours: an ordinary fault.
    NotPrivileged,
}

const RAX: usize = libc::REG_RAX as usize;
const RBX: usize = libc::REG_RBX as usize;
const RCX: usize = libc::REG_RCX as usize;
const RDX: usize = libc::REG_RDX as usize;
const RSP: usize = libc::REG_RSP as usize;
const RIP: usize = libc::REG_RIP as usize;
const EFL: usize = libc::REG_EFL as usize;
const INTERRUPT_FLAG: u64 = 0x200;
/// The stepper's; a driver sees it clear.
const TRAP_FLAG: u64 = 0x100;

type Gregs = [i64; 23];

fn low(gregs: &Gregs, index: usize) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is what the instruction uses"
    )]
    let low = gregs[index] as u32;
    low
}

fn set_low(gregs: &mut Gregs, index: usize, value: u64) {
    gregs[index] = (value & 0xFFFF_FFFF).cast_signed();
}

fn set_pair(gregs: &mut Gregs, value: u64) {
    set_low(gregs, RAX, value);
    set_low(gregs, RDX, value >> 32);
}

fn pair(gregs: &Gregs) -> u64 {
    u64::from(low(gregs, RAX)) | u64::from(low(gregs, RDX)) << 32
}

impl Machine {
    /// Carries out the instruction at the trapped instruction pointer.
    pub(crate) fn emulate(&self, gregs: &mut Gregs) -> Emulated {
        let rip = gregs[RIP].cast_unsigned();
        let Some(instruction) = self.decode(rip) else {
            return Emulated::NotPrivileged;
        };
        let result = match instruction.mnemonic() {
            Mnemonic::Rdmsr | Mnemonic::Wrmsr | Mnemonic::Rdpmc | Mnemonic::Cpuid => {
                self.registers(&instruction, gregs)
            }
            Mnemonic::Cli => self.set_interrupts(false),
            Mnemonic::Sti => self.set_interrupts(true),
            Mnemonic::Pushfq => self.push_flags(gregs),
            Mnemonic::Popfq => self.pop_flags(gregs),
            Mnemonic::Mov => self.control_register(&instruction, gregs),
            Mnemonic::In => port_in(&instruction, gregs),
            // No device of the lab listens on a port; a write to none is lost, as on hardware.
            Mnemonic::Out => Emulated::Done,
            // No caches, no translation of their own here.
            Mnemonic::Wbinvd | Mnemonic::Invlpg | Mnemonic::Invd => Emulated::Done,
            _ => Emulated::NotPrivileged,
        };
        if result == Emulated::Done {
            gregs[RIP] += instruction.len() as i64;
        }
        result
    }

    pub(crate) fn decode(&self, rip: u64) -> Option<Instruction> {
        let bytes = self.original_code(rip)?;
        let instruction = Decoder::with_ip(64, &bytes, rip, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn registers(&self, instruction: &Instruction, gregs: &mut Gregs) -> Emulated {
        let cpu = self.current_cpu.get();
        let now = self.clock.now_ns();
        let index = low(gregs, RCX);
        let read = match instruction.mnemonic() {
            Mnemonic::Rdmsr => self.devices.rdmsr(cpu, index, now),
            Mnemonic::Rdpmc => self.devices.rdpmc(cpu, index, now),
            Mnemonic::Wrmsr => {
                let written = self.write_register(cpu, index, pair(gregs));
                return if written {
                    Emulated::Done
                } else {
                    Emulated::Fault
                };
            }
            _ => {
                self.cpuid(gregs);
                return Emulated::Done;
            }
        };
        match read {
            Some(value) => {
                set_pair(gregs, value);
                Emulated::Done
            }
            None => Emulated::Fault,
        }
    }

    /// eax, ebx, ecx and edx of `cpuid` on the current processor.
    fn cpuid_values(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        // The instruction may trap to a hypervisor; leaves that the devices make up need it only once.
        let host = *self
            .host_cpuid
            .borrow_mut()
            .entry((leaf, subleaf))
            .or_insert_with(|| {
                let host = core::arch::x86_64::__cpuid_count(leaf, subleaf);
                [host.eax, host.ebx, host.ecx, host.edx]
            });
        self.devices
            .cpuid(self.current_cpu.get(), leaf, subleaf, host)
    }

    fn cpuid(&self, gregs: &mut Gregs) {
        let values = self.cpuid_values(low(gregs, RAX), low(gregs, RCX));
        for (index, value) in [RAX, RBX, RCX, RDX].into_iter().zip(values) {
            gregs[index] = i64::from(value);
        }
    }

    fn set_interrupts(&self, enabled: bool) -> Emulated {
        self.cpu().set_interrupts(u32::from(enabled));
        if enabled {
            self.cpu().request(pending::SCHEDULE);
        }
        Emulated::Done
    }

    fn push_flags(&self, gregs: &mut Gregs) -> Emulated {
        let mut flags = gregs[EFL].cast_unsigned() & !(INTERRUPT_FLAG | TRAP_FLAG);
        if self.cpu().interrupts_enabled() {
            flags |= INTERRUPT_FLAG;
        }
        gregs[RSP] -= 8;
        guest::write(gregs[RSP] as *mut u64, flags);
        Emulated::Done
    }

    fn pop_flags(&self, gregs: &mut Gregs) -> Emulated {
        // Arithmetic flags and direction; the rest is not the driver's to set.
        const MUTABLE: u64 = 0xCD5;
        let flags: u64 = guest::read(gregs[RSP] as *const u64);
        gregs[RSP] += 8;
        let kept = gregs[EFL].cast_unsigned() & !MUTABLE;
        gregs[EFL] = (kept | flags & MUTABLE).cast_signed();
        self.set_interrupts(flags & INTERRUPT_FLAG != 0)
    }

    fn control_register(&self, instruction: &Instruction, gregs: &mut Gregs) -> Emulated {
        let (to, from) = (instruction.op0_register(), instruction.op1_register());
        if to.is_cr() {
            return self.write_control(to, gregs[general(from)].cast_unsigned());
        }
        if from.is_cr() {
            gregs[general(to)] = match from {
                Register::CR0 => 0x8005_0033,
                Register::CR4 => 0x0037_0678,
                Register::CR8 => i64::from(self.irql()),
                Register::CR3 => 0x001A_A000,
                _ => 0,
            };
            return Emulated::Done;
        }
        if from.is_dr() {
            gregs[general(to)] = if from == Register::DR6 {
                0xFFFF_0FF0
            } else {
                0
            };
            return Emulated::Done;
        }
        if to.is_dr() {
            Emulated::Done
        } else {
            Emulated::NotPrivileged
        }
    }

    fn write_control(&self, register: Register, value: u64) -> Emulated {
        match (register, u8::try_from(value)) {
            (Register::CR8, Ok(irql)) if irql < 16 => {
                self.set_irql(irql);
                if irql < DISPATCH_LEVEL {
                    self.restart_raised_time();
                }
                self.cpu().request(pending::SCHEDULE);
                Emulated::Done
            }
            // Accepted and without effect: the lab has no page tables or protection to change.
            (Register::CR0 | Register::CR3 | Register::CR4, _) => Emulated::Done,
            _ => Emulated::Fault,
        }
    }

    /// Why an instruction at a captured fault is refused, if it is a privileged one.
    pub(crate) fn refused_instruction(
        &self,
        capture: &Capture,
    ) -> Option<(RuleId, [u64; 4], String)> {
        if capture.in_host {
            return None;
        }
        let rip = capture.registers.rip;
        let instruction = self.decode(rip)?;
        let ecx = capture.registers.gpr[1] & 0xFFFF_FFFF;
        let what = match instruction.mnemonic() {
            Mnemonic::Int if instruction.immediate8() == 0x29 => {
                return Some((
                    RuleId::FastFail,
                    [ecx, rip, 0, 0],
                    format!("fast fail, code {ecx}"),
                ));
            }
            Mnemonic::Int3 => {
                return Some((
                    RuleId::Breakpoint,
                    [0x8000_0003, rip, 0, 0],
                    "breakpoint".into(),
                ));
            }
            Mnemonic::Rdmsr => {
                format!("rdmsr of register {ecx:#x}, which this processor does not have")
            }
            Mnemonic::Wrmsr => format!(
                "wrmsr of register {ecx:#x}: no such register, or a value that is not legal"
            ),
            Mnemonic::Rdpmc => {
                format!("rdpmc of counter {ecx:#x}, which this processor does not have")
            }
            Mnemonic::Hlt => "hlt: a driver must not halt the processor".into(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int => {
                return Some((
                    RuleId::SystemCall,
                    [0xC000_0096, rip, 0, 0],
                    format!("system call: {instruction}"),
                ));
            }
            _ => self.other_privileged(rip, &instruction)?,
        };
        Some((
            RuleId::PrivilegedInstruction,
            [0xC000_0096, rip, ecx, 0],
            what,
        ))
    }

    fn other_privileged(&self, rip: u64, instruction: &Instruction) -> Option<String> {
        let kind = self.with_module(rip, |module| {
            module.image.site_at(rip).map(|site| site.kind)
        })??;
        (kind != SiteKind::Rdtsc).then(|| format!("{instruction}: not modelled"))
    }
}

fn general(register: Register) -> usize {
    GREGS[register.full_register().number()]
}

/// Nothing answers on any port: reads give ones, as on hardware.
fn port_in(instruction: &Instruction, gregs: &mut Gregs) -> Emulated {
    match instruction.op0_register() {
        Register::AL => gregs[RAX] |= 0xFF,
        Register::AX => gregs[RAX] |= 0xFFFF,
        _ => gregs[RAX] = 0xFFFF_FFFF,
    }
    Emulated::Done
}

/// The access of a patched `rdmsr`, on the host stack.
pub(crate) extern "sysv64" fn rdmsr_patched(index: u32, driver_stack: u64) -> u64 {
    let machine = current();
    let _kernel = machine.in_kernel();
    let value = machine
        .devices
        .rdmsr(machine.current_cpu.get(), index, machine.clock.now_ns());
    value.unwrap_or_else(|| machine.refuse_patched(driver_stack))
}

/// The access of a patched `rdpmc`, on the host stack.
pub(crate) extern "sysv64" fn rdpmc_patched(index: u32, driver_stack: u64) -> u64 {
    let machine = current();
    let _kernel = machine.in_kernel();
    let value = machine
        .devices
        .rdpmc(machine.current_cpu.get(), index, machine.clock.now_ns());
    value.unwrap_or_else(|| machine.refuse_patched(driver_stack))
}

/// The access of a patched `wrmsr`, on the host stack.
pub(crate) extern "sysv64" fn wrmsr_patched(index: u32, value: u64, driver_stack: u64) {
    let machine = current();
    let _kernel = machine.in_kernel();
    let cpu = machine.current_cpu.get();
    if machine.unchecked().is_some() {
        machine.judge_patched_wrmsr(machine.patched_site(driver_stack), index);
    }
    if !machine.write_register(cpu, index, value) {
        machine.refuse_patched(driver_stack);
    }
}

/// A patched `cpuid`, on the host stack: gives rbx, and replaces the saved rax, rcx and rdx.
pub(crate) extern "sysv64" fn cpuid_patched(leaf: u32, subleaf: u32, driver_stack: u64) -> u64 {
    let machine = current();
    let _kernel = machine.in_kernel();
    let [eax, ebx, ecx, edx] = machine.cpuid_values(leaf, subleaf);
    for (word, value) in [
        (asm::SAVED_RAX, eax),
        (asm::SAVED_RCX, ecx),
        (asm::SAVED_RDX, edx),
    ] {
        guest::write((driver_stack + 8 * word) as *mut u64, u64::from(value));
    }
    u64::from(ebx)
}

impl Machine {
    /// Address of the instruction in whose place a trampoline runs.
    fn patched_site(&self, driver_stack: u64) -> u64 {
        let return_address = (driver_stack + 8 * asm::SAVED_WORDS) as *mut u64;
        let site = guest::read(return_address) - 1;
        let origin = self.with_module(site, |module| module.image.origin_of(site));
        origin.flatten().unwrap_or(site)
    }

    /// Has a patched access fault as the instruction itself would: the routine returns to
    /// [`asm::refused`] in place of the trampoline, with the driver's registers, and the fault handler
    /// knows whose fault it is. Gives the value that leaves the result registers as they were (their
    /// upper halves aside).
    fn refuse_patched(&self, driver_stack: u64) -> u64 {
        let word = |n: u64| (driver_stack + 8 * n) as *mut u64;
        self.refused.set(self.patched_site(driver_stack));
        guest::write(word(asm::SAVED_WORDS), asm::refused as *const () as u64);
        let low = |n| guest::read(word(n)) & 0xFFFF_FFFF;
        low(asm::SAVED_RDX) << 32 | low(asm::SAVED_RAX)
    }
}
