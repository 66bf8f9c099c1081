//! The result of one count: tables and JSON.

use super::table::{Cell, Table};
use super::uncore::UncoreReport;
use serde_json::{Map, Value, json};
use std::time::Duration;
use wperf_abi::{
    EventCode,
    record::{EventCount, count_flags},
};

use crate::{plan::Plan, session::Reading};

/// How a count was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether events took turns.
    pub multiplexed: bool,
    /// Whether the kernel was counted.
    pub kernel: bool,
    /// The processor's vendor.
    pub vendor: String,
    /// The processor, as the tables call it.
    pub product: String,
}

/// One event on one core, or on all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    value: u64,
    name: String,
    index: String,
    note: String,
    scaled: u64,
    running_ms: u64,
    enabled_ms: u64,
}

/// The value of a metric on a core.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue {
    /// The core.
    pub core: u32,
    /// The metric.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// The result of one count.
#[derive(Clone, Debug, PartialEq)]
pub struct StatReport {
    setup: Setup,
    cores: Vec<(u32, Vec<Row>)>,
    overall: Vec<Row>,
    metrics: Vec<MetricValue>,
    /// What could not be counted or computed, in sentences.
    pub warnings: Vec<String>,
    elapsed: Duration,
    /// What counting itself took of the cores.
    cost: Option<Duration>,
    /// What was done with units took.
    units_cost: Option<Duration>,
    /// What uncore units have counted.
    pub uncore: UncoreReport,
}

/// A count as if the event had been on a counter all the time: `value × enabled ÷ running`.
#[must_use]
pub fn scaled(count: &EventCount) -> u64 {
    if count.running_ns == 0 {
        return 0;
    }
    let product = u128::from(count.value) * u128::from(count.enabled_ns);
    u64::try_from(product / u128::from(count.running_ns)).unwrap_or(u64::MAX)
}

fn was_counted(count: &EventCount) -> bool {
    count.flags & count_flags::NO_COUNTER == 0
}

impl StatReport {
    /// Puts together what the cores have counted.
    #[must_use]
    pub fn new(setup: Setup, plan: &Plan, readings: &[Reading], elapsed: Duration) -> Self {
        let mut report = Self {
            setup,
            cores: Vec::new(),
            overall: Vec::new(),
            metrics: Vec::new(),
            warnings: Vec::new(),
            elapsed,
            cost: None,
            units_cost: None,
            uncore: UncoreReport::default(),
        };
        for reading in readings {
            report.add_core(plan, reading);
        }
        report.overall = overall(&report.cores);
        report.warn_of_unfiltered(plan, readings);
        report
    }

    /// Counts whose counter cannot tell user mode from the kernel are not what the heading says.
    fn warn_of_unfiltered(&mut self, plan: &Plan, readings: &[Reading]) {
        let mut names: Vec<&str> = readings
            .iter()
            .flat_map(|reading| plan.events().zip(&reading.events))
            .filter(|(_, count)| count.flags & count_flags::UNFILTERED != 0)
            .map(|((_, event), _)| event.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        if !names.is_empty() && !self.setup.kernel {
            self.warnings.push(format!(
                "warning: the kernel's share could not be left out of: {}",
                names.join(", ")
            ));
        }
    }

    /// Says how long the driver's routines kept the cores, all together.
    pub fn took(&mut self, cost: Duration) {
        self.cost = Some(cost);
    }

    /// Says how long the driver was busy with units, all together.
    pub fn units_took(&mut self, cost: Duration) {
        self.units_cost = Some(cost);
    }

    fn add_core(&mut self, plan: &Plan, reading: &Reading) {
        let core = reading.head.core;
        let mut rows = Vec::new();
        let mut lost = Vec::new();
        for ((group, event), count) in plan.events().zip(&reading.events) {
            if was_counted(count) {
                rows.push(row(&event.name, event.code, group.kind.note(), count));
            } else {
                lost.push(event.name.as_str());
            }
        }
        if !lost.is_empty() {
            self.warnings.push(format!(
                "warning: core {core} has no free counter for: {}",
                lost.join(", ")
            ));
        }
        self.cores.push((core, rows));
        for metric in &plan.metrics {
            let first = plan.first_event_of(metric.group);
            let events = &plan.groups[metric.group].events;
            let counts = &reading.events[first..first + events.len()];
            let count_of = |name: &str| {
                let same = |n: &str| {
                    n.replace('-', "_")
                        .eq_ignore_ascii_case(&name.replace('-', "_"))
                };
                let index = events.iter().position(|event| same(&event.name))?;
                let count = &counts[index];
                (was_counted(count) && count.running_ns > 0).then(|| approximate(scaled(count)))
            };
            let Some(formula) = &metric.formula else {
                continue;
            };
            match formula.evaluate(count_of) {
                Ok(value) => self.metrics.push(MetricValue {
                    core,
                    name: metric.name.clone(),
                    value,
                    unit: metric.unit.clone(),
                }),
                Err(error) => self.warnings.push(format!(
                    "warning: metric {} of core {core}: {error}",
                    metric.name
                )),
            }
        }
    }

    /// Rows of each core.
    #[must_use]
    pub fn cores(&self) -> &[(u32, Vec<Row>)] {
        &self.cores
    }

    /// Values of the metrics, core by core.
    #[must_use]
    pub fn metrics(&self) -> &[MetricValue] {
        &self.metrics
    }

    fn row_table(&self, rows: &[Row], columns: Columns) -> Table {
        let multiplexed = self.setup.multiplexed;
        let mut titles = vec!["counter value", "event name", "event idx", "event note"];
        match (multiplexed, columns) {
            (true, Columns::OfCore) => titles.extend(["multiplexed", "scaled value"]),
            (true, Columns::Overall) => titles.push("scaled value"),
            (false, _) => {}
        }
        let mut table = Table::new(&titles);
        for row in rows {
            let mut cells = vec![
                Cell::Count(row.value),
                Cell::text(&row.name),
                Cell::text(&row.index),
                Cell::text(&row.note),
            ];
            if multiplexed && columns == Columns::OfCore {
                cells.push(Cell::text(format!("{}/{}", row.running_ms, row.enabled_ms)));
            }
            if multiplexed {
                cells.push(Cell::Count(row.scaled));
            }
            table.push(cells);
        }
        table
    }

    fn metric_table(&self) -> Table {
        let mut table = Table::new(&["core", "product_name", "metric_name", "value", "unit"]);
        for metric in &self.metrics {
            table.push(vec![
                Cell::text(metric.core.to_string()),
                Cell::text(&self.setup.product),
                Cell::text(&metric.name),
                Cell::text(format!("{:.3}", metric.value)),
                Cell::text(&metric.unit),
            ]);
        }
        table
    }

    /// As tables.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let multiplexed = if self.setup.multiplexed {
            "multiplexed"
        } else {
            "no multiplexing"
        };
        let kernel = if self.setup.kernel {
            "included"
        } else {
            "excluded"
        };
        let vendor = &self.setup.vendor;
        for (core, rows) in &self.cores {
            text.push_str(&format!(
                "\nPerformance counter stats for core {core}, {multiplexed}, kernel mode {kernel}, on {vendor} core implementation:\n\
                 notes: e = event, gN = member of group N; events of a metric carry its name\n\n{}",
                self.row_table(rows, Columns::OfCore).to_text()
            ));
        }
        if self.cores.len() > 1 {
            let table = self.row_table(&self.overall, Columns::Overall);
            text.push_str(&format!("\nSystem-wide Overall:\n\n{}", table.to_text()));
        }
        let metrics = self.metric_table();
        if !metrics.is_empty() {
            text.push_str(&format!(
                "\nTelemetry Solution Metrics:\n\n{}",
                metrics.to_text()
            ));
        }
        text.push_str(&self.uncore.to_text());
        text.push_str(&format!(
            "\n{:>19.3} seconds time elapsed\n",
            self.elapsed.as_secs_f64()
        ));
        if let Some(cost) = self.cost {
            text.push_str(&cost_line(cost, self.elapsed, self.cores.len()));
        }
        if let Some(cost) = self.units_cost {
            let share = share(cost, self.elapsed);
            text.push_str(&format!(
                "{share:>19.4} percent of one processor's time taken by looking at units\n"
            ));
        }
        text
    }

    /// As a document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cores: Vec<Value> = self
            .cores
            .iter()
            .map(|(core, rows)| {
                json!({
                    "core_number": core,
                    "Performance_counter": self.row_table(rows, Columns::OfCore).to_json(),
                })
            })
            .collect();
        let overall = self.row_table(&self.overall, Columns::Overall).to_json();
        let mut core = Map::new();
        core.insert("Multiplexing".into(), self.setup.multiplexed.into());
        core.insert("Kernel_mode".into(), self.setup.kernel.into());
        core.insert("cores".into(), cores.into());
        core.insert(
            "overall".into(),
            json!({ "Systemwide_Overall_Performance_Counters": overall }),
        );
        let metrics = self.metric_table();
        if !metrics.is_empty() {
            core.insert(
                "ts_metric".into(),
                json!({ "Telemetry_Solution_Metrics": metrics.to_json() }),
            );
        }
        let mut document = Map::new();
        document.insert("core".into(), core.into());
        document.extend(self.uncore.to_json());
        document.insert("Time_elapsed".into(), self.elapsed.as_secs_f64().into());
        document.into()
    }
}

/// How much of its cores' time a measurement took itself.
#[must_use]
pub fn cost_line(cost: Duration, elapsed: Duration, cores: usize) -> String {
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let share = share(cost, elapsed.saturating_mul(cores));
    format!("{share:>19.4} percent of the cores' time taken by the driver's own routines\n")
}

/// Percent.
fn share(cost: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    100.0 * cost.as_secs_f64() / whole.as_secs_f64()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    OfCore,
    Overall,
}

impl Row {
    /// The event's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was counted.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// How long the event was on a counter.
    #[must_use]
    pub fn running_ms(&self) -> u64 {
        self.running_ms
    }
}

fn row(name: &str, code: u32, note: String, count: &EventCount) -> Row {
    const NS_PER_MS: u64 = 1_000_000;
    Row {
        value: count.value,
        name: name.to_owned(),
        index: if EventCode(code) == EventCode::CYCLES {
            "fixed".to_owned()
        } else {
            format!("{code:#x}")
        },
        note,
        scaled: scaled(count),
        running_ms: count.running_ns / NS_PER_MS,
        enabled_ms: count.enabled_ns / NS_PER_MS,
    }
}

/// Sums over the cores of each event; a core that could not count it adds nothing.
fn overall(cores: &[(u32, Vec<Row>)]) -> Vec<Row> {
    let mut sums: Vec<Row> = Vec::new();
    for (_, rows) in cores {
        for (position, row) in rows.iter().enumerate() {
            // An event asked for twice has two rows on each core: match them in order.
            let is_same = |other: &Row| (&other.name, &other.note) == (&row.name, &row.note);
            let nth = rows[..position].iter().filter(|r| is_same(r)).count();
            match sums.iter_mut().filter(|sum| is_same(sum)).nth(nth) {
                Some(sum) => {
                    sum.value = sum.value.saturating_add(row.value);
                    sum.scaled = sum.scaled.saturating_add(row.scaled);
                }
                None => sums.push(row.clone()),
            }
        }
    }
    sums
}

/// Counts over 2^53 lose their last digits in a ratio, where these do not matter.
#[expect(
    clippy::cast_precision_loss,
    reason = "a metric is printed with three decimals"
)]
pub(super) fn approximate(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
