//! User metrics (`-C FILE`): a line is `name:{ev,ev}` or `name:ev,ev`; `#` begins a comment.

use super::events::{self, EventListError, EventSpec, Item};

/// A metric the user made: events counted together under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMetric {
    /// Its name.
    pub name: String,
    /// Its events, in order.
    pub events: Vec<EventSpec>,
}

/// Why a line of the file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserMetricError {
    /// No `name:`.
    #[error("line {line}: '{text}' is not of the form name:event,event")]
    Form {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// The event list is malformed.
    #[error("line {line}: {source}")]
    Events {
        /// From 1.
        line: usize,
        /// Why.
        source: EventListError,
    },
}

/// Parses the text of the file.
///
/// Errors: see [`UserMetricError`].
pub fn parse(text: &str) -> Result<Vec<UserMetric>, UserMetricError> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| metric(number, line))
        .collect()
}

fn metric(line: usize, text: &str) -> Result<UserMetric, UserMetricError> {
    let named = text.split_once(':').map(|(n, e)| (n.trim(), e.trim()));
    let Some((name, list)) = named.filter(|(name, _)| !name.is_empty()) else {
        return Err(UserMetricError::Form {
            line,
            text: text.to_owned(),
        });
    };
    let items = events::parse(list).map_err(|source| UserMetricError::Events { line, source })?;
    let events = items
        .into_iter()
        .flat_map(|item| match item {
            Item::Loose(event) => vec![event],
            Item::Group(events) => events,
        })
        .collect();
    Ok(UserMetric {
        name: name.to_ascii_lowercase(),
        events,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_and_comments_do_not_matter() {
        let text = "# mine\nfirst:{inst_spec,ld_spec}\n\nsecond: vfp_spec\n";
        let metrics = parse(text).unwrap();
        let shape: Vec<_> = metrics
            .iter()
            .map(|m| (m.name.as_str(), m.events.len()))
            .collect();
        assert_eq!(shape, [("first", 2), ("second", 1)]);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let error = parse("a:b\n\nnonsense\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 3: 'nonsense' is not of the form name:event,event"
        );
        assert!(matches!(
            parse("a:{b"),
            Err(UserMetricError::Events { line: 1, .. })
        ));
    }
}
