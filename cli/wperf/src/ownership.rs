//! Who holds which cores, in words.

use jiff::{Timestamp, tz::TimeZone};
use std::fmt::Write;
use wperf_abi::record::{CoreOwnership, Holding};

/// A process that holds cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Which, in rising order.
    pub cores: Vec<u32>,
    /// The process.
    pub pid: u32,
    /// Since when. Units: 100 ns since 1601, UTC.
    pub since: u64,
}

/// Who else holds cores of a set, one entry per session.
#[must_use]
pub fn holders(records: &[CoreOwnership], cores: &[u32]) -> Vec<Holder> {
    let mut sessions: Vec<(u64, Holder)> = Vec::new();
    let others = records
        .iter()
        .filter(|record| record.holding == Holding::BUSY && cores.contains(&record.core));
    for record in others {
        match sessions
            .iter_mut()
            .find(|(id, h)| (*id, h.since) == (record.session, record.since))
        {
            Some((_, holder)) => holder.cores.push(record.core),
            None => sessions.push((
                record.session,
                Holder {
                    cores: vec![record.core],
                    pid: record.pid,
                    since: record.since,
                },
            )),
        }
    }
    sessions.into_iter().map(|(_, holder)| holder).collect()
}

impl Holder {
    /// Who holds what since when.
    #[must_use]
    pub fn sentence(&self, process_name: Option<&str>) -> String {
        format!(
            "{} held by {} since {}",
            cores_text(&self.cores),
            process_text(self.pid, process_name),
            since_text(self.since, &TimeZone::system())
        )
    }
}

/// A process by number and, if known, name.
#[must_use]
pub fn process_text(pid: u32, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("process {pid} ({name})"),
        None => format!("process {pid}"),
    }
}

/// `core 3`, `cores 0-3,7`.
#[must_use]
pub fn cores_text(cores: &[u32]) -> String {
    let word = if cores.len() == 1 { "core" } else { "cores" };
    format!("{word} {}", ranges(cores))
}

/// A list of cores in rising order, as `-c` takes it.
#[must_use]
pub fn ranges(cores: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cores;
    while let Some((&first, _)) = rest.split_first() {
        let run = (0..)
            .zip(rest)
            .take_while(|&(n, &core)| core == first + n)
            .count();
        let separator = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match run {
            1 => write!(text, "{separator}{first}"),
            _ => write!(text, "{separator}{first}-{}", rest[run - 1]),
        };
        rest = &rest[run..];
    }
    text
}

/// A FILETIME as local time.
///
/// Source: FILETIME counts 100 ns from 1601-01-01, 11 644 473 600 s before 1970.
#[must_use]
pub fn since_text(filetime: u64, zone: &TimeZone) -> String {
    const UNIX_EPOCH_S: i64 = 11_644_473_600;
    const PER_S: u64 = 10_000_000;
    let seconds = i64::try_from(filetime / PER_S).unwrap_or(i64::MAX) - UNIX_EPOCH_S;
    match Timestamp::from_second(seconds) {
        Ok(time) => time
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S %Z")
            .to_string(),
        Err(_) => format!("FILETIME {filetime}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::SINCE;

    fn record(core: u32, holding: Holding, session: u64) -> CoreOwnership {
        CoreOwnership {
            core,
            holding,
            pid: 100 + u32::try_from(session).unwrap(),
            state: 2,
            session,
            since: SINCE,
        }
    }

    #[test]
    fn holders_are_told_apart_by_session_and_only_cores_of_the_set_count() {
        let records = [
            record(0, Holding::BUSY, 1),
            record(1, Holding::IDLE, 0),
            record(2, Holding::BUSY, 2),
            record(3, Holding::BUSY, 1),
            record(4, Holding::YOURS, 3),
            record(5, Holding::BUSY, 2),
        ];
        let found = holders(&records, &[0, 1, 2, 3, 4]);
        let shape: Vec<_> = found.iter().map(|h| (h.pid, h.cores.clone())).collect();
        assert_eq!(shape, [(101, vec![0, 3]), (102, vec![2])]);
    }

    #[test]
    fn core_lists_are_written_as_they_are_typed() {
        assert_eq!(cores_text(&[3]), "core 3");
        assert_eq!(cores_text(&[0, 1, 2, 5, 7, 8]), "cores 0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn times_are_read_from_1601() {
        assert_eq!(since_text(SINCE, &TimeZone::UTC), "2026-03-01 12:00:00 UTC");
        assert_eq!(
            since_text(116_444_736_000_000_000, &TimeZone::UTC),
            "1970-01-01 00:00:00 UTC"
        );
        assert!(
            since_text(u64::MAX, &TimeZone::UTC).ends_with("UTC")
                || since_text(u64::MAX, &TimeZone::UTC).starts_with("FILETIME")
        );
    }
}
