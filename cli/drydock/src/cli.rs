//! What can be typed.

use clap::{Parser, Subcommand};

use crate::{inspect, rules, run, serve, trace};

/// Runs and verifies Windows kernel drivers on Linux.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One command, one module.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell what a driver file is, what it needs, and what of that the lab lacks.
    Inspect(inspect::Arguments),
    /// List the rules that drivers are held to.
    Rules(rules::Arguments),
    /// Load a driver, run DriverEntry, unload it, and say what it did wrong or left behind.
    Run(run::Arguments),
    /// Dock a driver so that other processes can open it.
    Serve(serve::Arguments),
    /// Show what a driver recorded: live from a docked one, or from a file.
    Trace(Box<trace::Arguments>),
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the input is malformed; 4 the driver broke a rule.";
