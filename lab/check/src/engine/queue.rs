//! Cases that wait, shared by the threads that run them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Task;

/// Cases by scenario; the scenario that has had the least time is next.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<String, VecDeque<Task>>,
    spent: BTreeMap<String, Duration>,
    closed: bool,
    drawn: usize,
}

/// From one point of a sweep to the next: a prime, so that all come.
const STRIDE: usize = 7919;

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, task: Task) {
        let mut state = self.lock();
        let waiting = state.waiting.entry(task.case.scenario.clone()).or_default();
        waiting.push_back(task);
        self.changed.notify_one();
    }

    /// The next case; waits for one, and gives none when there will be no more.
    pub(super) fn take(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.next() {
                return Some(task);
            }
            if state.closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes out everything that waits.
    pub(super) fn drain(&self) -> Vec<Task> {
        let waiting = std::mem::take(&mut self.lock().waiting);
        waiting.into_values().flatten().collect()
    }

    /// Notes time that a scenario has had.
    pub(super) fn spent(&self, scenario: &str, time: Duration) {
        *self.lock().spent.entry(scenario.to_owned()).or_default() += time;
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl State {
    fn next(&mut self) -> Option<Task> {
        let spent = &self.spent;
        let (_, waiting) = self
            .waiting
            .iter_mut()
            .filter(|(_, waiting)| !waiting.is_empty())
            .min_by_key(|(scenario, _)| spent.get(*scenario).copied().unwrap_or_default())?;
        // Of a sweep, any: where there is time for some points only, they are of all requests.
        match waiting.front()?.case.event {
            None => waiting.pop_front(),
            Some(_) => {
                self.drawn = self.drawn.wrapping_add(STRIDE);
                waiting.swap_remove_front(self.drawn % waiting.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn the_scenario_that_had_least_time_is_next_and_the_end_is_the_end() {
        let queue = Queue::default();
        let task = |scenario: &str| Task {
            case: Case::of(scenario),
            confirms: None,
        };
        for scenario in ["slow", "slow", "fast"] {
            queue.put(task(scenario));
        }
        queue.spent("slow", Duration::from_secs(1));
        let next = || queue.take().map(|task| task.case.scenario);
        assert_eq!(next().as_deref(), Some("fast"));
        assert_eq!(next().as_deref(), Some("slow"));
        assert_eq!(queue.drain().len(), 1);
        queue.close();
        assert_eq!(next(), None);
    }
}
