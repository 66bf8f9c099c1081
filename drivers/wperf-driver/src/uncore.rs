//! Uncore units: PMUs that belong to no core.
//!
//! ```text
//!  discovery ─▶ Units ─▶ [ Unit: about, registers, lock( model, mapping, run ) ◀─ timer ] …
//!                 └─ control: who holds which ── query
//! ```
//! A unit is held, counts and is given back as a core is, by itself: neither cores nor other units have
//! to do with it. Its registers are mapped while, and only while, somebody holds it.

mod backend;
mod control;
mod discovery;
mod query;
mod unit;

pub(crate) use control::{acquire, assign, cleanup, read, release, reset, start, stop};
pub(crate) use query::{events, ownership, times, units};

use crate::core_state::CoreState;
use crate::{Result, TAG};
use control::UnitControl;
use kernel::per_cpu::PerCpu;
use kernel::pool::{PoolBox, PoolVec};
use kernel::status::STATUS_INVALID_PARAMETER;
use kernel::sync::Mutex;
use kernel::ticker::Ticker;
use unit::Unit;

/// The units of the machine.
pub(crate) struct Units {
    units: PoolVec<Ticker<Unit>>,
    /// Whoever holds it may change who holds a unit and what a unit does.
    control: Mutex<UnitControl>,
}

impl Units {
    /// Looks for them; a machine without any has none.
    pub(crate) fn find(cores: &PerCpu<CoreState>) -> Result<Self> {
        let units = discovery::find(cores)?;
        let holders = PoolBox::try_from_fn(TAG, units.len(), |_| Ok(None))?;
        let control = Mutex::try_new(TAG, UnitControl::new(holders))?;
        Ok(Self { units, control })
    }

    pub(crate) fn count(&self) -> usize {
        self.units.len()
    }

    /// A unit by its number. Requests are checked for that: it is there.
    fn get(&self, unit: u32) -> Result<&Ticker<Unit>> {
        let index = usize::try_from(unit).unwrap_or(usize::MAX);
        self.units.get(index).ok_or(STATUS_INVALID_PARAMETER)
    }

    /// All of them with their numbers.
    fn iter(&self) -> impl Iterator<Item = (u32, &Ticker<Unit>)> + Clone {
        (0..).zip(self.units.iter())
    }
}
