//! Rows of the data files.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::sync::LazyLock;

/// One event of a product.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct EventRow {
    pub(super) product: String,
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) code: u32,
    pub(super) name: String,
    pub(super) architecture_defined: u8,
}

/// One metric of a product.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MetricRow {
    pub(super) product: String,
    pub(super) name: String,
    pub(super) formula: String,
    pub(super) unit: String,
    pub(super) events: String,
}

/// One group of metrics, or of events.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupRow {
    pub(super) product: String,
    kind: String,
    pub(super) group: String,
    members: String,
}

impl GroupRow {
    /// Whether the members are metrics; the tables also sort events by function.
    pub(super) fn is_of_metrics(&self) -> bool {
        self.kind == "metrics"
    }

    /// The members' names.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.members.split_whitespace()
    }
}

/// One product.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProductRow {
    pub(super) product: String,
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) implementer: u32,
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) part_num: u32,
    pub(super) major_revision: u32,
    pub(super) minor_revision: u32,
    pub(super) architecture: String,
}

/// One event of an uncore unit.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct UncoreRow {
    pub(super) class: String,
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) code: u32,
    pub(super) name: String,
}

fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    u32::from_str_radix(digits, 16).map_err(serde::de::Error::custom)
}

static EVENTS: LazyLock<Vec<EventRow>> = LazyLock::new(|| {
    rows(&[
        include_str!("../../data/events.csv"),
        include_str!("../../data/arm-events.csv"),
        include_str!("../../data/x86-events.csv"),
        include_str!("../../data/software-events.csv"),
        include_str!("../../data/lab-events.csv"),
    ])
});

static METRICS: LazyLock<Vec<MetricRow>> = LazyLock::new(|| {
    rows(&[
        include_str!("../../data/metrics.csv"),
        include_str!("../../data/x86-metrics.csv"),
        include_str!("../../data/builtin-metrics.csv"),
    ])
});

static GROUPS: LazyLock<Vec<GroupRow>> = LazyLock::new(|| {
    rows(&[
        include_str!("../../data/groups.csv"),
        include_str!("../../data/x86-groups.csv"),
    ])
});

static PRODUCTS: LazyLock<Vec<ProductRow>> =
    LazyLock::new(|| rows(&[include_str!("../../data/products.csv")]));

/// The rows of built-in files. They are part of the program, and a test reads all of them, so a row that does not
/// parse is a defect of the program.
fn rows<T: DeserializeOwned>(files: &[&str]) -> Vec<T> {
    files
        .iter()
        .flat_map(|file| csv::Reader::from_reader(file.as_bytes()).into_deserialize())
        .collect::<Result<_, _>>()
        .expect("the data files are well-formed")
}

static UNCORE: LazyLock<Vec<UncoreRow>> =
    LazyLock::new(|| rows(&[include_str!("../../data/uncore-events.csv")]));

pub(super) fn uncore() -> &'static [UncoreRow] {
    &UNCORE
}

pub(super) fn events() -> &'static [EventRow] {
    &EVENTS
}

pub(super) fn metrics() -> &'static [MetricRow] {
    &METRICS
}

pub(super) fn groups() -> &'static [GroupRow] {
    &GROUPS
}

pub(super) fn products() -> &'static [ProductRow] {
    &PRODUCTS
}
