//! The registry of a machine: keys and values by path.
//!
//! It starts with what Windows has before any driver runs, and each loaded
//! driver's service key is added. It lives as long as the machine, so a
//! driver finds at its next load what it wrote in the last.

use std::collections::BTreeMap;

use nt::NTSTATUS;
use nt::cm::{REG_DWORD, REG_EXPAND_SZ, REG_SZ};
use nt::status::{
    STATUS_CANNOT_DELETE, STATUS_KEY_DELETED, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_PATH_NOT_FOUND, STATUS_OBJECT_PATH_SYNTAX_BAD,
};

/// Where services are.
pub(crate) const SERVICES: &str = r"\Registry\Machine\System\CurrentControlSet\Services";
/// Where the control set's settings are.
pub(crate) const CONTROL: &str = r"\Registry\Machine\System\CurrentControlSet\Control";
/// Where the version's settings are.
pub(crate) const WINDOWS_NT: &str =
    r"\Registry\Machine\Software\Microsoft\Windows NT\CurrentVersion";
/// Where drivers list the devices of a class.
pub(crate) const DEVICE_MAP: &str = r"\Registry\Machine\Hardware\DeviceMap";
/// The hive of users without one of their own: system threads'.
pub(crate) const DEFAULT_USER: &str = r"\Registry\User\.Default";

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// As it was spelt when it was made.
    pub(crate) name: String,
    /// `REG_…`.
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

/// A key; names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) keys: BTreeMap<String, Key>,
    pub(crate) values: BTreeMap<String, Value>,
}

/// The tree under `\Registry`.
pub(crate) struct Registry {
    root: Key,
}

impl Default for Registry {
    fn default() -> Self {
        let mut registry = Self {
            root: Key::default(),
        };
        for path in [SERVICES, CONTROL, WINDOWS_NT, DEVICE_MAP, DEFAULT_USER] {
            registry.make(path);
        }
        registry
    }
}

impl Registry {
    /// Adds the key of a kernel driver's service, if it has none yet.
    pub(crate) fn add_service(&mut self, name: &str) {
        let path = format!(r"{SERVICES}\{name}");
        if self.get(&path).is_ok() {
            return;
        }
        let key = self.make(&path);
        key.set("Type", REG_DWORD, 1u32.to_le_bytes().into());
        key.set("Start", REG_DWORD, 3u32.to_le_bytes().into());
        key.set("ErrorControl", REG_DWORD, 1u32.to_le_bytes().into());
        let image = format!(r"\SystemRoot\System32\drivers\{name}.sys");
        key.set("ImagePath", REG_EXPAND_SZ, wide(&image));
        key.set("DisplayName", REG_SZ, wide(name));
    }

    /// The key at a path, made with all above it where it is missing.
    pub(crate) fn make(&mut self, path: &str) -> &mut Key {
        let mut key = &mut self.root;
        for component in components(path).unwrap_or_default() {
            key = key.child(component);
        }
        key
    }

    /// The key at a path.
    ///
    /// Errors: `STATUS_OBJECT_NAME_NOT_FOUND` when the last component is missing,
    /// `…_PATH_NOT_FOUND` when one before it is, `…_PATH_SYNTAX_BAD` outside `\Registry`.
    pub(crate) fn get(&self, path: &str) -> Result<&Key, NTSTATUS> {
        let components = components(path)?;
        let mut key = &self.root;
        for (index, component) in components.iter().enumerate() {
            key = key
                .keys
                .get(&component.to_lowercase())
                .ok_or(missing(index, components.len()))?;
        }
        Ok(key)
    }

    /// The key at a path that was found before.
    ///
    /// Errors: `STATUS_KEY_DELETED` when it has been deleted since.
    pub(crate) fn get_mut(&mut self, path: &str) -> Result<&mut Key, NTSTATUS> {
        let mut key = &mut self.root;
        for component in components(path)? {
            key = key
                .keys
                .get_mut(&component.to_lowercase())
                .ok_or(STATUS_KEY_DELETED)?;
        }
        Ok(key)
    }

    /// Makes a key below one that exists; false if it was there.
    ///
    /// Errors: as [`Self::get`]; a key is made in an existing one only.
    pub(crate) fn create(&mut self, path: &str) -> Result<bool, NTSTATUS> {
        match self.get(path) {
            Ok(_) => return Ok(false),
            Err(STATUS_OBJECT_NAME_NOT_FOUND) => {}
            Err(status) => return Err(status),
        }
        self.make(path);
        Ok(true)
    }

    /// Deletes a key.
    ///
    /// Errors: `STATUS_CANNOT_DELETE` when it has subkeys.
    pub(crate) fn delete(&mut self, path: &str) -> Result<(), NTSTATUS> {
        if !self
            .get(path)
            .map_err(|_| STATUS_KEY_DELETED)?
            .keys
            .is_empty()
        {
            return Err(STATUS_CANNOT_DELETE);
        }
        let (parent, name) = path
            .trim_end_matches('\\')
            .rsplit_once('\\')
            .ok_or(STATUS_CANNOT_DELETE)?;
        self.get_mut(parent)?.keys.remove(&name.to_lowercase());
        Ok(())
    }
}

fn missing(index: usize, count: usize) -> NTSTATUS {
    if index + 1 == count {
        STATUS_OBJECT_NAME_NOT_FOUND
    } else {
        STATUS_OBJECT_PATH_NOT_FOUND
    }
}

/// The components of a path below `\Registry`.
fn components(path: &str) -> Result<Vec<&str>, NTSTATUS> {
    let mut parts = path.trim_end_matches('\\').split('\\');
    match (parts.next(), parts.next()) {
        (Some(""), Some(root)) if root.eq_ignore_ascii_case("registry") => {}
        _ => return Err(STATUS_OBJECT_PATH_SYNTAX_BAD),
    }
    let parts: Vec<&str> = parts.collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(STATUS_OBJECT_PATH_SYNTAX_BAD);
    }
    Ok(parts)
}

impl Key {
    fn child(&mut self, name: &str) -> &mut Key {
        self.keys.entry(name.to_lowercase()).or_insert_with(|| Key {
            name: name.to_owned(),
            ..Key::default()
        })
    }

    /// A value by name; the empty name is the default value.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(&name.to_lowercase())
    }

    /// Sets a value.
    pub(crate) fn set(&mut self, name: &str, kind: u32, data: Vec<u8>) {
        let value = Value {
            name: name.to_owned(),
            kind,
            data,
        };
        self.values.insert(name.to_lowercase(), value);
    }

    /// Removes a value; false if there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.values.remove(&name.to_lowercase()).is_some()
    }
}

/// A string as values hold it: UTF-16 with a terminator.
pub(crate) fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_values_that_drivers_read() {
        let mut registry = Registry::default();
        registry.add_service("thing");
        let key = registry
            .get(r"\REGISTRY\machine\system\CurrentControlSet\services\THING\")
            .expect("the service's key");
        assert_eq!(key.name, "thing");
        assert_eq!(
            key.value("START").map(|value| value.data.as_slice()),
            Some(&[3, 0, 0, 0][..])
        );
        let image = key.value("ImagePath").expect("a value");
        assert_eq!(image.kind, REG_EXPAND_SZ);
        assert_eq!(image.data, wide(r"\SystemRoot\System32\drivers\thing.sys"));
    }

    #[test]
    fn what_a_driver_wrote_is_there_at_its_next_load() {
        let mut registry = Registry::default();
        registry.add_service("thing");
        let path = format!(r"{SERVICES}\thing");
        registry
            .get_mut(&path)
            .expect("key")
            .set("Start", REG_DWORD, vec![4, 0, 0, 0]);
        registry.add_service("thing");
        assert_eq!(
            registry
                .get(&path)
                .expect("key")
                .value("start")
                .expect("value")
                .data[0],
            4
        );
    }

    #[test]
    fn a_missing_key_is_told_from_a_missing_path() {
        let registry = Registry::default();
        let get = |path: &str| registry.get(path).err();
        assert_eq!(
            get(&format!(r"{SERVICES}\x")),
            Some(STATUS_OBJECT_NAME_NOT_FOUND)
        );
        assert_eq!(
            get(&format!(r"{SERVICES}\x\y")),
            Some(STATUS_OBJECT_PATH_NOT_FOUND)
        );
        for bad in [
            "",
            r"\",
            r"Registry\Machine",
            r"\Device\x",
            r"\Registry\\Machine",
        ] {
            assert_eq!(get(bad), Some(STATUS_OBJECT_PATH_SYNTAX_BAD), "{bad}");
        }
        assert_eq!(get(r"\Registry"), None);
    }

    #[test]
    fn only_a_key_without_subkeys_can_be_deleted() {
        let mut registry = Registry::default();
        let (outer, inner) = (format!(r"{SERVICES}\a"), format!(r"{SERVICES}\a\b"));
        assert_eq!(registry.create(&inner), Err(STATUS_OBJECT_PATH_NOT_FOUND));
        assert_eq!(registry.create(&outer), Ok(true));
        assert_eq!(registry.create(&inner), Ok(true));
        assert_eq!(registry.create(&inner), Ok(false));
        assert_eq!(registry.delete(&outer), Err(STATUS_CANNOT_DELETE));
        assert_eq!(registry.delete(&inner), Ok(()));
        assert_eq!(registry.delete(&inner), Err(STATUS_KEY_DELETED));
        assert_eq!(registry.get_mut(&inner).err(), Some(STATUS_KEY_DELETED));
        assert_eq!(registry.delete(&outer), Ok(()));
        assert_eq!(registry.delete(r"\Registry"), Err(STATUS_CANNOT_DELETE));
    }

    #[test]
    fn values_are_found_whatever_their_case_and_keep_their_spelling() {
        let mut key = Key::default();
        key.set("Depth", REG_DWORD, vec![1]);
        key.set("DEPTH", REG_DWORD, vec![2]);
        assert_eq!(key.values.len(), 1);
        assert_eq!(key.value("depth").map(|value| value.data[0]), Some(2));
        assert!(key.remove("dEPTH"));
        assert!(!key.remove("depth"));
    }
}
