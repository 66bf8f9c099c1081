//! `drydock trace`: show what a driver recorded.

mod dump;
mod live;
mod messages;
mod output;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lab_client::socket::SocketPath;
use lab_image::{Image, Symbols, SymbolsError};
use trace_decode::filter::Condition;
use trace_decode::formats::Formats;
use trace_decode::stream::File;
use trace_decode::{Catalogue, Filter, Stream, tmf};
use trace_format::Level;

use live::{Live, Wanted};
use output::{Form, Output};

/// What `drydock trace` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A trace that `--write` made, or a crash dump; without it, the docked driver is asked.
    file: Option<PathBuf>,
    /// The driver file, with its PDB beside it.
    #[arg(long, required_unless_present = "tmf")]
    driver: Option<PathBuf>,
    /// Show the messages of an event trace log, as `drydock serve --etw` writes one.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["file", "follow", "for", "command", "write"])]
    etw: Option<PathBuf>,
    /// The formats of the messages; without them, those that the driver file gives.
    #[arg(long, value_name = "FILE", requires = "etw")]
    tmf: Option<PathBuf>,
    /// Go on until interrupted, or until the command at the end has ended.
    #[arg(long, conflicts_with = "file")]
    follow: bool,
    /// Go on for so many seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "file", value_parser = seconds)]
    r#for: Option<Duration>,
    /// Where the driver is docked.
    #[arg(long, conflicts_with = "file")]
    socket: Option<PathBuf>,
    /// The driver's device, if the file does not tell.
    #[arg(long, conflicts_with = "file")]
    device: Option<String>,
    /// Record the first events, not the last, when a ring is full.
    #[arg(long, conflicts_with = "file")]
    keep_first: bool,
    /// Put what was read into a file, as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    write: Option<PathBuf>,
    #[command(flatten)]
    wanted: Selected,
    #[command(flatten)]
    shown: Shown,
    /// Run this meanwhile, and end with it.
    #[arg(last = true, conflicts_with = "file")]
    command: Vec<String>,
}

/// Which events.
#[derive(Debug, Args)]
struct Selected {
    /// At most this level.
    #[arg(long, value_parser = level)]
    level: Option<Level>,
    /// Of this flag.
    #[arg(long = "flag", value_name = "FLAG")]
    flags: Vec<String>,
    /// In a function, or inlined into one, with this in its name.
    #[arg(long = "function", value_name = "PART")]
    functions: Vec<String>,
    /// On this processor.
    #[arg(long = "cpu", value_name = "NUMBER")]
    processors: Vec<u32>,
    /// Not earlier; time counts from the beginning of the trace.
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    since: Option<f64>,
    /// Not later.
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    until: Option<f64>,
    /// With an argument that is so: `took_ns>1000`; also = != < <= >= and ~ for "contains".
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,
}

/// How.
#[derive(Debug, Args)]
struct Shown {
    /// What it becomes.
    #[arg(long = "as", value_enum, default_value_t = Form::Text)]
    form: Form,
    /// Where it goes, if not to standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// File and line behind each event.
    #[arg(long)]
    places: bool,
    /// Colours.
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    colour: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// On a terminal.
    Auto,
    Always,
    Never,
}

const EXAMPLES: &str = "\
Examples:
  drydock trace --driver wperf-driver.sys --follow
  drydock trace --driver wperf-driver.sys --level warning -- wperf stat -e cycles -c 0 -- sleep 1
  drydock trace --driver wperf-driver.sys --for 2 --as perfetto -o trace.pftrace
  drydock trace MEMORY.DMP --driver wperf-driver.sys
  drydock trace --driver wperf-driver.sys --etw log.etl";

fn level(text: &str) -> Result<Level, String> {
    let known = Level::ALL
        .into_iter()
        .find(|level| level.name().starts_with(text));
    known
        .filter(|_| !text.is_empty())
        .ok_or_else(|| format!("levels are {}", Level::ALL.map(Level::name).join(", ")))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(log) = &arguments.etw {
        return messages::show(
            log,
            &formats_for_log(arguments)?,
            arguments.shown.output.as_deref(),
        );
    }
    let driver = arguments.driver.as_deref().context("no driver file")?;
    let (image, catalogue) = catalogue(driver)?;
    match arguments.shown.form {
        Form::Tmf => return put(arguments, &tmf::tmf(&catalogue, &stem(driver))?),
        Form::Guids => return put(arguments, &tmf::guids(&catalogue)?),
        _ => {}
    }
    let filter = arguments.wanted.filter();
    let output = arguments.shown.open()?;
    match &arguments.file {
        Some(file) => decode(file, &catalogue, &filter, output),
        None => follow(arguments, driver, &image, &catalogue, &filter, output),
    }
}

/// What a driver file says of its events.
pub(crate) fn catalogue(driver: &Path) -> anyhow::Result<(Image, Catalogue)> {
    let bytes =
        std::fs::read(driver).with_context(|| format!("cannot read {}", driver.display()))?;
    let image = Image::parse(&bytes).with_context(|| driver.display().to_string())?;
    let pdb = match Symbols::pdb_beside(&image, driver) {
        Ok(pdb) => Some(pdb),
        Err(error @ (SymbolsError::NoReference | SymbolsError::NotFound { .. })) => {
            eprintln!("drydock: functions are not named: {error}");
            None
        }
        Err(error) => return Err(error.into()),
    };
    let catalogue = Catalogue::read(&image, pdb).with_context(|| driver.display().to_string())?;
    Ok((image, catalogue))
}

/// The name of a driver, by its file.
fn stem(driver: &Path) -> String {
    let stem = driver.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The formats of a log's messages.
fn formats_for_log(arguments: &Arguments) -> anyhow::Result<Formats> {
    let (text, from) = match (&arguments.tmf, &arguments.driver) {
        (Some(path), _) => {
            let read = std::fs::read_to_string(path);
            let text = read.with_context(|| format!("cannot read {}", path.display()))?;
            (text, path.display().to_string())
        }
        (None, Some(driver)) => {
            let (_, catalogue) = catalogue(driver)?;
            let written = tmf::tmf(&catalogue, &stem(driver))?;
            (written.text, written.name)
        }
        (None, None) => bail!("say --tmf or --driver"),
    };
    Formats::parse(&text).context(from)
}

/// Writes a file for tools of Windows.
fn put(arguments: &Arguments, written: &tmf::Written) -> anyhow::Result<()> {
    let path = match &arguments.shown.output {
        Some(path) => path.clone(),
        None => PathBuf::from(&written.name),
    };
    std::fs::write(&path, &written.text)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn decode(
    path: &Path,
    catalogue: &Catalogue,
    filter: &Filter,
    mut output: Output,
) -> anyhow::Result<()> {
    if dump::is_dump(path)? {
        return dump::decode(path, catalogue, filter, output);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let place = || path.display().to_string();
    let file = File::open(&bytes).with_context(place)?;
    file.header.check(catalogue).with_context(place)?;
    let mut stream = Stream::new(catalogue, file.header);
    let batch = file.decode(&mut stream).with_context(place)?;
    output.batch(&batch, &stream.time(), filter)?;
    output.finish(&stream)
}

fn follow(
    arguments: &Arguments,
    driver: &Path,
    image: &Image,
    catalogue: &Catalogue,
    filter: &Filter,
    mut output: Output,
) -> anyhow::Result<()> {
    let path = match &arguments.socket {
        Some(path) => SocketPath::Given(path.clone()),
        None => SocketPath::of_driver(&stem(driver))?,
    };
    let device = match &arguments.device {
        Some(device) => device.clone(),
        None => live::device_of(image).context("the file names no device: say --device")?,
    };
    let live = Live::connect(&path, &device)?;
    let header = live.header()?;
    header.check(catalogue)?;
    let goes_on = arguments.follow || arguments.r#for.is_some() || !arguments.command.is_empty();
    let wanted = Wanted {
        level: arguments.wanted.level.unwrap_or(Level::Verbose),
        flags: arguments.wanted.flag_bits(catalogue)?,
        functions: &arguments.wanted.functions,
        keep_first: arguments.keep_first,
    };
    if goes_on {
        live.select(&wanted, catalogue)?;
    }
    // What is recorded may change with the selection, and so may the mode.
    let mut recording = live::Recording {
        live: &live,
        stream: Stream::new(catalogue, live.header()?),
        copy: arguments.write.as_deref().map(live::create).transpose()?,
    };
    recording.begin()?;
    let until = live::Until {
        duration: arguments.r#for,
        command: &arguments.command,
        once: !goes_on,
    };
    let ended = recording.run(&until, |batch, time| output.batch(batch, time, filter));
    if goes_on {
        // As drivers begin: a flight recorder.
        live.select(&Wanted::REST, catalogue)?;
    }
    let outcome = ended?;
    output.finish(&recording.stream)?;
    if let Some(status) = outcome.filter(|status| !status.success()) {
        bail!("the command ended with {status}");
    }
    Ok(())
}

impl Selected {
    fn filter(&self) -> Filter {
        const NS_PER_MS: f64 = 1e6;
        Filter {
            level: self.level,
            flags: self.flags.clone(),
            functions: self.functions.clone(),
            processors: self.processors.clone(),
            since_ns: self.since.map(|ms| ms * NS_PER_MS),
            until_ns: self.until.map(|ms| ms * NS_PER_MS),
            conditions: self.conditions.clone(),
        }
    }

    fn flag_bits(&self, catalogue: &Catalogue) -> anyhow::Result<u32> {
        if self.flags.is_empty() {
            return Ok(u32::MAX);
        }
        let names = self.flags.iter().map(String::as_str);
        match catalogue.flags(names) {
            Ok(bits) => Ok(bits),
            Err(name) => bail!("the driver has no flag `{name}`"),
        }
    }
}

impl Shown {
    fn open(&self) -> anyhow::Result<Output> {
        let colours = match self.colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => self.output.is_none() && std::io::stdout().is_terminal(),
        };
        let printer = trace_decode::text::Printer {
            colours,
            places: self.places,
        };
        Output::open(self.form, self.output.as_deref(), printer)
    }
}
