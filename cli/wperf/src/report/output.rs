//! Where output goes: standard output, standard error, and files.

use crate::{
    failure::{Failure, Result},
    options::{Options, Verbosity},
};
use serde_json::Value;
use std::{
    fs,
    io::{ErrorKind, IsTerminal, Write},
    path::{Path, PathBuf},
};

/// What is printed, where, and how much of it.
pub struct Console<'w> {
    out: &'w mut dyn Write,
    err: &'w mut dyn Write,
    verbosity: Verbosity,
    json_only: bool,
}

impl<'w> Console<'w> {
    /// Prints to `out` and `err` as the options say.
    pub fn new(out: &'w mut dyn Write, err: &'w mut dyn Write, options: &Options) -> Self {
        Self {
            out,
            err,
            verbosity: options.verbosity,
            json_only: options.json,
        }
    }

    /// Prints a text that is the command's answer; `--json` replaces it.
    ///
    /// Errors: standard output cannot be written.
    pub fn answer(&mut self, text: &str) -> Result<()> {
        if self.json_only {
            return Ok(());
        }
        print(self.out, text)
    }

    /// Prints a line about the run's progress; `-q` and `--json` suppress it.
    ///
    /// Errors: standard output cannot be written.
    pub fn progress(&mut self, line: &str) -> Result<()> {
        match self.verbosity {
            Verbosity::Quiet => Ok(()),
            _ => self.answer(&format!("{line}\n")),
        }
    }

    /// Prints a line for `-v` only.
    ///
    /// Errors: standard output cannot be written.
    pub fn detail(&mut self, line: &str) -> Result<()> {
        match self.verbosity {
            Verbosity::Verbose => self.answer(&format!("{line}\n")),
            _ => Ok(()),
        }
    }

    /// Prints a warning on standard error.
    ///
    /// Errors: standard error cannot be written.
    pub fn warn(&mut self, line: &str) -> Result<()> {
        print(self.err, &format!("{line}\n"))
    }

    /// Whether a live display makes sense.
    #[must_use]
    pub fn shows_progress_bar(&self) -> bool {
        let wanted = !self.json_only && self.verbosity != Verbosity::Quiet;
        wanted && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Prints or writes a JSON document where the options want it.
    ///
    /// Errors: standard output or the file cannot be written.
    pub fn json(&mut self, document: &Value, options: &Options) -> Result<()> {
        let text = format!("{document:#}\n");
        if let Some(path) = json_file(options) {
            fs::write(&path, &text).map_err(|error| Failure::file(&path, &error))?;
        }
        if self.json_only {
            print(self.out, &text)?;
        }
        Ok(())
    }
}

/// A reader who has seen enough (`wperf list | head`) is no failure.
fn print(to: &mut dyn Write, text: &str) -> Result<()> {
    match to.write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// The file for JSON: in a timeline without `--json`, `--output` means the CSV file.
fn json_file(options: &Options) -> Option<PathBuf> {
    let is_csv = options.timeline && !options.json;
    let path = options.output.as_ref().filter(|_| !is_csv)?;
    Some(in_folder(path, options))
}

/// An output file's path, in the folder of `--cwd`.
#[must_use]
pub fn in_folder(path: &Path, options: &Options) -> PathBuf {
    match &options.folder {
        Some(folder) => folder.join(path),
        None => path.to_owned(),
    }
}
