//! Extra named events (`-E`): `name:hex,name:hex`, on the command line or in a file.

use super::events::{Class, EventListError, hex_code};

/// An event the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraEvent {
    /// From the name's prefix.
    pub class: Class,
    /// The name without its prefix.
    pub name: String,
    /// Its code.
    pub code: u32,
}

/// Why a list of extra events is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtraError {
    /// An item without `:`, name or code, or with a blank.
    #[error("extra event '{0}' is not of the form name:hex")]
    Form(String),
    /// The code is not hexadecimal.
    #[error("extra event '{name}': '{code}' is not a hexadecimal event number")]
    Code {
        /// The event's name.
        name: String,
        /// As typed.
        code: String,
    },
    /// The class is unknown.
    #[error(transparent)]
    Class(#[from] EventListError),
}

/// Parses the text of `-E`; lines of a file count as commas.
///
/// Errors: see [`ExtraError`].
pub fn parse(text: &str) -> Result<Vec<ExtraEvent>, ExtraError> {
    let lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty());
    lines
        .flat_map(|line| line.split(','))
        .filter(|item| !item.is_empty())
        .map(item)
        .collect()
}

fn item(text: &str) -> Result<ExtraEvent, ExtraError> {
    let form = || ExtraError::Form(text.to_owned());
    let (name, code) = text.split_once(':').ok_or_else(form)?;
    let (class, name) = Class::split_prefix(name)?;
    let blank = |t: &str| t.is_empty() || t.contains(char::is_whitespace);
    if blank(name) || blank(code) {
        return Err(form());
    }
    let number = hex_code(code).ok_or_else(|| ExtraError::Code {
        name: name.to_owned(),
        code: code.to_owned(),
    })?;
    Ok(ExtraEvent {
        class,
        name: name.to_ascii_lowercase(),
        code: number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_codes_and_classes_are_read_from_one_line_or_many() {
        let expected = [
            ExtraEvent {
                class: Class::Core,
                name: "name1".into(),
                code: 0x1234,
            },
            ExtraEvent {
                class: Class::Dsu,
                name: "n2".into(),
                code: 0xAB,
            },
        ];
        assert_eq!(parse("name1:1234,/dsu/N2:0xab").unwrap(), expected);
        assert_eq!(parse("name1:1234\n/dsu/N2:0xab\n").unwrap(), expected);
    }

    #[test]
    fn malformed_items_are_named() {
        assert_eq!(parse("a").unwrap_err(), ExtraError::Form("a".into()));
        assert_eq!(
            parse("a b:1").unwrap_err(),
            ExtraError::Form("a b:1".into())
        );
        assert_eq!(
            parse("a:xyz").unwrap_err().to_string(),
            "extra event 'a': 'xyz' is not a hexadecimal event number"
        );
    }
}
