//! Which functions the samples of an event lie in.

use super::{Place, Profile, Symbols, module::file_name};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

/// What stands for samples in the system.
pub const KERNEL: &str = "[kernel]";
/// What stands for a function that is not known.
pub const UNKNOWN: &str = "unknown";

/// A function, and the samples in it.
#[derive(Clone, Debug, PartialEq)]
pub struct HotFunction {
    /// Its name; `None` when it is not known.
    pub function: Option<String>,
    /// File name of its module; `None` in the system, and outside of all modules.
    pub module: Option<String>,
    /// How many samples.
    pub count: u64,
    /// Share of the event's samples. Units: percent.
    pub overhead: f64,
    /// The file of its module.
    pub image: Option<PathBuf>,
    /// Samples by address in the image.
    pub hits: BTreeMap<u64, u64>,
    /// Samples by address in memory.
    pub addresses: BTreeMap<u64, u64>,
    is_kernel: bool,
}

impl HotFunction {
    /// A function of an image, with samples at addresses in it, and no others.
    #[must_use]
    pub fn new(function: Option<String>, image: &Path, hits: BTreeMap<u64, u64>) -> Self {
        Self {
            function,
            module: Some(file_name(image)),
            count: hits.values().sum(),
            overhead: 100.0,
            image: Some(image.to_owned()),
            hits,
            addresses: BTreeMap::new(),
            is_kernel: false,
        }
    }

    /// `function:module`, `unknown`, or `[kernel]`.
    #[must_use]
    pub fn symbol(&self) -> String {
        if self.is_kernel {
            return KERNEL.to_owned();
        }
        let function = self.function.as_deref().unwrap_or(UNKNOWN);
        match &self.module {
            Some(module) => format!("{function}:{module}"),
            None => function.to_owned(),
        }
    }
}

type Key = (bool, Option<PathBuf>, Option<String>);

/// The functions of an event's samples, the one with most first. Inlined functions are part of the one they are in.
#[must_use]
pub fn functions(profile: &Profile, symbols: &mut Symbols, source: usize) -> Vec<HotFunction> {
    let mut found: HashMap<Key, HotFunction> = HashMap::new();
    let mut total = 0_u64;
    for located in profile.of_source(source) {
        total += 1;
        let resolved = symbols.of(profile, located);
        let module = match located.place {
            Place::Module(id) => Some(profile.module(id)),
            _ => None,
        };
        let is_kernel = located.place == Place::Kernel;
        let image = module.map(|module| module.path.clone());
        let function = resolved.function().map(str::to_owned);
        let key = (is_kernel, image.clone(), function.clone());
        let entry = found.entry(key).or_insert_with(|| HotFunction {
            function,
            module: module.map(|module| module.name.clone()),
            count: 0,
            overhead: 0.0,
            image,
            hits: BTreeMap::new(),
            addresses: BTreeMap::new(),
            is_kernel,
        });
        entry.count += 1;
        *entry.hits.entry(resolved.address).or_default() += 1;
        *entry.addresses.entry(located.sample.address).or_default() += 1;
    }
    let mut rows: Vec<HotFunction> = found.into_values().collect();
    for row in &mut rows {
        row.overhead = percent(row.count, total);
    }
    rows.sort_by(|a, b| {
        b.count
            .cmp(&a.count)
            .then_with(|| a.symbol().cmp(&b.symbol()))
    });
    rows
}

/// Part of a whole. Units: percent.
#[must_use]
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // Numbers of samples are far below 2^52.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let share = part as f64 / whole as f64;
    share * 100.0
}

/// A pattern of `-s`: part of a name; `^` before it: its beginning, `$` behind it: its end. Case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    from_start: bool,
    to_end: bool,
}

impl Pattern {
    /// Understands every text.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let (pattern, from_start) = match pattern.strip_prefix('^') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let (pattern, to_end) = match pattern.strip_suffix('$') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        Self {
            text: pattern.to_lowercase(),
            from_start,
            to_end,
        }
    }

    /// Whether a function is meant, by its name alone or with its module.
    #[must_use]
    pub fn matches(&self, row: &HotFunction) -> bool {
        let name = row.function.as_deref();
        self.fits(&row.symbol()) || name.is_some_and(|name| self.fits(name))
    }

    fn fits(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        match (self.from_start, self.to_end) {
            (true, true) => name == self.text,
            (true, false) => name.starts_with(&self.text),
            (false, true) => name.ends_with(&self.text),
            (false, false) => name.contains(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: Option<&str>, module: Option<&str>, is_kernel: bool) -> HotFunction {
        HotFunction {
            function: function.map(str::to_owned),
            module: module.map(str::to_owned),
            count: 1,
            overhead: 100.0,
            image: None,
            hits: BTreeMap::new(),
            addresses: BTreeMap::new(),
            is_kernel,
        }
    }

    #[test]
    fn a_symbol_is_the_function_and_its_module() {
        assert_eq!(
            row(Some("x_mul"), Some("python.dll"), false).symbol(),
            "x_mul:python.dll"
        );
        assert_eq!(row(None, Some("a.so"), false).symbol(), "unknown:a.so");
        assert_eq!(row(None, None, false).symbol(), "unknown");
        assert_eq!(row(None, None, true).symbol(), "[kernel]");
    }

    #[test]
    fn patterns_are_parts_beginnings_and_ends() {
        let function = row(Some("v_iSub"), Some("python.dll"), false);
        for (pattern, fits) in [
            ("ISUB", true),
            ("^v_", true),
            ("^isub", false),
            ("sub$", true),
            ("v_i$", false),
            ("^v_isub$", true),
            ("^v_isub:python.dll$", true),
            ("", true),
            ("^$", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(&function), fits, "{pattern}");
        }
    }
}
