//! Sampling on the cores of a session.

use super::Session;
use crate::failure::{Failure, Result};
use std::time::Duration;
use wperf_abi::{
    EventFilter, MAX_SOURCES, Refusal, WAIT_MAX_MS,
    client::{CallError, MAX_SAMPLES_PER_READ},
    record::{Sample, SampleCore, SampleSource, read_flags},
};

use crate::profile::Source;

/// How many samples there were on all cores, since they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleTotals {
    /// Samples that were due.
    pub generated: u64,
    /// Those that nobody will see.
    pub lost: u64,
}

impl Session<'_> {
    /// Programs events to be sampled.
    ///
    /// Errors: the driver's; the system lends no interrupt.
    pub fn assign_sources(&mut self, sources: &[Source], filter: EventFilter) -> Result<()> {
        let records: Vec<SampleSource> = sources
            .iter()
            .map(|source| SampleSource {
                code: wperf_abi::EventCode(source.code),
                filter,
                reserved: 0,
                interval: source.interval,
                pid: 0,
                reserved2: 0,
            })
            .collect();
        if records.len() > MAX_SOURCES {
            return Err(Failure::other(format!(
                "number of events requested exceeds the {MAX_SOURCES} that can be sampled at once"
            )));
        }
        // The largest ring: what it costs is memory, for as long as the session lasts.
        let assigned =
            self.driver
                .sample_assign(&self.cores, &records, wperf_abi::RING_SAMPLES_MAX);
        match assigned {
            Err(CallError::Refused(_, Refusal::UnsupportedEvent)) => {
                let names: Vec<&str> = sources.iter().map(|s| s.name.as_str()).collect();
                Err(Failure::other(format!(
                    "the PMU of a core cannot sample all of these events: {}",
                    names.join(", ")
                )))
            }
            Err(CallError::Refused(_, Refusal::GroupTooLarge)) => Err(Failure::other(
                "number of events requested exceeds the number of free hardware PMU counters",
            )),
            other => self.note_loss(other).map(|_| ()),
        }
    }

    /// Waits until there are many samples to read, or the time is over.
    ///
    /// Errors: the driver's.
    pub fn wait_for_samples(&mut self, most: Duration) -> Result<()> {
        let limit = most.min(Duration::from_millis(WAIT_MAX_MS.into()));
        // Whole milliseconds, and not a busy loop when less is left.
        let millis = u32::try_from(limit.as_millis()).unwrap_or(WAIT_MAX_MS);
        let waited = self.driver.sample_wait(&self.cores, millis.max(1));
        self.note_loss(waited).map(|_| ())
    }

    /// Takes all samples there are, in any order of cores.
    ///
    /// Errors: the driver's.
    pub fn read_samples(&mut self) -> Result<(Vec<Sample>, SampleTotals)> {
        let mut samples = Vec::new();
        loop {
            let read = self.driver.sample_read(&self.cores, MAX_SAMPLES_PER_READ);
            let batch = self.note_loss(read)?;
            samples.extend(batch.samples);
            if batch.flags & read_flags::MORE == 0 {
                return Ok((samples, totals(&batch.cores)));
            }
        }
    }
}

fn totals(cores: &[SampleCore]) -> SampleTotals {
    SampleTotals {
        generated: cores.iter().map(|core| core.generated).sum(),
        lost: cores.iter().map(|core| core.lost).sum(),
    }
}
