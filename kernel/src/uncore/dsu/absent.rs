//! A processor of another architecture: it has no such registers, so nobody gets to the rest.

use pmu::backend::dsu::DsuRegister;

pub(super) const fn probe() -> Option<(u64, u64)> {
    None
}

pub(super) const fn read(_: DsuRegister) -> u64 {
    0
}

pub(super) const fn write(_: DsuRegister, _: u64) {}

pub(super) const fn synchronize() {}
