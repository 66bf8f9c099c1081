//! What the fake driver answers to queries.

use super::{Answer, Machine, RUN_NS, SINCE};
use std::{thread, time::Duration};
use wperf_abi::{
    ABI_MAJOR, ABI_MINOR, CoreSet, Refusal, State,
    record::{
        ConfigHeader, CoreConfig, CoreOwnership, EventCount, EventsHeader, OwnershipHeader,
        PmuKind, ReadHeader, RoutineTimes, SampleAssignReply, SampleCore, SampleReadHeader,
        SampleWaitReply, UnitConfig, UnitsHeader, Version, WaitOutcome, count_flags,
    },
    request::Sampling,
};
use zerocopy::IntoBytes;

/// Two DPCs, of 300 and 500 ns.
pub(super) fn dpc_times(core: u32) -> RoutineTimes {
    let mut ranges = [0; wperf_abi::DURATION_RANGES];
    ranges[8] = 2;
    RoutineTimes {
        core,
        reserved: 0,
        count: 2,
        total_ns: 800,
        longest_ns: 500,
        ranges,
    }
}

/// Waits a little, as if nothing had come.
pub(super) fn waited(timeout_ms: u32) -> Vec<u8> {
    thread::sleep(Duration::from_millis(timeout_ms.min(2).into()));
    let reply = SampleWaitReply {
        outcome: WaitOutcome::TIME_UP,
        core: 0,
    };
    reply.as_bytes().to_vec()
}

impl Machine {
    pub(super) fn sample_assign(&mut self, sampling: Sampling<'_>) -> Answer {
        let codes: Vec<_> = sampling.sources().map(|source| source.code).collect();
        if codes.iter().any(|code| code.0 == 0xDEAD) {
            return Err(Refusal::UnsupportedEvent);
        }
        let general = codes.iter().filter(|code| !self.is_fixed(**code)).count();
        if general > usize::from(self.counters) {
            return Err(Refusal::GroupTooLarge);
        }
        for core in sampling.cores.iter() {
            self.cores[core as usize].state = State::Armed;
        }
        let reply = SampleAssignReply {
            ring_samples: sampling.ring_samples,
            reserved: 0,
        };
        Ok(reply.as_bytes().to_vec())
    }

    /// All samples of the cores at the first read after the start.
    pub(super) fn sample_read(&mut self, set: CoreSet<'_>) -> Vec<u8> {
        let mut numbers = Vec::new();
        let mut samples = Vec::new();
        for index in set.iter() {
            let core = &mut self.cores[index as usize];
            let own = self.samples.iter().filter(|sample| sample.core == index);
            let own: Vec<_> = own.copied().collect();
            let count = u64::try_from(own.len()).unwrap();
            if core.delivered == 0 {
                samples.extend(own);
            }
            core.delivered = count;
            numbers.push(SampleCore {
                core: index,
                state: core.state as u32,
                generation: core.generation,
                generated: count + self.lost,
                delivered: count,
                waiting: 0,
                lost: self.lost,
                late: 0,
            });
        }
        let head = SampleReadHeader {
            core_count: u32::try_from(numbers.len()).unwrap(),
            sample_count: u32::try_from(samples.len()).unwrap(),
            flags: 0,
            reserved: 0,
        };
        [head.as_bytes(), numbers.as_bytes(), samples.as_bytes()].concat()
    }

    /// Counts are the event's code times a million and the core's number; a multiplexed event ran its share of the time.
    pub(super) fn read(&self, index: u32) -> Vec<u8> {
        let core = &self.cores[index as usize];
        let windows = self.windows(&core.events);
        let head = ReadHeader {
            core: index,
            event_count: u32::try_from(core.events.len()).unwrap(),
            generation: core.generation,
            state: core.state as u32,
            windows,
            enabled_ns: core.ran_ns,
            rotations: u64::from(windows > 1) * 10,
        };
        let mut bytes = head.as_bytes().to_vec();
        for event in &core.events {
            let is_fixed = self.is_fixed(event.code);
            let share = if is_fixed { 1 } else { u64::from(windows) };
            let rate = u64::from(event.code.0 & 0xFFFF) * 1_000_000 + u64::from(index);
            let lost = self.counters == 0 && !is_fixed;
            let flags = if is_fixed { count_flags::FIXED } else { 0 };
            let count = EventCount {
                code: event.code,
                group: event.group,
                flags: if lost { count_flags::NO_COUNTER } else { flags },
                value: if lost {
                    0
                } else {
                    rate * (core.ran_ns / RUN_NS) / share
                },
                enabled_ns: core.ran_ns,
                running_ns: if lost { 0 } else { core.ran_ns / share },
            };
            bytes.extend_from_slice(count.as_bytes());
        }
        bytes
    }

    pub(super) fn config(&self) -> Vec<u8> {
        let count = u32::try_from(self.cores.len()).unwrap();
        let mut vendor = [0; 16];
        let name: &[u8] = if self.kind == PmuKind::ARM_PMUV3 {
            b"0x41"
        } else {
            b"GenuineIntel"
        };
        vendor[..name.len()].copy_from_slice(name);
        let head = ConfigHeader {
            core_count: count,
            core_bytes: u32::try_from(size_of::<CoreConfig>()).unwrap(),
            period_min_ms: 10,
            period_max_ms: 100,
            period_default_ms: 100,
            flags: 0,
            vendor,
            hypervisor: [0; 12],
            reserved: 0,
        };
        let mut bytes = head.as_bytes().to_vec();
        for core in 0..count {
            let config = CoreConfig {
                core,
                pmu: self.kind,
                group: 0,
                number: u16::try_from(core).unwrap(),
                counters_total: self.counters.max(6),
                counters_free: self.counters,
                fixed_counters: 1,
                counter_bits: 32,
                fixed_bits: 64,
                pmu_version: 4,
                counter_map: (1 << self.counters) - 1,
                identification: self.identification,
                features: 0x1000_0000_1030_5408,
            };
            bytes.extend_from_slice(config.as_bytes());
        }
        bytes
    }

    pub(super) fn events(&self, core: u32) -> Vec<u8> {
        let head = EventsHeader {
            core,
            event_count: u32::try_from(self.supported.len()).unwrap(),
        };
        [head.as_bytes(), self.supported.as_bytes()].concat()
    }

    pub(super) fn unit_configs(&self) -> Vec<u8> {
        let head = UnitsHeader {
            unit_count: u32::try_from(self.unit_configs.len()).unwrap(),
            unit_bytes: u32::try_from(size_of::<UnitConfig>()).unwrap(),
        };
        [head.as_bytes(), self.unit_configs.as_bytes()].concat()
    }

    pub(super) fn ownership(&self, session: u64) -> Vec<u8> {
        let head = OwnershipHeader {
            core_count: u32::try_from(self.cores.len()).unwrap(),
            core_bytes: u32::try_from(size_of::<CoreOwnership>()).unwrap(),
        };
        let mut bytes = head.as_bytes().to_vec();
        for (index, core) in (0..).zip(&self.cores) {
            let (holder, pid) = core.holder.unwrap_or_default();
            let record = CoreOwnership {
                core: index,
                holding: core.holding(session),
                pid,
                state: core.state as u32,
                session: holder,
                since: if core.holder.is_some() { SINCE } else { 0 },
            };
            bytes.extend_from_slice(record.as_bytes());
        }
        bytes
    }
}

pub(super) fn version() -> Version {
    let mut build = [0; 32];
    build[..4].copy_from_slice(b"fake");
    Version {
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        driver_major: 0,
        driver_minor: 1,
        driver_patch: 0,
        reserved: [0; 6],
        build,
    }
}
