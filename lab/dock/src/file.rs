//! From a file to a driver that can be loaded.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use lab_image::{Image, ImageError, Loader, Symbols};
use lab_ntos::{DriverFile, Symbol, Symbolize};

/// Why a driver file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system's answer.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a driver image.
    #[error("{path} is not a driver image", path = path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: ImageError,
    },
}

/// A driver file that was read.
pub struct Read {
    /// The driver.
    pub driver: DriverFile,
    /// Why there are no function names, if there are none.
    pub no_symbols: Option<String>,
}

/// Names from the PDB of an image.
struct FromPdb(Symbols);

impl Symbolize for FromPdb {
    fn locate(&self, rva: u32) -> Option<Symbol> {
        let location = self.0.location(rva)?;
        let frames = location.inlined.iter().chain([&location.frame]);
        let names: Vec<&str> = frames.map(|frame| frame.function.as_str()).collect();
        let innermost = location.inlined.first().unwrap_or(&location.frame);
        Some(Symbol {
            function: names.join(" in "),
            offset: u64::from(location.offset),
            line: innermost.file.clone().zip(innermost.line),
        })
    }
}

/// Reads and analyses a driver, and the debug information beside it.
///
/// Errors: the file can't be read, or is no x86-64 or Arm64 driver.
pub fn read_driver(path: &Path) -> Result<Read, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    let image = Image::parse(&bytes).map_err(|source| ReadError::Image {
        path: path.to_owned(),
        source,
    })?;
    let symbols = Symbols::beside(&image, path);
    let no_symbols = symbols.as_ref().err().map(ToString::to_string);
    let symbols = symbols
        .ok()
        .map(|symbols| Rc::new(FromPdb(symbols)) as Rc<dyn Symbolize>);
    let name = path.file_stem().map_or_else(
        || "driver".into(),
        |stem| stem.to_string_lossy().into_owned(),
    );
    let driver = DriverFile {
        name,
        loader: Arc::new(Loader::new(Arc::new(image))),
        symbols,
    };
    Ok(Read { driver, no_symbols })
}
