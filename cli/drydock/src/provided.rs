//! Which imports the lab can satisfy.

use std::collections::HashSet;

use lab_image::{Import, ImportName};

/// The exports that the lab implements.
pub(crate) struct Provided {
    names: HashSet<&'static str>,
}

impl Provided {
    /// Everything that the kernel interface declares; the lab does not compile unless it implements all of it.
    pub(crate) fn by_the_lab() -> Self {
        Self {
            names: nt::contracts()
                .map(|contract| contract.name)
                .chain(nt::Variable::ALL.iter().map(|variable| variable.name()))
                .collect(),
        }
    }

    /// Whether an import would be bound to an implementation.
    pub(crate) fn has(&self, import: &Import) -> bool {
        let kernel = nt::KERNEL_IMAGES
            .iter()
            .any(|image| image.eq_ignore_ascii_case(&import.dll));
        match &import.name {
            ImportName::Name(name) => kernel && self.names.contains(name.as_str()),
            ImportName::Ordinal(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(dll: &str, name: &str) -> Import {
        Import {
            dll: dll.into(),
            name: ImportName::Name(name.into()),
            iat_rva: 0,
        }
    }

    #[test]
    fn functions_and_variables_of_the_kernel_are_provided_and_nothing_else() {
        let provided = Provided::by_the_lab();
        for name in ["IoCreateDevice", "IoDeviceObjectType", "SeExports"] {
            assert!(provided.has(&import("NTOSKRNL.exe", name)), "{name}");
        }
        assert!(!provided.has(&import("ndis.sys", "IoCreateDevice")));
        assert!(!provided.has(&import("ntoskrnl.exe", "IoNoSuchThing")));
    }
}
