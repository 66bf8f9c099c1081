//! The rules: what each is, and the table of them.

mod table;

use nt::stop::StopCode;
pub use table::{RULES, RuleId};

/// One rule: what is checked, how a violation is reported, what to do.
#[derive(Debug)]
pub struct Rule {
    /// Its identity.
    pub id: RuleId,
    /// Kebab-case name, as printed and as used on command lines.
    pub name: &'static str,
    /// What it is about.
    pub class: Class,
    /// Whether the machine can go on after it was broken.
    pub severity: Severity,
    /// The stop code that Windows reports for it.
    pub stop: StopCode,
    /// The first parameter that names the rule under that stop code, where
    /// Windows documents one.
    pub subcode: Option<u64>,
    /// What the parameters are: of all four, or of those behind the sub-code where there is one.
    /// Those at the end that are always zero are left out.
    pub parameters: &'static [&'static str],
    /// What it means that the rule is broken.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// What a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Class {
    /// Pool: sizes, tags, frees, overruns.
    Pool,
    /// Interrupt request levels.
    Irql,
    /// Locks, critical regions and waits.
    Locks,
    /// I/O request packets and device stacks.
    Irp,
    /// Objects, handles, and what is left behind at unload.
    Objects,
    /// Memory that is not pool, and what the processor refuses.
    Memory,
    /// How long things may take.
    Time,
    /// What users may reach, and what they are told.
    Security,
    /// Code that can't be changed.
    Integrity,
    /// The lab itself.
    Lab,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Pool,
        Self::Irql,
        Self::Locks,
        Self::Irp,
        Self::Objects,
        Self::Memory,
        Self::Time,
        Self::Security,
        Self::Integrity,
        Self::Lab,
    ];

    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Irql => "irql",
            Self::Locks => "locks",
            Self::Irp => "irp",
            Self::Objects => "objects",
            Self::Memory => "memory",
            Self::Time => "time",
            Self::Security => "security",
            Self::Integrity => "integrity",
            Self::Lab => "lab",
        }
    }
}

/// Whether a machine can go on after a rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The finding is recorded, and the call does what Windows would do without a verifier, or nothing.
    Soft,
    /// The machine stops: memory is corrupted, or the thread can't go on.
    Hard,
}

impl RuleId {
    /// The table's entry.
    #[must_use]
    pub fn rule(self) -> &'static Rule {
        // The table and the enumeration come from one list, in one order.
        &RULES[self as usize]
    }
}

impl Rule {
    /// The parameters as Windows reports them: the sub-code, where there is one, comes first.
    #[must_use]
    pub fn reported(&self, parameters: [u64; 4]) -> [u64; 4] {
        let [first, rest @ ..] = parameters;
        let [second, third, fourth] = rest;
        [self.subcode.unwrap_or(first), second, third, fourth]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_finds_its_own_rule() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.id as usize, index);
            assert!(std::ptr::eq(rule.id.rule(), rule));
        }
    }

    #[test]
    fn names_are_unique_kebab_case_and_texts_are_sentences() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            let is_kebab = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(rule.name.chars().all(is_kebab), "{}", rule.name);
            let sentences = [rule.meaning, rule.remedy];
            assert!(
                sentences.iter().all(|text| text.ends_with('.')),
                "{}",
                rule.name
            );
            let room = if rule.subcode.is_some() { 3 } else { 4 };
            assert!(rule.parameters.len() <= room, "{}", rule.name);
        }
    }

    #[test]
    fn no_two_rules_claim_the_same_sub_code_unless_their_texts_differ() {
        for (index, one) in RULES.iter().enumerate() {
            for other in &RULES[..index] {
                let same =
                    one.subcode.is_some() && (one.stop, one.subcode) == (other.stop, other.subcode);
                assert!(
                    !same || one.meaning != other.meaning,
                    "{} and {}",
                    one.name,
                    other.name
                );
            }
        }
    }

    #[test]
    fn classes_are_contiguous_and_all_are_used() {
        let mut classes: Vec<Class> = RULES.iter().map(|rule| rule.class).collect();
        classes.dedup();
        assert_eq!(classes, Class::ALL);
    }

    #[test]
    fn a_sub_code_takes_the_place_of_the_first_parameter() {
        let with = RuleId::PoolZeroBytes.rule();
        assert_eq!(with.reported([9, 2, 0, 0]), [0, 2, 0, 0]);
        let without = RuleId::PageFault.rule();
        assert_eq!(without.reported([9, 1, 2, 3]), [9, 1, 2, 3]);
    }
}
