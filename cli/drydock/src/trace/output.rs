//! What events become.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use trace_decode::stream::{Batch, Time};
use trace_decode::text::Printer;
use trace_decode::{Filter, Stream, json, perfetto, statistics::Statistics};

/// What events become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
    /// A file for ui.perfetto.dev.
    Perfetto,
    /// Counts of each site, and times of functions.
    Statistics,
    /// Formats for tracefmt and TraceView, of the driver; no events.
    Tmf,
    /// The control GUID of the driver for `tracelog -guid`; no events.
    Guids,
}

/// Where events go.
pub(super) struct Output {
    to: BufWriter<Box<dyn Write>>,
    sink: Sink,
}

enum Sink {
    Text(Printer),
    Json,
    Perfetto(perfetto::Trace),
    Statistics(Statistics),
}

impl Output {
    pub(super) fn open(form: Form, path: Option<&Path>, printer: Printer) -> anyhow::Result<Self> {
        let to: Box<dyn Write> = match path {
            Some(path) => Box::new(
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
            ),
            None => Box::new(std::io::stdout()),
        };
        let sink = match form {
            Form::Text | Form::Tmf | Form::Guids => Sink::Text(printer),
            Form::Json => Sink::Json,
            Form::Perfetto => Sink::Perfetto(perfetto::Trace::default()),
            Form::Statistics => Sink::Statistics(Statistics::default()),
        };
        Ok(Self {
            to: BufWriter::new(to),
            sink,
        })
    }

    /// Takes the events that are wanted, and all losses.
    pub(super) fn batch(
        &mut self,
        batch: &Batch,
        time: &Time,
        filter: &Filter,
    ) -> anyhow::Result<()> {
        for loss in &batch.losses {
            match &mut self.sink {
                Sink::Text(printer) => printer.loss(&mut self.to, loss)?,
                Sink::Json => writeln!(self.to, "{}", json::loss(loss))?,
                Sink::Perfetto(trace) => trace.loss(loss),
                Sink::Statistics(_) => {}
            }
        }
        for event in batch
            .events
            .iter()
            .filter(|event| filter.wants(event, time))
        {
            match &mut self.sink {
                Sink::Text(printer) => printer.event(&mut self.to, event, time)?,
                Sink::Json => writeln!(self.to, "{}", json::event(event, time))?,
                Sink::Perfetto(trace) => trace.event(event, time),
                Sink::Statistics(statistics) => statistics.add(event),
            }
        }
        self.to.flush()?;
        Ok(())
    }

    /// Ends; says what there was.
    pub(super) fn finish(mut self, stream: &Stream<'_>) -> anyhow::Result<()> {
        match self.sink {
            Sink::Perfetto(trace) => self.to.write_all(&trace.into_bytes())?,
            Sink::Statistics(statistics) => statistics.write(&mut self.to, &stream.time())?,
            Sink::Text(_) | Sink::Json => {}
        }
        self.to.flush()?;
        let (decoded, lost) = stream.counts();
        eprintln!("{decoded} slots decoded, {lost} lost");
        Ok(())
    }
}
