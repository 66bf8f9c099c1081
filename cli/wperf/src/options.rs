//! What was typed: the table of commands and options, and the command line parsed by it.
//!
//! `--help`, the manual and the checks come from the two tables. The words of a command line stand in any order, as in
//! WindowsPerf; so commands are words among others, not sub-commands with options of their own.

mod help;
mod parse;
mod table;

pub use help::{help, markdown};
pub use parse::{Compat, Parsed, parse};
pub use table::{COMMANDS, CommandSpec, OPTIONS, OptionSpec};

use crate::{device::DriverOptions, grammar::cores::CoreList, profile::export::Export};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print the banner.
    Banner,
    /// Print the help.
    Help,
    /// Print versions.
    Version,
    /// Count.
    Stat,
    /// Sample a process that runs.
    Sample,
    /// Sample a program from its start.
    Record,
    /// List what can be named.
    List,
    /// Show the configuration.
    Test,
    /// Show where the driver is.
    Detect,
    /// Describe a name.
    Man,
    /// Hold the PMU.
    Lock,
    /// Show who holds the PMU.
    Status,
}

/// How much to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// `-q`.
    Quiet,
    /// Neither.
    #[default]
    Normal,
    /// `-v`.
    Verbose,
}

/// Everything typed, parsed but not yet looked at together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-e`, each as typed.
    pub events: Vec<String>,
    /// `-m`, each as typed.
    pub metrics: Vec<String>,
    /// `-c`.
    pub cores: Option<CoreList>,
    /// `--timeout`, `sleep`.
    pub timeout: Option<Duration>,
    /// `-t`.
    pub timeline: bool,
    /// `-i`.
    pub interval: Option<Duration>,
    /// `-n`; `None` for ever.
    pub repeats: Option<u32>,
    /// `--gapless`.
    pub gapless: bool,
    /// `-k`.
    pub kernel: bool,
    /// `--dmc`.
    pub dmc: Option<u32>,
    /// `-C`.
    pub user_metrics: Option<PathBuf>,
    /// `-E`.
    pub extra_events: Option<String>,
    /// `--config`, each as typed.
    pub config: Vec<String>,
    /// What is of sampling only.
    pub sampling: SamplingOptions,
    /// `--json`.
    pub json: bool,
    /// `--output`.
    pub output: Option<PathBuf>,
    /// `--output-csv`.
    pub output_csv: Option<String>,
    /// `--cwd`, `--output-prefix`.
    pub folder: Option<PathBuf>,
    /// `-v`, `-q`.
    pub verbosity: Verbosity,
    /// `--force-lock`, `--force`.
    pub force: bool,
    /// Where the driver is.
    pub driver: DriverOptions,
    /// Words after the command.
    pub operands: Vec<String>,
    /// Behind `--`.
    pub program: Vec<OsString>,
    /// `--compat`, `$WPERF_COMPAT`.
    pub compat: bool,
}

/// Options of `sample` and `record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingOptions {
    /// `--image_name`.
    pub image: Option<String>,
    /// `--pid`.
    pub pid: Option<u32>,
    /// `--pe_file`.
    pub executable: Option<PathBuf>,
    /// `--pdb_file`.
    pub pdb: Option<PathBuf>,
    /// `--sample-display-row`.
    pub rows: Option<u32>,
    /// `--sample-display-long`.
    pub long_names: bool,
    /// `-s`.
    pub symbol: Option<String>,
    /// `--record_spawn_delay`.
    pub delay: Duration,
    /// `--annotate`, `--disassemble`.
    pub annotate: bool,
    /// `--disassemble`.
    pub disassemble: bool,
    /// `--export`, `--export_perf_data`.
    pub exports: Vec<Export>,
}
