//! `drydock serve`: dock a driver so that other processes can open it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use lab_client::socket::SocketPath;
use lab_dock::{Dock, Listener, Until, serve};
use lab_ntos::ClockKind;

use crate::dock_options::{MachineArguments, Pmu};
use crate::exit::BrokenRules;
use crate::session::SessionArguments;

/// What `drydock serve` takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The driver.
    driver: PathBuf,
    /// Where to listen; clients look where the environment says (see the README).
    #[arg(long)]
    socket: Option<PathBuf>,
    /// End with the last client.
    #[arg(long)]
    until_idle: bool,
    /// What the performance counters count.
    #[arg(long, value_enum, default_value_t = Pmu::Auto)]
    pmu: Pmu,
    #[command(flatten)]
    machine: MachineArguments,
    #[command(flatten)]
    session: SessionArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = lab_dock::read_driver(&arguments.driver)?;
    let path = match &arguments.socket {
        Some(path) => SocketPath::Given(path.clone()),
        None => SocketPath::of_driver(&read.driver.name)?,
    };
    let options = arguments.machine.options(arguments.pmu, ClockKind::Host);
    let listener = Listener::bind(&path)?;
    let dump = arguments.machine.open_dump()?;
    let mut dock = Dock::new(&read.driver, options, arguments.machine.debug_print())?;
    if let Some(dump) = dump {
        dock.on_stop(move |machine| {
            if let Err(error) = dump.write(machine) {
                eprintln!("drydock: {error:#}");
            }
        });
    }
    let session = arguments.session.begin(&dock, &arguments.driver)?;
    let (stop, trigger) = UnixStream::pair().context("cannot make a pipe")?;
    ctrlc::set_handler(move || {
        // A second signal finds the pipe full or closed: the first is enough.
        let _ = (&trigger).write(&[1]);
    })
    .context("cannot handle signals")?;
    let (name, source) = (dock.name().to_owned(), dock.machine().pmu_source());
    eprintln!(
        "{name} is docked at {} (PMU: {source})",
        path.as_path().display()
    );
    let until = if arguments.until_idle {
        Until::Idle
    } else {
        Until::Stopped
    };
    let ended = serve(dock, &listener, until, &stop)?;
    eprintln!("{name}: {} requests; {}", ended.requests, ended.verdict);
    if let Some(session) = session {
        session.finish()?;
    }
    if ended.verdict.is_clean() {
        Ok(())
    } else {
        Err(BrokenRules.into())
    }
}
