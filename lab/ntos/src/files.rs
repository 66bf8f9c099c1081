//! Open files of clients, by identities that are never used twice.

use crate::request::{Client, FileId};
use crate::security::Privilege;

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFile {
    /// Address of the `FILE_OBJECT`.
    pub(crate) object: u64,
    pub(crate) client: Client,
    /// Address of the client's process object.
    pub(crate) process: u64,
}

#[derive(Default)]
struct Entry {
    generation: u32,
    file: Option<OpenFile>,
}

/// All of them: a lookup is an index and a comparison.
#[derive(Default)]
pub(crate) struct Files {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Files {
    pub(crate) fn insert(&mut self, file: OpenFile) -> FileId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let entry = &mut self.entries[index as usize];
        entry.file = Some(file);
        FileId {
            index,
            generation: entry.generation,
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: FileId) -> Option<OpenFile> {
        let entry = self.entries.get(id.index as usize)?;
        entry.file.filter(|_| entry.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: FileId) -> Option<OpenFile> {
        let file = self.get(id)?;
        let entry = &mut self.entries[id.index as usize];
        entry.file = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(file)
    }

    /// The open ones.
    pub(crate) fn all(&self) -> Vec<FileId> {
        (0u32..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.file.is_some())
            .map(|(index, entry)| FileId {
                index,
                generation: entry.generation,
            })
            .collect()
    }

    /// What the client whose process object is at an address may do.
    pub(crate) fn privilege_of(&self, process: u64) -> Option<Privilege> {
        let mut open = self.entries.iter().filter_map(|entry| entry.file);
        let file = open.find(|file| file.process == process)?;
        Some(file.client.privilege)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_identity_stays_closed_when_its_place_is_reused() {
        let client = Client {
            process: 1,
            privilege: Privilege::User,
        };
        let file = |object| OpenFile {
            object,
            client,
            process: 0,
        };
        let mut files = Files::default();
        let first = files.insert(file(1));
        assert_eq!(files.remove(first).map(|file| file.object), Some(1));
        let second = files.insert(file(2));
        assert!(files.get(first).is_none() && files.remove(first).is_none());
        assert_eq!(files.get(second).map(|file| file.object), Some(2));
        assert_eq!(files.len(), 1);
    }
}
