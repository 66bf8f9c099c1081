//! A table that is text on a terminal and an array of objects in JSON.
//!
//! Text: six blanks of indent, two blanks between columns, titles over a row of `=`, the first column to the right if
//! it holds numbers. JSON: the titles with `_` for blanks are the keys.

use serde_json::{Map, Number, Value};
use std::fmt::Write;

const INDENT: &str = "      ";
const GAP: &str = "  ";

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A count: thousands are separated in text.
    Count(u64),
    /// Part of a whole. Units: percent, with two decimals in text.
    Share(f64),
    /// Words, in JSON a string.
    Text(String),
    /// Not in this row: nothing in text, no key in JSON.
    Absent,
}

impl Cell {
    /// Words.
    pub fn text(words: impl Into<String>) -> Self {
        Self::Text(words.into())
    }

    fn to_text(&self) -> String {
        match self {
            Self::Count(number) => thousands(*number),
            Self::Share(percent) => format!("{percent:.2}"),
            // A control character would break the table.
            Self::Text(words) => words.replace(char::is_control, " "),
            Self::Absent => String::new(),
        }
    }

    fn to_json(&self) -> Option<Value> {
        match self {
            Self::Count(number) => Some(Value::Number(Number::from(*number))),
            Self::Share(percent) => Some(Value::from(*percent)),
            Self::Text(words) => Some(Value::String(words.clone())),
            Self::Absent => None,
        }
    }
}

/// Titles and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    titles: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// So many columns are on the right of their width, whatever is in them.
    right: usize,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(titles: &[&'static str]) -> Self {
        Self {
            titles: titles.to_vec(),
            rows: Vec::new(),
            right: 0,
        }
    }

    /// The first columns are aligned to the right.
    #[must_use]
    pub fn right_aligned(mut self, columns: usize) -> Self {
        self.right = columns;
        self
    }

    /// Adds a row; cells that are missing at its end are absent.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.titles.len(), Cell::Absent);
        self.rows.push(row);
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As text, each line with its newline.
    #[must_use]
    pub fn to_text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::to_text).collect())
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            let title = self.titles[column].chars().count();
            cells.max().unwrap_or(0).max(title)
        };
        let widths: Vec<usize> = (0..self.titles.len()).map(width).collect();
        let titles: Vec<String> = self.titles.iter().map(|t| (*t).to_owned()).collect();
        let rules = self.titles.iter().map(|t| "=".repeat(t.len())).collect();
        let mut text = String::new();
        for line in [titles, rules].iter().chain(&rows) {
            text.push_str(&self.line(line, &widths));
        }
        text
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::from(INDENT);
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { GAP };
            let is_right = column < self.right || column == 0 && self.counts_first();
            // Writing to a string cannot fail.
            let _ = if is_right {
                write!(line, "{gap}{cell:>width$}")
            } else {
                write!(line, "{gap}{cell:<width$}")
            };
        }
        format!("{}\n", line.trim_end())
    }

    fn counts_first(&self) -> bool {
        let first = self.rows.first().and_then(|row| row.first());
        matches!(first, Some(Cell::Count(_)))
    }

    /// As an array of objects.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let pairs = self.titles.iter().zip(row).filter_map(|(title, cell)| {
                cell.to_json().map(|value| (title.replace(' ', "_"), value))
            });
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }
}

/// A number with commas between thousands.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_on_the_right_and_two_blanks_before_the_name() {
        let mut table = Table::new(&["counter value", "event name", "scaled value"]);
        table.push(vec![
            Cell::Count(1_234_567),
            Cell::text("cycle"),
            Cell::Count(5),
        ]);
        table.push(vec![Cell::Count(12), Cell::text("a_long_event_name")]);
        insta::assert_snapshot!(table.to_text(), @r"
              counter value  event name         scaled value
              =============  ==========         ============
                  1,234,567  cycle              5
                         12  a_long_event_name
        ");
    }

    #[test]
    fn json_has_the_titles_as_keys_and_leaves_absent_cells_out() {
        let mut table = Table::new(&["counter value", "event name", "scaled value"]);
        table.push(vec![Cell::Count(7), Cell::text("a \"b\"\t\\")]);
        assert_eq!(
            table.to_json().to_string(),
            r#"[{"counter_value":7,"event_name":"a \"b\"\t\\"}]"#
        );
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }
}
