//! Groups of events onto counters.
//!
//! ```text
//!            fixed 0   fixed 1   general 0   general 1
//!  window 0  INST      CYCLES    a           b          {a,b}
//!  window 1  INST      CYCLES    c           d          c, d
//!            └─ always ───────┘
//! ```
//! A group whose events all have fixed counters of their own counts always. Every other group goes
//! into the first window with room for all of it; it is never split.

use crate::{Model, Slot, SlotSet};
use wperf_abi::record::{AssignEvent, count_flags};
use wperf_abi::{EventCode, EventFilter, Refusal};

/// Counters that may be used on a core; what is missing somebody else holds.
pub type Free = SlotSet;

/// Where and when an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Never: the core has no counter left.
    Nowhere,
    /// In every window.
    Always(Slot),
    /// In one window.
    Window(u16, Slot),
}

/// An event with its place and its totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// What.
    pub code: EventCode,
    /// In which modes not.
    pub filter: EventFilter,
    /// Group, as assigned.
    pub group: u16,
    /// Where and when.
    pub place: Place,
    /// What is special about its kind of counter.
    pub(crate) flags: u16,
    pub(crate) last: u64,
    pub(crate) value: u64,
    pub(crate) running_ns: u64,
}

impl ScheduledEvent {
    /// For storage that is about to be filled.
    pub const UNUSED: Self = Self {
        code: EventCode(0),
        filter: EventFilter::NONE,
        group: 0,
        place: Place::Nowhere,
        flags: 0,
        last: 0,
        value: 0,
        running_ns: 0,
    };

    /// The counter it occupies while `window` counts.
    #[must_use]
    pub fn slot_in(&self, window: u16) -> Option<Slot> {
        match self.place {
            Place::Always(slot) => Some(slot),
            Place::Window(own, slot) if own == window => Some(slot),
            Place::Window(..) | Place::Nowhere => None,
        }
    }
}

/// The shape of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Windows that take turns, at least 1.
    pub windows: u16,
}

/// Why events cannot be scheduled on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// The core does not have the event.
    Unsupported(EventCode),
    /// The group needs more counters at once than are free.
    GroupTooLarge {
        /// Number of the group.
        group: u16,
    },
    /// What counts the event cannot interrupt.
    NoInterrupt,
    /// The storage does not have one place per event.
    Storage,
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Unsupported(_) => Self::UnsupportedEvent,
            ScheduleError::GroupTooLarge { .. } => Self::GroupTooLarge,
            ScheduleError::NoInterrupt => Self::NoInterrupt,
            ScheduleError::Storage => Self::NoMemory,
        }
    }
}

/// Schedules `events` (groups contiguous) on a core, into storage with one place per event.
///
/// With no general-purpose counter free at all, events without a fixed counter get
/// [`Place::Nowhere`]: the others are still worth having.
///
/// Errors: [`ScheduleError`]; the storage is then of no use.
pub fn schedule(
    model: &Model,
    free: Free,
    events: impl Iterator<Item = AssignEvent>,
    storage: &mut [ScheduledEvent],
) -> Result<Schedule, ScheduleError> {
    fill(model, events, storage)?;
    let mut left = free;
    place_fixed(model, &mut left, storage);
    let windows = place_in_windows(model, left, storage)?;
    Ok(Schedule { windows })
}

fn fill(
    model: &Model,
    events: impl Iterator<Item = AssignEvent>,
    storage: &mut [ScheduledEvent],
) -> Result<(), ScheduleError> {
    let mut places = storage.iter_mut();
    for event in events {
        let place = places.next().ok_or(ScheduleError::Storage)?;
        let AssignEvent {
            code,
            filter,
            group,
        } = event;
        let placement = model
            .placement(code)
            .ok_or(ScheduleError::Unsupported(code))?;
        let time_based = if placement.shared {
            count_flags::TIME_BASED
        } else {
            0
        };
        let is_ignored = filter != EventFilter::NONE && !model.can_filter();
        let flags = time_based
            | if is_ignored {
                count_flags::UNFILTERED
            } else {
                0
            };
        *place = ScheduledEvent {
            code,
            filter,
            group,
            flags,
            ..ScheduledEvent::UNUSED
        };
    }
    places
        .next()
        .map_or(Ok(()), |_| Err(ScheduleError::Storage))
}

fn groups(events: &mut [ScheduledEvent]) -> impl Iterator<Item = &mut [ScheduledEvent]> {
    events.chunk_by_mut(|a, b| a.group == b.group)
}

/// Gives fixed counters to the groups that need nothing else.
fn place_fixed(model: &Model, left: &mut SlotSet, events: &mut [ScheduledEvent]) {
    for group in groups(events) {
        let mut after = *left;
        let all_fixed = group
            .iter()
            .all(|event| take_fixed(model, &mut after, event).is_some());
        if all_fixed {
            for event in group {
                event.place = take_fixed(model, left, event).map_or(Place::Nowhere, Place::Always);
            }
        }
    }
}

fn take_fixed(model: &Model, left: &mut SlotSet, event: &ScheduledEvent) -> Option<Slot> {
    let placement = model.placement(event.code)?;
    let slot = Slot::Fixed(placement.fixed?);
    if !left.contains(slot) {
        return None;
    }
    if !placement.shared {
        left.remove(slot);
    }
    Some(slot)
}

fn take(model: &Model, left: &mut SlotSet, event: &ScheduledEvent) -> Option<Slot> {
    take_fixed(model, left, event).or_else(|| {
        let slot = left.first_general().filter(|_| {
            model
                .placement(event.code)
                .is_some_and(|placement| placement.general)
        })?;
        left.remove(slot);
        Some(slot)
    })
}

/// First fit, without remembering the windows: what a window has left follows from what is in it.
fn place_in_windows(
    model: &Model,
    left: SlotSet,
    events: &mut [ScheduledEvent],
) -> Result<u16, ScheduleError> {
    let mut windows = 1;
    let mut start = 0;
    while let Some(first) = events.get(start).copied() {
        let length = events
            .iter()
            .skip(start)
            .take_while(|e| e.group == first.group)
            .count();
        let (placed, rest) = events.split_at_mut(start);
        let group = rest.get_mut(..length).unwrap_or_default();
        if first.place == Place::Nowhere {
            windows = windows.max(place_group(model, left, placed, group, windows)?);
        }
        start += length.max(1);
    }
    Ok(windows)
}

/// Places one group; answers with the number of windows there are then.
fn place_group(
    model: &Model,
    left: SlotSet,
    placed: &[ScheduledEvent],
    group: &mut [ScheduledEvent],
    windows: u16,
) -> Result<u16, ScheduleError> {
    let room_in = |window| {
        let mut room = left;
        placed
            .iter()
            .filter_map(|event| event.slot_in(window))
            .for_each(|slot| room.remove(slot));
        room
    };
    if left.general == 0 {
        let mut room = room_in(0);
        for event in group {
            let slot = take_fixed(model, &mut room, event);
            event.place = slot.map_or(Place::Nowhere, |slot| Place::Window(0, slot));
        }
        return Ok(windows);
    }
    for window in 0..=windows {
        let mut room = room_in(window);
        let mut after = room;
        if group
            .iter()
            .all(|event| take(model, &mut after, event).is_some())
        {
            for event in group {
                let slot = take(model, &mut room, event);
                event.place = slot.map_or(Place::Nowhere, |slot| Place::Window(window, slot));
            }
            return Ok(window + 1);
        }
    }
    let group = group.first().map_or(0, |event| event.group);
    Err(ScheduleError::GroupTooLarge { group })
}

#[cfg(test)]
mod tests;
