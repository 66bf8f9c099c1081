//! The timer queue.

use std::collections::{BTreeMap, HashMap};

use nt::ke::KTIMER;
use nt::status::STATUS_TIMEOUT;

use crate::guest::{get, set};
use crate::machine::Machine;
use crate::sched::ThreadId;

/// Due time (ns since boot) and a number that keeps equal times in order.
pub(crate) type TimerKey = (u64, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimerKind {
    /// A driver's `KTIMER` at this address, set on this processor.
    Kernel { timer: u64, cpu: usize },
    /// The timeout of a thread's wait.
    Wait(ThreadId),
}

#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeMap<TimerKey, TimerKind>,
    /// Key of each queued `KTIMER`.
    kernel: HashMap<u64, TimerKey>,
    next: u64,
}

impl Timers {
    pub(crate) fn add(&mut self, due: u64, kind: TimerKind) -> TimerKey {
        self.next += 1;
        let key = (due, self.next);
        self.queue.insert(key, kind);
        if let TimerKind::Kernel { timer, .. } = kind {
            self.kernel.insert(timer, key);
        }
        key
    }

    pub(crate) fn remove(&mut self, key: TimerKey) {
        if let Some(TimerKind::Kernel { timer, .. }) = self.queue.remove(&key) {
            self.kernel.remove(&timer);
        }
    }

    /// Removes a `KTIMER`; false if it was not queued.
    pub(crate) fn cancel(&mut self, timer: u64) -> bool {
        let Some(key) = self.kernel.remove(&timer) else {
            return false;
        };
        self.queue.remove(&key).is_some()
    }

    fn first(&self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        self.queue.first_key_value().map(|(key, _)| key.0)
    }

    fn pop_due(&mut self, now: u64) -> Option<TimerKind> {
        let (&key, &kind) = self.queue.first_key_value()?;
        if key.0 > now {
            return None;
        }
        self.remove(key);
        Some(kind)
    }

    /// Queued `KTIMER`s inside a range of addresses.
    pub(crate) fn within(&self, range: std::ops::Range<u64>) -> Vec<u64> {
        self.kernel
            .keys()
            .copied()
            .filter(|timer| range.contains(timer))
            .collect()
    }

    /// Every queued `KTIMER`.
    pub(crate) fn set_timers(&self) -> Vec<u64> {
        self.kernel.keys().copied().collect()
    }
}

impl Machine {
    /// When the next timer is due, or a counter overflows (ns since boot).
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        let timer = self.timers.borrow().first();
        match (timer, self.next_overflow()) {
            (Some(timer), Some(overflow)) => Some(timer.min(overflow)),
            (timer, overflow) => timer.or(overflow),
        }
    }

    /// Lets every timer that is due expire, and counters that have overflowed interrupt.
    pub(crate) fn fire_due_timers(&self) {
        self.raise_overflows();
        let timer = self.timers.borrow().first();
        if timer.is_none_or(|due| due > self.clock.now_ns()) {
            return;
        }
        let now = self.clock.now_ns();
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            match due {
                None => return,
                Some(TimerKind::Wait(thread)) => self.wake(thread, STATUS_TIMEOUT),
                Some(TimerKind::Kernel { timer, cpu }) => self.expire(timer, cpu, now),
            }
        }
    }

    fn expire(&self, address: u64, cpu: usize, now: u64) {
        let timer = address as *mut KTIMER;
        let period_ns = u64::from(get!(timer, Period)) * 1_000_000;
        if period_ns != 0 {
            self.timers.borrow_mut().add(
                now + period_ns,
                TimerKind::Kernel {
                    timer: address,
                    cpu,
                },
            );
        }
        self.signal(address, 1);
        let dpc = get!(timer, Dpc);
        if !dpc.is_null() {
            self.queue_dpc(dpc as u64, cpu, 0, 0);
        }
    }

    /// Sets a `KTIMER`; true if it was set already.
    pub(crate) fn set_timer(&self, address: u64, due: i64, period_ms: u32, dpc: u64) -> bool {
        let timer = address as *mut KTIMER;
        let was_set = self.timers.borrow_mut().cancel(address);
        let due_ns = self.due_ns(due);
        set!(timer, Header.SignalState = 0);
        set!(timer, DueTime = due_ns / 100);
        set!(timer, Period = period_ms);
        set!(timer, Dpc = dpc as *mut _);
        let kind = TimerKind::Kernel {
            timer: address,
            cpu: self.current_cpu.get(),
        };
        self.timers.borrow_mut().add(due_ns, kind);
        was_set
    }
}
