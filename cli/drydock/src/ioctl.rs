//! `drydock ioctl`: dock a driver, send it control requests, say what it answers.

mod requests;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use lab_dock::{CallError, Dock};
use lab_ntos::{ClockKind, Machine, Stopped};
use lab_verifier::Verdict;
use nt::NTSTATUS;
use serde::Serialize;

use crate::confine;
use crate::dock_options::{MachineArguments, Pmu};
use crate::exit::BrokenRules;
use requests::Request;

/// Time of the machine in which a request has to end before it is cancelled, and after.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What `drydock ioctl` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// The driver.
    driver: PathBuf,
    /// Device to open; the driver's first if not given.
    #[arg(long, value_name = "PATH")]
    device: Option<String>,
    /// What the performance counters count.
    #[arg(long, value_enum, default_value_t = Pmu::Model)]
    pmu: Pmu,
    #[command(flatten)]
    machine: MachineArguments,
    /// Do not confine the process.
    #[arg(long)]
    unconfined: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Control codes, each with --in HEX and --out N of its own behind it.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CODE [--in HEX] [--out N]"
    )]
    requests: Vec<String>,
}

const EXAMPLE: &str =
    "Example: drydock ioctl X.sys 0x222000 --in '00 01' --out 16 0x222004 --out 8";

/// A request and its answer.
#[derive(Debug, Serialize)]
struct Answer {
    code: String,
    status: String,
    status_code: String,
    information: usize,
    /// It stayed pending, and was cancelled in the end.
    cancelled: bool,
    /// In hexadecimal.
    output: String,
    #[serde(skip)]
    bytes: Vec<u8>,
}

#[derive(Debug, Serialize)]
struct Report {
    driver: String,
    device: String,
    requests: Vec<Answer>,
    verdict: Verdict,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (requests, json) = requests::parse(&arguments.requests)?;
    let json = json || arguments.json;
    let read = lab_dock::read_driver(&arguments.driver)?;
    let options = arguments.machine.options(arguments.pmu, ClockKind::Virtual);
    confine::unless(arguments.unconfined);
    let mut dock = Dock::new(&read.driver, options, arguments.machine.debug_print())?;
    let device = match &arguments.device {
        Some(device) => device.clone(),
        None => first_device(&dock)
            .context("the driver made no device with a name: there is nothing to open")?,
    };
    let mut report = Report {
        driver: dock.name().to_owned(),
        requests: Vec::new(),
        verdict: Verdict::default(),
        device,
    };
    let result = send_all(&dock, &report.device, &requests, &mut report.requests);
    if let Err(CallError::Refused(status)) = &result {
        let device = &report.device;
        anyhow::bail!("cannot open {device}: {status}");
    }
    report.verdict = verdict(&mut dock, result);
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        print(&mut out, &report)?;
    }
    if report.verdict.is_clean() {
        Ok(())
    } else {
        Err(BrokenRules.into())
    }
}

fn first_device(dock: &Dock) -> Option<String> {
    let devices = dock.survey()?.devices;
    devices
        .into_iter()
        .find_map(|device| device.links.into_iter().next().or(device.name))
}

fn send_all(
    dock: &Dock,
    device: &str,
    requests: &[Request],
    answers: &mut Vec<Answer>,
) -> Result<(), CallError> {
    let handle = dock.open(device)?;
    let machine = dock.machine();
    let mut sent = Vec::new();
    for request in requests {
        let begun =
            machine.begin_ioctl(handle.file(), request.code, &request.input, request.output)?;
        if let Ok(pending) = &begun {
            settle(machine, pending)?;
        }
        sent.push((request, begun));
    }
    for (request, begun) in sent {
        answers.push(match begun {
            Ok(pending) => outcome(machine, request, pending)?,
            Err(status) => answer(request.code, status, 0, Vec::new()),
        });
    }
    handle.close()
}

/// Lets the machine run until a request is complete, nothing more is due, or [`PATIENCE_NS`] of its time are over.
fn settle(machine: &Machine, request: &lab_ntos::Request) -> Result<(), Stopped> {
    let end = machine.now_ns() + PATIENCE_NS;
    while !machine.is_complete(request) {
        match machine.poll()? {
            Some(due) if machine.now_ns() + due < end => machine.sleep_ns(due)?,
            _ => break,
        }
    }
    Ok(())
}

/// What became of a request; one that is still pending is cancelled.
fn outcome(
    machine: &Machine,
    request: &Request,
    pending: lab_ntos::Request,
) -> Result<Answer, Stopped> {
    settle(machine, &pending)?;
    let cancelled = !machine.is_complete(&pending);
    if cancelled {
        machine.cancel(&pending)?;
        settle(machine, &pending)?;
    }
    let mut answer = if machine.is_complete(&pending) {
        let mut output = vec![0; request.output];
        let completion = machine.finish(pending, &mut output);
        output.truncate(completion.information);
        if completion.status.is_error() {
            output.clear();
        }
        answer(
            request.code,
            completion.status,
            completion.information,
            output,
        )
    } else {
        answer(request.code, nt::status::STATUS_PENDING, 0, Vec::new())
    };
    answer.cancelled = cancelled;
    Ok(answer)
}

fn answer(code: u32, status: NTSTATUS, information: usize, bytes: Vec<u8>) -> Answer {
    Answer {
        code: format!("{code:#x}"),
        status: status.to_string(),
        status_code: format!("{:#010x}", status.to_u32()),
        information,
        cancelled: false,
        output: bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
        bytes,
    }
}

/// Unloads the driver, unless the machine has stopped, and judges it.
fn verdict(dock: &mut Dock, result: Result<(), CallError>) -> Verdict {
    let mut verdict = Verdict {
        warnings: dock.machine().insecure_devices(),
        ..Verdict::default()
    };
    let ended = match result {
        Err(CallError::Stopped(stop)) => Err(stop),
        _ => dock.unload(),
    };
    verdict.findings = dock.machine().take_findings();
    match ended {
        Ok(leaks) => verdict.leaks = leaks,
        Err(Stopped(finding)) => verdict.findings.push((*finding).clone()),
    }
    verdict
}

fn print(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(out, "{} at {}", report.driver, report.device)?;
    for answer in &report.requests {
        writeln!(
            out,
            "{}: {}{}, information {}",
            answer.code,
            if answer.cancelled {
                "stayed pending; cancelled: "
            } else {
                ""
            },
            answer.status,
            answer.information
        )?;
        for (row, bytes) in answer.bytes.chunks(16).enumerate() {
            writeln!(out, "  {}", hex_row(row * 16, bytes))?;
        }
    }
    writeln!(out, "{}", report.verdict)
}

/// Offset, sixteen bytes, and what of them can be printed.
fn hex_row(offset: usize, bytes: &[u8]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let visible = |byte: &u8| {
        if byte.is_ascii_graphic() || *byte == b' ' {
            char::from(*byte)
        } else {
            '.'
        }
    };
    let text: String = bytes.iter().map(visible).collect();
    format!("{offset:04x}  {:<47}  {text}", hex.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_offset_bytes_and_text() {
        let row = hex_row(16, b"ab\x00\x1b");
        assert!(
            row.starts_with("0010  61 62 00 1b  ") && row.ends_with("  ab.."),
            "{row}"
        );
    }
}
