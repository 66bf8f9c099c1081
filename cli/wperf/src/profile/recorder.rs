//! From samples as they come to a profile: each is given its module while its process still lives.

use super::{
    Located, Mapping, Mode, Module, ModuleId, Place, Profile, Sample, Source,
    module::{self, Piece},
};
use crate::process;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
};

/// Reads what a process has mapped.
type ReadMappings = Box<dyn Fn(u32) -> io::Result<Vec<Mapping>>>;

/// Collects samples.
pub struct Recorder {
    profile: Profile,
    read: ReadMappings,
    processes: HashMap<u32, Process>,
    /// Samples that lie in no module known so far.
    pending: Vec<usize>,
}

/// A process that is sampled.
#[derive(Default)]
struct Process {
    /// What is mapped now, in rising order.
    now: Vec<(Piece, ModuleId)>,
    /// All that was ever mapped, the latest last.
    ever: Vec<ModuleId>,
}

impl Recorder {
    /// Of these events.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Self {
        Self::reading(sources, Box::new(process::mappings))
    }

    /// With another way to find out what a process has mapped.
    #[must_use]
    pub fn reading(sources: Vec<Source>, read: ReadMappings) -> Self {
        Self {
            profile: Profile {
                sources,
                ..Profile::default()
            },
            read,
            processes: HashMap::new(),
            pending: Vec::new(),
        }
    }

    /// Looks at what a process has mapped, and what it is called; nothing happens when it is gone.
    pub fn look(&mut self, pid: u32) {
        if let Some(name) = process::name(pid) {
            self.profile.processes.insert(pid, name);
        }
        let Ok(mappings) = (self.read)(pid) else {
            return;
        };
        let modules = module::group(pid, mappings);
        if modules.is_empty() {
            // What is left of a process that has ended.
            return;
        }
        let process = self.processes.entry(pid).or_default();
        process.now.clear();
        for module in modules {
            let known = process.ever.iter().rev().copied();
            let id = known
                .into_iter()
                .find(|id| is_same(&self.profile.modules[id.0], &module));
            let id = id.unwrap_or_else(|| {
                let id = ModuleId(self.profile.modules.len());
                process.ever.push(id);
                self.profile.modules.push(module.clone());
                id
            });
            let pieces = module.pieces.iter();
            process.now.extend(pieces.map(|piece| (*piece, id)));
            self.profile.modules[id.0] = module;
        }
        process.now.sort_by_key(|(piece, _)| piece.start);
    }

    /// Adds samples. Processes in which one lies where nothing was mapped are looked at again: a library may have come.
    pub fn push(&mut self, samples: &[Sample]) {
        let missing: HashSet<u32> = samples
            .iter()
            .filter(|sample| self.place(sample) == Place::Unknown)
            .map(|sample| sample.pid)
            .collect();
        for pid in missing {
            self.look(pid);
        }
        for sample in samples {
            let place = self.place(sample);
            if place == Place::Unknown {
                self.pending.push(self.profile.samples.len());
            }
            self.profile.samples.push(Located {
                sample: *sample,
                place,
            });
        }
    }

    fn place(&self, sample: &Sample) -> Place {
        if sample.mode == Mode::Kernel {
            return Place::Kernel;
        }
        let Some(process) = self.processes.get(&sample.pid) else {
            return Place::Unknown;
        };
        let behind = process
            .now
            .partition_point(|(piece, _)| piece.start <= sample.address);
        match behind.checked_sub(1).map(|index| process.now[index]) {
            Some((piece, id)) if sample.address < piece.end => Place::Module(id),
            _ => Place::Unknown,
        }
    }

    /// The profile. Samples that lay nowhere are looked up among all that was ever mapped.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        for index in self.pending {
            let sample = self.profile.samples[index].sample;
            let process = self.processes.get(&sample.pid);
            let ever = process.map_or(&[][..], |process| &process.ever);
            let holds = |id: &&ModuleId| {
                let module = &self.profile.modules[id.0];
                module.piece(sample.address).is_some()
            };
            if let Some(id) = ever.iter().rev().find(holds) {
                self.profile.samples[index].place = Place::Module(*id);
            }
        }
        self.profile
    }

    /// Names of the processes so far.
    #[must_use]
    pub fn processes(&self) -> &BTreeMap<u32, String> {
        &self.profile.processes
    }
}

fn is_same(known: &Module, module: &Module) -> bool {
    known.base == module.base && known.path == module.path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, rc::Rc};

    fn sample(address: u64, mode: Mode) -> Sample {
        Sample {
            time_ns: address,
            address,
            core: 0,
            source: 0,
            // No process has it: nothing of this machine gets into the test.
            pid: u32::MAX,
            tid: 1,
            mode,
        }
    }

    fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset: 0,
            path: path.into(),
        }
    }

    fn names(profile: &Profile) -> Vec<String> {
        let name = |located: &Located| match located.place {
            Place::Module(id) => profile.module(id).name.clone(),
            other => format!("{other:?}"),
        };
        profile.samples.iter().map(name).collect()
    }

    fn recorder(mapped: &Rc<RefCell<Vec<Mapping>>>) -> Recorder {
        let mapped = Rc::clone(mapped);
        Recorder::reading(Vec::new(), Box::new(move |_| Ok(mapped.borrow().clone())))
    }

    #[test]
    fn a_library_that_comes_later_is_found_when_a_sample_lies_in_it() {
        let mapped = Rc::new(RefCell::new(vec![mapping(0x1000, "/a")]));
        let mut recorder = recorder(&mapped);
        recorder.push(&[sample(0x1500, Mode::User)]);
        mapped.borrow_mut().push(mapping(0x5000, "/b.so"));
        recorder.push(&[
            sample(0x5001, Mode::User),
            sample(0xF_FFFF, Mode::Kernel),
            sample(0x9000, Mode::User),
        ]);
        let profile = recorder.finish();
        assert_eq!(names(&profile), ["a", "b.so", "Kernel", "Unknown"]);
        assert_eq!(profile.modules.len(), 2, "each once");
    }

    #[test]
    fn samples_of_a_library_that_has_gone_keep_their_module() {
        let mapped = Rc::new(RefCell::new(vec![mapping(0x1000, "/a")]));
        let mut recorder = recorder(&mapped);
        recorder.look(u32::MAX);
        *mapped.borrow_mut() = vec![mapping(0x2000, "/b")];
        recorder.look(u32::MAX);
        // Was still in the ring when the library went.
        recorder.push(&[sample(0x1001, Mode::User), sample(0x2001, Mode::User)]);
        assert_eq!(names(&recorder.finish()), ["a", "b"]);
    }

    #[test]
    fn a_process_that_is_gone_keeps_what_was_known() {
        let mapped = Rc::new(RefCell::new(vec![mapping(0x1000, "/a")]));
        let mut recorder = recorder(&mapped);
        recorder.look(u32::MAX);
        mapped.borrow_mut().clear();
        recorder.look(u32::MAX);
        recorder.push(&[sample(0x1001, Mode::User), sample(0x7000, Mode::User)]);
        assert_eq!(names(&recorder.finish()), ["a", "Unknown"]);
    }
}
