//! The IRQL of each contract against what the reference says of the function.
//!
//! `data/ddi-irql.csv` has one row per declared function, with the text of
//! the "IRQL" requirement of its page in the WDK's reference; empty where the
//! reference has none. A text that refers to remarks has conditions that one
//! set of IRQLs can't say, and is not compared.

use std::collections::BTreeMap;

use nt::ke::{APC_LEVEL, DISPATCH_LEVEL, HIGH_LEVEL, IPI_LEVEL, PASSIVE_LEVEL};

const FACTS: &str = include_str!("data/ddi-irql.csv");

/// Contracts that differ from an unambiguous text, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "KeReleaseSpinLockFromDpcLevel",
        "the lock is also used by code that runs above DISPATCH_LEVEL, as its acquiring twin's page allows",
    ),
    (
        "KeTryToAcquireSpinLockAtDpcLevel",
        "as KeAcquireSpinLockAtDpcLevel, whose page says: at or above DISPATCH_LEVEL",
    ),
    (
        "ExAcquireFastMutexUnsafe",
        "also in a critical region below APC_LEVEL, as the remarks of its page say",
    ),
    (
        "ExReleaseFastMutexUnsafe",
        "also in a critical region below APC_LEVEL, as its acquiring twin",
    ),
    (
        "KeGetCurrentThread",
        "above DISPATCH_LEVEL the thread is whichever was interrupted: no driver can mean that",
    ),
];

fn facts() -> BTreeMap<&'static str, &'static str> {
    let rows = FACTS.lines().skip(1);
    rows.map(|row| row.split_once(',').expect("two columns"))
        .collect()
}

/// The set of IRQLs that a text means, if it is a plain one.
fn parse(text: &str) -> Option<u16> {
    let text = text.trim_matches(['"', '.', ' ']).replace("IRQL", "");
    let text: String = text.split_whitespace().collect();
    if text == "Anylevel" || text == "Any" {
        return Some(u16::MAX);
    }
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (operator, level) = text.split_at(at);
    let level = match level {
        "PASSIVE_LEVEL" => PASSIVE_LEVEL,
        "APC_LEVEL" => APC_LEVEL,
        "DISPATCH_LEVEL" => DISPATCH_LEVEL,
        "IPI_LEVEL" => IPI_LEVEL,
        // What devices interrupt at: anything below the clock's, which drivers never see.
        "DIRQL" | "HIGH_LEVEL" => HIGH_LEVEL,
        _ => return None,
    };
    let legal = |irql: u8| match operator {
        "" | "=" | "==" => Some(irql == level),
        "<=" => Some(irql <= level),
        "<" => Some(irql < level),
        ">=" => Some(irql >= level),
        _ => None,
    };
    (0..16).try_fold(0u16, |mask, irql| {
        Some(mask | u16::from(legal(irql)?) << irql)
    })
}

#[test]
fn every_declared_function_has_a_row_and_no_other() {
    let mut declared: Vec<_> = nt::contracts().map(|contract| contract.name).collect();
    declared.sort_unstable();
    let rows: Vec<_> = facts().into_keys().collect();
    assert_eq!(declared, rows);
}

#[test]
fn contracts_say_what_the_reference_says() {
    let facts = facts();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for contract in nt::contracts() {
        let Some(mask) = parse(facts[contract.name]) else {
            continue;
        };
        compared += 1;
        let listed = EXCEPTIONS.iter().any(|(name, _)| *name == contract.name);
        if (mask != contract.irql_mask) != listed {
            wrong.push(format!(
                "{}: contract {}, reference {}",
                contract.name, contract.irql, facts[contract.name]
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared > 100, "only {compared} texts were understood");
}

#[test]
fn texts_are_read_as_sets_of_levels() {
    assert_eq!(parse("PASSIVE_LEVEL"), Some(1));
    assert_eq!(parse("IRQL <=DISPATCH_LEVEL"), Some(0b111));
    assert_eq!(parse("< DISPATCH_LEVEL"), Some(0b11));
    assert_eq!(parse(">= DISPATCH_LEVEL"), Some(0xFFFC));
    assert_eq!(parse("Any level"), Some(u16::MAX));
    assert_eq!(parse("<= DISPATCH_LEVEL (see Remarks section)"), None);
    assert_eq!(parse("See Remarks section."), None);
    assert_eq!(parse(""), None);
}
