//! The way through the house: build, verify, dock, measure, be refused, judge.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::build::{self, Processor};

/// Exit code of `wperf` when another holds the PMU (docs/wperf.md).
const BUSY: i32 = 3;

/// What a PMU that counts no program has.
const NO_PERF: &str = "elapsed-ns,timestamp-ticks";

/// Runs the demonstration over a program of the user's, or one of ours.
pub(crate) fn run(program: &[String]) -> anyhow::Result<()> {
    heading("building the driver for Windows, and the tools for this machine");
    build::driver(Processor::X64, &["wperf-driver"])?;
    let programs = build::programs()?;
    let driver = build::target_folder().join("drivers/x86_64/wperf-driver.sys");
    println!("{}", driver.display());

    heading("loading, unloading and verifying it, 1000 times");
    let file = driver.to_string_lossy();
    run_tool(
        &programs,
        "drydock",
        &["run", &file, "--cycles", "1000"],
        None,
    )?;

    let socket = std::env::temp_dir().join(format!("drydock-demo-{}.sock", std::process::id()));
    let dock = Docked::start(&programs, &driver, &socket)?;
    let drydock = programs.join("drydock");
    let own = [
        &*drydock.to_string_lossy(),
        "run",
        &file,
        "--cycles",
        "5000",
    ]
    .map(str::to_owned);
    let program = if program.is_empty() { &own } else { program };
    let folder = build::target_folder().display().to_string();
    let wperf = |words: &str| {
        let program = program.iter().map(String::as_str);
        let behind = ["--cwd", &folder, "--"].into_iter().chain(program);
        let arguments: Vec<&str> = words.split(' ').chain(behind).collect();
        run_tool(&programs, "wperf", &arguments, Some(&socket))
    };
    heading("counting a program through the driver");
    wperf(&format!("stat -c 0 -e {}", dock.events))?;
    if dock.events != NO_PERF {
        heading("sampling it: its hot functions, and a flame graph of them");
        wperf("record -e cpu-cycles:1000000 --sample-display-row 8 --export flame=hot.svg")?;
    }

    heading("two at once: the second is told who holds the PMU");
    two_instances(&programs, &socket)?;

    heading("undocking: the verdict");
    dock.stop()
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

fn tool(folder: &Path, name: &str, arguments: &[&str], socket: Option<&Path>) -> Command {
    let mut command = Command::new(folder.join(name));
    command.args(arguments);
    if let Some(socket) = socket {
        command.env("DRYDOCK_SOCKET", socket);
    }
    command
}

fn run_tool(
    folder: &Path,
    name: &str,
    arguments: &[&str],
    socket: Option<&Path>,
) -> anyhow::Result<()> {
    println!("$ {name} {}", arguments.join(" "));
    let status = tool(folder, name, arguments, socket)
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

fn two_instances(programs: &Path, socket: &Path) -> anyhow::Result<()> {
    println!("$ wperf lock -c 0 --timeout 30 &");
    let mut holder = tool(
        programs,
        "wperf",
        &["lock", "-c", "0", "--timeout", "30"],
        Some(socket),
    )
    .stdout(Stdio::null())
    .spawn()?;
    let second = second_instance(programs, socket);
    println!("$ kill -9 {}", holder.id());
    holder.kill()?;
    holder.wait()?;
    second?;
    run_tool(programs, "wperf", &["status"], Some(socket))
}

fn second_instance(programs: &Path, socket: &Path) -> anyhow::Result<()> {
    let arguments = ["stat", "-c", "0", "-e", "cpu-cycles", "--timeout", "1"];
    // The holder needs a moment to get hold; asking again is what a person would do.
    for _ in 0..100 {
        let state = tool(programs, "wperf", &["status"], Some(socket)).output()?;
        if String::from_utf8_lossy(&state.stdout).contains("busy") {
            println!("$ wperf {}", arguments.join(" "));
            let status = tool(programs, "wperf", &arguments, Some(socket)).status()?;
            println!("(exit code {})", status.code().unwrap_or(-1));
            let was_told = status.code() == Some(BUSY);
            ensure!(
                was_told,
                "the second instance was not told that the PMU is busy"
            );
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the first instance never got hold of the PMU")
}

/// A running `drydock serve`.
struct Docked {
    server: Child,
    output: BufReader<std::process::ChildStderr>,
    /// Events that its PMU can count.
    events: String,
}

impl Docked {
    fn start(programs: &Path, driver: &Path, socket: &Path) -> anyhow::Result<Self> {
        let arguments = [
            "serve",
            &driver.to_string_lossy(),
            "--socket",
            &socket.to_string_lossy(),
        ];
        let mut server = tool(programs, "drydock", &arguments, None)
            .stderr(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(server.stderr.take().context("no output of the dock")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        print!("{line}");
        if !line.contains("is docked") {
            let _ = server.kill();
            bail!("the driver could not be docked");
        }
        let events = if line.contains("perf-software") {
            "task-clock-ns,page-faults,context-switches"
        } else if line.contains("perf") {
            "instructions,branches,branch-misses"
        } else {
            NO_PERF
        };
        Ok(Self {
            server,
            output,
            events: events.into(),
        })
    }

    /// Asks it to end, as Ctrl-C does, and passes its verdict on.
    fn stop(mut self) -> anyhow::Result<()> {
        build::run(Command::new("kill").args(["-INT", &self.server.id().to_string()]))?;
        std::io::copy(&mut self.output, &mut std::io::stdout())?;
        let status = self.server.wait()?;
        ensure!(status.success(), "drydock serve: {status}");
        Ok(())
    }
}

impl Drop for Docked {
    fn drop(&mut self) {
        // Ended already in the good case.
        let _ = self.server.kill();
    }
}
