//! What memory integrity (HVCI) refuses, and what a driver's object lacks: checked at load.

use lab_image::{Image, Section};
use lab_verifier::RuleId;
use nt::irp::{DRIVER_OBJECT, IRP_MJ_PNP, IRP_MJ_POWER, IRP_MJ_SYSTEM_CONTROL};

use crate::exports::io::invalid_device_request;
use crate::guest::get;
use crate::machine::Machine;

const PAGE: u32 = 4096;

/// What is wrong with a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    WritableExecutable,
    Unaligned,
    Imports,
}

impl Fault {
    fn rule(self) -> RuleId {
        match self {
            Self::WritableExecutable => RuleId::SectionWritableExecutable,
            Self::Unaligned => RuleId::SectionUnaligned,
            Self::Imports => RuleId::ImportsExecutable,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::WritableExecutable => "is writable and executable",
            Self::Unaligned => "does not start at a page",
            Self::Imports => "is executable and holds the import address table",
        }
    }
}

/// Faults of the sections of an image, with the first offset of the import table in each.
fn faults(sections: &[Section], imports: &[u32]) -> Vec<(usize, Fault)> {
    let mut faults = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        if section.is_executable() && section.is_writable() {
            faults.push((index, Fault::WritableExecutable));
        }
        if section.rva % PAGE != 0 {
            faults.push((index, Fault::Unaligned));
        }
        let holds_imports = imports.iter().any(|rva| section.range().contains(rva));
        if section.is_executable() && holds_imports {
            faults.push((index, Fault::Imports));
        }
    }
    faults
}

impl Machine {
    /// Reports sections that memory integrity refuses.
    pub(crate) fn check_sections(&self, image: &Image, base: u64) {
        let imports: Vec<u32> = image
            .imports()
            .iter()
            .map(|import| import.iat_rva)
            .collect();
        for (index, fault) in faults(image.sections(), &imports) {
            let section = &image.sections()[index];
            let start = base + u64::from(section.rva);
            self.report_at(
                fault.rule(),
                [0, base, start, 0],
                format!("section {} {}", section.name, fault.words()),
                start + 1,
            );
        }
    }

    /// A driver of a device stack passes on what it does not handle.
    pub(crate) fn check_handlers(&self, object: u64) {
        let driver = object as *mut DRIVER_OBJECT;
        let Some(add_device) = get!(get!(driver, DriverExtension), AddDevice) else {
            return;
        };
        let missing = invalid_device_request() as usize;
        for (major, name) in [
            (IRP_MJ_PNP, "IRP_MJ_PNP"),
            (IRP_MJ_POWER, "IRP_MJ_POWER"),
            (IRP_MJ_SYSTEM_CONTROL, "IRP_MJ_SYSTEM_CONTROL"),
        ] {
            let routine = get!(driver, MajorFunction)[usize::from(major)];
            if routine.is_none_or(|routine| routine as usize == missing) {
                self.report_at(
                    RuleId::IrpHandlerMissing,
                    [0, object, 0, u64::from(major)],
                    format!(
                        "the driver has an AddDevice routine and no dispatch routine for {name}"
                    ),
                    add_device as usize as u64 + 1,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTE: u32 = 0x2000_0000;
    const READ: u32 = 0x4000_0000;
    const WRITE: u32 = 0x8000_0000;

    fn section(rva: u32, flags: u32) -> Section {
        Section {
            name: ".x".into(),
            rva,
            virtual_size: 0x100,
            file_offset: 0,
            file_size: 0,
            flags,
        }
    }

    #[test]
    fn sections_that_memory_integrity_refuses_are_found() {
        let code = section(0x1000, READ | EXECUTE);
        let data = section(0x2000, READ | WRITE);
        assert!(faults(&[code.clone(), data.clone()], &[0x2010]).is_empty());
        let both = section(0x3000, READ | WRITE | EXECUTE);
        let found = faults(&[code.clone(), both], &[]);
        assert_eq!(found, [(1, Fault::WritableExecutable)]);
        assert_eq!(faults(&[code], &[0x1010]), [(0, Fault::Imports)]);
        let found = faults(&[section(0x1080, READ)], &[]);
        assert_eq!(found, [(0, Fault::Unaligned)]);
        assert_eq!(found[0].1.rule(), RuleId::SectionUnaligned);
        assert!(faults(&[data], &[0x2100]).is_empty(), "behind the section");
    }
}
