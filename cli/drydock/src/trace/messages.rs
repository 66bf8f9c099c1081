//! Messages of an event trace log, as their formats say.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use trace_decode::etl;
use trace_decode::formats::{self, Formats};
use trace_decode::message::Message;

/// Writes a line for each message of a log, in the order of time, with the prefix of tracefmt.
pub(super) fn show(log: &Path, formats: &Formats, output: Option<&Path>) -> anyhow::Result<()> {
    let place = || log.display().to_string();
    let bytes = std::fs::read(log).with_context(|| format!("cannot read {}", place()))?;
    let records = etl::records(&bytes).with_context(place)?;
    let to: Box<dyn Write> = match output {
        Some(path) => Box::new(
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        ),
        None => Box::new(std::io::stdout()),
    };
    let mut to = BufWriter::new(to);
    let (mut shown, mut unknown) = (0u64, 0u64);
    let messages = records
        .into_iter()
        .filter_map(|record| Some((record.processor, Message::parse(record.bytes)?)));
    let mut messages: Vec<_> = messages.collect();
    // Buffers are of one processor each.
    messages.sort_by_key(|(_, message)| (message.time, message.sequence));
    for (processor, message) in messages {
        let Some(format) = formats.of(&message) else {
            unknown += 1;
            continue;
        };
        let text = formats.show(&message).with_context(place)?;
        let [thread, process] = message.sender.unwrap_or_default();
        writeln!(
            to,
            "[{processor}]{process:04X}.{thread:04X}::{} [{}] {text}",
            formats::time(message.time.unwrap_or(0)),
            format.program,
        )?;
        shown += 1;
    }
    to.flush()?;
    eprintln!("{shown} messages shown, {unknown} without a format");
    Ok(())
}
