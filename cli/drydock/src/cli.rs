//! What can be typed.

use clap::{Parser, Subcommand};

use crate::{check, inspect, rules, run, serve, worker};

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
    /// Run a driver in many ways, each in a process of its own, and report what it does wrong.
    Check(check::Arguments),
    /// Tell what a driver file is, what it needs, and what of that the lab lacks.
    Inspect(inspect::Arguments),
    /// List the rules that drivers are held to.
    Rules(rules::Arguments),
    /// Load a driver, run DriverEntry, unload it, and say what it did wrong or left behind.
    Run(run::Arguments),
    /// Dock a driver so that other processes can open it.
    Serve(serve::Arguments),
    /// Run cases for `drydock check`.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the input is malformed; 4 the driver broke a rule. `check` has its own: see its help.";
