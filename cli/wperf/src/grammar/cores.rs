//! Core lists: integers and ranges `a-b` in either order, separated by commas.

use std::ops::RangeInclusive;

/// Which cores were asked for, before the machine's number of cores is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreList(Vec<RangeInclusive<u32>>);

/// Why a core list cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreListError {
    /// Not a list of integers and ranges.
    #[error(
        "option -c format not supported, use comma separated list of integers, or range of integers"
    )]
    Format,
    /// A core that this machine does not have.
    #[error("core index {core} not allowed. Use 0-{last}, see option -c <n>")]
    NoSuchCore {
        /// As typed.
        core: u32,
        /// The machine's last core.
        last: u32,
    },
}

/// Parses the argument of `-c`.
///
/// Errors: [`CoreListError::Format`].
pub fn parse(input: &str) -> Result<CoreList, CoreListError> {
    input
        .split(',')
        .map(item)
        .collect::<Result<_, _>>()
        .map(CoreList)
}

fn item(text: &str) -> Result<RangeInclusive<u32>, CoreListError> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    Ok(from.min(to)..=from.max(to))
}

fn number(text: &str) -> Result<u32, CoreListError> {
    let all_digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| all_digits)
        .ok_or(CoreListError::Format)
}

impl CoreList {
    /// The cores, sorted, each once.
    ///
    /// Errors: [`CoreListError::NoSuchCore`] for the first that a machine of `core_count` cores does not have.
    pub fn resolve(&self, core_count: u32) -> Result<Vec<u32>, CoreListError> {
        let last = core_count.saturating_sub(1);
        let highest = self.0.iter().map(|range| *range.end()).max();
        if let Some(core) = highest.filter(|&core| core >= core_count) {
            return Err(CoreListError::NoSuchCore { core, last });
        }
        let mut cores: Vec<u32> = self.0.iter().cloned().flatten().collect();
        cores.sort_unstable();
        cores.dedup();
        Ok(cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_run_either_way_and_doubles_are_dropped() {
        let list = parse("7-5,0,1-3,2,6").unwrap();
        assert_eq!(list.resolve(8).unwrap(), [0, 1, 2, 3, 5, 6, 7]);
    }

    #[test]
    fn a_core_the_machine_does_not_have_is_named_without_counting_up_to_it() {
        let error = parse("0-4000000000").unwrap().resolve(4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "core index 4000000000 not allowed. Use 0-3, see option -c <n>"
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for input in [
            "",
            ",",
            "a",
            "1-",
            "-1",
            "1-2-3",
            "0x1",
            "+1",
            "1 ",
            "4294967296",
        ] {
            assert_eq!(parse(input), Err(CoreListError::Format), "{input:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(input in "[-0-9,]*|.*") {
            if let Ok(list) = parse(&input) {
                let _ = list.resolve(4);
            }
        }
    }
}
