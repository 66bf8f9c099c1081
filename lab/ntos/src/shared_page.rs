//! KUSER_SHARED_DATA: the page that drivers read times and versions from.
//!
//! On Windows it is at 0xFFFFF780_00000000, which no Linux process can map;
//! the loader rewrites references to this page of ours.

use std::sync::OnceLock;

use crate::{guest, memory};

const LEN: usize = 4096;
/// Offsets in the page (ntddk.h, `KUSER_SHARED_DATA`).
const INTERRUPT_TIME: u64 = 0x08;
const SYSTEM_TIME: u64 = 0x14;
const NT_BUILD_NUMBER: u64 = 0x260;
const NT_PRODUCT_TYPE: u64 = 0x264;
const NT_MAJOR_VERSION: u64 = 0x26C;
const NT_MINOR_VERSION: u64 = 0x270;
const TICK_COUNT: u64 = 0x320;
const ACTIVE_PROCESSOR_COUNT: u64 = 0x3C0;

/// The version of Windows that the lab says it is: 11, 24H2.
pub const BUILD: u32 = 26100;

/// Address of the page; one per process, its times those of the machine that ran last.
pub(crate) fn address() -> u64 {
    static PAGE: OnceLock<u64> = OnceLock::new();
    *PAGE.get_or_init(|| {
        let Ok(page) = memory::map(LEN, memory::READ_WRITE) else {
            panic!("cannot map a page")
        };
        let page = page as u64;
        guest::write((page + NT_BUILD_NUMBER) as *mut u32, BUILD);
        guest::write((page + NT_PRODUCT_TYPE) as *mut u32, 1);
        guest::write((page + NT_MAJOR_VERSION) as *mut u32, 10);
        guest::write((page + NT_MINOR_VERSION) as *mut u32, 0);
        page
    })
}

/// Sets the times: nanoseconds since boot, wall time in FILETIME units.
pub(crate) fn set_times(now_ns: u64, filetime: u64, cpus: usize) {
    let page = address();
    for (offset, time) in [(INTERRUPT_TIME, now_ns / 100), (SYSTEM_TIME, filetime)] {
        // KSYSTEM_TIME: low, high, and high again for readers to compare.
        guest::write((page + offset) as *mut u64, time);
        guest::write(
            (page + offset + 8) as *mut u32,
            u32::try_from(time >> 32).unwrap_or(0),
        );
    }
    guest::write((page + TICK_COUNT) as *mut u64, now_ns / 15_625_000);
    guest::write(
        (page + ACTIVE_PROCESSOR_COUNT) as *mut u32,
        u32::try_from(cpus).unwrap_or(u32::MAX),
    );
}
