//! The trace in a crash dump.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use lab_dump::Dump;
use nt::stop::StopCode;
use trace_decode::dump::Origin;
use trace_decode::{Catalogue, DumpTrace, Filter, Stream};

use super::output::Output;

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether a file begins as a dump does.
pub(super) fn is_dump(path: &Path) -> anyhow::Result<bool> {
    let mut beginning = Vec::new();
    let read = open(path)?.take(8).read_to_end(&mut beginning);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(lab_dump::read::is_dump(&beginning))
}

/// Shows the trace of a driver in a dump, and on standard error what the system stopped for.
pub(super) fn decode(
    path: &Path,
    catalogue: &Catalogue,
    filter: &Filter,
    mut output: Output,
) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    let dump = Dump::open(open(path)?).with_context(place)?;
    let trace = DumpTrace::find(&dump, catalogue).with_context(place)?;
    let mut stream = Stream::new(catalogue, trace.header());
    let (batch, missing) = trace.decode(&mut stream).with_context(place)?;
    output.batch(&batch, &stream.time(), filter)?;
    output.finish(&stream)?;
    let header = dump.header();
    let code = header.bug_check_code.get();
    let name = StopCode(code).name().unwrap_or("a code of its own");
    let parameters = header
        .bug_check_parameters
        .map(|parameter| format!("{:#x}", parameter.get()));
    eprintln!("stopped with {code:#x}, {name} ({})", parameters.join(", "));
    if trace.origin() == Origin::Memory {
        eprintln!("found in the dumped memory: the driver added no trace to the dump");
    }
    if missing > 0 {
        eprintln!("{missing} rings are not in the dump");
    }
    Ok(())
}
