//! Samples of programs, and what to make of them: where each lies, which functions are hot, which lines and instructions,
//! and files for other tools.
//!
//! ```text
//!  samples ──▶ Recorder ──▶ Profile ──▶ hot::functions ──▶ annotate::function
//!  (address)   (modules,     │  ▲
//!               while the    │  └─ Symbols (PDB, DWARF, symbol tables, exports)
//!               process      ▼
//!               lives)      export::write
//! ```
//!
//! A sample has an address and no call stack; what other tools show as a stack is the process, the module, and the chain of
//! functions inlined into each other at that address.
//!
//! ```
//! use wperf::profile::{Mode, Profile, Recorder, Sample, Source, Symbols, hot};
//!
//! # fn here() -> u64 { here as *const () as u64 }
//! # fn main() -> std::io::Result<()> {
//! let source = Source { name: "cpu-cycles".into(), code: 0x3C, interval: 100_000 };
//! let mut recorder = Recorder::new(vec![source]);
//! let pid = std::process::id();
//! let sample = Sample { time_ns: 0, address: here(), core: 0, source: 0, pid, tid: pid, mode: Mode::User };
//! recorder.push(&[sample]);
//! let profile: Profile = recorder.finish();
//! let rows = hot::functions(&profile, &mut Symbols::new(), 0);
//! assert_eq!(rows[0].count, 1);
//! # if cfg!(unix) { assert!(rows[0].symbol().contains("here:"), "{}", rows[0].symbol()); }
//! # Ok(())
//! # }
//! ```

pub mod annotate;
pub mod disassemble;
pub mod export;
pub mod hot;
pub mod image;
pub mod module;
mod recorder;
pub mod symbols;

pub use module::{Mapping, Module, ModuleId};
pub use recorder::Recorder;
pub use symbols::Symbols;

#[cfg(test)]
mod fixture;

use std::collections::BTreeMap;

/// What the processor was executing when an event had occurred often enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When. Units: ns since the driver's clock began.
    pub time_ns: u64,
    /// Address of the next instruction.
    pub address: u64,
    /// The core.
    pub core: u32,
    /// Index of the event in [`Profile::sources`].
    pub source: usize,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// In which mode.
    pub mode: Mode,
}

/// Mode of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A program's.
    User,
    /// The system's.
    Kernel,
}

/// An event that is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its code, as the driver takes it.
    pub code: u32,
    /// Occurrences from one sample to the next.
    pub interval: u64,
}

/// Where a sample lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In the system.
    Kernel,
    /// In a module.
    Module(ModuleId),
    /// In none that is known.
    Unknown,
}

/// A sample and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The sample.
    pub sample: Sample,
    /// Where.
    pub place: Place,
}

/// Everything that was sampled.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The events, in the order asked for.
    pub sources: Vec<Source>,
    /// The samples, as they came: in the order of time on each core.
    pub samples: Vec<Located>,
    /// Modules that were seen in any of the processes.
    pub modules: Vec<Module>,
    /// Names of the processes.
    pub processes: BTreeMap<u32, String>,
}

impl Profile {
    /// A module.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0]
    }

    /// The first module of a process whose file has this name; case does not matter.
    #[must_use]
    pub fn module_named(&self, pid: Option<u32>, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| {
            pid.is_none_or(|pid| module.pid == pid) && module.name.eq_ignore_ascii_case(name)
        })
    }

    /// Samples of one event.
    pub fn of_source(&self, source: usize) -> impl Iterator<Item = &Located> {
        let samples = self.samples.iter();
        samples.filter(move |located| located.sample.source == source)
    }

    /// Name of a process; its number when it has none.
    #[must_use]
    pub fn process_name(&self, pid: u32) -> String {
        let name = self.processes.get(&pid).cloned();
        name.unwrap_or_else(|| format!("process {pid}"))
    }
}
