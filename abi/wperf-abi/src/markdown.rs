//! The documentation of the contract, made from the tables.

use crate::ioctl::Layout;
use crate::record::RECORDS;
use crate::{CLIENT_PATH, Caller, Ioctl, Refusal};
use core::fmt::{Display, Formatter, Result};

/// The contract as a Markdown document (`ioctl.md` beside this crate is its output).
#[must_use]
pub fn markdown() -> impl Display {
    Document
}

struct Document;

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "# Calls of `{CLIENT_PATH}`\n")?;
        writeln!(f, "Made from the tables in `abi/wperf-abi`; do not edit.")?;
        writeln!(
            f,
            "All calls are METHOD_BUFFERED. All numbers are little-endian. States are of cores; in calls with \
             *Unit* in their name, of uncore units, whose numbers take the place of core numbers.\n"
        )?;
        calls(f)?;
        refusals(f)?;
        records(f)
    }
}

fn calls(f: &mut Formatter<'_>) -> Result {
    writeln!(
        f,
        "| call | code | access | caller | states | input | output | meaning |"
    )?;
    writeln!(f, "|---|---|---|---|---|---|---|---|")?;
    for &ioctl in Ioctl::ALL {
        write!(
            f,
            "| {} | {:#010X} | {:?} ",
            ioctl.name(),
            ioctl.code(),
            ioctl.access()
        )?;
        let caller = match ioctl.caller() {
            Caller::Anyone => "anyone",
            Caller::Owner => "owner",
        };
        write!(f, "| {caller} |")?;
        for state in ioctl.states() {
            write!(f, " {state:?}")?;
        }
        writeln!(
            f,
            " | {} | {} |{} |",
            Shape(ioctl.input()),
            Shape(ioctl.output()),
            ioctl.summary()
        )?;
    }
    Ok(())
}

struct Shape(Layout);

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.fixed {
            "" => f.write_str("–")?,
            fixed => f.write_str(fixed)?,
        }
        self.0
            .tails
            .iter()
            .try_for_each(|(tail, _)| write!(f, " + {tail} × n"))
    }
}

fn refusals(f: &mut Formatter<'_>) -> Result {
    writeln!(
        f,
        "\n## Refusals\n\n| refusal | NTSTATUS | Win32 | meaning |\n|---|---|---|---|"
    )?;
    for refusal in Refusal::ALL {
        let (status, error) = (refusal.ntstatus(), refusal.win32());
        writeln!(
            f,
            "| {refusal:?} | {status:#010X} | {error} | {} |",
            refusal.words()
        )?;
    }
    Ok(())
}

fn records(f: &mut Formatter<'_>) -> Result {
    for record in RECORDS {
        writeln!(
            f,
            "\n## {} ({} bytes)\n\n{}",
            record.name,
            record.bytes,
            record.about.trim()
        )?;
        writeln!(
            f,
            "\n| offset | field | type | meaning |\n|---|---|---|---|"
        )?;
        for field in record.fields {
            let about = field.about.trim();
            writeln!(
                f,
                "| {} | {} | {} | {about} |",
                field.offset, field.name, field.type_name
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    /// `cargo test -p wperf-abi -- --ignored` writes the file again after a change of the tables.
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ioctl.md");

    #[test]
    fn the_document_in_the_repository_is_what_the_tables_say() {
        assert_eq!(include_str!("../ioctl.md"), super::markdown().to_string());
    }

    #[test]
    #[ignore = "writes the document"]
    fn write_the_document() {
        extern crate std;
        std::fs::write(PATH, super::markdown().to_string()).unwrap();
    }
}
