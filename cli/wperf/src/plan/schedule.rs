//! In which window of a multiplexed count each event would be, as WindowsPerf's `test` shows it.
//!
//! The driver places groups by itself, and leaves counters empty rather than filling them up; this view is for scripts
//! that look for WindowsPerf's.

use super::{Kind, Plan};

/// What WindowsPerf fills holes with: `INST_SPEC`.
const FILLER: u32 = 0x1B;

/// One counter in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The event's code.
    pub code: u32,
    /// Its note, in parentheses.
    pub note: String,
}

/// The events window after window, each of `counters` slots.
///
/// Without a group or metric, events stay in the order given and nothing is filled up.
#[must_use]
pub fn schedule(plan: &Plan, counters: usize) -> Vec<Slot> {
    let slots = |kind: &Kind| -> Vec<Vec<Slot>> {
        let is_that = |k: &Kind| std::mem::discriminant(k) == std::mem::discriminant(kind);
        plan.groups
            .iter()
            .filter(|group| is_that(&group.kind))
            .map(|group| {
                let note = format!("({})", group.kind.note());
                let slot = |code| Slot {
                    code,
                    note: note.clone(),
                };
                group.events.iter().map(|event| slot(event.code)).collect()
            })
            .collect()
    };
    let loose = slots(&Kind::Loose);
    let mut groups = slots(&Kind::Group(0));
    groups.extend(slots(&Kind::Metric(None, String::new())));
    if groups.is_empty() {
        return loose.into_iter().flatten().collect();
    }
    let mut windows: Vec<Vec<Slot>> = Vec::new();
    for group in groups.into_iter().chain(loose) {
        place(&mut windows, group, counters);
    }
    for window in &mut windows {
        let filler = Slot {
            code: FILLER,
            note: "(p)".to_owned(),
        };
        window.resize(window.len().max(counters), filler);
    }
    windows.into_iter().flatten().collect()
}

/// Into the first window with room, so that holes left behind are used again.
fn place(windows: &mut Vec<Vec<Slot>>, group: Vec<Slot>, counters: usize) {
    let fits = |window: &&mut Vec<Slot>| window.len() + group.len() <= counters;
    match windows.iter_mut().find(fits) {
        Some(window) => window.extend(group),
        None => windows.push(group),
    }
}
