//! What can be wrong with an instruction of a driver that runs in user mode, and what is done about it.

use serde::Serialize;

/// An instruction that needs kernel mode, or that lies outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SiteKind {
    /// `rdmsr`: MSR number in ecx, value to edx:eax.
    Rdmsr,
    /// `wrmsr`: MSR number in ecx, value in edx:eax.
    Wrmsr,
    /// `rdpmc`: counter number in ecx, value to edx:eax. Runs in user mode where the host lets it (CR4.PCE).
    Rdpmc,
    /// `mov r, cr8`: reads the IRQL.
    ReadCr8,
    /// `mov cr8, r`: sets the IRQL.
    WriteCr8,
    /// `cpuid`: answers with the host's processor.
    Cpuid,
    /// `sidt`: Linux answers with a dummy value.
    Sidt,
    /// `sgdt`: Linux answers with a dummy value.
    Sgdt,
    /// `sldt`: answers with the host's selector.
    Sldt,
    /// `str`: answers with the host's selector.
    Str,
    /// `smsw`: answers with the host's CR0, or a dummy value.
    Smsw,
    /// `pushf` in a function that also uses `cli` or `sti`: the interrupt flag reads as set.
    Pushf,
    /// `popf` in a function that also uses `cli` or `sti`: the interrupt flag is ignored.
    Popf,
    /// `vmcall`: reaches the hypervisor under Linux, if there is one.
    Vmcall,
    /// `vmmcall`: reaches the hypervisor under Linux, if there is one.
    Vmmcall,
    /// `syscall`: would be a Linux system call.
    Syscall,
    /// `sysenter`: would be a Linux system call.
    Sysenter,
    /// `int n` other than the kernel's own 0x29, 0x2c and 0x2d.
    Int(u8),
    /// `wrfsbase` or `wrgsbase`: takes away the host's thread or the driver's processor block.
    WriteSegmentBase,
    /// `swapgs`.
    Swapgs,
    /// `stac`.
    Stac,
    /// `clac`.
    Clac,
    /// `cli`.
    Cli,
    /// `sti`.
    Sti,
    /// `hlt`.
    Hlt,
    /// `in` or `ins`.
    In,
    /// `out` or `outs`.
    Out,
    /// `mov r, cr` or `mov r, dr`.
    ReadControl,
    /// `mov cr, r` or `mov dr, r`.
    WriteControl,
    /// `rdtsc` or `rdtscp`: right as it is, listed because it ties results to the host's clock.
    Rdtsc,
    /// Any other privileged instruction (`invlpg`, `lgdt`, `wbinvd`, `xsetbv`, …).
    OtherPrivileged,
}

impl SiteKind {
    /// What user mode makes of the instruction.
    pub(crate) fn nature(self) -> Nature {
        match self {
            Self::Rdmsr | Self::Wrmsr | Self::ReadCr8 | Self::WriteCr8 => Nature::Hot,
            // Silent where CR4.PCE is set, which Linux does for a process that maps a perf counter.
            Self::Rdpmc | Self::Cpuid => Nature::HotSilent,
            Self::Sidt
            | Self::Sgdt
            | Self::Sldt
            | Self::Str
            | Self::Smsw
            | Self::Pushf
            | Self::Popf
            | Self::Vmcall
            | Self::Vmmcall
            | Self::Syscall
            | Self::Sysenter
            | Self::WriteSegmentBase
            | Self::Int(0x80) => Nature::Silent,
            Self::Rdtsc => Nature::Harmless,
            _ => Nature::Trapping,
        }
    }

    /// Whether no correct driver contains it, wherever it runs.
    pub fn is_never_legal(self) -> bool {
        matches!(self, Self::Syscall | Self::Sysenter | Self::Int(_))
    }
}

/// How an instruction behaves in user mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Faults, and is frequent enough to deserve a trampoline.
    Hot,
    /// As `Hot`, but may run instead of faulting.
    HotSilent,
    /// Runs and gives a wrong answer.
    Silent,
    /// Faults.
    Trapping,
    /// Runs and gives the right answer.
    Harmless,
}

/// What mapping does to the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Nothing: it faults by itself, and the lab answers.
    Traps,
    /// Its bytes become `ud2` (or `int3`) so that it faults.
    MadeToTrap,
    /// It and its neighbours move to a trampoline, if the caller has a routine for the kind.
    Trampoline,
    /// Nothing: it runs as it is.
    LeftAlone,
}

/// Why an instruction did not get the better treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// Fewer than five bytes up to the end of the straight line.
    TooShort,
    /// A branch, table or pointer leads between the bytes that would be overwritten.
    BranchTarget,
    /// The function has an indirect jump whose targets are not known.
    IndirectJump,
    /// An instruction that would move cannot: privileged, a call, or relative to its place.
    Neighbour,
    /// A relocation or a shared-data address lies in the bytes that would move.
    Relocation,
    /// The stack pointer is the operand.
    StackOperand,
    /// The reserved trampoline space is full.
    NoSpace,
    /// Nothing shows that these bytes are code, so they are not written to.
    UnprovenCode,
}

/// One instruction that needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Where it is, from the image base.
    pub rva: u32,
    /// Its length in bytes (1 to 15).
    pub len: u8,
    /// What it is.
    pub kind: SiteKind,
    /// What mapping does to it.
    pub treatment: Treatment,
    /// Why mapping does not do better.
    pub refusal: Option<Refusal>,
}

/// An address of KUSER_SHARED_DATA (0xFFFFF780_00000000) that the driver carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KusdReference {
    /// Rva of the eight bytes that hold the address.
    pub rva: u32,
    /// Offset in the shared page.
    pub offset: u16,
    /// Whether the bytes belong to an instruction, rather than to data.
    pub in_code: bool,
}

impl core::fmt::Display for SiteKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = match self {
            Self::Rdmsr => "rdmsr",
            Self::Wrmsr => "wrmsr",
            Self::Rdpmc => "rdpmc",
            Self::ReadCr8 => "mov r, cr8",
            Self::WriteCr8 => "mov cr8, r",
            Self::Cpuid => "cpuid",
            Self::Sidt => "sidt",
            Self::Sgdt => "sgdt",
            Self::Sldt => "sldt",
            Self::Str => "str",
            Self::Smsw => "smsw",
            Self::Pushf => "pushf",
            Self::Popf => "popf",
            Self::Vmcall => "vmcall",
            Self::Vmmcall => "vmmcall",
            Self::Syscall => "syscall",
            Self::Sysenter => "sysenter",
            Self::Int(vector) => return write!(f, "int {vector:#x}"),
            Self::WriteSegmentBase => "wrfsbase/wrgsbase",
            Self::Swapgs => "swapgs",
            Self::Stac => "stac",
            Self::Clac => "clac",
            Self::Cli => "cli",
            Self::Sti => "sti",
            Self::Hlt => "hlt",
            Self::In => "in",
            Self::Out => "out",
            Self::ReadControl => "mov r, cr/dr",
            Self::WriteControl => "mov cr/dr, r",
            Self::Rdtsc => "rdtsc",
            Self::OtherPrivileged => "privileged",
        };
        f.write_str(text)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooShort => "too few bytes to patch",
            Self::BranchTarget => "something leads between its bytes",
            Self::IndirectJump => "its function has an indirect jump",
            Self::Neighbour => "its neighbour cannot move",
            Self::Relocation => "its neighbour holds an address",
            Self::StackOperand => "its operand is the stack pointer",
            Self::NoSpace => "no trampoline space left",
            Self::UnprovenCode => "nothing shows that it is code",
        })
    }
}
