//! From a decoded instruction to the kind of site it is.

use iced_x86::{Instruction, Mnemonic, Register};

use super::site::SiteKind;

/// Interrupt vectors that drivers use on purpose: fast fail, assertion, debug service.
const KERNEL_VECTORS: [u8; 3] = [0x29, 0x2c, 0x2d];

/// Whether the function disables or enables interrupts, so that it matters what `pushf` shows and `popf` sets.
pub(super) fn masks_interrupts(instructions: &[Instruction]) -> bool {
    instructions
        .iter()
        .any(|i| matches!(i.mnemonic(), Mnemonic::Cli | Mnemonic::Sti))
}

/// The kind of site, if the instruction is one.
pub(super) fn kind(instruction: &Instruction, masks_interrupts: bool) -> Option<SiteKind> {
    let kind = match instruction.mnemonic() {
        Mnemonic::Mov => return control_register(instruction),
        Mnemonic::Rdmsr => SiteKind::Rdmsr,
        Mnemonic::Wrmsr => SiteKind::Wrmsr,
        Mnemonic::Rdpmc => SiteKind::Rdpmc,
        Mnemonic::Cpuid => SiteKind::Cpuid,
        Mnemonic::Sidt => SiteKind::Sidt,
        Mnemonic::Sgdt => SiteKind::Sgdt,
        Mnemonic::Sldt => SiteKind::Sldt,
        Mnemonic::Str => SiteKind::Str,
        Mnemonic::Smsw => SiteKind::Smsw,
        Mnemonic::Pushf | Mnemonic::Pushfq if masks_interrupts => SiteKind::Pushf,
        Mnemonic::Popf | Mnemonic::Popfq if masks_interrupts => SiteKind::Popf,
        Mnemonic::Vmcall => SiteKind::Vmcall,
        Mnemonic::Vmmcall => SiteKind::Vmmcall,
        Mnemonic::Syscall => SiteKind::Syscall,
        Mnemonic::Sysenter => SiteKind::Sysenter,
        Mnemonic::Int => return interrupt(instruction.immediate8()),
        Mnemonic::Wrfsbase | Mnemonic::Wrgsbase => SiteKind::WriteSegmentBase,
        Mnemonic::Swapgs => SiteKind::Swapgs,
        Mnemonic::Stac => SiteKind::Stac,
        Mnemonic::Clac => SiteKind::Clac,
        Mnemonic::Cli => SiteKind::Cli,
        Mnemonic::Sti => SiteKind::Sti,
        Mnemonic::Hlt => SiteKind::Hlt,
        Mnemonic::In | Mnemonic::Insb | Mnemonic::Insw | Mnemonic::Insd => SiteKind::In,
        Mnemonic::Out | Mnemonic::Outsb | Mnemonic::Outsw | Mnemonic::Outsd => SiteKind::Out,
        Mnemonic::Rdtsc | Mnemonic::Rdtscp => SiteKind::Rdtsc,
        _ if instruction.is_privileged() => SiteKind::OtherPrivileged,
        _ => return None,
    };
    Some(kind)
}

fn interrupt(vector: u8) -> Option<SiteKind> {
    (!KERNEL_VECTORS.contains(&vector)).then_some(SiteKind::Int(vector))
}

fn control_register(instruction: &Instruction) -> Option<SiteKind> {
    let is_control = |register: Register| register.is_cr() || register.is_dr();
    match (instruction.op0_register(), instruction.op1_register()) {
        (Register::CR8, _) => Some(SiteKind::WriteCr8),
        (_, Register::CR8) => Some(SiteKind::ReadCr8),
        (to, _) if is_control(to) => Some(SiteKind::WriteControl),
        (_, from) if is_control(from) => Some(SiteKind::ReadControl),
        _ => None,
    }
}
