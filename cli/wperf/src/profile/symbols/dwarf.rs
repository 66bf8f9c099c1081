//! DWARF, in an image or in a file of its own.

use super::{Frame, Resolved, names, names::Style};
use crate::profile::image::{Function, Image};
use addr2line::Loader;
use object::{BinaryFormat, Object};
use std::path::{Path, PathBuf};

/// Where distributions install debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// The DWARF of an image.
pub(super) struct Dwarf {
    loader: Loader,
    /// What the loader's addresses are more than the image's.
    base: u64,
    /// The file of its own, whose symbol table is the fuller one.
    separate: Option<Image>,
}

impl Dwarf {
    /// Looks for it; also says which file it is in, if not the image's. `None` when there is none.
    pub(super) fn of_image(image: &Image) -> Option<(Self, Option<PathBuf>)> {
        let file = object::File::parse(image.data()).ok()?;
        let candidates = debug_files(image, &file);
        let other = candidates.into_iter().find(|path| path.is_file());
        if !has_dwarf(&file) && other.is_none() {
            return None;
        }
        let path = other.as_deref().filter(|_| !has_dwarf(&file));
        let supplement = supplement(path, &file);
        let read = path.unwrap_or(&image.path);
        let loader = match supplement {
            Some(supplement) => Loader::new_with_sup(read, Some(supplement)).ok()?,
            None => Loader::new(read).ok()?,
        };
        let base = match image.format {
            BinaryFormat::Pe => loader.relative_address_base(),
            _ => 0,
        };
        let dwarf = Self {
            loader,
            base,
            separate: path.and_then(|path| Image::open(path).ok()),
        };
        Some((dwarf, path.map(Path::to_owned)))
    }

    pub(super) fn resolve(&self, address: u64, style: Style) -> Resolved {
        Resolved {
            frames: self.frames(address, style).unwrap_or_default(),
            ..Resolved::default()
        }
    }

    /// What DWARF cannot say is left out: the symbol table may know the function still.
    fn frames(&self, address: u64, style: Style) -> Option<Vec<Frame>> {
        let address = address.checked_add(self.base)?;
        let mut found = self.loader.find_frames(address).ok()?;
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.raw_name().ok());
            let (file, line) = frame
                .location
                .map_or((None, None), |location| (location.file, location.line));
            frames.push(Frame {
                function: name.map(|name| names::readable(&name, style)),
                file: file.map(str::to_owned),
                line: line.filter(|&line| line != 0),
            });
        }
        Some(frames)
    }

    /// The function of the separate file's symbol table.
    pub(super) fn symbol(&self, address: u64) -> Option<&Function> {
        self.separate.as_ref()?.function(address)
    }
}

fn has_dwarf(file: &object::File<'_>) -> bool {
    file.section_by_name(".debug_info").is_some()
}

/// Where debug information may be that was split from the image.
fn debug_files(image: &Image, file: &object::File<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Ok(Some(id)) = file.build_id() {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some((folder, rest)) = hex.split_at_checked(2) {
            let ids = Path::new(DEBUG_FOLDER).join(".build-id");
            paths.push(ids.join(folder).join(format!("{rest}.debug")));
        }
    }
    if let (Ok(Some((name, _))), Some(folder)) = (file.gnu_debuglink(), image.path.parent()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        paths.push(folder.join(&name));
        paths.push(folder.join(".debug").join(&name));
        paths.push(Path::new(DEBUG_FOLDER).join(inside).join(&name));
    }
    paths.retain(|path| *path != image.path);
    paths
}

/// What several files of debug information share (`dwz`).
fn supplement(path: Option<&Path>, own: &object::File<'_>) -> Option<PathBuf> {
    let link = match path {
        Some(path) => {
            let data = std::fs::read(path).ok()?;
            let file = object::File::parse(&*data).ok()?;
            let (name, _) = file.gnu_debugaltlink().ok()??;
            PathBuf::from(String::from_utf8_lossy(name).into_owned())
        }
        None => {
            let (name, _) = own.gnu_debugaltlink().ok()??;
            PathBuf::from(String::from_utf8_lossy(name).into_owned())
        }
    };
    // Relative to the file that names it.
    let folder = path.and_then(Path::parent).unwrap_or(Path::new("/"));
    Some(folder.join(link)).filter(|path| path.is_file())
}
