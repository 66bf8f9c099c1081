//! What a process has mapped: executable files and libraries.

use std::path::{Path, PathBuf};

/// A piece of a file in a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Where in the file the piece begins.
    pub offset: u64,
    /// The file.
    pub path: PathBuf,
}

/// Index of a module in [`super::Profile::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub usize);

/// An executable file or library in a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The process.
    pub pid: u32,
    /// The file.
    pub path: PathBuf,
    /// Its name without folders.
    pub name: String,
    /// Address of its first byte.
    pub base: u64,
    /// Its pieces, in rising order.
    pub pieces: Vec<Piece>,
}

/// A piece of a module in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
}

impl Module {
    /// The piece that holds an address.
    #[must_use]
    pub fn piece(&self, address: u64) -> Option<&Piece> {
        let holds = |piece: &&Piece| (piece.start..piece.end).contains(&address);
        self.pieces.iter().find(holds)
    }

    /// Address behind its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.pieces.last().map_or(self.base, |piece| piece.end)
    }
}

/// The file name behind the folders, of either system.
#[must_use]
pub fn file_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    let name = text.rsplit(['/', '\\']).next();
    name.unwrap_or_default().to_owned()
}

/// Puts the pieces of each file together. A file that is mapped twice is two modules.
#[must_use]
pub fn group(pid: u32, mut mappings: Vec<Mapping>) -> Vec<Module> {
    mappings.sort_by_key(|mapping| mapping.start);
    let mut modules: Vec<Module> = Vec::new();
    for Mapping {
        start,
        end,
        offset,
        path,
    } in mappings
    {
        let piece = Piece { start, end, offset };
        let open = modules.iter_mut().rev().find(|m| m.path == path);
        match open {
            Some(module) if offset != 0 => module.pieces.push(piece),
            _ => modules.push(Module {
                pid,
                name: file_name(&path),
                path,
                base: start,
                pieces: vec![piece],
            }),
        }
    }
    modules
}

/// Reads the text of `/proc/PID/maps`: what is mapped from files, and the system's own pages.
#[must_use]
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

/// `55d0c0c00000-55d0c0c21000 r-xp 00021000 08:01 1234  /usr/bin/name with blanks`
fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut fields = rest.splitn(5, ' ');
    let (_rights, offset) = (fields.next()?, fields.next()?);
    let path = fields.nth(2)?.trim_start();
    let is_named = path.starts_with('/') || path == "[vdso]";
    let hex = |text| u64::from_str_radix(text, 16).ok();
    is_named.then_some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path: path.strip_suffix(" (deleted)").unwrap_or(path).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c0c00000-55d0c0c02000 r--p 00000000 08:01 12 /usr/bin/a b
55d0c0c02000-55d0c0c08000 r-xp 00002000 08:01 12 /usr/bin/a b
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000020000 r--p 00000000 08:01 13                         /lib/libc.so.6 (deleted)
7f0000020000-7f0000100000 r-xp 00020000 08:01 13                         /lib/libc.so.6 (deleted)
7f0000200000-7f0000201000 rw-p 00000000 00:00 0 
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn files_are_modules_with_all_of_their_pieces() {
        let modules = group(7, parse_maps(MAPS));
        let shape: Vec<_> = modules
            .iter()
            .map(|m| (m.name.as_str(), m.base, m.pieces.len()))
            .collect();
        assert_eq!(
            shape,
            [
                ("a b", 0x55d0_c0c0_0000, 2),
                ("libc.so.6", 0x7f00_0000_0000, 2),
                ("[vdso]", 0x7ffd_0000_0000, 1)
            ]
        );
        assert_eq!(modules[0].piece(0x55d0_c0c0_2000).unwrap().offset, 0x2000);
        assert_eq!(modules[0].piece(0x55d0_c0c0_8000), None);
        assert_eq!(modules[0].path, Path::new("/usr/bin/a b"));
    }

    #[test]
    fn a_file_that_is_mapped_twice_is_two_modules() {
        let mapping = |start, offset| Mapping {
            start,
            end: start + 0x1000,
            offset,
            path: "/a".into(),
        };
        let modules = group(
            1,
            vec![
                mapping(0x5000, 0),
                mapping(0x1000, 0),
                mapping(0x2000, 0x1000),
            ],
        );
        assert_eq!(modules.len(), 2);
        assert_eq!((modules[0].base, modules[0].end()), (0x1000, 0x3000));
    }

    #[test]
    fn names_are_the_last_part_of_a_path_of_either_system() {
        assert_eq!(file_name(Path::new(r"C:\a b\c.dll")), "c.dll");
        assert_eq!(file_name(Path::new("/x/y.so")), "y.so");
        assert_eq!(file_name(Path::new("z")), "z");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9a-f-]{0,20}[ rwxp-]{0,9}.{0,20}\n){0,5}|.*") {
            let _ = group(1, parse_maps(&text));
        }
    }
}
