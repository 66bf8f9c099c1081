//! What a PMU has, and which of its counters can take an event.

use crate::Slot;
use wperf_abi::EventCode;
use wperf_abi::record::PmuKind;

/// The PMU of one core, as it describes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Arm PMUv3.
    Arm(ArmModel),
    /// x86 architectural performance monitoring.
    X86(X86Model),
    /// Time and time-stamp ticks only.
    Software,
}

/// Which counters can take an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The fixed counter built for it.
    pub fixed: Option<u8>,
    /// Whether the general-purpose counters can.
    pub general: bool,
    /// The fixed counter is a free-running source that any number of events may read at once.
    pub shared: bool,
}

const FREE_RUNNING: Placement = Placement {
    fixed: None,
    general: false,
    shared: true,
};
const GENERAL: Placement = Placement {
    fixed: None,
    general: true,
    shared: false,
};

impl Model {
    /// The free-running tick counter of the software PMU.
    pub const SOFTWARE_TICKS: u8 = 0;
    /// The clock of the software PMU.
    pub const SOFTWARE_NS: u8 = 1;

    /// Which counters can take `code`; `None` if the core does not have the event.
    #[must_use]
    pub fn placement(&self, code: EventCode) -> Option<Placement> {
        match self {
            Self::Arm(model) => model.placement(code),
            Self::X86(model) => model.placement(code),
            Self::Software => match code {
                EventCode::CYCLES | EventCode::TIMESTAMP_TICKS => Some(Placement {
                    fixed: Some(Self::SOFTWARE_TICKS),
                    ..FREE_RUNNING
                }),
                EventCode::ELAPSED_NS => Some(Placement {
                    fixed: Some(Self::SOFTWARE_NS),
                    ..FREE_RUNNING
                }),
                _ => None,
            },
        }
    }

    /// The events that the core announces, and named codes it has.
    pub fn supported(&self) -> impl Iterator<Item = EventCode> + '_ {
        let named = [
            EventCode::CYCLES,
            EventCode::ELAPSED_NS,
            EventCode::TIMESTAMP_TICKS,
        ];
        let hardware: &[Announced] = match self {
            Self::Arm(_) => &[Announced::Range(0, 0x3F), Announced::Range(0x4000, 0x403F)],
            Self::X86(_) => X86Model::ANNOUNCED,
            Self::Software => &[],
        };
        let announced = hardware
            .iter()
            .flat_map(|&Announced::Range(first, last)| first..=last);
        named
            .into_iter()
            .chain(announced.map(EventCode))
            .filter(|&code| self.placement(code).is_some())
    }

    /// Number of general-purpose counters.
    #[must_use]
    pub const fn general_counters(&self) -> u8 {
        match self {
            Self::Arm(model) => model.counters,
            Self::X86(model) => model.counters,
            Self::Software => 0,
        }
    }

    /// Width of a general-purpose counter. Units: bits; 0 if there is none.
    #[must_use]
    pub const fn general_bits(&self) -> u8 {
        match self {
            Self::Arm(model) => model.counter_bits(),
            Self::X86(model) => model.counter_bits,
            Self::Software => 0,
        }
    }

    /// Number of fixed counters.
    #[must_use]
    pub const fn fixed_counters(&self) -> u8 {
        match self {
            Self::Arm(_) => 1,
            Self::X86(model) => model.fixed_counters,
            Self::Software => 2,
        }
    }

    /// Width of a fixed counter. Units: bits.
    #[must_use]
    pub const fn fixed_bits(&self) -> u8 {
        match self {
            Self::X86(model) => model.fixed_bits,
            Self::Arm(_) | Self::Software => 64,
        }
    }

    /// Width of a counter. Units: bits.
    #[must_use]
    pub const fn bits(&self, slot: Slot) -> u8 {
        match slot {
            Slot::General(_) => self.general_bits(),
            Slot::Fixed(_) => self.fixed_bits(),
        }
    }

    /// What the contract calls it.
    #[must_use]
    pub const fn kind(&self) -> PmuKind {
        match self {
            Self::Arm(_) => PmuKind::ARM_PMUV3,
            Self::X86(_) => PmuKind::X86_ARCHITECTURAL,
            Self::Software => PmuKind::SOFTWARE,
        }
    }

    /// Version, as the hardware numbers it.
    #[must_use]
    pub const fn version(&self) -> u16 {
        match self {
            Self::Arm(model) => model.version as u16,
            Self::X86(model) => model.version as u16,
            Self::Software => 0,
        }
    }

    /// Whether a fixed counter may be set to a value: the operating system reads the one of Arm.
    #[must_use]
    pub const fn fixed_may_be_set(&self) -> bool {
        matches!(self, Self::X86(_))
    }

    /// Whether the mode filter has an effect.
    #[must_use]
    pub const fn can_filter(&self) -> bool {
        !matches!(self, Self::Software)
    }
}

/// Event numbers that a PMU says it has or has not.
#[derive(Clone, Copy, Debug)]
enum Announced {
    Range(u32, u32),
}

/// An Arm PMUv3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmModel {
    /// ID_AA64DFR0_EL1.PMUVer.
    pub version: u8,
    /// PMCR_EL0.N.
    pub counters: u8,
    /// PMCEID0_EL0 and PMCEID1_EL0: low halves are events 0x00–0x3F, high halves 0x4000–0x403F.
    pub announced: [u64; 2],
}

impl ArmModel {
    /// The event of the cycle counter (Arm ARM D24.5, CPU_CYCLES).
    pub const CPU_CYCLES: u32 = 0x11;
    /// CHAIN is no event of its own: it makes a pair of counters one, which is never done here.
    const CHAIN: u32 = 0x1E;

    /// From the registers; `None` without a PMU of that kind.
    ///
    /// Source: Arm ARM D23.2.60 (PMUVer: 0 none, 15 implementation defined), D24.5.10 (PMCR_EL0.N).
    #[must_use]
    pub fn from_registers(id_aa64dfr0: u64, pmcr: u64, pmceid: [u64; 2]) -> Option<Self> {
        let version = (id_aa64dfr0 >> 8 & 0xF) as u8;
        let counters = (pmcr >> 11 & 0x1F) as u8;
        (version != 0 && version != 15).then_some(Self {
            version,
            counters,
            announced: pmceid,
        })
    }

    /// 64 from PMUv3p5 on, whatever PMCR_EL0.LP says: LP only moves the overflow.
    const fn counter_bits(&self) -> u8 {
        if self.version >= 6 { 64 } else { 32 }
    }

    fn placement(&self, code: EventCode) -> Option<Placement> {
        match code.0 {
            Self::CPU_CYCLES => Some(Placement {
                fixed: Some(0),
                ..GENERAL
            }),
            _ if code == EventCode::CYCLES => Some(Placement {
                fixed: Some(0),
                ..GENERAL
            }),
            Self::CHAIN => None,
            _ if code.is_arm_raw() && self.has(code.0) => Some(GENERAL),
            _ => None,
        }
    }

    fn has(&self, event: u32) -> bool {
        let [low, high] = self.announced;
        match event {
            0x0000..=0x001F => low >> event & 1 != 0,
            0x0020..=0x003F => high >> (event - 0x20) & 1 != 0,
            0x4000..=0x401F => low >> (event - 0x4000 + 32) & 1 != 0,
            0x4020..=0x403F => high >> (event - 0x4020 + 32) & 1 != 0,
            // Implementation-defined events are not announced.
            _ => true,
        }
    }
}

/// An x86 PMU after CPUID leaf 0x0A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct X86Model {
    /// Version of architectural performance monitoring; global control from 2 on.
    pub version: u8,
    /// General-purpose counters.
    pub counters: u8,
    /// Their width. Units: bits.
    pub counter_bits: u8,
    /// Fixed-function counters.
    pub fixed_counters: u8,
    /// Their width. Units: bits.
    pub fixed_bits: u8,
    /// Bit n: architectural event n is not there.
    pub unavailable: u32,
}

impl X86Model {
    /// Architectural events in the order of CPUID.0AH:EBX.
    const ARCHITECTURAL: [u32; 8] = [
        0x003C, 0x00C0, 0x013C, 0x4F2E, 0x412E, 0x00C4, 0x00C5, 0x01A4,
    ];
    const REFERENCE_CYCLES: u32 = 0x0300;
    const ANNOUNCED: &[Announced] = &[
        Announced::Range(0x003C, 0x003C),
        Announced::Range(0x00C0, 0x00C0),
        Announced::Range(0x013C, 0x013C),
        Announced::Range(0x4F2E, 0x4F2E),
        Announced::Range(0x412E, 0x412E),
        Announced::Range(0x00C4, 0x00C5),
        Announced::Range(0x01A4, 0x01A4),
        Announced::Range(Self::REFERENCE_CYCLES, Self::REFERENCE_CYCLES),
    ];

    /// From CPUID leaf 0x0A; `None` without architectural performance monitoring.
    ///
    /// Source: Intel SDM vol. 2, CPUID leaf 0AH; vol. 3 §20.2.
    #[must_use]
    pub fn from_cpuid(eax: u32, ebx: u32, edx: u32) -> Option<Self> {
        let [version, counters, counter_bits, events] = eax.to_le_bytes();
        let has_fixed = version >= 2;
        // Events past the length of the bit vector are not there, whatever EBX says.
        let beyond = u32::MAX.checked_shl(events.into()).unwrap_or(0);
        (version != 0 && counters != 0).then_some(Self {
            version,
            counters: counters.min(32),
            counter_bits: counter_bits.min(64),
            fixed_counters: if has_fixed { (edx & 0x1F) as u8 } else { 0 },
            fixed_bits: if has_fixed {
                (edx >> 5 & 0xFF) as u8
            } else {
                0
            },
            unavailable: ebx | beyond,
        })
    }

    /// The event of a fixed counter, for those that have one here.
    fn fixed_for(&self, code: u32) -> Option<u8> {
        let index = match code {
            0x00C0 => 0,
            0x003C => 1,
            Self::REFERENCE_CYCLES => 2,
            _ => return None,
        };
        (index < self.fixed_counters).then_some(index)
    }

    fn placement(&self, code: EventCode) -> Option<Placement> {
        let raw = if code == EventCode::CYCLES {
            0x003C
        } else {
            code.0
        };
        let fixed = self.fixed_for(raw);
        if raw == Self::REFERENCE_CYCLES {
            return fixed.map(|index| Placement {
                fixed: Some(index),
                general: false,
                shared: false,
            });
        }
        let architectural = Self::ARCHITECTURAL.iter().position(|&event| event == raw);
        let is_missing = architectural.is_some_and(|bit| self.unavailable >> bit & 1 != 0);
        let general = EventCode(raw).is_x86_raw() && !is_missing;
        (general || fixed.is_some()).then_some(Placement {
            fixed,
            general,
            shared: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn cpuid_of_a_skylake_gives_eight_counters_of_48_bits() {
        let model = X86Model::from_cpuid(0x0730_0804, 0, 0x0000_0603).unwrap();
        assert_eq!(
            (model.version, model.counters, model.counter_bits),
            (4, 8, 48)
        );
        assert_eq!((model.fixed_counters, model.fixed_bits), (3, 48));
        let supported: Vec<_> = Model::X86(model).supported().map(|code| code.0).collect();
        assert!(
            supported.contains(&0xC0) && !supported.contains(&0x01A4),
            "slots are event 7 of 7"
        );
    }

    #[test]
    fn no_architectural_monitoring_is_no_model() {
        assert_eq!(X86Model::from_cpuid(0, 0, 0), None);
        assert_eq!(ArmModel::from_registers(0xF00, 6 << 11, [0; 2]), None);
    }

    #[test]
    fn an_event_the_arm_core_does_not_announce_is_refused() {
        let model = ArmModel::from_registers(0x400, 6 << 11, [0b10 | 1 << 33, 1]).unwrap();
        let has = |code| Model::Arm(model).placement(EventCode(code)).is_some();
        assert!(has(1) && has(0x20) && has(0x4001) && has(0x0100) && has(0x11));
        assert!(!has(2) && !has(0x21) && !has(0x4002) && !has(0x1E) && !has(0x1_0001));
    }

    #[test]
    fn the_software_pmu_has_time_and_nothing_else() {
        let supported: Vec<_> = Model::Software.supported().collect();
        assert_eq!(
            supported,
            [
                EventCode::CYCLES,
                EventCode::ELAPSED_NS,
                EventCode::TIMESTAMP_TICKS
            ]
        );
        assert_eq!(Model::Software.placement(EventCode(8)), None);
    }
}
