//! The tables: what may be typed, and what it means.

use super::Command;

/// A command word.
#[derive(Debug)]
pub struct CommandSpec {
    /// As typed.
    pub word: &'static str,
    /// What it leads to; `None`: WindowsPerf has it, this version does not.
    pub command: Option<Command>,
    /// Operands after it.
    pub operands: &'static str,
    /// Whether it talks to the driver.
    pub needs_driver: NeedsDriver,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// Whether a command talks to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsDriver {
    /// Works without.
    No,
    /// Says more when it is there.
    Optional,
    /// Fails without.
    Yes,
    /// Takes cores from it.
    Owns,
}

impl NeedsDriver {
    /// In a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Optional => "if there",
            Self::Yes => "yes",
            Self::Owns => "yes, and owns cores",
        }
    }
}

macro_rules! commands {
    ($($word:literal $operands:literal => $command:expr, $needs:ident, $help:literal;)*) => {
        /// All commands, in the order of the help.
        pub const COMMANDS: &[CommandSpec] = &[$(CommandSpec {
            word: $word, command: $command, operands: $operands, needs_driver: NeedsDriver::$needs, help: $help,
        }),*];
    };
}

commands! {
    "stat" "[-- PROGRAM ARGS]" => Some(Command::Stat), Owns, "Counts events, until a time is over, a program has ended, or Ctrl-C.";
    "list" "" => Some(Command::List), Optional, "Lists the events, metrics and groups of metrics that can be named.";
    "man" "[CPU/]NAME" => Some(Command::Man), Optional, "Describes an event, a metric or a group of metrics.";
    "test" "" => Some(Command::Test), Yes, "Shows the configuration of driver and hardware; with -e or -m also how the events would be scheduled.";
    "detect" "" => Some(Command::Detect), Yes, "Lists the devices of the driver.";
    "lock" "" => Some(Command::Lock), Owns, "Holds the PMU of all or the named cores until Ctrl-C or a time is over.";
    "status" "" => Some(Command::Status), Yes, "Shows who holds which core's PMU, and since when; also `lock --status`.";
    "sample" "" => None, No, "Not in this version: sampling of a running process.";
    "record" "" => None, No, "Not in this version: sampling of a program from its start.";
}

/// An option.
#[derive(Debug)]
pub struct OptionSpec {
    /// How the parser's result is asked for it.
    pub id: &'static str,
    /// Spellings with their dashes; the first is the usual one.
    pub names: &'static [&'static str],
    /// Name of its argument; empty for a switch.
    pub argument: &'static str,
    /// What it does.
    pub help: &'static str,
}

impl OptionSpec {
    /// Whether an argument follows.
    #[must_use]
    pub const fn takes_argument(&self) -> bool {
        !self.argument.is_empty()
    }
}

macro_rules! options {
    ($($id:literal: $($name:literal)+, $argument:literal, $help:literal;)*) => {
        /// All options, in the order of the help.
        pub const OPTIONS: &[OptionSpec] = &[$(OptionSpec {
            id: $id, names: &[$($name),+], argument: $argument, help: $help,
        }),*];
    };
}

options! {
    "events": "-e", "LIST", "Events: names, rHEX or numbers, separated by commas; {a,b} are counted at the same time. May be repeated.";
    "metrics": "-m", "LIST", "Metrics and groups of metrics, separated by commas. May be repeated.";
    "cores": "-c" "--cpu" "--cores", "LIST", "Cores: numbers and ranges a-b, separated by commas. Default: all; one for a program.";
    "timeout": "--timeout", "TIME", "How long to count; also written `sleep TIME`. Units ms, s, m, h, d; seconds without. Default: until Ctrl-C.";
    "timeline": "-t", "", "Counts again and again, with a pause between.";
    "interval": "-i", "TIME", "Pause between the counts of -t. Default: 60 s.";
    "repeats": "-n", "N", "Number of counts of -t. Default: 0, for ever.";
    "kernel": "-k", "", "Counts the kernel too.";
    "dmc": "--dmc", "N", "One channel of the memory controller only.";
    "user-metrics": "-C", "FILE", "More metrics: lines `name:event,event`; # begins a comment.";
    "extra-events": "-E", "FILE|LIST", "More events: name:hex, separated by commas, or a file of such.";
    "config": "--config", "NAME=VALUE", "count.period=MS: how long each window of a multiplexed count lasts, 10 to 100.";
    "json": "--json", "", "Prints JSON instead of tables.";
    "output": "--output" "-o", "FILE", "Writes JSON into FILE; with -t and without --json, names the CSV file.";
    "output-csv": "--output-csv", "FILE", "Names the CSV file of -t; {timestamp}, {class} and {core} are replaced.";
    "folder": "--cwd" "--output-prefix", "DIR", "Folder for output files with relative names.";
    "verbose": "-v" "--verbose", "", "Says more.";
    "quiet": "-q" "--quiet", "", "Says less.";
    "force": "--force-lock" "--force", "", "Takes cores from another process, which loses its count.";
    "status": "--status", "", "With `lock`: as `status`.";
    "driver": "--driver", "FILE", "The .sys to dock when none is docked (not on Windows). Default: $WPERF_DRIVER, or beside this program.";
    "compat": "--compat", "", "Ignores unknown options with a warning, as WindowsPerf does; also $WPERF_COMPAT=1.";
    "list": "-l", "", "As `list`.";
    "version": "--version" "-version", "", "Prints the versions of this program and of the driver.";
    "help": "--help" "-h", "", "Prints this text.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_means_two_things() {
        let mut seen = HashSet::new();
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            assert!(seen.insert(*name), "{name}");
            assert!(name.starts_with('-'));
        }
        for spec in COMMANDS {
            assert!(seen.insert(spec.word), "{}", spec.word);
        }
    }
}
