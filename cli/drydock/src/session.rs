//! A session of event tracing on the lab's machine, into a log.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Args;
use lab_dock::Dock;
use lab_ntos::{Message, Stopped, TraceSession};
use trace_decode::etl::{About, Writer};
use trace_decode::formats::parse_guid;

use crate::trace::catalogue;

/// Which events of the driver go into a log.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// Let the driver write its events through ETW into this log (`.etl`).
    #[arg(long, value_name = "LOG")]
    etw: Option<PathBuf>,
    /// Highest level, 1 to 255; 0: all.
    #[arg(long, requires = "etw", default_value_t = 5)]
    etw_level: u8,
    /// Bits of flags; 0: all.
    #[arg(long, requires = "etw", default_value = "0xffffffff", value_parser = hexadecimal)]
    etw_flags: u32,
    /// Control GUID of the driver, if the file does not tell: that of any driver with WPP.
    #[arg(long, requires = "etw", value_name = "GUID", value_parser = guid)]
    etw_provider: Option<[u8; 16]>,
}

fn hexadecimal(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn guid(text: &str) -> Result<[u8; 16], String> {
    parse_guid(text).ok_or_else(|| "not a GUID".to_owned())
}

/// A log that is being written.
struct Log {
    writer: Writer<BufWriter<File>>,
    messages: u32,
    lost: u32,
    error: Option<io::Error>,
}

/// A session that has begun.
pub(crate) struct Session {
    log: Rc<RefCell<Log>>,
    path: PathBuf,
}

impl SessionArguments {
    /// Begins the session, if one is asked for.
    pub(crate) fn begin(&self, dock: &Dock, driver: &Path) -> anyhow::Result<Option<Session>> {
        let Some(path) = &self.etw else {
            return Ok(None);
        };
        let provider = match self.etw_provider {
            Some(provider) => provider,
            None => own_provider(driver)?,
        };
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let machine = dock.machine();
        let about = About {
            session: dock.name().to_owned(),
            file: path.display().to_string(),
            processors: u32::try_from(machine.cpu_count())?,
            build: lab_ntos::WINDOWS_BUILD,
            mhz: host_mhz().unwrap_or(1).max(1),
            start: machine.wall_time(),
        };
        let log = Rc::new(RefCell::new(Log {
            writer: Writer::new(BufWriter::new(file), about)?,
            messages: 0,
            lost: 0,
            error: None,
        }));
        let sink = {
            let log = log.clone();
            Box::new(move |message: Message<'_>| log.borrow_mut().take(message))
        };
        let session = TraceSession {
            provider,
            level: self.etw_level,
            flags: self.etw_flags,
            sink,
        };
        if let Err(Stopped(finding)) = machine.start_trace(session) {
            bail!("the driver broke a rule when it was told of the session: {finding}");
        }
        Ok(Some(Session {
            log,
            path: path.clone(),
        }))
    }
}

/// Rate of the host's processors, as it says.
fn host_mhz() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let (_, rate) = line.split_once(':')?;
    rate.trim().split('.').next()?.parse().ok()
}

/// The provider that a driver file names.
fn own_provider(driver: &Path) -> anyhow::Result<[u8; 16]> {
    let (_, catalogue) = catalogue(driver)?;
    let provider = catalogue.provider();
    Ok(provider
        .context("the driver names no provider: say --etw-provider")?
        .control)
}

impl Log {
    fn take(&mut self, message: Message<'_>) -> bool {
        let processor = u16::try_from(message.processor).unwrap_or(u16::MAX);
        match self.writer.push(processor, message.time, message.record) {
            Ok(()) => {
                self.messages += 1;
                true
            }
            Err(error) => {
                self.lost += 1;
                self.error.get_or_insert(error);
                false
            }
        }
    }
}

impl Session {
    /// Completes the log. The machine is gone: nothing writes any more.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let place = || format!("cannot write {}", self.path.display());
        let log = Rc::into_inner(self.log).map(RefCell::into_inner);
        let log = log.context("the machine still runs")?;
        if let Some(error) = log.error {
            return Err(error).with_context(place);
        }
        log.writer.finish(log.lost).with_context(place)?;
        eprintln!("{} messages in {}", log.messages, self.path.display());
        Ok(())
    }
}
