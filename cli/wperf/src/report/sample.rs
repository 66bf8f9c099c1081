//! The result of sampling: tables and JSON.

use super::{
    stat::cost_line,
    table::{Cell, Table},
};
use crate::{
    profile::{
        Profile, Source, Symbols,
        annotate::{self, Line, Sources},
        hot::{self, HotFunction, Pattern, percent},
    },
    session::SampleTotals,
};
use serde_json::{Map, Value, json};
use std::{fmt::Write, path::PathBuf, time::Duration};

/// Functions printed of each event unless `--sample-display-row` says otherwise.
pub const DEFAULT_ROWS: usize = 50;

/// How much is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Functions of each event.
    pub rows: usize,
    /// Only these.
    pub symbol: Option<Pattern>,
    /// Their source lines too.
    pub annotate: bool,
    /// The instructions of the lines too.
    pub disassemble: bool,
    /// Addresses and modules too.
    pub verbose: bool,
}

/// The program that was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its executable.
    pub executable: Option<PathBuf>,
    /// The file of its symbols, if there is one.
    pub symbols: Option<PathBuf>,
    /// Where it was in memory; 0 when it was not seen.
    pub base: u64,
    /// How far that is from the address it is linked for.
    pub delta: u64,
}

/// The functions of one event.
#[derive(Clone, Debug)]
struct EventReport {
    source: Source,
    total: u64,
    functions: Vec<HotFunction>,
    annotations: Vec<(String, Vec<Line>)>,
}

/// The result of sampling.
#[derive(Clone, Debug)]
pub struct SampleReport {
    shown: Shown,
    target: Target,
    totals: SampleTotals,
    events: Vec<EventReport>,
    modules: Vec<ModuleReport>,
    time: Time,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// From start to stop.
    pub elapsed: Duration,
    /// What the driver's routines took of the cores, all together.
    pub cost: Duration,
    /// How many cores.
    pub cores: usize,
}

#[derive(Clone, Debug)]
struct ModuleReport {
    name: String,
    path: String,
    base: u64,
    /// Name, address and length of each.
    sections: Option<Vec<(String, u64, u64)>>,
    symbols: String,
}

impl SampleReport {
    /// Puts together what was sampled.
    #[must_use]
    pub fn new(
        profile: &Profile,
        symbols: &mut Symbols,
        shown: Shown,
        target: Target,
        totals: SampleTotals,
        time: Time,
    ) -> Self {
        let mut sources = Sources::default();
        let events = (0..profile.sources.len())
            .map(|source| event(profile, symbols, &mut sources, source, &shown))
            .collect();
        let modules = if shown.verbose {
            modules(profile, symbols)
        } else {
            Vec::new()
        };
        Self {
            shown,
            target,
            totals,
            events,
            modules,
            time,
        }
    }

    /// As tables.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            self.event_text(&mut text, event);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n{:>19} samples generated, {} dropped\n{:>19.3} seconds time elapsed",
            self.totals.generated,
            self.totals.lost,
            self.time.elapsed.as_secs_f64()
        );
        text.push_str(&cost_line(
            self.time.cost,
            self.time.elapsed,
            self.time.cores,
        ));
        text
    }

    fn event_text(&self, text: &mut String, event: &EventReport) {
        const RULE: &str = "========================";
        let rows = self.shown.rows;
        let name = &event.source.name;
        let _ = writeln!(
            text,
            "{RULE} sample source: {name}, top {rows} hot functions {RULE}"
        );
        text.push_str(&event.function_table().to_text());
        let printed: u64 = event.functions.iter().map(|row| row.count).sum();
        let _ = writeln!(
            text,
            "{:>14.2}%  {printed} of {} samples, top {} in total",
            percent(printed, event.total),
            event.total,
            event.functions.len()
        );
        if self.shown.verbose && !event.functions.is_empty() {
            let _ = write!(text, "\n{}", event.address_table().to_text());
        }
        for (symbol, lines) in &event.annotations {
            let table = line_table(lines, self.shown.disassemble);
            let _ = write!(text, "\n{symbol}\n{}", table.to_text());
        }
    }

    /// As a document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
        let mut body = Map::new();
        body.insert(
            "pe_file".into(),
            path(&self.target.executable).unwrap_or_default().into(),
        );
        body.insert(
            "pdb_file".into(),
            path(&self.target.symbols).unwrap_or_default().into(),
        );
        body.insert("sample_display_row".into(), self.shown.rows.into());
        body.insert("samples_generated".into(), self.totals.generated.into());
        body.insert("samples_dropped".into(), self.totals.lost.into());
        body.insert("base_address".into(), self.target.base.into());
        body.insert("runtime_delta".into(), self.target.delta.into());
        if self.shown.verbose {
            let modules: Vec<Value> = self.modules.iter().map(ModuleReport::to_json).collect();
            let details = self.modules.iter().filter_map(ModuleReport::details);
            body.insert("modules".into(), modules.into());
            body.insert("modules_info".into(), details.collect::<Vec<_>>().into());
        }
        let events: Vec<Value> = self.events.iter().map(|e| self.event_json(e)).collect();
        body.insert("events".into(), events.into());
        json!({ "sampling": body })
    }

    fn event_json(&self, event: &EventReport) -> Value {
        let mut body = Map::new();
        body.insert("type".into(), event.source.name.clone().into());
        body.insert("samples".into(), event.function_table().to_json());
        body.insert("interval".into(), event.source.interval.into());
        body.insert("printed_sample_num".into(), event.functions.len().into());
        if self.shown.verbose {
            let pcs: Vec<Value> = event
                .addresses()
                .map(|(address, count, symbol)| {
                    json!({ "address": address, "count": count, "in_symbol": symbol })
                })
                .collect();
            body.insert("pcs".into(), pcs.into());
        }
        let annotations = event.annotations.iter().map(|(symbol, lines)| {
            let lines: Vec<Value> = lines
                .iter()
                .map(|line| line_json(line, self.shown.disassemble))
                .collect();
            json!({ "function_name": symbol, "source_code": lines })
        });
        body.insert("annotate".into(), annotations.collect::<Vec<_>>().into());
        body.into()
    }
}

fn event(
    profile: &Profile,
    symbols: &mut Symbols,
    sources: &mut Sources,
    source: usize,
    shown: &Shown,
) -> EventReport {
    let mut functions = hot::functions(profile, symbols, source);
    let total = functions.iter().map(|row| row.count).sum();
    if let Some(pattern) = &shown.symbol {
        functions.retain(|row| pattern.matches(row));
    }
    functions.truncate(shown.rows);
    let mut annotations = Vec::new();
    for row in functions.iter().filter(|_| shown.annotate) {
        let lines = annotate::function(row, symbols, sources, shown.disassemble);
        if !lines.is_empty() {
            annotations.push((row.symbol(), lines));
        }
    }
    EventReport {
        source: profile.sources[source].clone(),
        total,
        functions,
        annotations,
    }
}

impl EventReport {
    fn function_table(&self) -> Table {
        let mut table = Table::new(&["overhead", "count", "symbol"]).right_aligned(2);
        for row in &self.functions {
            table.push(vec![
                Cell::Share(row.overhead),
                Cell::Count(row.count),
                Cell::text(row.symbol()),
            ]);
        }
        table
    }

    /// Addresses with the samples at each, most first, function after function.
    fn addresses(&self) -> impl Iterator<Item = (u64, u64, String)> {
        self.functions.iter().flat_map(|row| {
            let mut addresses: Vec<(u64, u64)> =
                row.addresses.iter().map(|(a, n)| (*a, *n)).collect();
            addresses.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
            let symbol = row.symbol();
            let named = move |(address, count)| (address, count, symbol.clone());
            addresses.into_iter().map(named)
        })
    }

    fn address_table(&self) -> Table {
        let mut table = Table::new(&["address", "count", "in symbol"]);
        for (address, count, symbol) in self.addresses() {
            table.push(vec![
                Cell::text(format!("{address:#x}")),
                Cell::Count(count),
                Cell::text(symbol),
            ]);
        }
        table
    }
}

/// With the source text, which the document does not have: its form is WindowsPerf's.
fn line_table(lines: &[Line], disassembled: bool) -> Table {
    let titles: &[&str] = if disassembled {
        &[
            "line_number",
            "hits",
            "filename",
            "instruction_address",
            "disassembled_line",
        ]
    } else {
        &["line_number", "hits", "filename", "source"]
    };
    let mut table = Table::new(titles).right_aligned(2);
    for line in lines {
        let source = line.text.as_deref().unwrap_or_default().trim();
        let mut cells = vec![
            Cell::Count(line.number.into()),
            Cell::Count(line.hits),
            Cell::text(&line.file),
        ];
        if !disassembled {
            cells.push(Cell::text(source));
            table.push(cells);
            continue;
        }
        cells.push(Cell::text(format!("{:x}", line.address)));
        cells.push(Cell::text(source));
        table.push(cells);
        for instruction in &line.instructions {
            let text = format!("{:x}    {}", instruction.address, instruction.text);
            let mut cells = vec![Cell::Absent; 4];
            cells.push(Cell::text(text));
            table.push(cells);
        }
    }
    table
}

fn line_json(line: &Line, disassembled: bool) -> Value {
    let mut body = Map::new();
    body.insert("filename".into(), line.file.clone().into());
    body.insert("hits".into(), line.hits.into());
    body.insert("line_number".into(), line.number.into());
    if disassembled {
        let instructions = line.instructions.iter().map(|instruction| {
            json!({ "address": format!("{:x}", instruction.address), "instruction": instruction.text })
        });
        let instructions: Vec<Value> = instructions.collect();
        body.insert(
            "instruction_address".into(),
            format!("{:x}", line.address).into(),
        );
        body.insert(
            "disassembled_line".into(),
            json!({ "disassemble": instructions }),
        );
    }
    body.into()
}

fn modules(profile: &Profile, symbols: &mut Symbols) -> Vec<ModuleReport> {
    let report = |module: &crate::profile::Module| {
        let file = symbols.file(&module.path);
        let sections = file.as_ref().map(|file| {
            let sections = file.image.sections.iter();
            sections
                .map(|s| (s.name.clone(), s.address, s.size))
                .collect()
        });
        let debug_file = file.and_then(|file| file.debug_file.clone());
        ModuleReport {
            name: module.name.clone(),
            path: module.path.display().to_string(),
            base: module.base,
            sections,
            symbols: debug_file.map_or_else(String::new, |path| path.display().to_string()),
        }
    };
    profile.modules.iter().map(report).collect()
}

impl ModuleReport {
    fn to_json(&self) -> Value {
        json!({ "name": self.name, "address": self.base, "path": self.path })
    }

    fn details(&self) -> Option<Value> {
        let sections = self.sections.as_ref()?.iter().map(|(name, address, size)| {
            json!({ "section": name, "offset": address, "virtual_size": size })
        });
        Some(json!({
            "sections": sections.collect::<Vec<_>>(),
            "module": self.name,
            "pe_name": self.path,
            "pdb_file": self.symbols,
        }))
    }
}
