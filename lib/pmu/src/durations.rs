//! How long something took, every time: a histogram with ranges that double.

use wperf_abi::DURATION_RANGES;
use wperf_abi::record::RoutineTimes;

/// Durations so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Durations {
    count: u64,
    total_ns: u64,
    longest_ns: u64,
    ranges: [u64; DURATION_RANGES],
}

impl Durations {
    /// None yet.
    pub const NONE: Self = Self {
        count: 0,
        total_ns: 0,
        longest_ns: 0,
        ranges: [0; DURATION_RANGES],
    };

    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
        let range = ns.checked_ilog2().unwrap_or(0) as usize;
        let last = self.ranges.len().saturating_sub(1);
        if let Some(count) = self.ranges.get_mut(range.min(last)) {
            *count += 1;
        }
    }

    /// As the contract carries them.
    #[must_use]
    pub const fn record(&self, core: u32) -> RoutineTimes {
        let Self {
            count,
            total_ns,
            longest_ns,
            ranges,
        } = *self;
        RoutineTimes {
            core,
            reserved: 0,
            count,
            total_ns,
            longest_ns,
            ranges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_range_of_its_power_of_two() {
        let mut durations = Durations::NONE;
        for ns in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            durations.add(ns);
        }
        let record = durations.record(7);
        assert_eq!(
            (record.core, record.count, record.longest_ns),
            (7, 8, u64::MAX)
        );
        assert_eq!(record.total_ns, u64::MAX, "saturates");
        assert_eq!(record.ranges[..3], [2, 2, 1]);
        assert_eq!((record.ranges[9], record.ranges[10]), (1, 1));
        assert_eq!(record.ranges[DURATION_RANGES - 1], 1);
        assert_eq!(record.ranges.iter().sum::<u64>(), record.count);
    }
}
