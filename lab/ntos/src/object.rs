//! The object manager: references, handles, names.

use std::collections::HashMap;

use nt::NTSTATUS;
use nt::status::{
    STATUS_INVALID_HANDLE, STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_TYPE_MISMATCH,
};

use crate::security::Dacl;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Kind {
    Driver,
    Device,
    File,
    Process,
    Thread,
    Event,
    Section,
    Key,
    Callback,
    Token,
    Directory,
    SymbolicLink,
    Interrupt,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Device => "device",
            Self::File => "file",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Event => "event",
            Self::Section => "section",
            Self::Key => "registry key",
            Self::Callback => "callback object",
            Self::Token => "token",
            Self::Directory => "object directory",
            Self::SymbolicLink => "symbolic link",
            Self::Interrupt => "interrupt",
        }
    }
}

/// An object: its structure is in kernel-owned pool at the address it is known by.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    /// References, those of handles included.
    pub(crate) references: i64,
    /// Of those, the ones the driver took and must give back.
    pub(crate) taken: Vec<u64>,
    pub(crate) name: Option<String>,
    /// The access-control list that was set on it; `None` when none was.
    pub(crate) security: Option<Dacl>,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    object: u64,
    opened_at: u64,
    /// In the handle table of a process, where its programs can close it.
    user: bool,
}

/// Handles of the kernel start here, as on 64-bit Windows.
const KERNEL_HANDLES: u64 = 0xFFFF_FFFF_8000_0000;

#[derive(Default)]
pub(crate) struct Objects {
    objects: HashMap<u64, Object>,
    handles: Vec<Option<Handle>>,
    /// Lower-case path → what it names.
    names: HashMap<String, Target>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Object(u64),
    Link { to: String, made_at: u64 },
}

impl Objects {
    pub(crate) fn insert(&mut self, address: u64, kind: Kind) {
        let object = Object {
            kind,
            references: 1,
            taken: Vec::new(),
            name: None,
            security: None,
        };
        self.objects.insert(address, object);
    }

    pub(crate) fn get(&self, address: u64) -> Option<&Object> {
        self.objects.get(&address)
    }

    pub(crate) fn get_mut(&mut self, address: u64) -> Option<&mut Object> {
        self.objects.get_mut(&address)
    }

    /// Forgets an object and its name.
    pub(crate) fn remove(&mut self, address: u64) -> Option<Object> {
        let object = self.objects.remove(&address)?;
        if let Some(name) = &object.name {
            self.names.remove(&normalize(name));
        }
        Some(object)
    }

    /// Adds a reference, which the driver took at `site` if that is not zero.
    pub(crate) fn reference(&mut self, address: u64, site: u64) -> Option<i64> {
        let object = self.objects.get_mut(&address)?;
        object.references += 1;
        if site != 0 {
            object.taken.push(site);
        }
        Some(object.references)
    }

    /// Removes a reference; `None` if there is no such object or no reference.
    pub(crate) fn dereference(&mut self, address: u64, by_driver: bool) -> Option<i64> {
        let object = self.objects.get_mut(&address)?;
        if by_driver {
            object.taken.pop();
        }
        object.references -= 1;
        Some(object.references)
    }

    /// Opens a handle of the kernel to an object.
    pub(crate) fn open(&mut self, address: u64, site: u64) -> Option<u64> {
        self.open_for(address, site, false)
    }

    /// Opens a handle to an object, for the kernel or for the programs of a process.
    pub(crate) fn open_for(&mut self, address: u64, site: u64, user: bool) -> Option<u64> {
        self.objects.get_mut(&address)?.references += 1;
        let handle = Some(Handle {
            object: address,
            opened_at: site,
            user,
        });
        let index = match self.handles.iter().position(Option::is_none) {
            Some(free) => {
                self.handles[free] = handle;
                free
            }
            None => {
                self.handles.push(handle);
                self.handles.len() - 1
            }
        };
        let base = if user { 0 } else { KERNEL_HANDLES };
        Some(base + 4 * (index as u64 + 1))
    }

    /// Index of a handle in the table, and whether it is a user's.
    fn index(handle: u64) -> Option<(usize, bool)> {
        let offset = handle.checked_sub(KERNEL_HANDLES);
        let user = offset.is_none();
        let offset = offset.unwrap_or(handle);
        if !offset.is_multiple_of(4) || offset == 0 {
            return None;
        }
        Some((usize::try_from(offset / 4 - 1).ok()?, user))
    }

    fn entry(&self, handle: u64) -> Option<Handle> {
        let (index, user) = Self::index(handle)?;
        let entry = (*self.handles.get(index)?)?;
        (entry.user == user).then_some(entry)
    }

    /// Whether a handle is open, and a user's; where it was opened.
    pub(crate) fn user_handle(&self, handle: u64) -> Option<u64> {
        let entry = self.entry(handle)?;
        entry.user.then_some(entry.opened_at)
    }

    /// The object of a handle, of a kind if one is asked for.
    pub(crate) fn resolve(&self, handle: u64, kind: Option<Kind>) -> Result<u64, NTSTATUS> {
        let object = self.entry(handle).ok_or(STATUS_INVALID_HANDLE)?.object;
        match (kind, self.objects.get(&object)) {
            (Some(kind), Some(found)) if found.kind != kind => Err(STATUS_OBJECT_TYPE_MISMATCH),
            _ => Ok(object),
        }
    }

    /// Closes a handle; gives the object it referred to and the references left.
    pub(crate) fn close(&mut self, handle: u64) -> Option<(u64, i64)> {
        let entry = self.entry(handle)?;
        self.handles[Self::index(handle)?.0] = None;
        let left = self.dereference(entry.object, false)?;
        Some((entry.object, left))
    }

    /// Open handles: object and where each was opened.
    pub(crate) fn open_handles(&self) -> impl Iterator<Item = (u64, u64)> {
        self.handles
            .iter()
            .flatten()
            .map(|handle| (handle.object, handle.opened_at))
    }

    /// Every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Object)> {
        self.objects
            .iter()
            .map(|(address, object)| (*address, object))
    }

    /// Gives an object a name.
    pub(crate) fn set_name(&mut self, address: u64, name: &str) -> Result<(), NTSTATUS> {
        let key = normalize(name);
        if self.names.contains_key(&key) {
            return Err(STATUS_OBJECT_NAME_COLLISION);
        }
        self.names.insert(key, Target::Object(address));
        if let Some(object) = self.objects.get_mut(&address) {
            object.name = Some(name.to_owned());
        }
        Ok(())
    }

    pub(crate) fn add_link(&mut self, link: &str, to: &str, site: u64) -> Result<(), NTSTATUS> {
        let key = normalize(link);
        if self.names.contains_key(&key) {
            return Err(STATUS_OBJECT_NAME_COLLISION);
        }
        self.names.insert(
            key,
            Target::Link {
                to: to.to_owned(),
                made_at: site,
            },
        );
        Ok(())
    }

    pub(crate) fn remove_link(&mut self, link: &str) -> Result<(), NTSTATUS> {
        let key = normalize(link);
        match self.names.get(&key) {
            Some(Target::Link { .. }) => {
                self.names.remove(&key);
                Ok(())
            }
            Some(Target::Object(_)) => Err(STATUS_OBJECT_TYPE_MISMATCH),
            None => Err(STATUS_OBJECT_NAME_NOT_FOUND),
        }
    }

    /// What a symbolic link leads to.
    pub(crate) fn link_target(&self, link: &str) -> Result<String, NTSTATUS> {
        match self.names.get(&normalize(link)) {
            Some(Target::Link { to, .. }) => Ok(to.clone()),
            Some(Target::Object(_)) => Err(STATUS_OBJECT_TYPE_MISMATCH),
            None => Err(STATUS_OBJECT_NAME_NOT_FOUND),
        }
    }

    /// Names directly below a directory (a path without a separator at its end), with their types, in order.
    pub(crate) fn names_below(&self, directory: &str) -> Vec<(String, &'static str)> {
        let prefix = normalize(&format!(r"{directory}\"));
        let below = self.names.iter().filter_map(|(path, target)| {
            let rest = path.strip_prefix(&prefix)?;
            let (name, kind) = match (rest.split_once('\\'), target) {
                (Some((name, _)), _) => (name.to_owned(), "Directory"),
                (None, Target::Link { .. }) => (rest.to_owned(), "SymbolicLink"),
                (None, Target::Object(address)) => {
                    let object = self.objects.get(address)?;
                    // As it was spelt when it was made.
                    let full = object.name.as_deref().unwrap_or(rest);
                    let name = full.rsplit('\\').next().unwrap_or(rest);
                    let kind = match object.kind {
                        Kind::Driver => "Driver",
                        Kind::Event => "Event",
                        Kind::Callback => "Callback",
                        Kind::Section => "Section",
                        _ => "Device",
                    };
                    (name.to_owned(), kind)
                }
            };
            Some((name, kind))
        });
        let mut names: Vec<_> = below.collect();
        names.sort();
        names.dedup();
        names
    }

    /// Symbolic links: name, target, where made.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.names.iter().filter_map(|(name, target)| match target {
            Target::Link { to, made_at } => Some((name.as_str(), to.as_str(), *made_at)),
            Target::Object(_) => None,
        })
    }

    /// Drops links, handles and references that a driver which is gone has left.
    ///
    /// Returns the objects that nothing refers to any more.
    pub(crate) fn forget_driver(&mut self) -> Vec<u64> {
        self.names
            .retain(|_, target| matches!(target, Target::Object(_)));
        for handle in std::mem::take(&mut self.handles).into_iter().flatten() {
            self.dereference(handle.object, false);
        }
        for object in self.objects.values_mut() {
            object.references -= i64::try_from(object.taken.len()).unwrap_or(0);
            object.taken.clear();
        }
        let is_dead = |object: &Object| match object.kind {
            // Registrations, which refer to it too, are gone with their driver.
            Kind::Callback => true,
            // Its process has it made again when it is asked for.
            Kind::Token => true,
            Kind::Event | Kind::Key | Kind::Section | Kind::Directory | Kind::SymbolicLink => {
                object.references <= 0
            }
            _ => false,
        };
        let dead = self.objects.iter().filter(|(_, object)| is_dead(object));
        dead.map(|(address, _)| *address).collect()
    }

    /// Follows a path to an object; the rest of the path behind a device goes to its driver.
    pub(crate) fn lookup(&self, path: &str) -> Result<(u64, String), NTSTATUS> {
        let mut path = path.to_owned();
        // A link may lead to a link; real name spaces are never this deep.
        for _ in 0..32 {
            let (target, rest) = self
                .longest_prefix(&path)
                .ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
            match target {
                Target::Object(address) => return Ok((*address, rest)),
                Target::Link { to, .. } => path = format!("{to}{rest}"),
            }
        }
        Err(STATUS_OBJECT_NAME_NOT_FOUND)
    }

    /// The longest prefix of whole components that is a name, and what follows it.
    fn longest_prefix(&self, path: &str) -> Option<(&Target, String)> {
        let key = normalize(path);
        let ends = key
            .char_indices()
            .filter(|(_, c)| *c == '\\')
            .map(|(at, _)| at);
        let ends: Vec<usize> = ends.skip(1).chain([key.len()]).collect();
        ends.into_iter()
            .rev()
            .find_map(|end| Some((self.names.get(&key[..end])?, key[end..].to_owned())))
    }
}

/// Lower case, with the spellings of the DOS device directory made one.
fn normalize(path: &str) -> String {
    let path = path.to_lowercase();
    for prefix in [
        r"\dosdevices\global\",
        r"\dosdevices\",
        r"\global??\",
        r"\\.\",
        r"\\?\",
    ] {
        if let Some(rest) = path.strip_prefix(prefix) {
            return format!(r"\??\{rest}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_device() -> Objects {
        let mut objects = Objects::default();
        objects.insert(0x1000, Kind::Device);
        objects
            .set_name(0x1000, r"\Device\Thing")
            .expect("free name");
        objects
            .add_link(r"\DosDevices\Thing", r"\Device\Thing", 7)
            .expect("free name");
        objects
    }

    #[test]
    fn a_user_path_finds_the_device_whatever_its_case() {
        let objects = with_device();
        for path in [
            r"\\.\Thing",
            r"\??\THING",
            r"\DosDevices\Global\thing",
            r"\Device\Thing",
        ] {
            assert_eq!(objects.lookup(path), Ok((0x1000, String::new())), "{path}");
        }
        assert_eq!(
            objects.lookup(r"\\.\Thing\sub\x"),
            Ok((0x1000, r"\sub\x".into()))
        );
        assert_eq!(
            objects.lookup(r"\\.\Thin"),
            Err(STATUS_OBJECT_NAME_NOT_FOUND)
        );
        assert_eq!(objects.lookup(""), Err(STATUS_OBJECT_NAME_NOT_FOUND));
    }

    #[test]
    fn a_link_to_itself_ends() {
        let mut objects = Objects::default();
        objects.add_link(r"\??\a", r"\??\a", 0).expect("free name");
        assert_eq!(objects.lookup(r"\??\a"), Err(STATUS_OBJECT_NAME_NOT_FOUND));
    }

    #[test]
    fn names_are_unique_and_leave_with_their_object() {
        let mut objects = with_device();
        objects.insert(0x2000, Kind::Device);
        assert_eq!(
            objects.set_name(0x2000, r"\device\THING"),
            Err(STATUS_OBJECT_NAME_COLLISION)
        );
        objects.remove(0x1000);
        assert_eq!(objects.set_name(0x2000, r"\device\THING"), Ok(()));
    }

    #[test]
    fn handles_count_references_and_close_once() {
        let mut objects = with_device();
        let handle = objects.open(0x1000, 9).expect("object");
        assert_eq!(objects.resolve(handle, Some(Kind::Device)), Ok(0x1000));
        assert_eq!(
            objects.resolve(handle, Some(Kind::File)),
            Err(STATUS_OBJECT_TYPE_MISMATCH)
        );
        assert_eq!(objects.close(handle), Some((0x1000, 1)));
        assert_eq!(objects.close(handle), None);
        for bad in [0, 1, handle + 1, handle + 4, u64::MAX] {
            assert_eq!(objects.resolve(bad, None), Err(STATUS_INVALID_HANDLE));
        }
    }
}
