//! The cluster registers of a DynamIQ Shared Unit.
//!
//! Whether the kernel may touch them is the firmware's decision (ACTLR_EL3, ACTLR_EL2): where it may not,
//! the instruction is undefined. So it is tried once on each core, where an exception is caught.

use crate::processor::CurrentCore;
use core::marker::PhantomData;
use pmu::backend::dsu::{DsuRegister, DsuRegisters};
use pmu::uncore::clusters::Cluster;

#[cfg(not(target_arch = "aarch64"))]
mod absent;
#[cfg(target_arch = "aarch64")]
mod arm;

#[cfg(not(target_arch = "aarch64"))]
use absent as here;
#[cfg(target_arch = "aarch64")]
use arm as here;

/// That a core may touch the registers of its cluster.
///
/// # Invariants
/// Reading CLUSTERPMCR_EL1 on this core gave a value.
#[derive(Clone, Copy, Debug)]
pub struct DsuAccess {
    core: crate::processor::CoreId,
    cluster: Cluster,
    /// Event counters.
    counters: u8,
}

/// The registers of the current core's cluster.
pub struct DsuRegistersHere<'a> {
    counters: u8,
    _here: PhantomData<&'a CurrentCore>,
}

impl DsuAccess {
    /// Tries it on the current core; `None` where there is no such unit, or firmware forbids it.
    ///
    /// IRQL: `<= DISPATCH_LEVEL`.
    #[must_use]
    pub fn probe(core: &CurrentCore) -> Option<Self> {
        let (mpidr, pmcr) = here::probe()?;
        let model = pmu::DsuModel::from_registers(pmcr, [0; 2]);
        Some(Self {
            core: core.id(),
            cluster: Cluster::of(mpidr),
            counters: model.counters,
        })
    }

    /// Which cluster it is.
    ///
    /// IRQL: any.
    #[must_use]
    pub const fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// The registers, on the core that was tried; `None` on another.
    ///
    /// IRQL: `DISPATCH_LEVEL`.
    #[must_use]
    pub fn registers<'a>(&self, core: &'a CurrentCore) -> Option<DsuRegistersHere<'a>> {
        (self.core == core.id()).then_some(DsuRegistersHere {
            counters: self.counters,
            _here: PhantomData,
        })
    }
}

impl DsuRegisters for DsuRegistersHere<'_> {
    fn read(&mut self, register: DsuRegister) -> u64 {
        here::read(register)
    }

    fn write(&mut self, register: DsuRegister, value: u64) {
        // A counter that is not there must not be selected.
        if register != DsuRegister::Select || value < self.counters.into() {
            here::write(register, value);
        }
    }

    fn synchronize(&mut self) {
        here::synchronize();
    }
}
