//! Processors: how many, which one, what PMU it has, and that PMU's registers.

mod registers;

use crate::routine::Routine;
use crate::utf16;
use core::marker::PhantomData;
use nt::base::{ALL_PROCESSOR_GROUPS, PROCESSOR_NUMBER};
use pmu::Model;
pub use registers::PmuRegisters;

/// System-wide index of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreId(pub u32);

/// The processor that the holder runs on, for as long as it has this: it is at `DISPATCH_LEVEL`.
///
/// # Invariants
/// Made by this crate only, in DPCs.
#[derive(Debug)]
pub struct CurrentCore {
    id: CoreId,
    _here: PhantomData<*const ()>,
}

impl CurrentCore {
    pub(crate) const fn new(id: CoreId) -> Self {
        Self {
            id,
            _here: PhantomData,
        }
    }

    /// Its index.
    ///
    /// IRQL: any.
    #[must_use]
    pub const fn id(&self) -> CoreId {
        self.id
    }

    /// What it says of itself.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn detect(&self) -> Processor {
        registers::detect(self)
    }

    /// Registers of its PMU; `None` if `processor` is another, or has none.
    ///
    /// IRQL: any.
    #[must_use]
    pub fn registers(&self, processor: &Processor) -> Option<PmuRegisters<'_>> {
        let has_pmu = processor.model.is_some() && processor.core == self.id;
        has_pmu.then(|| PmuRegisters::new(self, processor))
    }
}

/// What a processor says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    core: CoreId,
    model: Option<Model>,
    /// CPUID leaf 0, or the Arm implementer code in hexadecimal; ASCII, filled with zeros.
    pub vendor: [u8; 16],
    /// CPUID leaf 0x4000_0000; zeros if no hypervisor shows itself.
    pub hypervisor: [u8; 12],
    /// CPUID leaf 1 EAX, or MIDR_EL1.
    pub identification: u64,
    /// CPUID leaf 0x0A EBX (low half) and EDX, or ID_AA64DFR0_EL1.
    pub features: u64,
}

impl Processor {
    /// Its hardware PMU.
    ///
    /// IRQL: any.
    #[must_use]
    pub const fn model(&self) -> Option<Model> {
        self.model
    }
}

/// Number of active processors.
///
/// IRQL: any.
/// Source: `KeQueryActiveProcessorCountEx`, wdm.h.
#[must_use]
pub fn count() -> u32 {
    registers::active_count(ALL_PROCESSOR_GROUPS)
}

type NumberFromIndex =
    unsafe extern "efiapi" fn(u32, *mut PROCESSOR_NUMBER) -> nt::status::NTSTATUS;

static NUMBER_FROM_INDEX: Routine<NumberFromIndex> =
    registers::number_routine(utf16!("KeGetProcessorNumberFromIndex"));

/// Group and number of a processor. A kernel without the routine has one group.
///
/// IRQL: `PASSIVE_LEVEL` the first time.
/// Source: `KeGetProcessorNumberFromIndex`, wdm.h.
#[must_use]
pub fn number(core: CoreId) -> PROCESSOR_NUMBER {
    let in_group_0 = PROCESSOR_NUMBER {
        Group: 0,
        Number: u8::try_from(core.0).unwrap_or(0),
        Reserved: 0,
    };
    NUMBER_FROM_INDEX
        .find()
        .and_then(|routine| registers::number_of(routine, core))
        .unwrap_or(in_group_0)
}
