//! What a caller of an export must hold to.

use core::ffi::c_void;

/// What a call does besides computing its result. The verifier's rules and
/// the low-resource sweep are driven by these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects(u8);

impl Effects {
    pub const NONE: Self = Self(0);
    /// May fail for want of resources; the sweep makes it fail.
    pub const FAILS: Self = Self(1);
    /// Its result must be given back by a paired call.
    pub const ACQUIRES: Self = Self(2);
    /// Gives back what a paired call acquired.
    pub const RELEASES: Self = Self(4);
    /// May block the calling thread.
    pub const WAITS: Self = Self(8);

    /// Both sets of effects.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every effect of `other` is among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The contract of one export.
#[derive(Debug)]
pub struct Contract {
    pub name: &'static str,
    /// Bit n is set when a call at IRQL n is legal.
    pub irql_mask: u16,
    /// The same in words: `<= DISPATCH_LEVEL`.
    pub irql: &'static str,
    pub effects: Effects,
    /// C variadic: the lab hands its implementation the address of the
    /// argument slots (Win64 home area), which is also a `va_list`.
    pub variadic: bool,
}

impl Contract {
    /// Whether a call at this IRQL keeps the contract.
    #[must_use]
    pub const fn allows(&self, irql: u8) -> bool {
        irql < 16 && self.irql_mask & (1 << irql) != 0
    }
}

/// One filled export: what the lab binds an import to.
#[derive(Clone, Copy)]
pub struct Export {
    pub contract: &'static Contract,
    pub address: *const c_void,
}
