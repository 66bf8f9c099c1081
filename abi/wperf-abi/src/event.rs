//! What can be counted, and in which processor modes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An event, as the hardware numbers it, or one of the named codes below.
///
/// - Arm: the 16-bit event number of `PMEVTYPER<n>_EL0.evtCount`.
/// - x86: the programmable part of `IA32_PERFEVTSELx`: event select in bits 7:0, unit mask in
///   15:8, edge detect in 18, invert in 23, counter mask in 31:24; all other bits zero.
/// - DSU and CoreSight PMU: the event number of their event type registers, 16 bits.
/// - DMC-620: the event number of the halved clock, 0 to 0x1F; bit 8 is set for those of the full clock.
/// - Named codes have bit 16 set, which no hardware code may have.
///
/// Source: Arm ARM DDI 0487 D24.5; Intel SDM vol. 3 §20.2.1.1.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Default,
)]
#[repr(transparent)]
pub struct EventCode(pub u32);

impl EventCode {
    /// Core clock cycles, on the fixed cycle counter where there is one.
    pub const CYCLES: Self = Self(0xFFFF_FFFF);
    /// Time. Units: ns. Software PMU only.
    pub const ELAPSED_NS: Self = Self(0x0001_0000);
    /// Ticks of the processor's constant-rate counter (TSC, CNTVCT). Software PMU only.
    pub const TIMESTAMP_TICKS: Self = Self(0x0001_0001);

    /// Bit of a DMC-620 event that is of the full clock.
    pub const DMC_CLK: u32 = 1 << 8;

    const NAMED: u32 = 1 << 16;
    const X86_PROGRAMMABLE: u32 = 0xFF84_FFFF;

    /// Whether this is one of the named codes of the contract rather than a hardware number.
    #[must_use]
    pub const fn is_named(self) -> bool {
        self.0 & Self::NAMED != 0
    }

    /// Whether an Arm PMUv3 can be asked for this code.
    #[must_use]
    pub const fn is_arm_raw(self) -> bool {
        self.0 <= 0xFFFF
    }

    /// Whether an x86 event select register can hold this code.
    #[must_use]
    pub const fn is_x86_raw(self) -> bool {
        self.0 & !Self::X86_PROGRAMMABLE == 0
    }
}

/// In which processor modes an event is *not* counted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Default,
)]
#[repr(transparent)]
pub struct EventFilter(pub u16);

impl EventFilter {
    /// Count everywhere.
    pub const NONE: Self = Self(0);
    /// Do not count in user mode (EL0, ring 3).
    pub const EXCLUDE_USER: Self = Self(1);
    /// Do not count in the kernel (EL1, ring 0).
    pub const EXCLUDE_KERNEL: Self = Self(2);

    /// Whether user mode is counted.
    #[must_use]
    pub const fn counts_user(self) -> bool {
        self.0 & Self::EXCLUDE_USER.0 == 0
    }

    /// Whether the kernel is counted.
    #[must_use]
    pub const fn counts_kernel(self) -> bool {
        self.0 & Self::EXCLUDE_KERNEL.0 == 0
    }

    /// Known bits only, and not both: an event that counts nowhere is a mistake.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 < 3
    }
}
