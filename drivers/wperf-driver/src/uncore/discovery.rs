//! From what firmware describes to units.

use super::unit::{About, Place, Unit};
use crate::core_state::CoreState;
use crate::tracing::LIFE;
use crate::{Result, TAG};
use kernel::per_cpu::PerCpu;
use kernel::pool::{PoolBox, PoolVec};
use kernel::processor::CoreId;
use kernel::sync::SpinLock;
use kernel::ticker::Ticker;
use kernel::uncore::{self, DsuAccess, Found, FoundKind};
use trace::cold;
use wperf_abi::record::{UnitKind, UnitOf};
use wperf_abi::{MAX_CORES, MAX_UNITS};

/// The units of this machine: clusters, memory controllers, CoreSight PMUs.
pub(super) fn find(cores: &PerCpu<CoreState>) -> Result<PoolVec<Ticker<Unit>>> {
    let found = uncore::find(TAG, MAX_UNITS)?;
    let mut units = PoolVec::try_with_capacity(TAG, found.units.len())?;
    if found.has_dsu {
        add_clusters(cores, &mut units)?;
    }
    let mut numbers = [0; 2];
    for Found { kind, registers } in found.units.iter() {
        let [controllers, nodes] = &mut numbers;
        let about = match kind {
            FoundKind::Dmc620 => About {
                kind: UnitKind::DMC_620,
                number: next(controllers),
                of: UnitOf::MEMORY_CONTROLLER,
                instance: 0,
                identification: 0,
                cores: [0; MAX_CORES / 64],
            },
            FoundKind::CoreSight(node) => About {
                kind: UnitKind::CORESIGHT,
                number: next(nodes),
                of: node.of,
                instance: node.instance,
                identification: node.implementation,
                cores: [0; MAX_CORES / 64],
            },
        };
        push(&mut units, Unit::new(about, Place::Memory(*registers)))?;
    }
    note_found(units.len(), found.refused);
    Ok(units)
}

/// Apart from what finds them, where no register would be left for what is recorded.
#[inline(never)]
fn note_found(found: usize, refused: u32) {
    cold!(
        Information, LIFE, "looked for uncore units",
        found: usize = found, refused: u32 = refused,
    );
}

fn next(number: &mut u32) -> u32 {
    let this = *number;
    *number = this.saturating_add(1);
    this
}

fn push(units: &mut PoolVec<Ticker<Unit>>, unit: Unit) -> Result<()> {
    if units.len() >= MAX_UNITS {
        return Ok(());
    }
    let core = unit.core();
    units.try_push(Ticker::try_new(TAG, core, unit)?)
}

/// One unit per cluster whose cores may touch its registers, read by the first of them.
fn add_clusters(cores: &PerCpu<CoreState>, units: &mut PoolVec<Ticker<Unit>>) -> Result<()> {
    let none = |_| Ok(SpinLock::new(None::<DsuAccess>));
    let access = PoolBox::try_from_fn(TAG, cores.count(), none)?;
    let place = |core: CoreId| access.get(core.0 as usize);
    cores.run_on(cores.iter().map(|(core, _)| core), &|here, _| {
        if let Some(place) = place(here.id()) {
            *place.lock() = DsuAccess::probe(here);
        }
    });
    let of = |core: CoreId| place(core).and_then(|place| *place.lock());
    let mut number = 0;
    for (reader, _) in cores.iter() {
        let Some(own) = of(reader) else { continue };
        let members = cores
            .iter()
            .map(|(core, _)| core)
            .filter(|&core| of(core).is_some_and(|access| access.cluster() == own.cluster()));
        if members.clone().next() != Some(reader) {
            continue;
        }
        let mut set = [0u64; MAX_CORES / 64];
        for core in members {
            if let Some(word) = set.get_mut(core.0 as usize / 64) {
                *word |= 1 << (core.0 % 64);
            }
        }
        let about = About {
            kind: UnitKind::DSU,
            number: next(&mut number),
            of: UnitOf::MEMORY_CONTROLLER,
            instance: own.cluster().get(),
            identification: 0,
            cores: set,
        };
        push(units, Unit::new(about, Place::Cluster(reader, own)))?;
    }
    Ok(())
}
