//! Uncore PMUs: where firmware says they are, and their registers while they are mapped.
//!
//! ```text
//!  APMT (firmware table) ──────────────┐
//!  Enum\ACPI\ARMHD620 (boot resources) ┼▶ Found { Registers } ──map──▶ Mapped ──▶ Page (registers)
//!  Enum\ACPI\ARMHD500 (is it there?)   ┘          named by nobody else
//! ```
//! A physical address comes from here only, and never from a caller: [`Registers`] can't be made
//! otherwise. Registers of a page are written up to the last one of the PMU; what is behind them (the
//! addresses of interrupt messages, say) can't be named.

mod acpi;
mod dsu;
mod io_space;
mod memory_map;
mod registry;

use crate::pool::{PoolTag, PoolVec};
use crate::{Result, utf16};
use acpi::Apmt;
pub use dsu::{DsuAccess, DsuRegistersHere};
use io_space::Range;
pub use io_space::{Mapped, Page};
use memory_map::MemoryMap;
use pmu::backend::dmc620;
use pmu::uncore::apmt::{self, Node};
use pmu::uncore::resources;

/// A unit whose registers are in memory.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// What it is.
    pub kind: FoundKind,
    /// Where its registers are.
    pub registers: Registers,
}

/// What firmware says a unit is.
#[derive(Clone, Copy, Debug)]
pub enum FoundKind {
    /// A DMC-620.
    Dmc620,
    /// A CoreSight PMU.
    CoreSight(Node),
}

/// Where the registers of a unit are: one page, or two.
///
/// # Invariants
/// The ranges are of a PMU, by the word of the firmware, and hold no part of the machine's memory.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    page_0: Range,
    page_1: Option<Range>,
}

/// Everything that was found.
pub struct Discovery {
    most: usize,
    /// Units with registers in memory: memory controllers, then CoreSight PMUs, each in the order of the firmware.
    pub units: PoolVec<Found>,
    /// Whether the firmware describes a DynamIQ Shared Unit.
    pub has_dsu: bool,
    /// Units that the firmware describes in a way that can't be: left out.
    pub refused: u32,
}

/// Looks for units, and takes in so many at most; what is more is counted as refused. Nothing of theirs
/// is touched yet. A machine that has none, or whose kernel does not say, has none.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
pub fn find(tag: PoolTag, most: usize) -> Result<Discovery> {
    let mut found = Discovery {
        most,
        units: PoolVec::try_with_capacity(tag, 0)?,
        has_dsu: false,
        refused: 0,
    };
    let mut memory = None;
    registry::each_boot_resource(tag, utf16!("ARMHD620"), |list| {
        found.add_controller(&mut memory, list)
    })?;
    if let Some(table) = Apmt::read(tag)? {
        found.add_nodes(&mut memory, table.bytes())?;
    }
    // Only an Arm64 processor has the registers of one.
    found.has_dsu = cfg!(target_arch = "aarch64") && registry::has_device(tag, utf16!("ARMHD500"))?;
    Ok(found)
}

impl Discovery {
    /// The PMU is the first memory of the device.
    fn add_controller(&mut self, memory: &mut Option<MemoryMap>, list: &[u8]) -> Result<()> {
        let range = resources::memory(list)
            .next()
            .filter(|range| range.length >= dmc620::BYTES)
            .and_then(|range| Range::new(range.start, dmc620::BYTES, dmc620::BYTES));
        let registers = range.map(|page_0| Registers {
            page_0,
            page_1: None,
        });
        self.add(memory, FoundKind::Dmc620, registers)
    }

    fn add_nodes(&mut self, memory: &mut Option<MemoryMap>, table: &[u8]) -> Result<()> {
        let Ok(nodes) = apmt::nodes(table) else {
            self.refused += 1;
            return Ok(());
        };
        for node in nodes {
            match node {
                Ok(node) => self.add(
                    memory,
                    FoundKind::CoreSight(node),
                    Registers::of_node(&node),
                )?,
                Err(_) => self.refused += 1,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        memory: &mut Option<MemoryMap>,
        kind: FoundKind,
        registers: Option<Registers>,
    ) -> Result<()> {
        let memory = match (memory, registers) {
            (Some(known), _) => Some(&*known),
            // Asked only when there is something to compare with it: Wine's stub stops the driver.
            (none, Some(_)) => Some(&*none.insert(MemoryMap::query()?)),
            (_, None) => None,
        };
        let right = registers.filter(|registers| {
            let mut ranges = registers.ranges();
            ranges.all(|range| memory.is_some_and(|memory| !memory.overlaps(range)))
                && self.units.len() < self.most
        });
        match right {
            Some(registers) => self.units.try_push(Found { kind, registers }),
            None => {
                self.refused += 1;
                Ok(())
            }
        }
    }
}

impl Registers {
    fn of_node(node: &Node) -> Option<Self> {
        /// Bytes up to the last register that is written: PMCR. PMIIDR behind it is read.
        const WRITTEN: u64 = 0xE08;
        /// Counters and their overflow, of a second page.
        const WRITTEN_1: u64 = 0xC90;
        let page = |start, written| Range::new(start, apmt::PAGE, written);
        let page_1 = match node.page_1 {
            Some(start) => Some(page(start, WRITTEN_1)?),
            None => None,
        };
        Some(Self {
            page_0: page(node.page_0, WRITTEN)?,
            page_1,
        })
    }

    fn ranges(&self) -> impl Iterator<Item = Range> {
        [Some(self.page_0), self.page_1].into_iter().flatten()
    }

    /// Maps them, uncached.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`; nothing stays mapped.
    /// Source: `MmMapIoSpaceEx`, wdm.h.
    pub fn map(&self) -> Result<Mapped> {
        Mapped::try_new(self.page_0, self.page_1)
    }
}
