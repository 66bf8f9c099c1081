//! Offsets into the processor control region that driver code reads through
//! `gs` (x86-64) or `x18` (Arm64), or that its inline functions reach.

/// `KPCR.Self` (x86-64).
pub const SELF: usize = 0x18;
/// `KPCR.CurrentPrcb` (x86-64).
pub const CURRENT_PRCB: usize = 0x20;
/// `KPCR.Irql` (x86-64).
pub const IRQL: usize = 0x50;
/// `KPCR.Prcb` (x86-64).
pub const PRCB: usize = 0x180;
/// `KPRCB.LegacyNumber`, seen from the KPCR: what `KeGetCurrentProcessorNumber` reads inline.
pub const PRCB_NUMBER: usize = 0x184;
/// `KPRCB.CurrentThread`, seen from the KPCR: what `KeGetCurrentThread` reads inline.
pub const CURRENT_THREAD: usize = 0x188;
/// `KPRCB.Number`, seen from the KPCR: what `KeGetCurrentProcessorIndex` reads inline.
pub const PRCB_INDEX: usize = 0x1A4;
