//! Time of day: 100 ns since 1601-01-01, and its fields.

use nt::rtl::TIME_FIELDS;

/// 100 ns in a millisecond.
const PER_MS: i64 = 10_000;
const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;
/// Days from 0000-03-01 to 1601-01-01, in the calendar extended backwards.
const DAYS_BEFORE_1601: i64 = 584_694;

/// Days since 1601-01-01 of a date (years from 1601).
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March, so that the leap day is the last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let in_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + in_year - DAYS_BEFORE_1601
}

/// Year, month and day of a number of days since 1601-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1601;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

fn field(value: i64) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
}

/// Breaks a time down; one before 1601 counts as 1601.
pub(super) fn to_fields(time: i64) -> TIME_FIELDS {
    let ms = time.max(0) / PER_MS;
    let (day, ms) = (ms / MS_PER_DAY, ms % MS_PER_DAY);
    let (year, month, day_of_month) = date(day);
    TIME_FIELDS {
        Year: field(year),
        Month: field(month),
        Day: field(day_of_month),
        Hour: field(ms / 3_600_000),
        Minute: field(ms / 60_000 % 60),
        Second: field(ms / 1000 % 60),
        Milliseconds: field(ms % 1000),
        // 1601-01-01 was a Monday.
        Weekday: field((day + 1) % 7),
    }
}

/// Composes a time; `None` when a field is out of range. The weekday is not looked at.
pub(super) fn from_fields(fields: &TIME_FIELDS) -> Option<i64> {
    let [year, month, day] = [fields.Year, fields.Month, fields.Day].map(i64::from);
    let [hour, minute] = [fields.Hour, fields.Minute].map(i64::from);
    let [second, ms] = [fields.Second, fields.Milliseconds].map(i64::from);
    let in_range = (1601..=30_827).contains(&year)
        && (1..=12).contains(&month)
        && day >= 1
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..1000).contains(&ms);
    if !in_range {
        return None;
    }
    let days = days(year, month, day);
    // The 31st of a month that has fewer days would be a day of the next.
    if date(days) != (year, month, day) {
        return None;
    }
    Some((days * MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms) * PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_day_is_a_monday_and_1970_is_where_unix_begins() {
        let fields = to_fields(0);
        assert_eq!(
            (fields.Year, fields.Month, fields.Day, fields.Weekday),
            (1601, 1, 1, 1)
        );
        let fields = to_fields(116_444_736_000_000_000);
        assert_eq!(
            (fields.Year, fields.Month, fields.Day, fields.Weekday),
            (1970, 1, 1, 4)
        );
    }

    #[test]
    fn composing_undoes_breaking_down() {
        // A step that is coprime to days, over more than four centuries.
        for time in (0..20_000i64).map(|step| step * 7_777_777_770_000) {
            assert_eq!(from_fields(&to_fields(time)), Some(time));
        }
    }

    #[test]
    fn a_day_that_its_month_does_not_have_is_refused() {
        let day = |year, month, day| {
            from_fields(&TIME_FIELDS {
                Year: year,
                Month: month,
                Day: day,
                ..TIME_FIELDS::default()
            })
            .is_some()
        };
        assert!(day(2000, 2, 29) && day(2024, 2, 29) && day(2023, 12, 31));
        assert!(!day(1900, 2, 29) && !day(2023, 2, 29) && !day(2023, 4, 31));
        assert!(!day(2023, 13, 1) && !day(2023, 0, 1) && !day(1600, 1, 1) && !day(2023, 1, 0));
    }
}
