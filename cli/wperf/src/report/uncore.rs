//! Counts of uncore units: tables and JSON.

use super::stat::approximate;
use super::table::{Cell, Table};
use crate::{
    grammar::events::Class,
    session::Reading,
    uncore::{Unit, UnitEvent, UnitMetric, UnitPlan},
};
use serde_json::{Map, Value, json};
use wperf_abi::{EventCode, record::UnitKind};

/// What units have counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UncoreReport {
    units: Vec<(Unit, Vec<(UnitEvent, u64)>)>,
    metrics: Vec<UnitMetric>,
}

/// Bytes of a cache line, which an access of the L3 cache moves.
const CACHE_LINE: f64 = 64.0;
/// Bytes that an event `rdwr` of a memory controller moves.
const RDWR: f64 = 128.0;

impl UncoreReport {
    /// Puts together what units have counted, in the order of the plan.
    #[must_use]
    pub fn new(plan: &UnitPlan, readings: &[Reading]) -> Self {
        let units = plan.units.iter().zip(readings);
        let units = units.map(|((unit, events), reading)| {
            let counts = reading.events.iter().map(|count| count.value);
            (unit.clone(), events.iter().cloned().zip(counts).collect())
        });
        Self {
            units: units.collect(),
            metrics: plan.metrics.clone(),
        }
    }

    fn of(&self, kind: UnitKind) -> impl Iterator<Item = &(Unit, Vec<(UnitEvent, u64)>)> {
        self.units
            .iter()
            .filter(move |(unit, _)| unit.config.kind == kind)
    }

    /// Sums over the units of a kind, event by event.
    fn overall(&self, kind: UnitKind) -> Vec<(UnitEvent, u64)> {
        let mut sums: Vec<(UnitEvent, u64)> = Vec::new();
        for (_, counts) in self.of(kind) {
            for (position, (event, value)) in counts.iter().enumerate() {
                match sums.get_mut(position) {
                    Some((_, sum)) => *sum = sum.saturating_add(*value),
                    None => sums.push((event.clone(), *value)),
                }
            }
        }
        sums
    }

    fn total(counts: &[(UnitEvent, u64)], name: &str) -> f64 {
        let found = counts.iter().find(|(event, _)| event.name == name);
        found.map_or(0.0, |(_, value)| approximate(*value))
    }

    fn l3_table(&self) -> Table {
        let mut table = Table::new(&["cluster", "cores", "read_bandwidth", "miss_rate"]);
        if !self.metrics.contains(&UnitMetric::L3Cache) {
            return table;
        }
        for (unit, counts) in self.of(UnitKind::DSU) {
            let accesses = Self::total(counts, "l3d_cache");
            let misses = Self::total(counts, "l3d_cache_refill");
            let rate = if accesses > 0.0 {
                misses / accesses * 100.0
            } else {
                0.0
            };
            table.push(vec![
                Cell::text(unit.config.number.to_string()),
                Cell::text(unit.cores_text()),
                Cell::text(format!("{:.2} MB", accesses * CACHE_LINE / 1_048_576.0)),
                Cell::text(format!("{rate:.2}%")),
            ]);
        }
        table
    }

    fn ddr_table(&self) -> Table {
        let mut table = Table::new(&["channel", "rw_bandwidth"]);
        if !self.metrics.contains(&UnitMetric::DdrBandwidth) {
            return table;
        }
        for (unit, counts) in self.of(UnitKind::DMC_620) {
            let megabytes = Self::total(counts, "rdwr") * RDWR / 1e6;
            table.push(vec![
                Cell::text(unit.config.number.to_string()),
                Cell::text(format!("{megabytes:.2} MB")),
            ]);
        }
        table
    }

    fn dmc_table(&self) -> Table {
        let mut table = Table::new(&[
            "pmu id",
            "counter value",
            "event name",
            "event idx",
            "event note",
        ]);
        let mut push = |id: &str, counts: &[(UnitEvent, u64)]| {
            for (event, value) in counts {
                let mut row = vec![Cell::text(id)];
                row.extend(cells(event, *value));
                table.push(row);
            }
        };
        for (unit, counts) in self.of(UnitKind::DMC_620) {
            push(&unit.config.number.to_string(), counts);
        }
        if self.of(UnitKind::DMC_620).count() > 1 {
            push("overall", &self.overall(UnitKind::DMC_620));
        }
        table
    }

    /// As tables, empty if nothing was counted.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for kind in [UnitKind::DSU, UnitKind::CORESIGHT] {
            for (unit, counts) in self.of(kind) {
                text.push_str(&format!(
                    "\nPerformance counter stats for {}, no multiplexing, {}:\n\n{}",
                    match kind {
                        UnitKind::DSU => format!("DSU cluster {}", unit.config.number),
                        _ => unit.name.clone(),
                    },
                    unit.describe(),
                    count_table(counts).to_text()
                ));
            }
        }
        let sections = [
            (
                "Performance counter stats for DDR memory controllers",
                self.dmc_table(),
            ),
            ("L3 cache metrics", self.l3_table()),
            ("DDR metrics", self.ddr_table()),
        ];
        for (title, table) in sections {
            if !table.is_empty() {
                text.push_str(&format!("\n{title}:\n\n{}", table.to_text()));
            }
        }
        text
    }

    /// The keys `dsu` and `dmc` of a document, which are always there, and `cspmu`, which is there if there is one.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let by_number = |kind: UnitKind| {
            let mut units = Map::new();
            for (unit, counts) in self.of(kind) {
                units.insert(
                    unit.config.number.to_string(),
                    json!({ "Performance_counter": count_table(counts).to_json() }),
                );
            }
            units
        };
        let mut dsu = by_number(UnitKind::DSU);
        let unless_empty = |key: &str, table: &Table| match table.is_empty() {
            true => json!({}),
            false => json!({ key: table.to_json() }),
        };
        dsu.insert(
            "l3metric".to_owned(),
            unless_empty("L3_Cache_Metrics", &self.l3_table()),
        );
        let overall = count_table(&self.overall(UnitKind::DSU));
        dsu.insert(
            "overall".to_owned(),
            unless_empty("Systemwide_Overall_Performance_Counters", &overall),
        );
        let dmc = json!({
            "pmu": unless_empty("PMU_Performance_Counters", &self.dmc_table()),
            "ddr": unless_empty("DDR_Metrics", &self.ddr_table()),
        });
        let mut document = Map::new();
        document.insert("dsu".to_owned(), dsu.into());
        document.insert("dmc".to_owned(), dmc);
        let cspmu = by_number(UnitKind::CORESIGHT);
        if !cspmu.is_empty() {
            document.insert("cspmu".to_owned(), cspmu.into());
        }
        document
    }
}

fn cells(event: &UnitEvent, value: u64) -> [Cell; 4] {
    let index = if event.code == EventCode::CYCLES.0 {
        "fixed".to_owned()
    } else {
        format!("{:#x}", event.code)
    };
    // The same name means another event of the other clock.
    let name = match event.class {
        Class::DmcClk => format!("/dmc_clk/{}", event.name),
        _ => event.name.clone(),
    };
    [
        Cell::Count(value),
        Cell::text(name),
        Cell::text(index),
        Cell::text(&event.note),
    ]
}

fn count_table(counts: &[(UnitEvent, u64)]) -> Table {
    let mut table = Table::new(&["counter value", "event name", "event idx", "event note"]);
    for (event, value) in counts {
        table.push(cells(event, *value).to_vec());
    }
    table
}
