//! Names and source lines for addresses of an image, from the PDB written with it.

#![forbid(unsafe_code)]

use std::io::Cursor;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use pdb_addr2line::pdb::PDB;
use pdb_addr2line::{Context, ContextPdbData, TypeFormatterFlags};
use self_cell::self_cell;

use crate::image::{Image, PdbReference};

mod statics;
pub use statics::statics;

type Data = ContextPdbData<'static, 'static, Cursor<Vec<u8>>>;
type Lookup<'a> = Context<'a, 'static>;

self_cell!(
    struct Tables {
        owner: Data,
        #[not_covariant]
        dependent: Lookup,
    }
);

/// Why there are no symbols for an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolsError {
    /// The image names no PDB.
    #[error("the image names no PDB: it was linked without debug information")]
    NoReference,
    /// No PDB where one was looked for.
    #[error("no PDB found (looked for {})", list(.tried))]
    NotFound {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// The PDB belongs to another build.
    #[error("the PDB is of another build: the image wants {wanted}, the file is {found}")]
    Mismatch {
        /// GUID and age in the image.
        wanted: String,
        /// GUID and age in the PDB.
        found: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no PDB, or a broken one.
    #[error("malformed PDB: {0}")]
    Malformed(String),
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
}

/// Where in the source an instruction comes from: one level of inlining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Function, demangled.
    pub function: String,
    /// Source file as the compiler named it.
    pub file: Option<String>,
    /// Line in that file, from 1.
    pub line: Option<u32>,
}

/// What is at an rva.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The function that contains the instruction, and the line in it.
    pub frame: Frame,
    /// Bytes from the function's beginning.
    pub offset: u32,
    /// Functions inlined there, innermost first.
    pub inlined: Vec<Frame>,
}

/// The symbols of one image; lookups are cached, so keep it. Not `Send`: make it where reports are written.
pub struct Symbols {
    tables: Tables,
}

impl Symbols {
    /// Reads the PDB that lies beside an image file, under the linker's name or the image's.
    pub fn beside(image: &Image, image_path: &Path) -> Result<Self, SymbolsError> {
        Self::from_pdb(image, Self::pdb_beside(image, image_path)?)
    }

    /// The bytes of that PDB; whether it is of this build has not been looked at.
    pub fn pdb_beside(image: &Image, image_path: &Path) -> Result<Vec<u8>, SymbolsError> {
        let reference = image.pdb().ok_or(SymbolsError::NoReference)?;
        let folder = image_path.parent().unwrap_or(Path::new(""));
        let mut tried = vec![folder.join(file_name(&reference.name))];
        let own = image_path.with_extension("pdb");
        if !tried.contains(&own) {
            tried.push(own);
        }
        let Some(path) = tried.iter().find(|path| path.is_file()) else {
            return Err(SymbolsError::NotFound { tried });
        };
        std::fs::read(path).map_err(|source| SymbolsError::Unreadable {
            path: path.clone(),
            source,
        })
    }

    /// Reads a PDB and checks that it was written with this image.
    pub fn from_pdb(image: &Image, pdb: Vec<u8>) -> Result<Self, SymbolsError> {
        guarded(|| Self::read_pdb(image, pdb)).unwrap_or_else(|| Err(damaged()))
    }

    fn read_pdb(image: &Image, pdb: Vec<u8>) -> Result<Self, SymbolsError> {
        let reference = image.pdb().ok_or(SymbolsError::NoReference)?;
        let mut pdb = PDB::open(Cursor::new(pdb)).map_err(malformed)?;
        check_identity(reference, &mut pdb)?;
        let data = Data::try_from_pdb(pdb).map_err(malformed)?;
        let flags = TypeFormatterFlags::default() | TypeFormatterFlags::NO_ARGUMENTS;
        let tables = Tables::try_new(data, |data| data.make_context_with_formatter_flags(flags));
        Ok(Self {
            tables: tables.map_err(malformed)?,
        })
    }

    /// The function, line and inlined functions at an rva; `None` where no function is known.
    pub fn location(&self, rva: u32) -> Option<Location> {
        self.look_up(|lookup| {
            let found = lookup.find_frames(rva).ok()??;
            let mut frames = found.frames.into_iter().map(|frame| Frame {
                function: frame
                    .function
                    .map_or_else(|| "?".to_owned(), |name| demangle(&name)),
                file: frame.file.map(|file| file.into_owned()),
                line: frame.line,
            });
            let frame = frames.next_back()?;
            Some(Location {
                frame,
                offset: rva.checked_sub(found.start_rva)?,
                inlined: frames.collect(),
            })
        })
    }

    /// The rva of the function with this demangled name, if exactly one has it.
    pub fn function_named(&self, name: &str) -> Option<u32> {
        self.look_up(|lookup| {
            let mut matching = lookup
                .functions()
                .filter(|f| f.name.as_deref().is_some_and(|n| demangle(n) == name));
            let first = matching.next()?.start_rva;
            matching
                .all(|other| other.start_rva == first)
                .then_some(first)
        })
    }

    fn look_up<T>(&self, find: impl FnOnce(&Lookup<'_>) -> Option<T>) -> Option<T> {
        guarded(|| self.tables.with_dependent(|_, lookup| find(lookup)))?
    }
}

/// Runs what reads a PDB; `None` if its crate met what it asserts a PDB not to have, as it does where such
/// checks are compiled in.
fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).ok()
}

fn damaged() -> SymbolsError {
    SymbolsError::Malformed("its tables contradict each other".to_owned())
}

/// The last part of a path of either system.
fn file_name(path: &str) -> &str {
    path.rsplit(['\\', '/']).next().unwrap_or(path)
}

fn check_identity(
    reference: &PdbReference,
    pdb: &mut PDB<'static, Cursor<Vec<u8>>>,
) -> Result<(), SymbolsError> {
    let information = pdb.pdb_information().map_err(malformed)?;
    let age = pdb.debug_information().map_err(malformed)?.age();
    let guid = information.guid.to_bytes_le();
    // A PDB without modules has no age of its own.
    if guid == reference.guid && age.is_none_or(|age| age == reference.age) {
        return Ok(());
    }
    let age = age.unwrap_or(information.age);
    Err(SymbolsError::Mismatch {
        wanted: reference.identity(),
        found: PdbReference {
            name: String::new(),
            guid,
            age,
        }
        .identity(),
    })
}

fn malformed(error: impl core::fmt::Display) -> SymbolsError {
    SymbolsError::Malformed(error.to_string())
}

fn demangle(name: &str) -> String {
    if name.starts_with('?') {
        return msvc_demangler::demangle(name, msvc_demangler::DemangleFlags::NAME_ONLY)
            .unwrap_or_else(|_| name.to_owned());
    }
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}"))
}
