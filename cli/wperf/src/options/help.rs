//! The help and the manual's tables.

use super::table::{COMMANDS, OPTIONS, OptionSpec};
use crate::exit;
use std::fmt::Write;

/// Width of the help in characters.
const WIDTH: usize = 81;

/// The text of `--help`.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "NAME:\n    wperf - counts hardware events, and samples programs by them\n\nSYNOPSIS:\n    wperf COMMAND [OPTIONS] [-- PROGRAM ARGS]\n\nCOMMANDS:\n",
    );
    for spec in COMMANDS {
        entry(
            &mut text,
            &format!("{} {}", spec.word, spec.operands),
            spec.help,
        );
    }
    text.push_str("\nOPTIONS:\n");
    for spec in OPTIONS {
        entry(&mut text, &spelling(spec), spec.help);
    }
    text.push_str("\nEXIT CODES:\n");
    text.push_str(&exit::table_text());
    text
}

fn entry(text: &mut String, title: &str, help: &str) {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent("        ")
        .subsequent_indent("        ");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "    {}\n{}",
        title.trim_end(),
        textwrap::fill(help, options)
    );
}

fn spelling(spec: &OptionSpec) -> String {
    let argument = if spec.takes_argument() { " " } else { "" };
    format!("{}{argument}{}", spec.names.join(", "), spec.argument)
}

/// The tables of commands, options and exit codes, as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("## Commands\n\n| Command | Driver | Meaning |\n|---|---|---|\n");
    for spec in COMMANDS {
        let word = format!("{} {}", spec.word, spec.operands);
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            word.trim_end(),
            spec.needs_driver.word(),
            cell(spec.help)
        );
    }
    text.push_str("\n## Options\n\n| Option | Meaning |\n|---|---|\n");
    for spec in OPTIONS {
        let _ = writeln!(
            text,
            "| `{}` | {} |",
            cell(&spelling(spec)),
            cell(spec.help)
        );
    }
    text.push_str("\n## Exit codes\n\n");
    text.push_str(&exit::table_markdown());
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_everything_and_keeps_its_width() {
        let help = help();
        for spec in COMMANDS {
            assert!(help.contains(&format!("\n    {}", spec.word)));
        }
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            assert!(help.contains(name), "{name}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn the_manual_compares_each_option_with_windowsperf() {
        let manual = include_str!("../../../../docs/wperf.md");
        let (_, compared) = manual
            .split_once("\n## Compared with WindowsPerf\n")
            .unwrap();
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            let quoted = format!("`{name}`");
            let in_table = |line: &str| line.starts_with("| ") && line.contains(&quoted);
            assert!(compared.lines().any(in_table), "{name}");
        }
    }

    #[test]
    fn the_manual_holds_the_tables_as_they_are() {
        let manual = include_str!("../../../../docs/wperf.md");
        assert!(
            manual.contains(&markdown()),
            "docs/wperf.md is out of date; replace its tables by:\n{}",
            markdown()
        );
    }
}
