//! From the words of a command line to [`Options`].

use super::{
    Command, Options, SamplingOptions, Verbosity,
    table::{COMMANDS, OPTIONS, OptionSpec},
};
use crate::{
    device::DriverOptions,
    failure::{Failure, Result},
    grammar::{cores, duration},
    profile::export::{self, Export, Format},
};
use clap::{Arg, ArgAction, ArgMatches, error::ErrorKind};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// A command line understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What to do.
    pub command: Command,
    /// How.
    pub options: Options,
    /// To be printed on standard error first: what was ignored.
    pub warnings: Vec<String>,
}

/// Parses the words behind the program's name. `compat` is what the environment says of `--compat`.
///
/// Errors: [`Outcome::Usage`](crate::exit::Outcome::Usage) for an unknown option or a missing argument, [`Outcome::Failure`](crate::exit::Outcome::Failure) for an argument that is not
/// of its grammar.
pub fn parse(words: &[OsString], compat: Compat) -> Result<Parsed> {
    let asked = own_words(words).any(|word| word == "--compat");
    let compat = asked || compat == Compat::On;
    let (words, warnings) = if compat {
        drop_unknown(words)
    } else {
        (words.to_vec(), Vec::new())
    };
    let matches = parser()
        .try_get_matches_from(words.iter().map(single_dash_version))
        .map_err(|error| usage(&error))?;
    let (command, operands, sleep) = command_of(&matches)?;
    let options = Options {
        compat,
        ..options_of(&matches, operands, sleep.as_deref())?
    };
    let takes_program = matches!(command, Command::Stat | Command::Record);
    if !options.program.is_empty() && !takes_program {
        return Err(Failure::usage(
            "only `stat` and `record` take a program behind --",
        ));
    }
    Ok(Parsed {
        command,
        options,
        warnings,
    })
}

/// Whether unknown options are ignored, as by WindowsPerf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// They are errors, unless `--compat` is among the options.
    Off,
    /// They are ignored with a warning.
    On,
}

/// The words that are ours: before `--`.
fn own_words(words: &[OsString]) -> impl Iterator<Item = &OsString> {
    words.iter().take_while(|word| *word != "--")
}

/// clap knows one letter behind one dash only.
fn single_dash_version(word: &OsString) -> OsString {
    if word == "-version" {
        "--version".into()
    } else {
        word.clone()
    }
}

fn option(word: &OsString) -> Option<&'static OptionSpec> {
    OPTIONS
        .iter()
        .find(|option| option.names.iter().any(|name| word == name))
}

/// WindowsPerf's way: whatever is not known is named and ignored.
fn drop_unknown(words: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut warnings) = (Vec::new(), Vec::new());
    let mut command = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            kept.push(word.clone());
            kept.extend(rest.cloned());
            break;
        }
        let known = option(word);
        let starts = command.is_none() && COMMANDS.iter().any(|spec| word == spec.word);
        let names = command.is_some_and(|c| c == "man") && !word.to_string_lossy().starts_with('-');
        if starts || names || known.is_some() || word == "sleep" {
            kept.push(word.clone());
        } else {
            let word = word.to_string_lossy();
            warnings.push(format!("warning: unexpected arg '{word}' ignored"));
        }
        if known.is_some_and(OptionSpec::takes_argument) || word == "sleep" {
            kept.extend(rest.next().cloned());
        }
        command = command.or(starts.then_some(word));
    }
    (kept, warnings)
}

/// clap's parser, made from the tables.
fn parser() -> clap::Command {
    let words = Arg::new("words").action(ArgAction::Append).num_args(0..);
    let program = Arg::new("program")
        .action(ArgAction::Append)
        .num_args(0..)
        .last(true)
        .value_parser(clap::value_parser!(OsString));
    clap::Command::new("wperf")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(OPTIONS.iter().map(argument))
        .arg(words)
        .arg(program)
}

fn argument(spec: &'static OptionSpec) -> Arg {
    let (action, hyphens) = match (spec.takes_argument(), spec.id) {
        (true, "events" | "metrics" | "config" | "export") => (ArgAction::Append, true),
        (true, _) => (ArgAction::Set, true),
        (false, _) => (ArgAction::SetTrue, false),
    };
    let mut argument = Arg::new(spec.id)
        .action(action)
        .allow_hyphen_values(hyphens);
    let letters = spec.names.iter().filter(|name| name.len() == 2);
    for (index, letter) in letters.filter_map(|name| name.chars().nth(1)).enumerate() {
        argument = match index {
            0 => argument.short(letter),
            _ => argument.short_alias(letter),
        };
    }
    let long = spec.names.iter().filter_map(|name| name.strip_prefix("--"));
    for (index, name) in long.enumerate() {
        argument = match index {
            0 => argument.long(name),
            _ => argument.alias(name),
        };
    }
    argument
}

fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let hint = match error.kind() {
        ErrorKind::UnknownArgument => " (use --compat to ignore it)",
        _ => "",
    };
    Failure::usage(format!("{first}{hint}\nUse --help for help."))
}

/// The command, its operands, and the time behind `sleep`.
fn command_of(matches: &ArgMatches) -> Result<(Command, Vec<String>, Option<String>)> {
    let mut command = None;
    let mut operands = Vec::new();
    let mut sleep = None;
    let mut words = matches.get_many::<String>("words").unwrap_or_default();
    while let Some(word) = words.next() {
        let spec = COMMANDS.iter().find(|spec| spec.word == word);
        match (spec, word.as_str()) {
            (Some(spec), _) if command.is_none() => command = Some(spec.command),
            (_, "sleep") => {
                let missing = || Failure::usage("`sleep` needs a time\nUse --help for help.");
                sleep = Some(words.next().ok_or_else(missing)?.clone());
            }
            _ => operands.push(word.clone()),
        }
    }
    let flag = |id| matches.get_flag(id);
    let command = match command {
        _ if flag("help") => Command::Help,
        Some(Command::Lock) if flag("status") => Command::Status,
        Some(command) => command,
        None if flag("version") => Command::Version,
        None if flag("list") => Command::List,
        None => Command::Banner,
    };
    match operands.first() {
        Some(word) if command != Command::Man => Err(Failure::usage(format!(
            "unexpected word '{word}'\nUse --help for help."
        ))),
        _ => Ok((command, operands, sleep)),
    }
}

fn options_of(matches: &ArgMatches, operands: Vec<String>, sleep: Option<&str>) -> Result<Options> {
    let one = |id| matches.get_one::<String>(id).map(String::as_str);
    let many = |id| {
        let values = matches.get_many::<String>(id).unwrap_or_default();
        values.cloned().collect::<Vec<String>>()
    };
    let flag = |id| matches.get_flag(id);
    let path = |id| one(id).map(PathBuf::from);
    let time = |id, option| {
        let text = one(id).or(sleep.filter(|_| id == "timeout"));
        text.map(|text| duration::parse(option, text)).transpose()
    };
    let program = matches.get_many::<OsString>("program").unwrap_or_default();
    Ok(Options {
        events: many("events"),
        metrics: many("metrics"),
        cores: one("cores").map(cores::parse).transpose()?,
        timeout: time("timeout", "--timeout")?,
        timeline: flag("timeline"),
        interval: time("interval", "-i")?,
        repeats: number("-n", one("repeats"))?.filter(|&n| n != 0),
        gapless: flag("gapless"),
        kernel: flag("kernel"),
        dmc: number("--dmc", one("dmc"))?,
        user_metrics: path("user-metrics"),
        extra_events: one("extra-events").map(str::to_owned),
        config: many("config"),
        sampling: sampling_of(matches)?,
        json: flag("json"),
        output: path("output"),
        output_csv: one("output-csv").map(str::to_owned),
        folder: path("folder"),
        verbosity: match (flag("quiet"), flag("verbose")) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        },
        force: flag("force"),
        driver: DriverOptions {
            driver: path("driver"),
        },
        operands,
        program: program.cloned().collect(),
        compat: false,
    })
}

fn sampling_of(matches: &ArgMatches) -> Result<SamplingOptions> {
    let one = |id| matches.get_one::<String>(id).map(String::as_str);
    let flag = |id| matches.get_flag(id);
    let exports = matches.get_many::<String>("export").unwrap_or_default();
    let mut exports = exports
        .map(|text| export::parse(text))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Failure::usage(error.to_string()))?;
    if flag("export-perf") {
        exports.push(Export {
            format: Format::Perf,
            path: PathBuf::from("perf.data"),
        });
    }
    let delay = number("--record_spawn_delay", one("delay"))?.unwrap_or_default();
    Ok(SamplingOptions {
        image: one("image").map(str::to_owned),
        pid: number("--pid", one("pid"))?,
        executable: one("executable").map(PathBuf::from),
        pdb: one("pdb").map(PathBuf::from),
        rows: number("--sample-display-row", one("rows"))?,
        long_names: flag("long-names"),
        symbol: one("symbol").map(str::to_owned),
        delay: Duration::from_millis(delay.into()),
        annotate: flag("annotate") || flag("disassemble"),
        disassemble: flag("disassemble"),
        exports,
    })
}

fn number(option: &str, text: Option<&str>) -> Result<Option<u32>> {
    let invalid = |text| format!("input: \"{text}\" to argument '{option}' is invalid");
    text.map(|text| text.parse().map_err(|_| Failure::other(invalid(text))))
        .transpose()
}

#[cfg(test)]
mod tests;
