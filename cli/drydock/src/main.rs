//! `drydock`: runs and verifies Windows kernel drivers on Linux.
#![forbid(unsafe_code)]

mod check;
mod cli;
mod confine;
mod dock_options;
mod exit;
mod inspect;
mod ioctl;
mod provided;
mod rules;
mod run;
mod serve;
mod supervise;
mod trace;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if supervise::is_watched() {
        return supervise::own_end(exit::report(act(cli.command)));
    }
    let watched = match &cli.command {
        Command::Run(arguments) => Some(arguments.json),
        Command::Ioctl(arguments) => Some(arguments.json),
        _ => None,
    };
    let code = match watched.map(supervise::watch) {
        Some(Ok(code)) => code,
        Some(Err(error)) => exit::report(Err(error)),
        None => exit::report(act(cli.command)),
    };
    ExitCode::from(code)
}

fn act(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Ioctl(arguments) => ioctl::run(&arguments),
        Command::Rules(arguments) => rules::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
    }
}
