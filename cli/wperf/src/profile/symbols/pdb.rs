//! Program databases, which lie beside PE files.

use super::{Frame, Resolved, names, names::Style};
use crate::profile::{image::Image, module::file_name};
use object::Object;
use pdb_addr2line::{Context, ContextPdbData, TypeFormatterFlags, pdb::PDB};
use self_cell::self_cell;
use std::{
    env, fs,
    io::Cursor,
    path::{Path, PathBuf},
};

type Data = ContextPdbData<'static, 'static, Cursor<Vec<u8>>>;
type Lookup<'a> = Context<'a, 'static>;

self_cell!(
    struct Tables {
        owner: Data,
        #[not_covariant]
        dependent: Lookup,
    }
);

/// Why a PDB cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PdbError {
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    Format {
        path: PathBuf,
        source: pdb_addr2line::pdb::Error,
    },
    #[error("{}: {source}", path.display())]
    Tables {
        path: PathBuf,
        source: pdb_addr2line::Error,
    },
    #[error("{} is not of the same build as {}", pdb.display(), image.display())]
    OtherBuild { pdb: PathBuf, image: PathBuf },
}

/// The PDB of an image.
pub(super) struct Pdb {
    tables: Tables,
    style: Style,
}

/// What a PE file says of its PDB.
struct Reference {
    guid: [u8; 16],
    age: u32,
    path: String,
}

impl Pdb {
    /// Reads the PDB named, or the one that belongs to an image; `Ok(None)` when there is none.
    pub(super) fn of_image(
        image: &Image,
        named: Option<&Path>,
        style: Style,
    ) -> Result<Option<(Self, PathBuf)>, PdbError> {
        let reference = reference(image);
        let path = match (named, &reference) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(reference)) => candidates(image, reference)
                .into_iter()
                .find(|path| path.is_file()),
            (None, None) => None,
        };
        let Some(path) = path else {
            return Ok(None);
        };
        let pdb = Self::open(&path, image, reference.as_ref(), style)?;
        Ok(Some((pdb, path)))
    }

    fn open(
        path: &Path,
        image: &Image,
        reference: Option<&Reference>,
        style: Style,
    ) -> Result<Self, PdbError> {
        let data = fs::read(path).map_err(|source| PdbError::File {
            path: path.to_owned(),
            source,
        })?;
        let format = |source| PdbError::Format {
            path: path.to_owned(),
            source,
        };
        let broken = |source| PdbError::Tables {
            path: path.to_owned(),
            source,
        };
        let mut pdb = PDB::open(Cursor::new(data)).map_err(format)?;
        if let Some(reference) = reference {
            let guid = pdb.pdb_information().map_err(format)?.guid.to_bytes_le();
            let age = pdb.debug_information().map_err(format)?.age();
            // A PDB without modules has no age of its own.
            if guid != reference.guid || age.is_some_and(|age| age != reference.age) {
                return Err(PdbError::OtherBuild {
                    pdb: path.to_owned(),
                    image: image.path.clone(),
                });
            }
        }
        let data = Data::try_from_pdb(pdb).map_err(broken)?;
        let flags = match style {
            Style::Short => TypeFormatterFlags::default() | TypeFormatterFlags::NO_ARGUMENTS,
            Style::Long => TypeFormatterFlags::default(),
        };
        let tables = Tables::try_new(data, |data| data.make_context_with_formatter_flags(flags));
        Ok(Self {
            tables: tables.map_err(broken)?,
            style,
        })
    }

    pub(super) fn resolve(&self, address: u64) -> Resolved {
        self.find(address).unwrap_or_default()
    }

    fn find(&self, address: u64) -> Option<Resolved> {
        let rva = u32::try_from(address).ok()?;
        self.tables.with_dependent(|_, lookup| {
            let found = lookup.find_frames(rva).ok()??;
            let range = found.end_rva.map(|end| found.start_rva.into()..end.into());
            let frames = found.frames.into_iter().map(|frame| Frame {
                function: frame
                    .function
                    .map(|name| names::readable(&name, self.style)),
                file: frame.file.map(|file| file.into_owned()),
                line: frame.line.filter(|&line| line != 0),
            });
            Some(Resolved {
                address,
                range,
                frames: frames.collect(),
            })
        })
    }
}

fn reference(image: &Image) -> Option<Reference> {
    let file = object::File::parse(image.data()).ok()?;
    let found = file.pdb_info().ok()??;
    Some(Reference {
        guid: found.guid(),
        age: found.age(),
        path: String::from_utf8_lossy(found.path()).into_owned(),
    })
}

/// Beside the image, where it was built, and in the folders of `_NT_SYMBOL_PATH`.
fn candidates(image: &Image, reference: &Reference) -> Vec<PathBuf> {
    let name = file_name(Path::new(&reference.path));
    let folder = image.path.parent().unwrap_or(Path::new(""));
    let mut paths = vec![
        folder.join(&name),
        image.path.with_extension("pdb"),
        PathBuf::from(&reference.path),
    ];
    let symbol_path = env::var("_NT_SYMBOL_PATH").unwrap_or_default();
    for folder in local_folders(&symbol_path) {
        let store = folder.join(&name).join(store_key(reference)).join(&name);
        paths.extend([folder.join(&name), store]);
    }
    paths
}

/// The folders of a symbol path; servers are not asked.
fn local_folders(symbol_path: &str) -> Vec<PathBuf> {
    let parts = symbol_path.split([';', '*']);
    let is_folder = |part: &&str| {
        let is_word = ["srv", "cache", "symsrv", "symsrv.dll", ""]
            .iter()
            .any(|word| part.eq_ignore_ascii_case(word));
        !is_word && !part.contains("://")
    };
    parts.filter(is_folder).map(PathBuf::from).collect()
}

/// The folder of a symbol store for one build: GUID and age.
fn store_key(reference: &Reference) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = reference.guid;
    let first = [d, c, b, a, f, e, h, g];
    let bytes = first.iter().chain(&rest);
    let guid: String = bytes.map(|byte| format!("{byte:02X}")).collect();
    format!("{guid}{:X}", reference.age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_path_is_folders_and_servers_of_which_only_the_folders_are_used() {
        let path = r"srv*C:\symbols*https://msdl.microsoft.com/download/symbols;D:\own;cache*E:\c";
        let folders = local_folders(path);
        assert_eq!(
            folders,
            [r"C:\symbols", r"D:\own", r"E:\c"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_store_names_a_build_by_guid_and_age() {
        let reference = Reference {
            guid: [
                0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD,
                0xEE, 0xFF,
            ],
            age: 0x1A,
            path: String::new(),
        };
        assert_eq!(store_key(&reference), "00112233445566778899AABBCCDDEEFF1A");
    }
}
