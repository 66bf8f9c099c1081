//! Which events are wanted.

use core::str::FromStr;

use trace_format::Level;

use crate::stream::{Event, Time};
use crate::value::{Value, values};

/// All of these must hold; what is not given holds.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// At most this level.
    pub level: Option<Level>,
    /// One of these flags, by name.
    pub flags: Vec<String>,
    /// A function, or one that it was inlined into, with one of these in its name.
    pub functions: Vec<String>,
    /// On one of these processors.
    pub processors: Vec<u32>,
    /// Not before. Units: ns from the beginning of the trace.
    pub since_ns: Option<f64>,
    /// Not after. Units: ns from the beginning of the trace.
    pub until_ns: Option<f64>,
    /// Of arguments.
    pub conditions: Vec<Condition>,
}

impl Filter {
    /// Whether an event is wanted.
    #[must_use]
    pub fn wants(&self, event: &Event, time: &Time) -> bool {
        let on_time =
            |limit: Option<f64>, holds: fn(f64, f64) -> bool| match (limit, time.ns(event.ticks)) {
                (Some(limit), Some(ns)) => holds(ns, limit),
                (limit, _) => limit.is_none(),
            };
        let on_processor = self.processors.is_empty() || self.processors.contains(&event.processor);
        on_processor
            && on_time(self.since_ns, |ns, limit| ns >= limit)
            && on_time(self.until_ns, |ns, limit| ns <= limit)
            && self.wants_site(event)
    }

    fn wants_site(&self, event: &Event) -> bool {
        let Some(site) = &event.site else {
            let asks = self.level.is_some() || !self.flags.is_empty();
            return !asks && self.functions.is_empty() && self.conditions.is_empty();
        };
        let has_flag = |name: &String| site.flag_name.eq_ignore_ascii_case(name);
        self.level.is_none_or(|level| site.level <= level)
            && (self.flags.is_empty() || self.flags.iter().any(has_flag))
            && (self.functions.is_empty() || self.functions.iter().any(|part| site.is_in(part)))
            && self.conditions.iter().all(|condition| {
                values(site, event.words.as_slice())
                    .any(|(name, value)| condition.holds(name, &value))
            })
    }
}

/// What is asked of an argument: `name op value`, with `=`, `!=`, `<`, `<=`, `>`, `>=`, or `~` for
/// "contains".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    name: String,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// Longer ones first.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

/// A condition that says nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no condition: write an argument's name, one of = != < <= > >= ~, and a value")]
pub struct ConditionError(String);

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let found = OPERATORS
            .iter()
            .filter_map(|(sign, operator)| text.find(sign).map(|at| (at, *sign, *operator)))
            .min_by_key(|(at, sign, _)| (*at, core::cmp::Reverse(sign.len())));
        let error = || ConditionError(text.to_owned());
        let (at, sign, operator) = found.ok_or_else(error)?;
        let (name, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        if name.is_empty() {
            return Err(error());
        }
        Ok(Self {
            name: name.to_owned(),
            operator,
            value: value.to_owned(),
        })
    }
}

/// A number as it is typed: decimal, or hexadecimal with `0x`.
fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Condition {
    fn holds(&self, name: &str, value: &Value) -> bool {
        if name != self.name {
            return false;
        }
        let shown = match value {
            Value::Text(text, _) => text.clone(),
            other => other.to_string(),
        };
        let actual = match value {
            Value::Unsigned(value) | Value::Hex(value, _) | Value::Named(value, _) => {
                Some(i128::from(*value))
            }
            Value::Signed(value) => Some(i128::from(*value)),
            _ => None,
        };
        let order = match (actual, number(&self.value)) {
            (Some(actual), Some(wanted)) => actual.cmp(&wanted),
            _ => shown.as_str().cmp(&self.value),
        };
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Contains => shown.contains(&self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_compares_numbers_and_texts() {
        let holds =
            |text: &str, value: Value| text.parse::<Condition>().unwrap().holds("n", &value);
        assert!(holds("n = 16", Value::Unsigned(16)));
        assert!(holds("n=0x10", Value::Hex(16, 64)));
        assert!(holds("n>=-3", Value::Signed(-3)));
        assert!(!holds("n<-3", Value::Signed(-3)));
        assert!(holds("n ~ que", Value::Text("queue".into(), false)));
        assert!(holds(
            "n=STATUS_SUCCESS",
            Value::Named(0, "STATUS_SUCCESS".into())
        ));
        assert!(!holds("m=1", Value::Unsigned(1)));
        assert!("n".parse::<Condition>().is_err());
        assert!("=1".parse::<Condition>().is_err());
    }
}
