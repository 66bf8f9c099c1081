//! The `wperf` executable: hands the process's surroundings to the library.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    io,
    process::ExitCode,
    sync::mpsc::{self, Receiver},
};
use wperf::{command::World, device, exit::Outcome, options::Compat, run, wait::Interrupt};

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    #[cfg(unix)]
    if words
        .first()
        .is_some_and(|word| word == wperf::program::EXEC_STOPPED)
    {
        let error = wperf::program::exec_stopped(&words[1..]);
        eprintln!("{error}");
        return ExitCode::from(127);
    }
    let compat = match env::var_os("WPERF_COMPAT") {
        Some(value) if value == "1" => Compat::On,
        _ => Compat::Off,
    };
    let outcome = match surroundings() {
        Ok((launcher, interrupts)) => {
            let world = World {
                open: &device::open,
                open_running: &device::open_running,
                interrupts,
                launcher,
            };
            run(&words, compat, &world, &mut io::stdout(), &mut io::stderr())
        }
        Err(error) => {
            eprintln!("{error}");
            Outcome::Failure
        }
    };
    ExitCode::from(outcome.code())
}

fn surroundings() -> Result<(std::path::PathBuf, Receiver<Interrupt>), Box<dyn std::error::Error>> {
    let (sender, interrupts) = mpsc::channel();
    ctrlc::set_handler(move || {
        // Nobody waits any more: the run is about to end anyway.
        let _ = sender.send(Interrupt);
    })?;
    Ok((env::current_exe()?, interrupts))
}
