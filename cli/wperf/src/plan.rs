//! From what was asked for to groups of events that the driver can place.

mod schedule;

pub use schedule::{Slot, schedule};

use crate::{
    catalog::{Catalog, CatalogError, Event, Metric, formula::Formula},
    grammar::events::Item,
};
use std::collections::HashSet;
use wperf_abi::{
    EventCode, EventFilter, MAX_EVENTS,
    record::{AssignEvent, SupportedEvent, count_flags},
};

/// Arm's number of the event that the fixed cycle counter counts (`CPU_CYCLES`).
const ARM_CPU_CYCLES: u32 = 0x11;

/// x86's number of the event that the second fixed counter counts. On Arm the number is of an event (`STALL`) that no
/// fixed counter counts.
const X86_CYCLES: EventCode = EventCode(0x3C);

/// The counters of a core, as far as planning needs to know them.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// General-purpose counters there are; `None`: the PMU is none of hardware, and has no such limit.
    pub total: Option<usize>,
    /// Those free now.
    pub free: usize,
    /// Events that need none of them.
    without: HashSet<EventCode>,
    announced: HashSet<EventCode>,
}

impl Counters {
    /// From what the driver says of the PMU.
    #[must_use]
    pub fn new(total: Option<usize>, free: usize, supported: &[SupportedEvent]) -> Self {
        let apart = u32::from(count_flags::FIXED | count_flags::TIME_BASED);
        let mut without: HashSet<EventCode> = supported
            .iter()
            .filter(|event| event.flags & apart != 0)
            .map(|event| event.code)
            .collect();
        let mut announced: HashSet<EventCode> = supported.iter().map(|e| e.code).collect();
        if without.contains(&X86_CYCLES) {
            // The same counter under the contract's name.
            without.insert(EventCode::CYCLES);
            announced.insert(EventCode::CYCLES);
        }
        Self {
            total,
            free,
            without,
            announced,
        }
    }

    /// The same, with another number of free counters.
    #[must_use]
    pub fn with_free(self, free: usize) -> Self {
        Self { free, ..self }
    }

    /// Whether the PMU has a cycle counter of its own.
    #[must_use]
    pub fn has_cycle_counter(&self) -> bool {
        self.announced.contains(&EventCode::CYCLES)
    }

    /// Whether the PMU names this event among those it has.
    #[must_use]
    pub fn announces(&self, code: EventCode) -> bool {
        self.announced.contains(&code)
    }

    fn needed(&self, events: &[Event]) -> usize {
        self.needed_by(events.iter().map(|event| EventCode(event.code)))
    }

    /// How many general-purpose counters events need, all at the same time.
    #[must_use]
    pub fn needed_by(&self, events: impl Iterator<Item = EventCode>) -> usize {
        events.filter(|code| !self.without.contains(code)).count()
    }
}

/// Why events are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The cycle counter, which is always counted.
    Cycle,
    /// An event on its own.
    Loose,
    /// The user's group of that number.
    Group(usize),
    /// A metric's events; the number is that of its group, if they are several.
    Metric(Option<usize>, String),
}

impl Kind {
    /// The note behind an event in tables.
    #[must_use]
    pub fn note(&self) -> String {
        match self {
            Self::Cycle | Self::Loose => "e".to_owned(),
            Self::Group(number) => format!("g{number}"),
            Self::Metric(Some(number), name) => format!("g{number},{name}"),
            Self::Metric(None, name) => format!("e,{name}"),
        }
    }
}

/// Events that are counted at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Why.
    pub kind: Kind,
    /// Which.
    pub events: Vec<Event>,
}

/// A metric and where its events are.
#[derive(Clone, Debug)]
pub struct PlannedMetric {
    /// Its name.
    pub name: String,
    /// What to compute; `None`: nothing, only the counts are wanted.
    pub formula: Option<Formula>,
    /// Unit of the value.
    pub unit: String,
    /// Index of its group in the plan.
    pub group: usize,
}

/// What to count.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In the order of assignment.
    pub groups: Vec<Group>,
    /// In the order asked for.
    pub metrics: Vec<PlannedMetric>,
}

/// Why nothing can be counted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Neither `-e` nor `-m`.
    #[error("no event specified")]
    NoEvent,
    /// Over the limit of the driver's contract.
    #[error("{0} events are more than the {MAX_EVENTS} that can be counted at once")]
    TooManyEvents(usize),
    /// A group or metric that never fits.
    #[error("{what} needs {needed} counters at the same time, but the PMU has only {total}")]
    MoreThanExist {
        /// Which.
        what: String,
        /// How many counters.
        needed: usize,
        /// How many there are.
        total: usize,
    },
    /// A group or metric that would fit if nobody else had counters.
    #[error(
        "{what} needs {needed} counters at the same time, but only {free} of the PMU's {total} are free now"
    )]
    MoreThanFree {
        /// Which.
        what: String,
        /// How many counters.
        needed: usize,
        /// How many are free.
        free: usize,
        /// How many there are.
        total: usize,
    },
    /// An unknown name.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A metric that cannot be computed.
    #[error("metric {name}: {reason}")]
    Formula {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Plans the count of event lists and metrics.
///
/// Errors: see [`PlanError`]; nothing is dropped to make something fit.
pub fn plan(
    items: &[Item],
    metrics: &[&Metric],
    catalog: &Catalog,
    counters: &Counters,
) -> Result<Plan, PlanError> {
    if items.is_empty() && metrics.is_empty() {
        return Err(PlanError::NoEvent);
    }
    let mut plan = Plan::default();
    if counters.has_cycle_counter() {
        plan.groups.push(cycle_group());
    }
    let mut number = 0..;
    for item in items {
        plan.groups.push(item_group(item, catalog, &mut number)?);
    }
    for metric in metrics {
        plan.add_metric(metric, catalog, counters, &mut number)?;
    }
    plan.check(counters)?;
    Ok(plan)
}

fn cycle_group() -> Group {
    Group {
        kind: Kind::Cycle,
        events: vec![Event {
            name: "cycle".to_owned(),
            code: EventCode::CYCLES.0,
            origin: crate::catalog::Origin::Architecture,
        }],
    }
}

fn item_group(
    item: &Item,
    catalog: &Catalog,
    number: &mut impl Iterator<Item = usize>,
) -> Result<Group, CatalogError> {
    Ok(match item {
        Item::Loose(spec) => Group {
            kind: Kind::Loose,
            events: vec![catalog.resolve(spec)?],
        },
        Item::Group(specs) => Group {
            events: specs
                .iter()
                .map(|spec| catalog.resolve(spec))
                .collect::<Result<_, _>>()?,
            kind: Kind::Group(number.next().unwrap_or_default()),
        },
    })
}

impl Plan {
    fn add_metric(
        &mut self,
        metric: &Metric,
        catalog: &Catalog,
        counters: &Counters,
        number: &mut impl Iterator<Item = usize>,
    ) -> Result<(), PlanError> {
        let mut events = Vec::new();
        for spec in &metric.events {
            let mut event = catalog.resolve(spec)?;
            let is_arm = catalog.product().architecture() == crate::catalog::Architecture::Arm;
            if is_arm && event.code == ARM_CPU_CYCLES && counters.has_cycle_counter() {
                // The cycle counter counts the same, and costs no other counter.
                event.code = EventCode::CYCLES.0;
            }
            events.push(event);
        }
        let formula = metric.formula.as_deref().map(Formula::parse).transpose();
        let formula = formula.map_err(|error| PlanError::Formula {
            name: metric.name.clone(),
            reason: error.to_string(),
        })?;
        let group_number = if events.len() > 1 {
            number.next()
        } else {
            None
        };
        self.metrics.push(PlannedMetric {
            name: metric.name.clone(),
            formula,
            unit: metric.unit.clone(),
            group: self.groups.len(),
        });
        self.groups.push(Group {
            kind: Kind::Metric(group_number, metric.name.clone()),
            events,
        });
        Ok(())
    }

    fn check(&self, counters: &Counters) -> Result<(), PlanError> {
        let count = self.events().count();
        if count > MAX_EVENTS {
            return Err(PlanError::TooManyEvents(count));
        }
        let Some(total) = counters.total else {
            return Ok(());
        };
        for group in self.groups.iter().filter(|group| group.events.len() > 1) {
            let (needed, free) = (counters.needed(&group.events), counters.free);
            let what = || group.describe();
            if needed > total {
                return Err(PlanError::MoreThanExist {
                    what: what(),
                    needed,
                    total,
                });
            }
            if needed > free {
                return Err(PlanError::MoreThanFree {
                    what: what(),
                    needed,
                    free,
                    total,
                });
            }
        }
        Ok(())
    }

    /// All events with their groups, in the order of assignment.
    pub fn events(&self) -> impl Iterator<Item = (&Group, &Event)> {
        self.groups
            .iter()
            .flat_map(|group| group.events.iter().map(move |event| (group, event)))
    }

    /// Index of a group's first event in the order of assignment.
    #[must_use]
    pub fn first_event_of(&self, group: usize) -> usize {
        self.groups[..group].iter().map(|g| g.events.len()).sum()
    }

    /// The events as the driver takes them.
    #[must_use]
    pub fn assignment(&self, filter: EventFilter) -> Vec<AssignEvent> {
        let numbered = (0_u16..).zip(&self.groups);
        numbered
            .flat_map(|(number, group)| {
                group.events.iter().map(move |event| AssignEvent {
                    code: EventCode(event.code),
                    group: number,
                    filter,
                })
            })
            .collect()
    }
}

impl Group {
    fn describe(&self) -> String {
        let names: Vec<&str> = self
            .events
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        match &self.kind {
            Kind::Metric(_, name) => format!("metric {name}"),
            _ => format!("group {{{}}}", names.join(",")),
        }
    }
}

#[cfg(test)]
mod tests;
