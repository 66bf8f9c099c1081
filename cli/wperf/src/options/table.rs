//! The tables: what may be typed, and what it means.

use super::Command;

/// A command word.
#[derive(Debug)]
pub struct CommandSpec {
    /// As typed.
    pub word: &'static str,
    /// What it leads to.
    pub command: Command,
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
    "stat" "[-- PROGRAM ARGS]" => Command::Stat, Owns, "Counts events, until a time is over, a program has ended, or Ctrl-C.";
    "sample" "" => Command::Sample, Owns, "Samples a process that runs: which functions it is in when events occur; until a time is over, it ends, or Ctrl-C.";
    "record" "[-- PROGRAM ARGS]" => Command::Record, Owns, "Starts a program, and samples it from its first instruction to its end.";
    "list" "" => Command::List, Optional, "Lists the events, metrics and groups of metrics that can be named.";
    "man" "[CPU/]NAME" => Command::Man, Optional, "Describes an event, a metric or a group of metrics.";
    "test" "" => Command::Test, Yes, "Shows the configuration of driver and hardware; with -e or -m also how the events would be scheduled.";
    "detect" "" => Command::Detect, Yes, "Lists the devices of the driver.";
    "lock" "" => Command::Lock, Owns, "Holds the PMU of all or the named cores until Ctrl-C or a time is over.";
    "status" "" => Command::Status, Yes, "Shows who holds which core's PMU, and since when; also `lock --status`.";
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
    "events": "-e", "LIST", "Events: names, rHEX or numbers, separated by commas; {a,b} are counted at the same time. For sampling NAME:INTERVAL, a sample each INTERVAL events. May be repeated.";
    "metrics": "-m", "LIST", "Metrics and groups of metrics, separated by commas. May be repeated.";
    "cores": "-c" "--cpu" "--cores", "LIST", "Cores: numbers and ranges a-b, separated by commas. Default: all; one idle core for a program.";
    "timeout": "--timeout", "TIME", "How long to count or sample; also written `sleep TIME`. Units ms, s, m, h, d; seconds without. Default: until Ctrl-C.";
    "timeline": "-t", "", "Counts again and again, with a pause between.";
    "interval": "-i", "TIME", "Pause between the counts of -t. Default: 60 s.";
    "gapless": "--gapless", "", "With -t: no pause between the counts, and none is lost; the counters run on, and are read at each end.";
    "repeats": "-n", "N", "Number of counts of -t. Default: 0, for ever.";
    "kernel": "-k", "", "Counts, or samples, the kernel too.";
    "dmc": "--dmc", "N", "One channel of the memory controller only.";
    "user-metrics": "-C", "FILE", "More metrics: lines `name:event,event`; # begins a comment.";
    "extra-events": "-E", "FILE|LIST", "More events: name:hex, separated by commas, or a file of such.";
    "config": "--config", "NAME[=VALUE]", "count.period=MS: how long each window of a multiplexed count lasts, 10 to 100. Without a value it is printed; so are count.period_min and count.period_max.";
    "image": "--image_name", "NAME", "File name of the program whose process is sampled. Default: that of --pe_file.";
    "pid": "--pid", "N", "Number of the process that is sampled.";
    "executable": "--pe_file", "FILE", "Executable of the process that is sampled; with `record`, also the program if none stands behind --.";
    "pdb": "--pdb_file", "FILE", "PDB of the executable. Default: the one that the executable names, or its name with .pdb.";
    "rows": "--sample-display-row", "N", "Functions that are printed of each event. Default: 50.";
    "long-names": "--sample-display-long", "", "Names of functions as the linker has them, or with their parameters.";
    "symbol": "-s" "--symbol", "PATTERN", "Prints only functions whose name has this part; ^ stands for its beginning, $ for its end. Case does not matter.";
    "delay": "--record_spawn_delay", "MS", "Samples the program only so many milliseconds after its start. Default: 0.";
    "annotate": "--annotate", "", "Prints the source lines that the samples of each function are at.";
    "disassemble": "--disassemble", "", "As --annotate, with the instructions of each line.";
    "export": "--export", "FORMAT=FILE", "Writes the samples for other tools: perf (perf.data), firefox (Firefox Profiler), folded (folded stacks), flame (flame graph, SVG). May be repeated.";
    "export-perf": "--export_perf_data", "", "As --export perf=perf.data.";
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
