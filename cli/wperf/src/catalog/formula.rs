//! Formulas of metrics: `+ - * /` and parentheses over event names and numbers.

use exmex::{BinOp, Express, FlatEx, MakeOperators, Operator};

#[derive(Clone, Debug)]
struct Arithmetic;

impl MakeOperators<f64> for Arithmetic {
    fn make<'a>() -> Vec<Operator<'a, f64>> {
        let binary = |repr, prio, is_commutative, apply| {
            let operator = BinOp {
                apply,
                prio,
                is_commutative,
            };
            Operator::make_bin(repr, operator)
        };
        vec![
            binary("+", 0, true, |a, b| a + b),
            binary("-", 1, false, |a, b| a - b),
            binary("*", 2, true, |a, b| a * b),
            binary("/", 3, false, quotient),
        ]
    }
}

/// Nothing out of nothing: an event that never happened makes a ratio of zero, as WindowsPerf prints it.
fn quotient(dividend: f64, divisor: f64) -> f64 {
    if divisor == 0.0 {
        0.0
    } else {
        dividend / divisor
    }
}

/// A parsed formula.
#[derive(Clone, Debug)]
pub struct Formula(FlatEx<f64, Arithmetic>);

/// Why a formula gives no value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormulaError {
    /// It is no arithmetic.
    #[error("formula '{formula}' is malformed: {reason}")]
    Malformed {
        /// The formula.
        formula: String,
        /// What the parser says.
        reason: String,
    },
    /// It uses an event that was not counted.
    #[error("no count of event {0}")]
    Missing(String),
}

impl Formula {
    /// Parses an infix formula.
    ///
    /// Errors: [`FormulaError::Malformed`].
    pub fn parse(formula: &str) -> Result<Self, FormulaError> {
        FlatEx::parse_wo_compile(formula)
            .map(Self)
            .map_err(|error| FormulaError::Malformed {
                formula: formula.to_owned(),
                reason: error.to_string(),
            })
    }

    /// Names of the events it uses, as written.
    #[must_use]
    pub fn event_names(&self) -> &[String] {
        self.0.var_names()
    }

    /// Its value, given the count of each event by its name as written.
    ///
    /// Errors: [`FormulaError::Missing`].
    pub fn evaluate(&self, count_of: impl Fn(&str) -> Option<f64>) -> Result<f64, FormulaError> {
        let values = self
            .event_names()
            .iter()
            .map(|name| count_of(name).ok_or_else(|| FormulaError::Missing(name.clone())))
            .collect::<Result<Vec<f64>, _>>()?;
        self.0
            .eval(&values)
            .map_err(|error| FormulaError::Malformed {
                formula: self.0.to_string(),
                reason: error.to_string(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(formula: &str) -> f64 {
        let count = |name: &str| match name {
            "A" => Some(12.0),
            "B_2" => Some(4.0),
            "ZERO" => Some(0.0),
            _ => None,
        };
        Formula::parse(formula).unwrap().evaluate(count).unwrap()
    }

    #[test]
    fn precedence_and_order_are_the_usual() {
        for (formula, expected) in [
            ("A / B_2", 3.0),
            ("A - B_2 - 1", 7.0),
            ("A / B_2 / 3", 1.0),
            ("A / B_2 * 100", 300.0),
            ("A * B_2 / 8", 6.0),
            ("(A - B_2) / (A + B_2) * 100", 50.0),
            ("100 * (1 - A / (3 * B_2))", 0.0),
            ("A - B_2 + 1", 9.0),
            ("1 - A / 4 * 2", -5.0),
        ] {
            assert!(
                (value(formula) - expected).abs() < 1e-12,
                "{formula} = {}",
                value(formula)
            );
        }
    }

    #[test]
    fn a_division_by_an_event_that_never_happened_is_zero() {
        assert!(value("A / ZERO").abs() < f64::EPSILON);
        assert!((value("1 + A / ZERO * 100") - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_event_that_was_not_counted_is_named() {
        let formula = Formula::parse("A / C").unwrap();
        let error = formula.evaluate(|n| (n == "A").then_some(1.0)).unwrap_err();
        assert_eq!(error, FormulaError::Missing("C".into()));
    }

    #[test]
    fn text_that_is_no_arithmetic_is_refused() {
        for formula in ["", "A +", "(A", "A B", "A ^ B"] {
            assert!(Formula::parse(formula).is_err(), "{formula:?}");
        }
    }
}
