//! The facts about a driver file, as plain data for any printer.

use std::path::Path;

use lab_image::{
    Analysis, Export, ExportTarget, Image, Machine, Refusal, Section, SiteKind, Symbols,
    SymbolsError, Treatment,
};
use object::pe;
use serde::Serialize;

use crate::provided::Provided;

/// Everything `inspect` tells; the field order is that of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) size_bytes: usize,
    /// Imports that the lab lacks, as `dll!name`.
    pub(super) lacking: Vec<String>,
    pub(super) findings: Vec<String>,
    pub(super) identity: Identity,
    pub(super) mitigations: Mitigations,
    pub(super) sections: Vec<SectionLine>,
    pub(super) imports: Vec<ImportLine>,
    pub(super) exports: Vec<ExportLine>,
    /// Absent for processors whose code is not analysed.
    pub(super) code: Option<Code>,
}

/// What the file says about itself.
#[derive(Debug, Serialize)]
pub(super) struct Identity {
    pub(super) machine: Machine,
    pub(super) subsystem: &'static str,
    pub(super) entry_rva: u32,
    pub(super) entry_name: Option<String>,
    pub(super) image_size_bytes: u32,
    pub(super) preferred_base: u64,
    pub(super) time_date_stamp: u32,
    /// The stamp as a time; a hash of the contents in reproducible builds.
    pub(super) linked: Option<String>,
    pub(super) linker: String,
    pub(super) oldest_windows: String,
    pub(super) file_version: Option<String>,
    pub(super) product_version: Option<String>,
    pub(super) pdb: Option<Pdb>,
    pub(super) signed: bool,
    pub(super) checksum: u32,
    pub(super) checksum_is_right: bool,
}

/// The PDB that belongs to the file.
#[derive(Debug, Serialize)]
pub(super) struct Pdb {
    pub(super) name: String,
    pub(super) identity: String,
    /// Why it gives no symbols; absent if it does.
    pub(super) missing: Option<String>,
}

/// Hardening that the file asks for or was built with.
#[derive(Debug, Serialize)]
pub(super) struct Mitigations {
    pub(super) no_execute: bool,
    pub(super) dynamic_base: bool,
    pub(super) high_entropy_base: bool,
    pub(super) force_integrity: bool,
    pub(super) control_flow_guard: bool,
    pub(super) stack_cookie: bool,
    pub(super) writable_code_sections: Vec<String>,
}

/// A section and what the kernel does with it.
#[derive(Debug, Serialize)]
pub(super) struct SectionLine {
    pub(super) name: String,
    pub(super) rva: u32,
    pub(super) size_bytes: u32,
    pub(super) stored_bytes: u32,
    pub(super) rights: String,
    pub(super) discardable: bool,
    pub(super) pageable: bool,
}

/// An import and whether the lab has it.
#[derive(Debug, Serialize)]
pub(super) struct ImportLine {
    pub(super) dll: String,
    pub(super) name: String,
    pub(super) provided: bool,
}

/// An export and what it leads to.
#[derive(Debug, Serialize)]
pub(super) struct ExportLine {
    pub(super) ordinal: u32,
    pub(super) name: Option<String>,
    pub(super) target: String,
}

/// What was found in x86-64 code.
#[derive(Debug, Serialize)]
pub(super) struct Code {
    pub(super) shared_data: Vec<SharedDataLine>,
    pub(super) sites: Vec<SiteLine>,
}

/// An address of KUSER_SHARED_DATA; the lab rewrites it.
#[derive(Debug, Serialize)]
pub(super) struct SharedDataLine {
    pub(super) rva: u32,
    pub(super) offset: u16,
    pub(super) place: &'static str,
    pub(super) function: Option<String>,
}

/// An instruction that needs attention.
#[derive(Debug, Serialize)]
pub(super) struct SiteLine {
    pub(super) rva: u32,
    pub(super) function: Option<String>,
    pub(super) kind: SiteKind,
    pub(super) never_legal: bool,
    pub(super) treatment: Treatment,
    pub(super) refusal: Option<Refusal>,
}

impl Report {
    /// Collects the facts.
    pub(super) fn new(
        path: &Path,
        image: &Image,
        analysis: &Analysis,
        symbols: &Result<Symbols, SymbolsError>,
        provided: &Provided,
    ) -> Self {
        let names = Names {
            image,
            symbols: symbols.as_ref().ok(),
        };
        let imports = imports(image, provided);
        let code = (image.machine() == Machine::X64).then(|| Code::new(analysis, &names));
        let mitigations = Mitigations::new(image);
        let identity = Identity::new(image, symbols, &names);
        Self {
            file: path.display().to_string(),
            size_bytes: image.file().len(),
            lacking: imports
                .iter()
                .filter(|import| !import.provided)
                .map(|import| format!("{}!{}", import.dll, import.name))
                .collect(),
            findings: findings(&identity, &mitigations, code.as_ref()),
            identity,
            mitigations,
            sections: image.sections().iter().map(SectionLine::new).collect(),
            imports,
            exports: image.exports().iter().map(ExportLine::new).collect(),
            code,
        }
    }
}

/// Names for places in the image, from symbols or else from the function table.
struct Names<'a> {
    image: &'a Image,
    symbols: Option<&'a Symbols>,
}

impl Names<'_> {
    fn at(&self, rva: u32) -> Option<String> {
        if let Some(location) = self.symbols.and_then(|symbols| symbols.location(rva)) {
            let innermost = location.inlined.first().unwrap_or(&location.frame);
            return Some(match location.inlined.is_empty() {
                true => format!("{}+{:#x}", location.frame.function, location.offset),
                false => format!("{} in {}", innermost.function, location.frame.function),
            });
        }
        let function = self.image.function_at(rva)?;
        Some(format!("{:#x}+{:#x}", function.begin, rva - function.begin))
    }
}

fn imports(image: &Image, provided: &Provided) -> Vec<ImportLine> {
    let mut imports: Vec<ImportLine> = image
        .imports()
        .iter()
        .map(|import| ImportLine {
            dll: import.dll.to_string(),
            name: import.name.to_string(),
            provided: provided.has(import),
        })
        .collect();
    imports.sort_by(|a, b| (&a.dll, &a.name).cmp(&(&b.dll, &b.name)));
    imports
}

/// What a reviewer would object to, in words.
fn findings(identity: &Identity, mitigations: &Mitigations, code: Option<&Code>) -> Vec<String> {
    let mut findings = Vec::new();
    for section in &mitigations.writable_code_sections {
        findings.push(format!("section {section} is both writable and executable"));
    }
    if !mitigations.no_execute {
        findings.push("the image is not marked NX compatible".into());
    }
    if !identity.checksum_is_right {
        findings.push(
            "the checksum in the header is wrong: Windows validates that of every driver it loads"
                .into(),
        );
    }
    for site in code.iter().flat_map(|code| &code.sites) {
        if site.never_legal {
            let (kind, rva) = (site.kind, site.rva);
            findings.push(format!("{kind} at {rva:#x} is never legal in a driver"));
        }
    }
    findings
}

impl Identity {
    fn new(image: &Image, symbols: &Result<Symbols, SymbolsError>, names: &Names<'_>) -> Self {
        let header = image.header();
        let version = |parts: [u16; 4]| parts.map(|part| part.to_string()).join(".");
        let entry_name = symbols.as_ref().ok().and_then(|_| names.at(header.entry));
        Self {
            machine: header.machine,
            subsystem: "native",
            entry_rva: header.entry,
            entry_name: entry_name.map(|name| name.trim_end_matches("+0x0").to_owned()),
            image_size_bytes: header.image_size,
            preferred_base: header.preferred_base,
            time_date_stamp: header.time_date_stamp,
            linked: time(header.time_date_stamp),
            linker: format!("{}.{}", header.linker_version.0, header.linker_version.1),
            oldest_windows: format!("{}.{}", header.os_version.0, header.os_version.1),
            file_version: image.version().map(|v| version(v.file)),
            product_version: image.version().map(|v| version(v.product)),
            pdb: image.pdb().map(|pdb| Pdb {
                name: pdb.name.clone(),
                identity: pdb.identity(),
                missing: symbols.as_ref().err().map(ToString::to_string),
            }),
            signed: image.signature().is_some(),
            checksum: header.checksum,
            checksum_is_right: header.checksum == image.computed_checksum(),
        }
    }
}

/// A link time, if the stamp can be one: reproducible builds store a hash, which is often in the future.
fn time(stamp: u32) -> Option<String> {
    let time = jiff::Timestamp::from_second(stamp.into()).ok()?;
    (stamp != 0 && time <= jiff::Timestamp::now()).then(|| time.to_string())
}

impl Mitigations {
    fn new(image: &Image) -> Self {
        let has = |flag| image.header().dll_characteristics & flag != 0;
        let config = image.load_config().cloned().unwrap_or_default();
        Self {
            no_execute: has(pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT),
            dynamic_base: has(pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE),
            high_entropy_base: has(pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA),
            force_integrity: has(pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY),
            control_flow_guard: has(pe::IMAGE_DLLCHARACTERISTICS_GUARD_CF)
                && config.guard_flags & pe::IMAGE_GUARD_CF_INSTRUMENTED != 0,
            stack_cookie: config.cookie_rva.is_some(),
            writable_code_sections: image
                .sections()
                .iter()
                .filter(|section| section.is_writable() && section.is_executable())
                .map(|section| section.name.clone())
                .collect(),
        }
    }
}

impl SectionLine {
    fn new(section: &Section) -> Self {
        let right = |has, letter| if has { letter } else { '-' };
        Self {
            name: section.name.clone(),
            rva: section.rva,
            size_bytes: section.virtual_size,
            stored_bytes: section.file_size,
            rights: [
                right(section.is_readable(), 'r'),
                right(section.is_writable(), 'w'),
                right(section.is_executable(), 'x'),
            ]
            .iter()
            .collect(),
            discardable: section.is_discardable(),
            pageable: section.is_pageable(),
        }
    }
}

impl ExportLine {
    fn new(export: &Export) -> Self {
        Self {
            ordinal: export.ordinal,
            name: export.name.clone(),
            target: match &export.target {
                ExportTarget::Rva(rva) => format!("{rva:#x}"),
                ExportTarget::Forward(to) => to.clone(),
            },
        }
    }
}

impl Code {
    fn new(analysis: &Analysis, names: &Names<'_>) -> Self {
        let shared_data = analysis
            .kusd_references()
            .iter()
            .map(|reference| SharedDataLine {
                rva: reference.rva,
                offset: reference.offset,
                place: if reference.in_code { "code" } else { "data" },
                function: names.at(reference.rva),
            });
        let sites = analysis.sites().iter().map(|site| SiteLine {
            rva: site.rva,
            function: names.at(site.rva),
            kind: site.kind,
            never_legal: site.kind.is_never_legal(),
            treatment: site.treatment,
            refusal: site.refusal,
        });
        Self {
            shared_data: shared_data.collect(),
            sites: sites.collect(),
        }
    }
}
