//! A clock that stands still until it is told, and panics when told to go back.

use super::Clock;

#[derive(Debug, Default)]
pub(crate) struct FakeClock {
    now_ns: u64,
}

impl FakeClock {
    pub(crate) fn set(&mut self, now_ns: u64) {
        assert!(now_ns >= self.now_ns, "a monotonic clock does not go back");
        self.now_ns = now_ns;
    }
}

impl Clock for &mut FakeClock {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }
    fn ticks(&mut self) -> u64 {
        self.now_ns * 3
    }
}
