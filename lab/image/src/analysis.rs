//! Finds, once per file, the instructions of an x86-64 driver that mapping must change or that a reader should know.
//!
//! ```text
//! bytes ─scan─▶ candidates ─code─▶ decoded functions ─classify─▶ sites ─window─▶ moves
//!                                                                  │               │
//!                                       references: does anything lead there, or in between?
//!                                                                  ▼               ▼
//!                                                               Analysis: sites, trampolines, shared-data addresses
//! ```
//! Decoding follows `.pdata`, so that instruction boundaries are certain; code without unwind information (leaf
//! functions) is decoded from its first byte and written to only if something refers to that byte.

#![forbid(unsafe_code)]

mod classify;
mod code;
mod kusd;
mod references;
mod scan;
mod site;
mod trampoline;
mod window;

use crate::image::{Image, Machine};
use code::Function;
use references::{Decoded, References};
use site::Nature;
pub use site::{KusdReference, Refusal, Site, SiteKind, Treatment};
use trampoline::Builder;
pub(crate) use trampoline::{SLOTS, Trampolines, slot_of};
use window::Window;

/// How much of the code is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What mapping changes.
    Loading,
    /// Everything worth telling.
    Report,
}

/// What was found in a driver's code.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    sites: Vec<Site>,
    kusd: Vec<KusdReference>,
    trampolines: Trampolines,
}

impl Analysis {
    /// Finds what mapping must change: instructions that run silently in user mode, those that deserve a trampoline,
    /// and addresses of KUSER_SHARED_DATA.
    ///
    /// Only functions with a suspicious byte pattern are decoded. Empty for Arm64.
    pub fn for_loading(image: &Image) -> Self {
        Self::at_depth(image, Depth::Loading)
    }

    /// Finds also the instructions that fault by themselves, by decoding all code. Empty for Arm64.
    pub fn for_report(image: &Image) -> Self {
        Self::at_depth(image, Depth::Report)
    }

    fn at_depth(image: &Image, depth: Depth) -> Self {
        if image.machine() != Machine::X64 {
            return Self::default();
        }
        let kusd = kusd::find(image);
        let mut findings = Vec::new();
        let mut decoded = Vec::new();
        for section in image.sections().iter().filter(|s| s.is_executable()) {
            for function in code::functions(image, section, depth) {
                let before = findings.len();
                examine(&function, depth, &mut findings);
                if findings.len() > before {
                    decoded.push(Decoded::of(&function));
                }
            }
        }
        let references = References::collect(image, questions(&findings), &decoded);
        conclude(image, kusd, findings, &references)
    }

    /// The sites, in ascending order of rva.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The site that begins at `rva`.
    pub fn site_at(&self, rva: u32) -> Option<&Site> {
        let index = self
            .sites
            .binary_search_by_key(&rva, |site| site.rva)
            .ok()?;
        self.sites.get(index)
    }

    /// Where the driver carries addresses of KUSER_SHARED_DATA.
    pub fn kusd_references(&self) -> &[KusdReference] {
        &self.kusd
    }

    pub(crate) fn trampolines(&self) -> &Trampolines {
        &self.trampolines
    }
}

/// A site as found, before it is known what refers to its surroundings.
struct Finding {
    site: Site,
    /// Bytes that could move, best first, for kinds that deserve a trampoline.
    windows: Option<Result<Vec<Window>, Refusal>>,
    /// First byte of the function, if only a reference can prove that it is code.
    unproven_start: Option<u32>,
}

fn examine(function: &Function, depth: Depth, findings: &mut Vec<Finding>) {
    let masks_interrupts = classify::masks_interrupts(&function.instructions);
    for (index, instruction) in function.instructions.iter().enumerate() {
        let Some(kind) = classify::kind(instruction, masks_interrupts) else {
            continue;
        };
        let nature = kind.nature();
        let needed_to_load = !matches!(nature, Nature::Trapping | Nature::Harmless);
        if depth == Depth::Loading && !needed_to_load {
            continue;
        }
        let hot = matches!(nature, Nature::Hot | Nature::HotSilent);
        findings.push(Finding {
            site: Site {
                // Decoded with rvas as addresses, so the address fits.
                rva: u32::try_from(instruction.ip()).unwrap_or(u32::MAX),
                len: u8::try_from(instruction.len()).unwrap_or(15),
                kind,
                treatment: match nature {
                    Nature::Silent | Nature::HotSilent => Treatment::MadeToTrap,
                    Nature::Hot | Nature::Trapping => Treatment::Traps,
                    Nature::Harmless => Treatment::LeftAlone,
                },
                refusal: None,
            },
            windows: hot.then(|| window::choose(&function.instructions, index)),
            unproven_start: (!function.in_function_table && needed_to_load)
                .then_some(function.start),
        });
    }
}

/// Decides each site's treatment and lays out the trampolines.
fn conclude(
    image: &Image,
    kusd: Vec<KusdReference>,
    findings: Vec<Finding>,
    references: &References,
) -> Analysis {
    let fixed = kusd
        .iter()
        .map(|reference| reference.rva)
        .chain(image.relocations().iter().copied());
    let fixed = references::sorted(fixed);
    let mut builder = Builder::new(image.header().image_size);
    let mut sites: Vec<Site> = findings
        .into_iter()
        .map(|finding| {
            let mut site = finding.site;
            if let Some(start) = finding.unproven_start
                && !references.any_in(start..start + 1)
            {
                site.refusal = Some(Refusal::UnprovenCode);
                if site.treatment == Treatment::MadeToTrap {
                    site.treatment = Treatment::LeftAlone;
                }
                return site;
            }
            if let Some(windows) = finding.windows {
                match place(&site, windows, references, &fixed, &mut builder) {
                    Ok(()) => site.treatment = Treatment::Trampoline,
                    Err(refusal) => site.refusal = Some(refusal),
                }
            }
            site
        })
        .collect();
    sites.sort_unstable_by_key(|site| site.rva);
    Analysis {
        sites,
        kusd,
        trampolines: builder.finish(),
    }
}

/// The rvas about which it matters whether anything refers to them.
fn questions(findings: &[Finding]) -> Vec<core::ops::Range<u32>> {
    findings
        .iter()
        .flat_map(|finding| {
            let start = finding.unproven_start.map(|start| start..start + 1);
            let windows = match &finding.windows {
                Some(Ok(windows)) => windows.as_slice(),
                _ => &[],
            };
            let inside = windows.iter().map(Window::inside);
            start.into_iter().chain(inside)
        })
        .collect()
}

/// Places the first window that can be; the reason against the best one, if none can.
fn place(
    site: &Site,
    windows: Result<Vec<Window>, Refusal>,
    references: &References,
    fixed: &[u32],
    builder: &mut Builder,
) -> Result<(), Refusal> {
    let mut first = None;
    for window in windows? {
        let window = &window;
        let refusal = if references.any_in(window.inside()) {
            Refusal::BranchTarget
        } else if window.overlaps_fixed(fixed) {
            Refusal::Relocation
        } else if builder.collides(window) {
            Refusal::Neighbour
        } else {
            match builder.add(site.kind, window) {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            }
        };
        first.get_or_insert(refusal);
    }
    Err(first.unwrap_or(Refusal::TooShort))
}
