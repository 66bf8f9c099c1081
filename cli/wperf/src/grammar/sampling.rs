//! Lists of events to sample: `name[:interval]`, separated by commas.

use super::events::{self, Class, EventListError, EventSpec, Item};
use wperf_abi::{SAMPLE_INTERVAL_DEFAULT, SAMPLE_INTERVAL_MIN};

/// What WindowsPerf's Statistical Profiling Extension is called.
const SPE: &str = "arm_spe_0/";

/// Longest interval, as of WindowsPerf: what a counter of 32 bits holds.
const INTERVAL_MAX: u64 = u32::MAX as u64;

/// One event as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledSpec {
    /// The event.
    pub event: EventSpec,
    /// Occurrences from one sample to the next.
    pub interval: u64,
}

/// Why a text is no list of events to sample.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampledListError {
    /// Not a number.
    #[error("event interval: {0} is invalid!")]
    InvalidInterval(String),
    /// More than 32 bits, or so few that the processor would do nothing else.
    #[error("event interval: {0} is out of range! Use {SAMPLE_INTERVAL_MIN}-{INTERVAL_MAX}")]
    IntervalOutOfRange(String),
    /// `{a,b}`: samples are not taken at the same time.
    #[error("event list '{0}': events cannot be grouped for sampling")]
    Group(String),
    /// An event of a class whose units have no interrupt that says where a program is.
    #[error("/{class}/{event}: uncore units do not sample", class = .0.class.word(), event = .0.selector)]
    Uncore(EventSpec),
    /// Not in this version.
    #[error("arm_spe_0//: sampling by the Statistical Profiling Extension is not in this version")]
    Spe,
    /// An event that cannot be read.
    #[error(transparent)]
    Event(#[from] EventListError),
}

/// Parses the argument of `-e` for `sample` and `record`.
///
/// Errors: see [`SampledListError`]. Whether a name is known is not looked at here.
pub fn parse(list: &str) -> Result<Vec<SampledSpec>, SampledListError> {
    if list.to_ascii_lowercase().contains(SPE) {
        return Err(SampledListError::Spe);
    }
    list.split(',').map(|item| one(list, item)).collect()
}

fn one(list: &str, item: &str) -> Result<SampledSpec, SampledListError> {
    let (name, interval) = match item.split_once(':') {
        Some((name, text)) => (name, interval(text)?),
        None => (item, SAMPLE_INTERVAL_DEFAULT),
    };
    if name.is_empty() {
        return Err(EventListError::EmptyItem(list.to_owned()).into());
    }
    if name.contains(['{', '}']) {
        return Err(SampledListError::Group(list.to_owned()));
    }
    match events::parse(name)?.pop() {
        Some(Item::Loose(event)) if event.class != Class::Core => {
            Err(SampledListError::Uncore(event))
        }
        Some(Item::Loose(event)) => Ok(SampledSpec { event, interval }),
        _ => Err(SampledListError::Group(list.to_owned())),
    }
}

/// A number as C reads it: `0x` before hexadecimal digits, `0` before octal ones.
fn interval(text: &str) -> Result<u64, SampledListError> {
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(SampledListError::InvalidInterval(text.to_owned()));
    }
    u64::from_str_radix(digits, base)
        .ok()
        .filter(|number| (SAMPLE_INTERVAL_MIN..=INTERVAL_MAX).contains(number))
        .ok_or_else(|| SampledListError::IntervalOutOfRange(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::events::Selector;
    use proptest::prelude::*;

    #[test]
    fn intervals_are_read_as_c_reads_numbers() {
        let specs = parse("ld_spec:100000,r1B:0x10000,0x70,st_spec:0100000").unwrap();
        let intervals: Vec<u64> = specs.iter().map(|spec| spec.interval).collect();
        assert_eq!(intervals, [100_000, 0x10000, 0x400_0000, 0o100_000]);
        assert_eq!(specs[1].event.selector, Selector::Code(0x1B));
        assert_eq!(specs[0].event.selector, Selector::Name("ld_spec".into()));
    }

    #[test]
    fn messages_are_those_that_scripts_look_for() {
        for (list, message) in [
            ("ld_spec:0xp", "event interval: 0xp is invalid!"),
            ("ld_spec:0xp123", "event interval: 0xp123 is invalid!"),
            ("ld_spec:", "event interval:  is invalid!"),
            ("ld_spec:-1", "event interval: -1 is invalid!"),
            ("ld_spec:1e6", "event interval: 1e6 is invalid!"),
            ("ld_spec:09", "event interval: 09 is invalid!"),
            (
                "ld_spec:0x1FFFFFFFF",
                "event interval: 0x1FFFFFFFF is out of range! Use 1000-4294967295",
            ),
            (
                "ld_spec:99999999999999999999999",
                "event interval: 99999999999999999999999 is out of range! Use 1000-4294967295",
            ),
            (
                "ld_spec:999",
                "event interval: 999 is out of range! Use 1000-4294967295",
            ),
            (
                "{a,b}",
                "event list '{a,b}': events cannot be grouped for sampling",
            ),
            ("a,,b", "event list 'a,,b' has an empty item"),
            (
                "arm_spe_0/ld=1,min=3/",
                "arm_spe_0//: sampling by the Statistical Profiling Extension is not in this version",
            ),
        ] {
            assert_eq!(parse(list).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(list in "[a-z0-9x:,{}/]*|.*") {
            let _ = parse(&list);
        }
    }
}
