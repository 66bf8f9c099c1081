//! Exported variables.

use nt::Variable;

use crate::exports::hal_dispatch::hal_dispatch;
use crate::machine::Machine;
use crate::memory::USER_END;
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::security::se_exports;
use crate::shared_page::BUILD;

/// First address that probing refuses: as on Windows, 64 KiB below the end of the user's part.
pub(crate) const USER_PROBE_ADDRESS: u64 = USER_END - 0x1_0000;

/// The variables of a machine: one word each, in the order of [`Variable::ALL`].
#[derive(Default)]
pub(crate) struct Variables {
    words: Box<[u64]>,
}

/// The object type that a variable points to, as an opaque address: drivers only pass it on.
fn type_object(variable: Variable) -> u64 {
    static TYPES: [u64; Variable::ALL.len()] = [0; Variable::ALL.len()];
    (&raw const TYPES[variable as usize]) as u64
}

/// Kind of object that a variable is the type of.
fn kind_of(variable: Variable) -> Option<Kind> {
    match variable {
        Variable::IoDeviceObjectType => Some(Kind::Device),
        Variable::IoDriverObjectType => Some(Kind::Driver),
        Variable::IoFileObjectType => Some(Kind::File),
        Variable::PsProcessType => Some(Kind::Process),
        Variable::PsThreadType => Some(Kind::Thread),
        Variable::ExEventObjectType => Some(Kind::Event),
        Variable::MmSectionObjectType => Some(Kind::Section),
        Variable::SeTokenObjectType => Some(Kind::Token),
        _ => None,
    }
}

/// Kind of object that a type object stands for.
pub(crate) fn kind_of_type(object_type: u64) -> Option<Kind> {
    Variable::ALL
        .iter()
        .copied()
        .filter(|variable| type_object(*variable) == object_type)
        .find_map(kind_of)
}

impl Machine {
    /// Address of an exported variable.
    pub(crate) fn variable(&self, name: &str) -> Option<u64> {
        let variable = Variable::by_name(name)?;
        if variable == Variable::HalDispatchTable {
            return Some(hal_dispatch(self.thunks()));
        }
        if matches!(
            variable,
            Variable::MmUserProbeAddress
                | Variable::MmHighestUserAddress
                | Variable::MmSystemRangeStart
        ) {
            self.probes_inline.set(true);
        }
        let mut resources = self.resources.borrow_mut();
        let words = &mut resources.variables.words;
        if words.is_empty() {
            *words = Variable::ALL
                .iter()
                .map(|variable| self.value_of(*variable))
                .collect();
        }
        Some((&raw const words[variable as usize]) as u64)
    }

    fn value_of(&self, variable: Variable) -> u64 {
        match variable {
            Variable::IoDeviceObjectType
            | Variable::IoDriverObjectType
            | Variable::IoFileObjectType
            | Variable::PsProcessType
            | Variable::PsThreadType
            | Variable::ExEventObjectType
            | Variable::SeTokenObjectType
            | Variable::PsJobType
            | Variable::MmSectionObjectType => type_object(variable),
            Variable::PsInitialSystemProcess => self.process(SYSTEM_PROCESS).unwrap_or_default(),
            Variable::MmUserProbeAddress => USER_PROBE_ADDRESS,
            Variable::MmHighestUserAddress => USER_PROBE_ADDRESS - 1,
            Variable::MmSystemRangeStart => USER_END,
            Variable::NtBuildNumber => u64::from(BUILD),
            Variable::KeNumberProcessors => u64::from(self.processors_in(0)),
            Variable::KdDebuggerNotPresent | Variable::Mm64BitPhysicalAddress => 1,
            Variable::InitSafeBootMode
            | Variable::KdDebuggerEnabled
            | Variable::NlsMbCodePageTag => 0,
            // The structure itself, not a pointer: see `variable`.
            Variable::HalDispatchTable => 0,
            Variable::SeExports => se_exports(),
        }
    }
}
