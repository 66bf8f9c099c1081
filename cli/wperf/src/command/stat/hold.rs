//! What a count holds: cores, uncore units, or both.

use crate::{
    failure::Result,
    plan::Plan,
    session::{Driver, Reading, Session},
    uncore::UnitSession,
};
use std::time::Duration;

/// Held until this is dropped; closing the device gives units back.
pub(super) struct Hold<'d> {
    on: On<'d>,
    units: UnitSession,
}

/// How the driver is reached.
enum On<'d> {
    /// Through the cores that are held.
    Cores(Session<'d>),
    /// No core is held.
    Driver(&'d mut Driver),
}

/// Totals of cores and units, each in the order of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readings {
    pub(super) cores: Vec<Reading>,
    pub(super) units: Vec<Reading>,
}

/// How long the driver's routines have kept processors busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Routines {
    /// DPCs and interrupt routines of the cores that are held.
    pub(super) cores: Duration,
    /// What was done with the units that are held, wherever that was.
    pub(super) units: Duration,
}

impl Readings {
    /// What was counted since earlier ones of the same run, or since its start.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let since = |now: &[Reading], earlier: &[Reading]| match earlier {
            [] => now.to_vec(),
            _ => now.iter().zip(earlier).map(|(n, e)| n.since(e)).collect(),
        };
        Self {
            cores: since(&self.cores, &earlier.cores),
            units: since(&self.units, &earlier.units),
        }
    }
}

impl<'d> Hold<'d> {
    /// Cores, and units if any.
    pub(super) fn cores(session: Session<'d>, units: UnitSession) -> Self {
        Self {
            on: On::Cores(session),
            units,
        }
    }

    /// Units alone.
    pub(super) fn units_only(driver: &'d mut Driver, units: UnitSession) -> Self {
        Self {
            on: On::Driver(driver),
            units,
        }
    }

    /// Whether cores are counted.
    pub(super) fn has_cores(&self) -> bool {
        matches!(self.on, On::Cores(_))
    }

    /// The units, which may be none.
    pub(super) fn units(&self) -> &UnitSession {
        &self.units
    }

    fn parts(&mut self) -> (&UnitSession, &mut Driver) {
        let driver = match &mut self.on {
            On::Cores(session) => session.driver(),
            On::Driver(driver) => driver,
        };
        (&self.units, driver)
    }

    /// Sets totals to zero and starts counting.
    ///
    /// Errors: the driver's.
    pub(super) fn start(&mut self) -> Result<()> {
        let (units, driver) = self.parts();
        units.start(driver)?;
        match &mut self.on {
            On::Cores(session) => session.start(),
            On::Driver(_) => Ok(()),
        }
    }

    /// Stops counting.
    ///
    /// Errors: the driver's.
    pub(super) fn stop(&mut self) -> Result<()> {
        if let On::Cores(session) = &mut self.on {
            session.stop()?;
        }
        let (units, driver) = self.parts();
        units.stop(driver)
    }

    /// Totals.
    ///
    /// Errors: the driver's.
    pub(super) fn read(&mut self, plan: &Plan) -> Result<Readings> {
        let cores = match &mut self.on {
            On::Cores(session) => session.read(plan)?,
            On::Driver(_) => Vec::new(),
        };
        let (units, driver) = self.parts();
        Ok(Readings {
            cores,
            units: units.read(driver)?,
        })
    }

    /// What the driver's routines have taken since it was loaded.
    ///
    /// Errors: the driver's.
    pub(super) fn routines(&mut self) -> Result<Routines> {
        let cores = match &mut self.on {
            On::Cores(session) => session.routines_ns()?,
            On::Driver(_) => 0,
        };
        let (units, driver) = self.parts();
        Ok(Routines {
            cores: Duration::from_nanos(cores),
            units: Duration::from_nanos(units.routines_ns(driver)?),
        })
    }

    /// Whether all is still ours.
    ///
    /// Errors: [`crate::exit::Outcome::ForcedOut`] when another took something by force.
    pub(super) fn check_still_ours(&mut self) -> Result<()> {
        if let On::Cores(session) = &mut self.on {
            session.check_still_ours()?;
        }
        let (units, driver) = self.parts();
        units.check_still_ours(driver)
    }
}
