//! Durations: `^(0|[1-9][0-9]*)(\.[0-9]{1,2})?(ms|s|m|h|d)?$`, in seconds unless a unit is given.

use std::time::Duration;

/// A text that is no duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("input: \"{input}\" to argument '{option}' is invalid")]
pub struct DurationError {
    input: String,
    option: &'static str,
}

/// Parses the argument of `option`.
///
/// Errors: [`DurationError`] when the grammar is not met, or the time does not fit 64-bit milliseconds.
pub fn parse(option: &'static str, input: &str) -> Result<Duration, DurationError> {
    hundredths(input)
        .and_then(|(hundredths, unit_ms)| hundredths.checked_mul(unit_ms))
        // A hundredth of a millisecond is ten microseconds.
        .and_then(|hundredths_ms| hundredths_ms.checked_mul(10))
        .map(Duration::from_micros)
        .ok_or_else(|| DurationError {
            input: input.to_owned(),
            option,
        })
}

/// The number in hundredths, and the unit in milliseconds.
fn hundredths(input: &str) -> Option<(u64, u64)> {
    let end = input
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(input.len());
    let (number, unit) = input.split_at(end);
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, fraction_hundredths(fraction)?),
        None => (number, 0),
    };
    let canonical = whole == "0" || !whole.starts_with('0');
    let whole: u64 = whole.parse().ok().filter(|_| canonical)?;
    Some((whole.checked_mul(100)?.checked_add(fraction)?, unit_ms))
}

fn fraction_hundredths(digits: &str) -> Option<u64> {
    let value: u64 = digits.parse().ok()?;
    match digits.len() {
        1 => Some(value * 10),
        2 => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(input: &str) -> Option<u128> {
        parse("--timeout", input).ok().map(|d| d.as_millis())
    }

    #[test]
    fn units_and_decimals_are_as_windowsperf_has_them() {
        let cases = [
            ("700ms", 700),
            ("0.1s", 100),
            ("0.01m", 600),
            ("0.50s", 500),
            ("1", 1000),
            ("0", 0),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("10.25", 10_250),
        ];
        for (input, expected) in cases {
            assert_eq!(ms(input), Some(expected), "{input}");
        }
        assert_eq!(
            parse("-i", "0.05ms").unwrap(),
            Duration::from_micros(50),
            "fractions of a millisecond are kept"
        );
    }

    #[test]
    fn what_windowsperf_refuses_is_refused() {
        for input in [
            "",
            ".2m",
            "2d30m",
            "0.001ms",
            "-1",
            "+1",
            "01",
            "00",
            "1.",
            "1.234",
            "1 s",
            "1x",
            "s",
            "1.2.3",
            "1S",
            "1e3",
            "99999999999999999999",
            "١",
        ] {
            assert_eq!(ms(input), None, "{input:?}");
        }
    }

    #[test]
    fn the_message_names_the_option_and_the_input() {
        let error = parse("-i", "2d30m").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"input: "2d30m" to argument '-i' is invalid"#
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(input in ".*") {
            let _ = parse("--timeout", &input);
        }

        #[test]
        fn milliseconds_come_back(n in 0_u32..) {
            prop_assert_eq!(ms(&format!("{n}ms")), Some(u128::from(n)));
        }
    }
}
