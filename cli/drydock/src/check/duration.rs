//! Durations on the command line.

use std::time::Duration;

/// The longest: a year.
const MOST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A duration with units (`1m 30s`), or a number of seconds; never none, and never more than a year.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let duration = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if duration.is_zero() {
        return Err("it must be more than nothing".to_owned());
    }
    if duration > MOST {
        return Err("it must not be more than a year".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_seconds_and_nothing_is_refused() {
        assert_eq!(parse("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("90ms"), Ok(Duration::from_millis(90)));
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        for wrong in ["0", "0s", "0ms", "", "-1", "5 parsecs", "2years"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&u64::MAX.to_string()).is_err());
    }
}
