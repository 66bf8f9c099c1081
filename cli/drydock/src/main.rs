//! `drydock`: runs and verifies Windows kernel drivers on Linux.
#![forbid(unsafe_code)]

mod cli;
mod exit;
mod inspect;
mod provided;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Inspect(arguments) => inspect::run(&arguments),
    };
    exit::report(result)
}
