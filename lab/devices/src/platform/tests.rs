//! The devices, accessed as their manuals say.

use super::*;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

fn one(kind: Kind) -> Platform {
    Platform::new(Devices::NONE.with(kind))
}

struct Registers<'a>(&'a Platform, usize);

impl Registers<'_> {
    fn spot(&self, offset: u64) -> Spot {
        let page = &self.0.devices()[0].pages[self.1];
        self.0.at(page.start + offset).expect("a device is there")
    }

    fn read(&self, offset: u64, now: u64) -> u64 {
        self.0.read(self.spot(offset), 4, now).expect("a register")
    }

    fn write(&self, offset: u64, value: u64, now: u64) {
        let written = self.0.write(self.spot(offset), 4, value, now);
        written.expect("a register");
    }

    fn wrong(&self, offset: u64, bytes: u8) -> Option<Wrong> {
        self.0.read(self.spot(offset), bytes, 0).err()
    }
}

#[test]
fn a_controller_counts_by_its_clock_across_the_end_of_a_counter() {
    let platform = one(Kind::Dmc620);
    let registers = Registers(&platform, 0);
    let counter = |n: u64| 0x10 + 0x28 * n;
    for n in [3, 8] {
        for part in [0, 4, 8, 0xC] {
            registers.write(counter(n) + part, 0, 0);
        }
    }
    let base = [3, 8].map(|n| registers.read(counter(n) + 0x20, 0));
    registers.write(counter(3) + 0x10, 0x12 << 2 | 1, 0);
    registers.write(counter(8) + 0x10, 1, 0);
    let after = [3, 8].map(|n| registers.read(counter(n) + 0x20, 10 * MS));
    let right = [
        Dmc620::total(0, false, 0x12, 10 * MS),
        Dmc620::total(0, true, 0, 10 * MS),
    ];
    assert_eq!(right, [3_600_000, 16_000_000]);
    for ((after, base), right) in after.into_iter().zip(base).zip(right) {
        assert_eq!(after, (base + right) & 0xFFFF_FFFF);
    }
    assert_eq!(
        (registers.read(8, 10 * MS), registers.read(0xC, 10 * MS)),
        (8, 1)
    );
    registers.write(8, 0, 10 * MS);
    assert_eq!(registers.read(8, 10 * MS), 0);
    registers.write(counter(3) + 0x10, 0x12 << 2, 10 * MS);
    let stopped = registers.read(counter(3) + 0x20, 20 * MS);
    assert_eq!(stopped, after[0], "it stands still");
}

#[test]
fn what_is_no_register_of_a_controller_is_told_so() {
    let platform = one(Kind::Dmc620);
    let registers = Registers(&platform, 0);
    assert_eq!(registers.wrong(0, 4), Some(Wrong::WriteOnly));
    assert_eq!(registers.wrong(0x10 + 0x14, 4), Some(Wrong::Offset));
    assert_eq!(registers.wrong(0x10 + 10 * 0x28, 4), Some(Wrong::Offset));
    assert_eq!(registers.wrong(0x30, 8), Some(Wrong::Width));
    assert_eq!(registers.wrong(0x31, 4), Some(Wrong::Width));
    assert_eq!(registers.wrong(0x30, 1), Some(Wrong::Width));
    assert_eq!(registers.wrong(0x30, 4), None);
}

#[test]
fn a_filter_that_nobody_cleared_lets_nothing_through() {
    for kind in [Kind::CsPmu, Kind::CsPmu64] {
        let platform = one(kind);
        let registers = Registers(&platform, 0);
        let counters = Registers(&platform, usize::from(kind == Kind::CsPmu64));
        let base = counters.read(0, 0);
        registers.write(0x400, 9, 0);
        registers.write(0xC00, 1, 0);
        registers.write(0xE04, 1, 0);
        assert_eq!(counters.read(0, MS), base);
        registers.write(0xA00, 0, MS);
        let right = CoreSight::total(0, Some(9), MS);
        assert_eq!(right, 10_000);
        let moved = counters.read(0, 2 * MS).wrapping_sub(base) & 0xFFFF_FFFF;
        assert_eq!(moved, right);
        registers.write(0xE04, 0, 2 * MS);
        assert_eq!(counters.read(0, 3 * MS), counters.read(0, 2 * MS));
        assert_eq!(counters.read(0xC80, 3 * MS) & 1, 1, "it went past its end");
    }
}

#[test]
fn a_wide_pmu_has_its_counters_in_the_second_page_and_a_cycle_counter() {
    let platform = one(Kind::CsPmu64);
    let (first, second) = (Registers(&platform, 0), Registers(&platform, 1));
    assert_eq!(first.read(0xE00, 0), 4 | 63 << 8 | 1 << 14);
    assert_eq!(first.wrong(0, 4), Some(Wrong::Offset));
    assert_eq!(second.wrong(0xE00, 4), Some(Wrong::Offset));
    assert_eq!(
        second.wrong(4 * 8, 4),
        Some(Wrong::Offset),
        "a fifth counter"
    );
    let read = |now| second.read(31 * 8, now) | second.read(31 * 8 + 4, now) << 32;
    let base = read(0);
    first.write(0x47C, 0, 0);
    first.write(0xC00, 1 << 31, 0);
    first.write(0xE04, 1, 0);
    assert_eq!(read(5 * MS).wrapping_sub(base), 10_000_000);
    first.write(0xE04, 0b100, 5 * MS);
    assert_eq!(read(6 * MS), 0, "reset, and standing still");
}

#[test]
fn devices_lie_apart_and_are_described_one_by_one() {
    let kinds = [Kind::CsPmu, Kind::Dmc620, Kind::CsPmu64, Kind::Dmc620];
    let platform = Platform::new(kinds.into_iter().collect());
    let names: Vec<_> = platform
        .devices()
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    assert_eq!(names, ["dmc620-0", "dmc620-1", "cspmu-0", "cspmu64-0"]);
    assert_eq!(platform.boot_resources().count(), 2);
    let table = apmt(&platform).expect("there are PMUs");
    assert_eq!(table.len(), 36 + 2 * 56);
    assert_eq!(
        table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)),
        0
    );
    assert!(apmt(&one(Kind::Dmc620)).is_none());
    let last = platform.devices()[3].pages[1].end;
    assert!(platform.at(last).is_none() && platform.at(0x1000).is_none());
    let many: Devices = std::iter::repeat_n(Kind::CsPmu, 100).collect();
    assert_eq!(many.of(Kind::CsPmu), MOST);
}
