//! `cargo xtask`: what cargo can't do by itself.
#![forbid(unsafe_code)]

mod bench;
mod build;
mod demo;
mod packages;
mod test;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Builds, checks and demonstrates the workspace"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything, dock the driver, and measure a program with it.
    Demo {
        /// The program to measure, and its arguments.
        #[arg(last = true)]
        program: Vec<String>,
    },
    /// Install what the tests need and run them all.
    Test,
    /// Run the benchmarks and print their medians.
    Bench(bench::Arguments),
    /// Build the drivers to target/drivers/{x86_64,aarch64}.
    Drivers,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Demo { program } => demo::run(&program),
        Command::Test => test::run(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Drivers => build::drivers(&build::Processor::ALL),
    }
}
