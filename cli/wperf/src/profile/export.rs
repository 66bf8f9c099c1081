//! Files for other tools.

mod firefox;
mod folded;
mod perf_data;

pub use folded::{Stack, stacks};

use super::{Profile, Symbols};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `perf.data` of Linux perf.
    Perf,
    /// Of the Firefox Profiler.
    Firefox,
    /// A line per stack, its frames separated by semicolons, and a count.
    Folded,
    /// A flame graph as SVG.
    Flame,
}

impl Format {
    /// All, with the word that chooses each.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Perf, "perf"),
        (Self::Firefox, "firefox"),
        (Self::Folded, "folded"),
        (Self::Flame, "flame"),
    ];
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Of which kind.
    pub format: Format,
    /// Where.
    pub path: PathBuf,
}

/// A text that is no `FORMAT=FILE`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--export {0}: use perf=FILE, firefox=FILE, folded=FILE or flame=FILE")]
pub struct ExportError(String);

/// Parses the argument of `--export`.
///
/// Errors: [`ExportError`].
pub fn parse(text: &str) -> Result<Export, ExportError> {
    let parts = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let format = parts.and_then(|(word, _)| {
        let mut all = Format::ALL.iter();
        all.find(|(_, known)| *known == word)
            .map(|(format, _)| *format)
    });
    match (format, parts) {
        (Some(format), Some((_, file))) => Ok(Export {
            format,
            path: file.into(),
        }),
        _ => Err(ExportError(text.to_owned())),
    }
}

/// What is written about a run beside its samples.
#[derive(Clone, Debug)]
pub struct About {
    /// The command line.
    pub command: Vec<String>,
    /// When the run began.
    pub start: SystemTime,
    /// Cores of the machine.
    pub cores: u32,
    /// Whether the system was sampled too.
    pub kernel: bool,
}

/// Writes a profile into a file.
///
/// Errors: the file cannot be written.
pub fn write(
    export: &Export,
    path: &Path,
    profile: &Profile,
    symbols: &mut Symbols,
    about: &About,
) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    match export.format {
        Format::Perf => file.write_all(&perf_data::encode(profile, about))?,
        Format::Firefox => {
            serde_json::to_writer(&mut file, &firefox::build(profile, symbols, about))?
        }
        Format::Folded => folded::write(profile, symbols, &mut file)?,
        Format::Flame => folded::flame_graph(profile, symbols, about, &mut file)?,
    }
    file.flush()
}

#[cfg(test)]
mod tests;
