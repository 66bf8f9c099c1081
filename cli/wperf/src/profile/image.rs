//! Executable files: where their functions are, what their code is, which debug information they have.

use super::module::Module;
use object::{
    Architecture, BinaryFormat, Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind,
};
use std::{
    cmp::Reverse,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no executable file.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: object::Error,
    },
    /// It is one of another system.
    #[error("{}: neither PE nor ELF", .0.display())]
    Foreign(PathBuf),
}

/// A section, as the linker named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its address in the image.
    pub address: u64,
    /// Its length in memory. Units: bytes.
    pub size: u64,
}

/// A function of the symbol table or the exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it is in the image.
    pub range: Range<u64>,
    /// Its name, as the linker has it.
    pub name: String,
}

/// An executable file or library.
///
/// Addresses in it are those of the file: of ELF its virtual addresses, of PE relative virtual addresses.
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// ELF or PE.
    pub format: BinaryFormat,
    /// What its code is for.
    pub architecture: Architecture,
    /// The address it is linked for.
    pub preferred_base: u64,
    /// Its sections in memory.
    pub sections: Vec<Section>,
    data: Vec<u8>,
    segments: Vec<Segment>,
    functions: Vec<Function>,
}

struct Segment {
    file: Range<u64>,
    address: u64,
}

impl Image {
    /// Reads a file.
    ///
    /// Errors: see [`ImageError`].
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let data = fs::read(path).map_err(|source| ImageError::File {
            path: path.to_owned(),
            source,
        })?;
        let file = object::File::parse(&*data).map_err(|source| ImageError::Format {
            path: path.to_owned(),
            source,
        })?;
        let format = file.format();
        if !matches!(format, BinaryFormat::Elf | BinaryFormat::Pe) {
            return Err(ImageError::Foreign(path.to_owned()));
        }
        let base = file.relative_address_base();
        let segments = segments(&file, base);
        let lowest = segments.iter().map(|segment| segment.address).min();
        let preferred_base = match format {
            BinaryFormat::Pe => base,
            _ => lowest.unwrap_or_default(),
        };
        Ok(Self {
            path: path.to_owned(),
            format,
            architecture: file.architecture(),
            preferred_base,
            sections: sections(&file, base),
            functions: functions(&file, base),
            segments,
            data,
        })
    }

    /// An address of a process that has mapped this file, as an address in the image.
    #[must_use]
    pub fn address(&self, module: &Module, address: u64) -> Option<u64> {
        let piece = module.piece(address)?;
        if self.format == BinaryFormat::Pe {
            return address.checked_sub(module.base);
        }
        let offset = (address - piece.start).checked_add(piece.offset)?;
        let segment = self.segments.iter().find(|s| s.file.contains(&offset))?;
        segment.address.checked_add(offset - segment.file.start)
    }

    /// The function of the symbol table or the exports that holds an address.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&Function> {
        let behind = self
            .functions
            .partition_point(|function| function.range.start <= address);
        let function = &self.functions[behind.checked_sub(1)?];
        function.range.contains(&address).then_some(function)
    }

    /// Functions of the symbol table and the exports, in rising order.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Bytes of the image; `None` when they are not all in the file.
    #[must_use]
    pub fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        let holds = |segment: &&Segment| {
            let length = segment.file.end - segment.file.start;
            (segment.address..segment.address.saturating_add(length)).contains(&range.start)
        };
        let segment = self.segments.iter().find(holds)?;
        let start = range.start - segment.address + segment.file.start;
        let end = range.end.checked_sub(range.start)?.checked_add(start)?;
        if end > segment.file.end {
            return None;
        }
        self.data
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// The whole file.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

fn segments(file: &object::File<'_>, base: u64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = file
        .segments()
        .filter_map(|segment| {
            let (offset, size) = segment.file_range();
            Some(Segment {
                file: offset..offset.checked_add(size)?,
                address: segment.address().checked_sub(base)?,
            })
        })
        .collect();
    segments.sort_by_key(|segment| segment.address);
    segments
}

fn sections(file: &object::File<'_>, base: u64) -> Vec<Section> {
    file.sections()
        .filter(|section| section.address() != 0)
        .filter_map(|section| {
            Some(Section {
                name: section.name().ok()?.to_owned(),
                address: section.address().checked_sub(base)?,
                size: section.size(),
            })
        })
        .collect()
}

/// Functions in rising order, each once. One without a length ends where the next begins, or its section ends.
fn functions(file: &object::File<'_>, base: u64) -> Vec<Function> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let mut found: Vec<(u64, u64, String)> = symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            let address = symbol.address().checked_sub(base)?;
            Some((address, symbol.size(), symbol.name().ok()?.to_owned()))
        })
        .collect();
    let exports = file.exports().unwrap_or_default();
    found.extend(exports.iter().filter_map(|export| {
        let name = String::from_utf8_lossy(export.name()).into_owned();
        Some((export.address().checked_sub(base)?, 0, name))
    }));
    // Those with a length first: they know better where the function ends.
    found.sort_by_key(|(address, size, _)| (*address, Reverse(*size)));
    found.dedup_by_key(|(address, _, _)| *address);
    let ends = section_ends(file, base);
    let starts: Vec<u64> = found
        .iter()
        .skip(1)
        .map(|(address, _, _)| *address)
        .collect();
    let mut nexts = starts.into_iter();
    let mut functions = Vec::with_capacity(found.len());
    for (address, size, name) in found {
        let next = nexts.next();
        let section = ends.iter().find(|range| range.contains(&address));
        let limit = section.map(|range| range.end);
        let until = next.into_iter().chain(limit).min();
        let end = match size {
            0 => until.unwrap_or(address + 1),
            size => address.saturating_add(size),
        };
        functions.push(Function {
            range: address..end,
            name,
        });
    }
    functions
}

fn section_ends(file: &object::File<'_>, base: u64) -> Vec<Range<u64>> {
    sections(file, base)
        .iter()
        .map(|section| section.address..section.address.saturating_add(section.size))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{fixture::Fixture, module::Piece};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static FILES: LazyLock<(Fixture, Vec<Vec<u8>>)> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let read = |path: PathBuf| fs::read(path).unwrap();
        let files = vec![
            read(fixture.elf()),
            read(fixture.pe("x86_64")),
            read(fixture.pe("aarch64")),
        ];
        (fixture, files)
    });

    fn read_everything(image: &Image) {
        let module = Module {
            pid: 1,
            path: image.path.clone(),
            name: String::new(),
            base: 0x1000,
            pieces: vec![Piece {
                start: 0x1000,
                end: u64::MAX,
                offset: 0,
            }],
        };
        for function in image.functions() {
            let _ = image.bytes(function.range.clone());
            let _ = image.function(function.range.start);
            let _ = image.address(&module, function.range.end);
        }
        let _ = image.address(&module, u64::MAX - 1);
        let backwards = Range { start: 5, end: 3 };
        let _ = image.bytes(backwards);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_file_makes_it_panic(which in 0_usize..3, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20)) {
            let (fixture, files) = &*FILES;
            let mut data = files[which].clone();
            for (index, byte) in changes {
                // Headers and tables are at the front.
                let at = index.index(data.len().min(4096));
                data[at] = byte;
            }
            let path = fixture.path("changed");
            fs::write(&path, data).unwrap();
            if let Ok(image) = Image::open(&path) {
                read_everything(&image);
            }
        }
    }
}
