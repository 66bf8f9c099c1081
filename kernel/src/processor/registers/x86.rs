//! x86-64: CPUID, RDMSR, WRMSR, RDPMC.

use super::PmuRegisters;
use crate::processor::{CoreId, Processor};
use core::arch::asm;
use core::arch::x86_64::__cpuid;
use pmu::backend::x86::{Msr, X86Registers};
use pmu::{Model, Slot, X86Model};

/// How many counters of each kind there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    general: u8,
    fixed: u8,
    has_global: bool,
}

impl Limits {
    pub(super) fn of(processor: &Processor) -> Self {
        match processor.model {
            Some(Model::X86(model)) => Self {
                general: model.counters,
                fixed: model.fixed_counters,
                has_global: model.version >= 2,
            },
            _ => Self {
                general: 0,
                fixed: 0,
                has_global: false,
            },
        }
    }

    const fn has(self, msr: Msr) -> bool {
        match msr {
            Msr::Counter(index) | Msr::EventSelect(index) => index < self.general,
            Msr::FixedCounter(index) => index < self.fixed,
            Msr::FixedControl
            | Msr::GlobalStatus
            | Msr::GlobalControl
            | Msr::GlobalOverflowControl => self.has_global,
        }
    }
}

/// CPUID.01H:ECX[31]: a hypervisor is present (never set by hardware).
const HYPERVISOR_PRESENT: u32 = 1 << 31;
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
const PERFORMANCE_LEAF: u32 = 0x0A;

/// Source: Intel SDM vol. 2, CPUID.
pub(super) fn detect(core: CoreId) -> Processor {
    let basic = __cpuid(0);
    let identity = __cpuid(1);
    let performance = if basic.eax >= PERFORMANCE_LEAF {
        Some(__cpuid(PERFORMANCE_LEAF))
    } else {
        None
    };
    let (ebx, edx) = performance.map_or((0, 0), |leaf| (leaf.ebx, leaf.edx));
    let is_guest = identity.ecx & HYPERVISOR_PRESENT != 0;
    let [b, d, c] = [basic.ebx, basic.edx, basic.ecx].map(u32::to_le_bytes);
    let mut vendor = [0; 16];
    vendor
        .iter_mut()
        .zip(b.into_iter().chain(d).chain(c))
        .for_each(|(to, from)| *to = from);
    Processor {
        core,
        model: performance
            .and_then(|leaf| X86Model::from_cpuid(leaf.eax, leaf.ebx, leaf.edx))
            .map(Model::X86),
        vendor,
        hypervisor: if is_guest { hypervisor() } else { [0; 12] },
        identification: identity.eax.into(),
        features: u64::from(ebx) | u64::from(edx) << 32,
    }
}

fn hypervisor() -> [u8; 12] {
    let leaf = __cpuid(HYPERVISOR_LEAF);
    let [b, c, d] = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    let mut signature = [0; 12];
    signature
        .iter_mut()
        .zip(b.into_iter().chain(c).chain(d))
        .for_each(|(to, from)| *to = from);
    signature
}

impl X86Registers for PmuRegisters<'_> {
    fn read(&mut self, msr: Msr) -> u64 {
        if !self.limits.has(msr) {
            return 0;
        }
        let value: u64;
        // What follows RDMSR is two plain instructions, so that a host that replaces it by a jump
        // has eight bytes of room.
        // SAFETY: the register is there: CPUID leaf 0x0A of this very processor promises it. Reading
        // it changes nothing.
        unsafe {
            asm!("rdmsr", "shl rdx, 32", "or rax, rdx", in("ecx") msr.address(),
                out("rax") value, out("rdx") _, options(nomem, nostack));
        }
        value
    }

    fn write(&mut self, msr: Msr, value: u64) {
        if !self.limits.has(msr) {
            return;
        }
        // SAFETY: (1) the register is there, as for reading. (2) It is the PMU's: it counts, and
        // reaches no memory.
        unsafe {
            asm!("wrmsr", in("ecx") msr.address(), in("rax") value, in("rdx") value >> 32,
                options(nomem, nostack));
        }
    }

    fn read_counter(&mut self, slot: Slot) -> u64 {
        const FIXED: u32 = 1 << 30;
        let selector = match slot {
            Slot::General(index) if index < self.limits.general => u32::from(index),
            Slot::Fixed(index) if index < self.limits.fixed => FIXED | u32::from(index),
            Slot::General(_) | Slot::Fixed(_) => return 0,
        };
        let value: u64;
        // Followed by plain instructions for the same reason.
        // SAFETY: the counter is there, and the kernel may read it whatever CR4.PCE says.
        unsafe {
            asm!("rdpmc", "shl rdx, 32", "or rax, rdx", in("ecx") selector,
                out("rax") value, out("rdx") _, options(nomem, nostack));
        }
        value
    }
}
