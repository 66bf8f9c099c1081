//! Devices with registers in memory, and how firmware describes them.
//!
//! ```text
//!  Kind ─▶ Device (model: registers ⇄ counts of virtual time)
//!     └──▶ physical addresses ─▶ APMT node, or boot resources of an ACPI device in the registry
//! ```

mod coresight;
mod counter;
mod description;
mod dmc620;

pub use coresight::CoreSight;
pub use description::{BootResource, apmt};
pub use dmc620::Dmc620;

use std::ops::Range;

/// A kind of device that a machine can be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// Memory controller DMC-620, as ACPI device `ARMHD620`.
    Dmc620,
    /// CoreSight PMU of a PCIe root complex, in the ACPI table APMT: six counters of 32 bits, one page.
    CsPmu,
    /// CoreSight PMU of a memory controller, in APMT: four counters and a cycle counter of 64 bits, two pages.
    CsPmu64,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Dmc620, Self::CsPmu, Self::CsPmu64];

    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dmc620 => "dmc620",
            Self::CsPmu => "cspmu",
            Self::CsPmu64 => "cspmu64",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Most devices of a kind that a machine has.
pub const MOST: u8 = 16;

/// How many devices of each kind a machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Devices {
    counts: [u8; Kind::ALL.len()],
}

impl Devices {
    /// None.
    pub const NONE: Self = Self {
        counts: [0; Kind::ALL.len()],
    };

    /// One more of a kind, up to [`MOST`].
    #[must_use]
    pub const fn with(mut self, kind: Kind) -> Self {
        let count = &mut self.counts[kind as usize];
        if *count < MOST {
            *count += 1;
        }
        self
    }

    /// How many of a kind.
    #[must_use]
    pub const fn of(self, kind: Kind) -> u8 {
        self.counts[kind as usize]
    }

    /// Each device in turn, in the order of kinds.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .flat_map(move |kind| std::iter::repeat_n(kind, self.of(kind).into()))
    }
}

impl FromIterator<Kind> for Devices {
    fn from_iter<T: IntoIterator<Item = Kind>>(kinds: T) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// What is wrong with an access to a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// No register is there.
    Offset,
    /// The register has another width.
    Width,
    /// The register can only be read.
    ReadOnly,
    /// The register can only be written.
    WriteOnly,
}

impl Wrong {
    /// In words, behind "the device has".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Offset => "no register there",
            Self::Width => "a register of another width there",
            Self::ReadOnly => "a register there that can only be read",
            Self::WriteOnly => "a register there that can only be written",
        }
    }
}

/// A device with pages of registers. `now_ns` is the machine's time, from which it derives what it counts.
pub trait Device {
    /// Reads so many bytes at an offset of a page.
    ///
    /// Errors: no such register; reading had no effect.
    fn read(&self, page: usize, offset: u64, bytes: u8, now_ns: u64) -> Result<u64, Wrong>;

    /// Writes so many bytes at an offset of a page.
    ///
    /// Errors: no such register; writing had no effect.
    fn write(
        &self,
        page: usize,
        offset: u64,
        bytes: u8,
        value: u64,
        now_ns: u64,
    ) -> Result<(), Wrong>;
}

/// A device and where it is.
pub struct Placed {
    /// Its name: kind and number among those of its kind.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Number among those of its kind, from 0.
    pub number: u8,
    /// Physical addresses of its pages of registers.
    pub pages: Vec<Range<u64>>,
    device: Box<dyn Device>,
}

/// The devices of a machine.
#[derive(Default)]
pub struct Platform {
    devices: Vec<Placed>,
}

/// A place within the registers of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    device: usize,
    page: usize,
    /// From the start of the page. Units: bytes.
    pub offset: u64,
}

/// First physical address of a device: past all that is memory in the lab.
const FIRST: u64 = 1 << 48;
/// From one device to the next. Units: bytes.
const STEP: usize = 0x1_0000;
/// Where a DMC-620 has its PMU among its other registers, and how long that part is. Units: bytes.
const DMC_PMU: Range<u64> = 0xA00..0x1000;
/// Where a second page is. Units: bytes.
const SECOND: u64 = 0x2000;
const PAGE: u64 = 0x1000;

impl Platform {
    /// The devices, one after the other.
    #[must_use]
    pub fn new(devices: Devices) -> Self {
        let mut platform = Self::default();
        let mut numbers = [0; Kind::ALL.len()];
        for (kind, base) in devices.iter().zip((FIRST..).step_by(STEP)) {
            let number = numbers[kind as usize];
            numbers[kind as usize] += 1;
            platform.devices.push(Placed::new(kind, number, base));
        }
        platform
    }

    /// All devices.
    #[must_use]
    pub fn devices(&self) -> &[Placed] {
        &self.devices
    }

    /// What is at a physical address.
    #[must_use]
    pub fn at(&self, physical: u64) -> Option<Spot> {
        let places = self.devices.iter().enumerate();
        let mut pages = places.flat_map(|(device, placed)| {
            let pages = placed.pages.iter().enumerate();
            pages.map(move |(page, range)| (device, page, range))
        });
        let (device, page, range) = pages.find(|(_, _, range)| range.contains(&physical))?;
        Some(Spot {
            device,
            page,
            offset: physical - range.start,
        })
    }

    /// The device of a spot.
    #[must_use]
    pub fn device(&self, spot: Spot) -> &Placed {
        &self.devices[spot.device]
    }

    /// Reads a register.
    ///
    /// Errors: no such register.
    pub fn read(&self, spot: Spot, bytes: u8, now_ns: u64) -> Result<u64, Wrong> {
        let device = &self.device(spot).device;
        device.read(spot.page, spot.offset, bytes, now_ns)
    }

    /// Writes a register.
    ///
    /// Errors: no such register.
    pub fn write(&self, spot: Spot, bytes: u8, value: u64, now_ns: u64) -> Result<(), Wrong> {
        let device = &self.device(spot).device;
        device.write(spot.page, spot.offset, bytes, value, now_ns)
    }
}

impl Placed {
    fn new(kind: Kind, number: u8, base: u64) -> Self {
        let page = base..base + PAGE;
        let (device, first, second): (Box<dyn Device>, _, _) = match kind {
            Kind::Dmc620 => {
                let part = base + DMC_PMU.start..base + DMC_PMU.end;
                (Box::new(Dmc620::new(number)), part, None)
            }
            Kind::CsPmu => (Box::new(CoreSight::narrow(number)), page, None),
            Kind::CsPmu64 => {
                let second = base + SECOND..base + SECOND + PAGE;
                (Box::new(CoreSight::wide(number)), page, Some(second))
            }
        };
        Self {
            name: format!("{}-{number}", kind.name()),
            kind,
            number,
            pages: std::iter::once(first).chain(second).collect(),
            device,
        }
    }
}

#[cfg(test)]
mod tests;
