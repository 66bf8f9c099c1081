//! A counter that counts by the machine's time while it runs.

/// What an event comes to by a time, from time zero. Units: ns.
pub(super) type Total = dyn Fn(u64) -> u64;

/// A counter of some width.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// Value when it was last set or stopped.
    value: u64,
    /// Since when it runs. Units: ns.
    since_ns: Option<u64>,
    /// Whether it went past its end since that was last cleared.
    pub(super) overflowed: bool,
}

impl Counter {
    /// Standing still, at what it happened to have when the power came on.
    pub(super) const fn new(value: u64) -> Self {
        Self {
            value,
            since_ns: None,
            overflowed: false,
        }
    }

    /// Runs or stands still from now on.
    pub(super) fn run(&mut self, runs: bool, now_ns: u64, mask: u64, total: &Total) {
        if runs == self.since_ns.is_some() {
            return;
        }
        self.settle(now_ns, mask, total);
        self.since_ns = runs.then_some(now_ns);
    }

    /// Takes what was counted so far into the value.
    pub(super) fn settle(&mut self, now_ns: u64, mask: u64, total: &Total) {
        let Some(since_ns) = self.since_ns else {
            return;
        };
        let counted = total(now_ns) - total(since_ns);
        self.overflowed |= u128::from(self.value) + u128::from(counted) > u128::from(mask);
        self.value = self.value.wrapping_add(counted) & mask;
        self.since_ns = Some(now_ns);
    }

    /// The value, as of when it was last settled.
    pub(super) const fn value(&self) -> u64 {
        self.value
    }

    /// Another value from now on.
    pub(super) fn set(&mut self, value: u64, now_ns: u64) {
        self.value = value;
        self.since_ns = self.since_ns.map(|_| now_ns);
    }
}

/// `rate` thousandths of an event per nanosecond.
pub(super) fn at_rate(rate: u64, now_ns: u64) -> u64 {
    u64::try_from(u128::from(now_ns) * u128::from(rate) / 1000).unwrap_or(u64::MAX)
}
