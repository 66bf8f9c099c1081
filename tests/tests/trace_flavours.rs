//! What a flavour leaves out costs nothing: no instruction, no string.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use e2e::flavours::{VARIABLES, chosen_by, flavoured};
use iced_x86::{Decoder, DecoderOptions};
use lab_image::{Image, Symbols};
use trace_decode::Catalogue;
use trace_format::{Heat, site};

/// A built driver, and what is known about it.
struct Built {
    image: Image,
    symbols: Symbols,
}

impl Built {
    fn new(flavour: &str) -> Self {
        let path = flavoured(flavour);
        let bytes = std::fs::read(&path).expect("it is there");
        let image = Image::parse(&bytes).expect("a driver");
        let symbols = Symbols::beside(&image, &path).expect("its PDB");
        Self { image, symbols }
    }

    fn catalogue(&self, path: &Path) -> Catalogue {
        let pdb = Symbols::pdb_beside(&self.image, path).expect("its PDB");
        Catalogue::read(&self.image, Some(pdb)).expect("its sites")
    }

    fn has_section(&self, name: &str) -> bool {
        self.image
            .sections()
            .iter()
            .any(|section| section.name == name)
    }

    fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(self.image.file(), text.as_bytes()).is_some()
    }

    /// The instructions of all functions by name, without the distances to what is elsewhere.
    fn functions(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let named = self.image.functions().iter().filter_map(|range| {
            let location = self.symbols.location(range.begin)?;
            let code = self.image.stored_from(range.begin)?;
            let code = code.get(..usize::try_from(range.end - range.begin).ok()?)?;
            Some((location.frame.function, instructions(code, range.begin)))
        });
        named.collect()
    }
}

fn instructions(code: &[u8], begin: u32) -> Vec<Vec<u8>> {
    let end = u64::from(begin) + code.len() as u64;
    let mut decoder = Decoder::with_ip(64, code, begin.into(), DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let start = decoder.position();
        let instruction = decoder.decode();
        let mut bytes = code[start..start + instruction.len()].to_vec();
        let places = decoder.get_constant_offsets(&instruction);
        let target = instruction.near_branch_target();
        let leaves = instruction.is_call_near() || instruction.is_jmp_near_or_jcc();
        if leaves && !(u64::from(begin)..end).contains(&target) {
            let at = places.immediate_offset();
            bytes[at..at + places.immediate_size()].fill(0);
        }
        if instruction.is_ip_rel_memory_operand() {
            let at = places.displacement_offset();
            bytes[at..at + places.displacement_size()].fill(0);
        }
        all.push(bytes);
    }
    all
}

trait IsBranch {
    fn is_jmp_near_or_jcc(&self) -> bool;
}

impl IsBranch for iced_x86::Instruction {
    fn is_jmp_near_or_jcc(&self) -> bool {
        self.is_jmp_near() || self.is_jcc_near() || self.is_jcc_short() || self.is_jmp_short()
    }
}

#[test]
fn hot_paths_are_the_same_code_whether_cold_ones_are_traced_or_not() {
    let all = Built::new("all");
    let catalogue = all.catalogue(&flavoured("all"));
    let functions_with = |heat: Heat| -> BTreeSet<String> {
        let sites = catalogue
            .sites()
            .into_iter()
            .filter(|site| site.heat == heat);
        sites
            .filter_map(|site| Some(all.symbols.location(site.code)?.frame.function))
            .collect()
    };
    let cold_ones = functions_with(Heat::Cold);
    let hot: Vec<_> = functions_with(Heat::Hot)
        .difference(&cold_ones)
        .cloned()
        .collect();
    assert!(
        hot.iter().any(|function| function.contains("tick")),
        "{hot:#?}"
    );
    let (unchecked, cold) = (
        Built::new("unchecked").functions(),
        Built::new("cold").functions(),
    );
    // A function that is in one of them only was inlined in the other: into one that has cold sites.
    let in_both = hot
        .iter()
        .filter_map(|function| Some((function, unchecked.get(function)?, cold.get(function)?)));
    let mut compared = BTreeSet::new();
    for (function, without, with) in in_both {
        assert!(
            without == with,
            "{function} differs:\n{without:02x?}\n{with:02x?}"
        );
        println!("{} instructions of {function} are the same", with.len());
        compared.insert(function.as_str());
    }
    assert!(
        compared.iter().any(|function| function.contains("tick")),
        "{compared:#?}"
    );
    assert!(
        compared.len() * 2 > hot.len(),
        "only {compared:#?} of {hot:#?}"
    );
}

#[test]
fn what_is_left_out_leaves_no_text_and_no_section() {
    let [unchecked, cold, all, debug] = ["unchecked", "cold", "all", "debug"].map(Built::new);
    let (hot_text, cold_text) = ("the core was looked at", "taken over by force");
    for (built, has_cold, has_hot) in [
        (&unchecked, false, false),
        (&cold, true, false),
        (&all, true, true),
    ] {
        assert_eq!(built.has_section(site::SECTION), has_cold);
        assert_eq!(built.has_section(site::SWITCH_SECTION), has_cold);
        assert_eq!(built.contains(hot_text), has_hot);
    }
    // The driver has notes of its own that say so, too: with a colon. Each is there of cores and of units.
    let notes = |built: &Built| memchr::memmem::find_iter(built.image.file(), cold_text).count();
    assert_eq!([&unchecked, &cold, &all].map(notes), [2, 4, 4]);
    assert!(!debug.has_section(site::SECTION) && debug.contains(hot_text));
}

#[test]
fn one_site_in_several_functions_names_each() {
    let path = flavoured("all");
    let catalogue = Built::new("all").catalogue(&path);
    let sites = catalogue.sites();
    let copies: BTreeSet<_> = sites
        .iter()
        .filter(|site| site.text == "the core was looked at")
        .map(|site| {
            assert!(site.function.ends_with("::act"), "{site:?}");
            site.callers.clone()
        })
        .collect();
    assert!(copies.len() > 3, "{copies:#?}");
    assert!(
        copies
            .iter()
            .flatten()
            .any(|caller| caller.contains("tick")),
        "{copies:#?}"
    );
    // Each copy has a switch of its own.
    let switches: BTreeSet<_> = catalogue
        .switches()
        .iter()
        .map(|switch| switch.index)
        .collect();
    assert_eq!(switches.len(), catalogue.switches().len());
    assert!(switches.len() >= sites.len());
}

#[test]
fn the_variables_of_wpp_drivers_choose_the_flavour() {
    for (variable, flavour) in VARIABLES {
        assert_eq!(chosen_by(variable, "1"), flavour);
        assert_eq!(chosen_by(variable, "0"), "cold");
    }
}
