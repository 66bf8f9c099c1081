//! What can be named: events, metrics and groups of metrics of a product, of its architecture, and the user's own.
//!
//! The tables are the CSV files in `data/`, facts about processors parsed at start. One lookup serves `-e`, `-m`,
//! `list` and `man`: a name that is listed can be counted. Case does not matter, nor does `-` against `_`.

pub mod formula;
mod product;
mod table;
pub mod uncore;

pub use product::{Architecture, Product, ProductError};

use crate::grammar::{
    events::{Class, EventSpec, Selector},
    extra::ExtraEvent,
    metrics::UserMetric,
};
use std::collections::HashMap;
use table::{EventRow, GroupRow, MetricRow};

/// An event that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Lower case, as printed.
    pub name: String,
    /// The code the driver takes.
    pub code: u32,
    /// Where the name comes from.
    pub origin: Origin,
}

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The product's table.
    Product,
    /// The architecture's.
    Architecture,
    /// The host's, which the lab's PMU counts beside the processor's.
    Host,
    /// The user's `-E`.
    Extra,
}

/// A metric: events counted together, and perhaps what to compute from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Lower case, as printed.
    pub name: String,
    /// Names of its events, lower case.
    pub events: Vec<EventSpec>,
    /// Infix, over event names; `None`: only the events are of interest.
    pub formula: Option<String>,
    /// Unit of the value.
    pub unit: String,
}

/// A named set of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricGroup {
    /// As printed.
    pub name: String,
    /// Names of its metrics, lower case.
    pub metrics: Vec<String>,
}

/// A name that is in no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// For `-e`.
    #[error("unknown event name: {0}")]
    UnknownEvent(String),
    /// For `-m`.
    #[error("unknown metric name: {0}")]
    UnknownMetric(String),
    /// A class of which the driver found no device.
    #[error("event '{event}': the driver found no {class} device", class = class.word())]
    NoDevice {
        /// As typed.
        event: String,
        /// Its class.
        class: Class,
    },
}

/// Everything that can be named for one product.
#[derive(Clone, Debug)]
pub struct Catalog {
    product: Product,
    events: Vec<Event>,
    metrics: Vec<Metric>,
    groups: Vec<MetricGroup>,
    by_name: HashMap<String, usize>,
}

impl Catalog {
    /// The catalogue of a product. The user's events and metrics come first, so that they win.
    #[must_use]
    pub fn new(product: &Product, extra: &[ExtraEvent], user: Vec<UserMetric>) -> Self {
        let events = events_of(product, extra);
        let mut by_name = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            by_name.entry(key(&event.name)).or_insert(index);
        }
        Self {
            product: product.clone(),
            metrics: user
                .into_iter()
                .map(user_metric)
                .chain(metrics_of(product))
                .collect(),
            groups: groups_of(product),
            events,
            by_name,
        }
    }

    /// The product it is for.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// All events, the user's first, then by code.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// All metrics.
    #[must_use]
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// All groups of metrics.
    #[must_use]
    pub fn groups(&self) -> &[MetricGroup] {
        &self.groups
    }

    /// The event of that name.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Event> {
        self.by_name
            .get(&key(name))
            .map(|&index| &self.events[index])
    }

    /// The metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        let wanted = key(name);
        self.metrics
            .iter()
            .find(|metric| key(&metric.name) == wanted)
    }

    /// The group of metrics of that name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&MetricGroup> {
        let wanted = key(name);
        self.groups.iter().find(|group| key(&group.name) == wanted)
    }

    /// The name and code of what was typed; a code without a name is called `rHEX`.
    ///
    /// Errors: [`CatalogError::UnknownEvent`]; [`CatalogError::NoDevice`] for a class other than core.
    pub fn resolve(&self, spec: &EventSpec) -> Result<Event, CatalogError> {
        if spec.class != Class::Core {
            return Err(CatalogError::NoDevice {
                event: spec.selector.to_string(),
                class: spec.class,
            });
        }
        match &spec.selector {
            Selector::Name(name) => self
                .event(name)
                .cloned()
                .ok_or_else(|| CatalogError::UnknownEvent(name.clone())),
            Selector::Code(code) => Ok(self.named(*code)),
        }
    }

    /// The metrics of a comma-separated list of metrics and groups, each once.
    ///
    /// Errors: [`CatalogError::UnknownMetric`].
    pub fn expand_metrics(&self, list: &str) -> Result<Vec<&Metric>, CatalogError> {
        let mut found: Vec<&Metric> = Vec::new();
        for name in list.split(',') {
            for metric in self.metric_or_group(name)? {
                if !found.iter().any(|m| m.name == metric.name) {
                    found.push(metric);
                }
            }
        }
        Ok(found)
    }

    fn metric_or_group(&self, name: &str) -> Result<Vec<&Metric>, CatalogError> {
        let unknown = |n: &str| CatalogError::UnknownMetric(n.to_owned());
        match (self.metric(name), self.group(name)) {
            (Some(metric), _) => Ok(vec![metric]),
            (None, Some(group)) => group
                .metrics
                .iter()
                .map(|member| self.metric(member).ok_or_else(|| unknown(member)))
                .collect(),
            (None, None) => Err(unknown(name)),
        }
    }

    fn named(&self, code: u32) -> Event {
        let known = self.events.iter().find(|event| event.code == code);
        known.cloned().unwrap_or_else(|| Event {
            name: format!("r{code:x}"),
            code,
            origin: Origin::Extra,
        })
    }
}

/// How names are compared.
fn key(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn events_of(product: &Product, extra: &[ExtraEvent]) -> Vec<Event> {
    let mut events: Vec<Event> = extra
        .iter()
        .filter(|event| event.class == Class::Core)
        .map(|event| Event {
            name: event.name.clone(),
            code: event.code,
            origin: Origin::Extra,
        })
        .collect();
    let mut add = |rows: Vec<EventRow>, origin| {
        for row in rows {
            let event = Event {
                name: row.name.to_ascii_lowercase(),
                code: row.code,
                origin,
            };
            if !events.iter().any(|known| known.name == event.name) {
                events.push(event);
            }
        }
    };
    add(product.event_rows(), Origin::Product);
    add(product.architecture().event_rows(), Origin::Architecture);
    add(product.host_event_rows(), Origin::Host);
    events
}

fn metrics_of(product: &Product) -> Vec<Metric> {
    product
        .metric_rows()
        .into_iter()
        .map(table_metric)
        .collect()
}

fn groups_of(product: &Product) -> Vec<MetricGroup> {
    product
        .group_rows()
        .into_iter()
        .filter(GroupRow::is_of_metrics)
        .map(|row| MetricGroup {
            metrics: row.members().map(str::to_ascii_lowercase).collect(),
            name: row.group,
        })
        .collect()
}

fn table_metric(row: MetricRow) -> Metric {
    let events = row.events.split_whitespace().map(|name| EventSpec {
        class: Class::Core,
        selector: Selector::Name(name.to_ascii_lowercase()),
    });
    Metric {
        name: row.name.to_ascii_lowercase(),
        events: events.collect(),
        formula: Some(row.formula).filter(|formula| !formula.is_empty()),
        unit: row.unit,
    }
}

fn user_metric(metric: UserMetric) -> Metric {
    Metric {
        name: metric.name,
        events: metric.events,
        formula: None,
        unit: String::new(),
    }
}

#[cfg(test)]
mod tests;
