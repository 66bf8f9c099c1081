//! From addresses to functions, files and lines.
//!
//! PE: the PDB, else DWARF in the file, else its symbol table and exports. ELF: DWARF, in the file or in a file of its own
//! (`/usr/lib/debug`, debug link), else its symbol table.

mod dwarf;
pub mod names;
mod pdb;

use super::{
    Located, Module, Place, Profile,
    image::{Image, ImageError},
};
use dwarf::Dwarf;
use names::Style;
use object::BinaryFormat;
use pdb::Pdb;
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    rc::Rc,
};

/// One level of inlining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function; `None` when only the line is known.
    pub function: Option<String>,
    /// Its source file, as the compiler named it.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
}

/// What is at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The address in the image.
    pub address: u64,
    /// Where the function is in the image, if that is known.
    pub range: Option<Range<u64>>,
    /// The functions inlined there, innermost first; the last is the one that was compiled.
    pub frames: Vec<Frame>,
}

impl Resolved {
    /// The function that was compiled, not those inlined into it.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.frames.last()?.function.as_deref()
    }

    /// File and line of the code itself.
    #[must_use]
    pub fn line(&self) -> Option<(&str, u32)> {
        let frame = self.frames.first()?;
        Some((frame.file.as_deref()?, frame.line?))
    }
}

/// Symbols of all images that are asked about; each is read once.
#[derive(Default)]
pub struct Symbols {
    style: Style,
    pdbs: HashMap<PathBuf, PathBuf>,
    files: HashMap<PathBuf, Option<Rc<File>>>,
    known: HashMap<(PathBuf, u64), Rc<Resolved>>,
    warnings: Vec<String>,
}

/// An image and its debug information.
pub struct File {
    /// The image.
    pub image: Image,
    /// The file of its debug information, if it is another.
    pub debug_file: Option<PathBuf>,
    debug: Option<Debug>,
}

enum Debug {
    Dwarf(Box<Dwarf>),
    Pdb(Pdb),
}

impl Symbols {
    /// With names as short as they can be.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With names in full: as the linker has them, or with their parameters.
    #[must_use]
    pub fn with_long_names(mut self) -> Self {
        self.style = Style::Long;
        self
    }

    /// Takes the symbols of an image from this PDB, wherever it says they are.
    #[must_use]
    pub fn with_pdb(mut self, image: PathBuf, pdb: PathBuf) -> Self {
        self.pdbs.insert(image, pdb);
        self
    }

    /// What could not be read, in sentences; each is returned once.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The image behind a path; `None` when it cannot be read.
    pub fn file(&mut self, path: &Path) -> Option<Rc<File>> {
        if let Some(known) = self.files.get(path) {
            return known.clone();
        }
        let file = match File::open(path, self.pdbs.get(path), self.style) {
            Ok((file, warning)) => {
                self.warnings.extend(warning);
                Some(Rc::new(file))
            }
            // The system's own pages, and files of no interest.
            Err(_) if !path.is_file() => None,
            Err(error) => {
                self.warnings.push(format!("warning: no symbols: {error}"));
                None
            }
        };
        self.files.insert(path.to_owned(), file.clone());
        file
    }

    /// What is at an address of a module.
    pub fn at(&mut self, module: &Module, address: u64) -> Rc<Resolved> {
        let Some(file) = self.file(&module.path) else {
            let address = address.wrapping_sub(module.base);
            return Rc::new(Resolved {
                address,
                ..Resolved::default()
            });
        };
        match file.image.address(module, address) {
            Some(address) => self.within(&file, address),
            None => Rc::default(),
        }
    }

    /// What is at an address of an image.
    pub fn within(&mut self, file: &File, address: u64) -> Rc<Resolved> {
        let key = (file.image.path.clone(), address);
        let style = self.style;
        let resolve = || Rc::new(file.resolve(address, style));
        Rc::clone(self.known.entry(key).or_insert_with(resolve))
    }

    /// What is where a sample lies; nothing for those in the system or in no module.
    pub fn of(&mut self, profile: &Profile, located: &Located) -> Rc<Resolved> {
        match located.place {
            Place::Module(id) => self.at(profile.module(id), located.sample.address),
            Place::Kernel | Place::Unknown => Rc::new(Resolved {
                address: located.sample.address,
                ..Resolved::default()
            }),
        }
    }
}

impl File {
    fn open(
        path: &Path,
        pdb: Option<&PathBuf>,
        style: Style,
    ) -> Result<(Self, Option<String>), ImageError> {
        let image = Image::open(path)?;
        let mut warning = None;
        let mut debug = None;
        let mut debug_file = None;
        if image.format == BinaryFormat::Pe {
            match Pdb::of_image(&image, pdb.map(PathBuf::as_path), style) {
                Ok(Some((pdb, file))) => {
                    debug = Some(Debug::Pdb(pdb));
                    debug_file = Some(file);
                }
                Ok(None) => {}
                Err(error) => warning = Some(format!("warning: {error}")),
            }
        }
        if debug.is_none()
            && let Some((dwarf, file)) = Dwarf::of_image(&image)
        {
            debug = Some(Debug::Dwarf(Box::new(dwarf)));
            debug_file = file;
        }
        let file = Self {
            image,
            debug_file,
            debug,
        };
        Ok((file, warning))
    }

    fn resolve(&self, address: u64, style: Style) -> Resolved {
        let mut resolved = match &self.debug {
            Some(Debug::Pdb(pdb)) => pdb.resolve(address),
            Some(Debug::Dwarf(dwarf)) => dwarf.resolve(address, style),
            None => Resolved::default(),
        };
        resolved.address = address;
        let own = self.image.function(address);
        let symbol = match &self.debug {
            Some(Debug::Dwarf(dwarf)) => own.or_else(|| dwarf.symbol(address)),
            _ => own,
        };
        if let Some(symbol) = symbol {
            resolved.range.get_or_insert(symbol.range.clone());
            if resolved.frames.is_empty() {
                resolved.frames.push(Frame::default());
            }
            if let Some(outermost) = resolved.frames.last_mut() {
                let is_pdb = matches!(self.debug, Some(Debug::Pdb(_)));
                let known = outermost.function.take();
                outermost.function = Some(match known {
                    Some(known) if is_pdb => known,
                    Some(known) => names::fuller(known, &symbol.name, style),
                    None => names::readable(&symbol.name, style),
                });
            }
        }
        resolved
    }
}

#[cfg(test)]
mod tests;
