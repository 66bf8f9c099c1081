//! The PMU of a core: its hardware where the system lends it, else the software PMU.

use crate::tracing::COUNTING;
use kernel::processor::{CurrentCore, PmuRegisters, Processor};
use kernel::time::SystemClock;
use pmu::backend::Pmu;
use pmu::backend::software::SoftwarePmu;
use pmu::{Model, Slot, SlotSet};
use trace::{Hex, hot};
use wperf_abi::{EventCode, EventFilter};

#[cfg(target_arch = "aarch64")]
use pmu::backend::arm::{ArmBefore as Saved, ArmPmu};
#[cfg(target_arch = "x86_64")]
use pmu::backend::x86::X86Pmu;

#[cfg(target_arch = "aarch64")]
pub(crate) type Hardware<'a> = ArmPmu<'a, PmuRegisters<'a>>;
#[cfg(target_arch = "x86_64")]
pub(crate) type Hardware<'a> = X86Pmu<PmuRegisters<'a>>;

/// What a back end keeps from start to stop. The x86 PMU has nothing to remember.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Default)]
pub(crate) struct Saved;

#[cfg(target_arch = "x86_64")]
impl Saved {
    pub(crate) const NONE: Self = Self;
}

/// What [`backend`](self) a core uses.
pub(crate) type Before = Saved;

/// The counters of the current core.
pub(crate) enum CorePmu<'a> {
    /// Its PMU.
    Hardware(Hardware<'a>),
    /// Time.
    Software(SoftwarePmu<SystemClock>),
}

impl<'a> CorePmu<'a> {
    /// The counters that `model` describes, on the processor it was detected on.
    pub(crate) fn new(
        here: &'a CurrentCore,
        processor: Option<&Processor>,
        model: Model,
        before: &'a mut Before,
    ) -> Self {
        processor
            .and_then(|processor| here.registers(processor))
            .and_then(|registers| hardware(model, registers, before))
            .map_or(Self::Software(SoftwarePmu(SystemClock)), Self::Hardware)
    }
}

/// The PMU of the core whose registers these are, if it is of this model.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hardware<'a>(
    model: Model,
    registers: PmuRegisters<'a>,
    _: &'a mut Before,
) -> Option<Hardware<'a>> {
    match model {
        Model::X86(model) => Some(X86Pmu::new(model, registers)),
        Model::Arm(_) | Model::Software => None,
    }
}

/// The PMU of the core whose registers these are, if it is of this model.
#[cfg(target_arch = "aarch64")]
pub(crate) fn hardware<'a>(
    model: Model,
    registers: PmuRegisters<'a>,
    before: &'a mut Before,
) -> Option<Hardware<'a>> {
    match model {
        Model::Arm(model) => Some(ArmPmu::new(model, registers, before)),
        Model::X86(_) | Model::Software => None,
    }
}

/// A counter as events show it: 32 and more are the fixed ones.
const fn number(slot: Slot) -> u64 {
    match slot {
        Slot::General(index) => index as u64,
        Slot::Fixed(index) => index as u64 + 32,
    }
}

macro_rules! forward {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        match $self {
            Self::Hardware(pmu) => pmu.$method($($argument),*),
            Self::Software(pmu) => pmu.$method($($argument),*),
        }
    };
}

impl Pmu for CorePmu<'_> {
    fn busy(&mut self) -> SlotSet {
        forward!(self.busy())
    }
    fn begin(&mut self) {
        forward!(self.begin());
    }
    fn end(&mut self) {
        forward!(self.end());
    }
    fn program(&mut self, slot: Slot, code: EventCode, filter: EventFilter) {
        let (Slot::General(index) | Slot::Fixed(index)) = slot;
        hot!(Verbose, COUNTING, "program", index: u8 = index, event: Hex = Hex(code.0.into()));
        forward!(self.program(slot, code, filter));
    }
    fn clear(&mut self, slot: Slot) {
        forward!(self.clear(slot));
    }
    fn enable(&mut self, slots: SlotSet) {
        forward!(self.enable(slots));
    }
    fn disable(&mut self, slots: SlotSet) {
        forward!(self.disable(slots));
    }
    fn read(&mut self, slot: Slot) -> u64 {
        let value = forward!(self.read(slot));
        hot!(Verbose, COUNTING, "read", counter: u64 = number(slot), value: u64 = value);
        value
    }
    fn mask(&self, slot: Slot) -> u64 {
        forward!(self.mask(slot))
    }
}
