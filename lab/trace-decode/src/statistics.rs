//! How often each site was reached, and how long functions took.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

use trace_format::Form;

use crate::catalogue::Site;
use crate::stream::{Event, Time};
use crate::text::short;

/// Counts of one site.
#[derive(Clone, Debug)]
pub struct Row {
    /// The site.
    pub site: Arc<Site>,
    /// Number of events.
    pub count: u64,
    /// From a function's beginning to this end of it. Units: ticks.
    pub durations: Vec<u64>,
}

/// The beginning of a function, and when it was.
type Begun = (Arc<Site>, u64);

/// Most functions under way that are kept of a processor: more than fit on a kernel's stack.
const MOST_OPEN: usize = 256;

/// Counts of all sites.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    rows: HashMap<u32, Row>,
    /// Functions under way, by processor and lane: their beginnings, with the time.
    open: HashMap<(u32, bool), VecDeque<Begun>>,
    unknown: u64,
}

impl Statistics {
    /// Counts an event; they must come in the order of time.
    pub fn add(&mut self, event: &Event) {
        let Some(site) = &event.site else {
            self.unknown += 1;
            return;
        };
        let row = self.rows.entry(site.id).or_insert_with(|| Row {
            site: Arc::clone(site),
            count: 0,
            durations: Vec::new(),
        });
        row.count += 1;
        let open = self
            .open
            .entry((event.processor, event.at_dispatch))
            .or_default();
        match site.form {
            Form::Message => {}
            Form::Enter => {
                if open.len() == MOST_OPEN {
                    open.pop_front();
                }
                open.push_back((Arc::clone(site), event.ticks));
            }
            Form::Exit | Form::ScopeExit => {
                // What is on top of it has lost its end.
                let begins = |(begun, _): &Begun| begun.function == site.function;
                if let Some(at) = open.iter().rposition(begins) {
                    row.durations.push(event.ticks.saturating_sub(open[at].1));
                    open.truncate(at);
                }
            }
        }
    }

    /// The counts, the most frequent first.
    #[must_use]
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.values().collect();
        rows.sort_by_key(|row| (core::cmp::Reverse(row.count), row.site.id));
        rows
    }

    /// Writes a table.
    ///
    /// # Errors
    /// What `to` says.
    pub fn write(&self, to: &mut impl Write, time: &Time) -> io::Result<()> {
        writeln!(
            to,
            "{:>10} {:>12} {:>12}  site",
            "events", "median ns", "longest ns"
        )?;
        let origin = time.ns(0);
        for row in self.rows() {
            let mut durations = row.durations.clone();
            durations.sort_unstable();
            let ns = |ticks: Option<&u64>| {
                let ns = ticks.and_then(|ticks| Some(time.ns(*ticks)? - origin?));
                ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"))
            };
            let (median, longest) = (ns(durations.get(durations.len() / 2)), ns(durations.last()));
            write!(
                to,
                "{:>10} {median:>12} {longest:>12}  {}",
                row.count,
                short(&row.site.function)
            )?;
            for caller in &row.site.callers {
                write!(to, " < {}", short(caller))?;
            }
            let end = match row.site.form {
                Form::Message => format!(": {}", row.site.text),
                Form::Enter => " begins".to_owned(),
                Form::Exit | Form::ScopeExit => " ends".to_owned(),
            };
            writeln!(to, "{end} ({}:{})", row.site.file, row.site.line)?;
        }
        if self.unknown > 0 {
            writeln!(
                to,
                "{:>10} events that the driver file does not have",
                self.unknown
            )?;
        }
        Ok(())
    }
}
