//! The document of the rules, made from the table.

use std::fmt::{Display, Formatter, Result};

use crate::rules::{Class, RULES, Rule, Severity};

/// The rules as a Markdown document (`docs/verifier.md` is its output).
#[must_use]
pub fn markdown() -> impl Display {
    Document
}

struct Document;

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "# What the lab checks\n")?;
        writeln!(
            f,
            "Made from the table in `lab/verifier`; do not edit. {} rules.\n",
            RULES.len()
        )?;
        writeln!(f, "{INTRODUCTION}")?;
        for class in Class::ALL {
            writeln!(f, "## {}\n", class.name())?;
            for rule in RULES.iter().filter(|rule| rule.class == class) {
                entry(f, rule)?;
            }
        }
        Ok(())
    }
}

const INTRODUCTION: &str = "\
After a broken *soft* rule the machine goes on: the call does what Windows without a verifier would
do, or nothing, and one run reports many findings. After a *hard* one it stops, because memory is
corrupted or the thread can't go on. Each entry names the stop code that Windows would report and its
parameters; those that are not named are zero.
";

fn entry(f: &mut Formatter<'_>, rule: &Rule) -> Result {
    let severity = match rule.severity {
        Severity::Soft => "soft",
        Severity::Hard => "hard",
    };
    writeln!(f, "### `{}` ({severity})\n", rule.name)?;
    writeln!(f, "{} {}\n", rule.meaning, rule.remedy)?;
    let name = rule.stop.name().unwrap_or("unnamed");
    write!(f, "Stop {:#X} {name}", rule.stop.0)?;
    let subcode = rule.subcode.map(|subcode| format!("{subcode:#X}"));
    let named = rule.parameters.iter().map(ToString::to_string);
    let parameters: Vec<String> = subcode.into_iter().chain(named).collect();
    if parameters.is_empty() {
        writeln!(f, ".\n")
    } else {
        writeln!(f, ": {}.\n", parameters.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    /// `cargo test -p lab-verifier -- --ignored` writes the file again after a change of the table.
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verifier.md");

    #[test]
    fn the_document_in_the_repository_is_what_the_table_says() {
        let document = include_str!("../../../docs/verifier.md");
        assert_eq!(document, super::markdown().to_string());
    }

    #[test]
    #[ignore = "writes the document"]
    fn write_the_document() {
        std::fs::write(PATH, super::markdown().to_string()).unwrap();
    }
}
