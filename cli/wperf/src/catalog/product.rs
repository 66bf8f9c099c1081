//! Processors: which tables hold for which.

use super::table::{self, EventRow, GroupRow, MetricRow, ProductRow};

/// Who names the events that do not depend on the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Arm, 64 bit.
    Arm,
    /// x86, 64 bit.
    X86,
    /// The PMU that works on any machine, and counts time only.
    Software,
}

impl Architecture {
    /// That of this program, and of the drivers it talks to.
    #[must_use]
    pub const fn of_this_machine() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Arm
        } else {
            Self::X86
        }
    }

    /// Events that the architecture itself defines.
    pub(super) fn event_rows(self) -> Vec<EventRow> {
        let mut rows: Vec<EventRow> = table::events()
            .iter()
            .filter(|row| row.architecture_defined == 1)
            .filter(|row| match row.product.as_str() {
                "x86-64" => self == Self::X86,
                "software" => self == Self::Software,
                _ => self == Self::Arm,
            })
            .cloned()
            .collect();
        rows.sort_by(|a, b| (a.code, &a.name).cmp(&(b.code, &b.name)));
        rows.dedup_by(|a, b| a.name == b.name);
        rows
    }
}

/// A processor, as far as the tables know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    name: String,
    architecture: Architecture,
    counts_host: bool,
}

/// A product that no table has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("warning: CPU name: \"{name}\" not found, use {known}")]
pub struct ProductError {
    name: String,
    known: String,
}

/// Names of the architectures, which `man` and `list` take as CPU names too.
const ARCHITECTURES: [(&str, Architecture); 4] = [
    ("armv8-a", Architecture::Arm),
    ("armv9-a", Architecture::Arm),
    ("x86-64", Architecture::X86),
    ("software", Architecture::Software),
];

/// Processors sold under another implementer or part number whose cores are those of a product in the tables.
///
/// Azure Cobalt 100 reports implementer 0x6D (Microsoft), part 0xD49, and is a Neoverse N2.
const ALIASES: [(u32, u32, &str); 1] = [(0x6D, 0xD49, "neoverse-n2")];

impl Product {
    /// The architecture alone, for a processor without a table.
    #[must_use]
    pub fn generic(architecture: Architecture) -> Self {
        let name = match architecture {
            Architecture::Arm => "armv8-a",
            Architecture::X86 => "x86-64",
            Architecture::Software => "software",
        };
        Self {
            name: name.to_owned(),
            architecture,
            counts_host: false,
        }
    }

    /// The same, in the lab, where events of the host can be counted too.
    #[must_use]
    pub fn counting_host(self) -> Self {
        Self {
            counts_host: true,
            ..self
        }
    }

    /// The product of an Arm core, by its MIDR_EL1: implementer `[31:24]`, variant `[23:20]`, part `[15:4]`, revision `[3:0]`.
    ///
    /// Of several revisions in the tables, the newest that is not newer than the core; else the product's plain name.
    ///
    /// Source: Arm ARM DDI 0487 D24.2 (MIDR_EL1).
    #[must_use]
    pub fn from_midr(midr: u64) -> Self {
        let field = |shift: u32, mask: u64| u32::try_from(midr >> shift & mask).unwrap_or(0);
        let (implementer, part) = (field(24, 0xFF), field(4, 0xFFF));
        let revision = (field(20, 0xF), field(0, 0xF));
        let alias = ALIASES
            .iter()
            .find(|(i, p, _)| (*i, *p) == (implementer, part));
        if let Some((_, _, name)) = alias {
            return Self::arm(name);
        }
        let is_it = |row: &&ProductRow| row.implementer == implementer && row.part_num == part;
        let age = |row: &&ProductRow| (row.major_revision, row.minor_revision);
        let rows = || table::products().iter().filter(is_it);
        rows()
            .filter(|row| age(row) <= revision)
            .max_by_key(age)
            .or_else(|| rows().min_by_key(age))
            .map_or_else(
                || Self::generic(Architecture::Arm),
                |row| Self::arm(&row.product),
            )
    }

    /// The product of that name, or an architecture.
    ///
    /// Errors: [`ProductError`], which lists the names there are.
    pub fn by_name(name: &str) -> Result<Self, ProductError> {
        let architecture = ARCHITECTURES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some((known, architecture)) = architecture {
            return Ok(Self {
                name: (*known).to_owned(),
                architecture: *architecture,
                counts_host: false,
            });
        }
        let product = Self::names().find(|known| known.eq_ignore_ascii_case(name));
        product.map(Self::arm).ok_or_else(|| ProductError {
            name: name.to_owned(),
            known: ARCHITECTURES
                .iter()
                .map(|(name, _)| *name)
                .chain(Self::names())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Names of all products that have tables.
    pub fn names() -> impl Iterator<Item = &'static str> {
        table::products().iter().map(|row| row.product.as_str())
    }

    /// The architecture's version as the product's table gives it, e.g. `armv8.4`.
    #[must_use]
    pub fn architecture_version(&self) -> &str {
        let row = table::products()
            .iter()
            .find(|row| row.product == self.name);
        row.map_or(&self.name, |row| &row.architecture)
    }

    /// Its name, e.g. `neoverse-n1`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its architecture.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    pub(super) fn event_rows(&self) -> Vec<EventRow> {
        let rows = table::events().iter();
        rows.filter(|row| row.product == self.name)
            .cloned()
            .collect()
    }

    pub(super) fn host_event_rows(&self) -> Vec<EventRow> {
        let rows = table::events().iter();
        rows.filter(|row| self.counts_host && row.product == "lab-host")
            .cloned()
            .collect()
    }

    pub(super) fn metric_rows(&self) -> Vec<MetricRow> {
        let own = |row: &&MetricRow| {
            row.product == self.name
                || (row.product == "arm" && self.architecture == Architecture::Arm)
        };
        table::metrics().iter().filter(own).cloned().collect()
    }

    pub(super) fn group_rows(&self) -> Vec<GroupRow> {
        let rows = table::groups().iter();
        rows.filter(|row| row.product == self.name)
            .cloned()
            .collect()
    }

    fn arm(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            architecture: Architecture::Arm,
            counts_host: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn midr(implementer: u64, variant: u64, part: u64, revision: u64) -> u64 {
        implementer << 24 | variant << 20 | 0xF << 16 | part << 4 | revision
    }

    #[test]
    fn a_core_is_known_by_its_midr() {
        let name = |midr| Product::from_midr(midr).name().to_owned();
        assert_eq!(name(midr(0x41, 3, 0xD0C, 1)), "neoverse-n1");
        assert_eq!(name(midr(0x41, 0, 0xD49, 3)), "neoverse-n2-r0p3");
        assert_eq!(name(midr(0x6D, 0, 0xD49, 0)), "neoverse-n2", "Cobalt 100");
        assert_eq!(name(midr(0x51, 1, 0x001, 0)), "armv8-a", "no table");
    }

    #[test]
    fn an_unknown_cpu_name_is_answered_with_the_known_ones() {
        assert_eq!(
            Product::by_name("Neoverse-V1").unwrap().name(),
            "neoverse-v1"
        );
        let message = Product::by_name("z80").unwrap_err().to_string();
        assert!(message.starts_with("warning: CPU name: \"z80\" not found, use armv8-a,"));
        assert!(message.contains("neoverse-n1"));
    }
}
