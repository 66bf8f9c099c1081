//! What each site of the built driver costs: the instructions that run while it is off, its code, its data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use e2e::flavours::flavoured;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use lab_image::{Image, Section, Symbols};
use trace_decode::Catalogue;
use trace_decode::catalogue::Switch;
use trace_format::{Kind, site};

/// Bytes that may run while a site is off, and instructions.
const HOT: (usize, usize) = (9, 2);
/// Bytes of code of a site with two integers, wherever they are.
const MOST_CODE: usize = 48;

/// A driver that is traced.
struct Driver {
    image: Image,
    catalogue: Catalogue,
    /// What stands at the sites, by rva.
    tests: BTreeMap<u32, Test>,
}

/// The instructions of a site where the function passes it.
#[derive(Clone, Debug)]
struct Test {
    compare: Instruction,
    skip: Instruction,
    leave: Instruction,
}

impl Test {
    /// Bytes in the way of the function, run or not.
    fn bytes(&self) -> usize {
        self.compare.len() + self.skip.len() + self.leave.len()
    }

    /// Where the function goes on.
    fn end(&self) -> u32 {
        rva(self.leave.next_ip())
    }
}

fn rva(ip: u64) -> u32 {
    u32::try_from(ip).expect("code of a driver")
}

impl Driver {
    fn new() -> Self {
        Self::of("all")
    }

    fn of(flavour: &str) -> Self {
        let path = flavoured(flavour);
        let bytes = std::fs::read(&path).expect("it is there");
        let image = Image::parse(&bytes).expect("a driver");
        let pdb = Symbols::pdb_beside(&image, &path).expect("its PDB");
        let catalogue = Catalogue::read(&image, Some(pdb)).expect("its sites");
        let mut driver = Self {
            image,
            catalogue,
            tests: BTreeMap::new(),
        };
        let places = driver.catalogue.switches().iter();
        driver.tests = places
            .map(|switch| (switch.site.code, driver.test_at(switch.site.code)))
            .collect();
        driver
    }

    fn section(&self, name: &str) -> &Section {
        let mut sections = self.image.sections().iter();
        sections.find(|section| section.name == name).expect(name)
    }

    fn decode(&self, at: u32) -> Instruction {
        let bytes = self.image.stored_from(at).expect("code");
        Decoder::with_ip(64, bytes, at.into(), DecoderOptions::NONE).decode()
    }

    fn test_at(&self, at: u32) -> Test {
        let compare = self.decode(at);
        let skip = self.decode(rva(compare.next_ip()));
        let leave = self.decode(rva(skip.next_ip()));
        Test {
            compare,
            skip,
            leave,
        }
    }

    /// Where control goes from an instruction while all sites are off.
    fn next(&self, instruction: &Instruction) -> Vec<u32> {
        let here = rva(instruction.ip());
        if let Some(test) = self.tests.get(&here) {
            return vec![test.end()];
        }
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => vec![rva(instruction.near_branch_target())],
            FlowControl::ConditionalBranch => vec![
                rva(instruction.near_branch_target()),
                rva(instruction.next_ip()),
            ],
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => vec![],
            // __fastfail does not return.
            FlowControl::Interrupt if instruction.immediate8() == 0x29 => vec![],
            _ => vec![rva(instruction.next_ip())],
        }
    }

    /// Where the events are. Nothing but the site itself goes there.
    fn events(&self) -> BTreeSet<u32> {
        let leaves = self.tests.values().map(|test| &test.leave);
        leaves
            .map(|leave| rva(leave.near_branch_target()))
            .collect()
    }

    /// The instructions that are reached from one, up to those of `known`.
    ///
    /// What a call that does not return is followed by does not count as reached if it is an event.
    fn reached(&self, from: u32, known: &BTreeSet<u32>) -> BTreeSet<u32> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            if !known.contains(&at) && reached.insert(at) {
                open.extend(self.next(&self.decode(at)));
            }
        }
        reached
    }

    /// The instructions that are there for the event of a site: reached if it is on, and not if all are off.
    fn event(&self, test: &Test) -> Vec<Instruction> {
        let off = self.reached(test.end(), &self.events());
        let event = rva(test.leave.near_branch_target());
        let only = self.reached(event, &off);
        only.into_iter().map(|at| self.decode(at)).collect()
    }
}

/// Whether a site has two arguments that are integers as they are.
fn has_two_integers(switch: &Switch) -> bool {
    let integers = [
        Kind::Unsigned,
        Kind::Signed,
        Kind::Hex,
        Kind::NtStatus,
        Kind::ControlCode,
    ];
    let fields = &switch.site.fields;
    fields.len() == 2 && fields.iter().all(|field| integers.contains(&field.kind))
}

#[test]
fn a_site_that_is_off_takes_two_instructions_and_nine_bytes() {
    let driver = Driver::new();
    let switches = driver.catalogue.switches();
    assert!(switches.len() > 20, "{}", switches.len());
    let table = driver.section(site::SWITCH_SECTION);
    for switch in switches {
        let (site, test) = (&switch.site, &driver.tests[&switch.site.code]);
        let run = [test.compare, test.skip];
        let place = rva(test.compare.ip_rel_memory_address());
        assert_eq!(test.compare.code(), Code::Cmp_rm8_imm8, "{site:?}");
        assert!(test.compare.is_ip_rel_memory_operand(), "{site:?}");
        // Its own switch, behind the word that the table begins with.
        assert_eq!(place, table.rva + 4 + switch.index * 4, "{site:?}");
        assert_eq!(test.skip.mnemonic(), Mnemonic::Je, "{site:?}");
        assert_eq!(rva(test.skip.near_branch_target()), test.end(), "{site:?}");
        assert_eq!(test.leave.mnemonic(), Mnemonic::Jmp, "{site:?}");
        let bytes: usize = run.iter().map(Instruction::len).sum();
        assert!((bytes, run.len()) <= HOT, "{bytes} bytes: {site:?}");
    }
}

#[test]
fn a_site_with_two_integers_has_at_most_forty_eight_bytes() {
    let driver = Driver::new();
    let (mut report, mut integers, mut too_many) = (String::new(), 0, Vec::new());
    for switch in driver.catalogue.switches() {
        let (site, test) = (&switch.site, &driver.tests[&switch.site.code]);
        let event = driver.event(test);
        let bytes = test.bytes() + event.iter().map(Instruction::len).sum::<usize>();
        let kinds: Vec<_> = site.fields.iter().map(|field| field.kind).collect();
        let calls = event.iter().filter(|instruction| {
            matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            )
        });
        // Besides the call that records, those that a driver makes to find out what to record.
        let own = calls.count().checked_sub(1).expect("a call that records");
        let text: Vec<_> = event.iter().map(ToString::to_string).collect();
        let line = format!(
            "{bytes:4} bytes {kinds:?}, {own} calls for them, {}:{}: {}",
            site.function,
            site.line,
            text.join("; ")
        );
        writeln!(report, "{line}").expect("a string");
        if own == 0 && has_two_integers(switch) {
            integers += 1;
            if bytes > MOST_CODE {
                too_many.push(line);
            }
        }
    }
    println!("{report}");
    assert!(integers >= 5, "{integers}");
    assert!(too_many.is_empty(), "{too_many:#?}");
}

#[test]
fn a_site_has_four_bytes_of_data_that_stay_in_memory() {
    let [cold, all] = ["cold", "all"].map(Driver::of);
    let sites = [&cold, &all].map(|driver| driver.catalogue.switches().len());
    for (driver, sites) in [&cold, &all].into_iter().zip(sites) {
        let switches = driver.section(site::SWITCH_SECTION);
        // A word before them and one behind.
        let bytes = switches.virtual_size as usize;
        assert_eq!(bytes, (sites + 2) * site::SWITCH_BYTES);
        assert!(driver.section(site::SECTION).is_pageable());
    }
    // What hot sites add anywhere else: the unwind information of functions that they made larger, and
    // a pointer for all of them to what hides addresses.
    let others = [".data", ".rdata"].map(|name| {
        let [before, after] = [&cold, &all].map(|driver| driver.section(name).virtual_size);
        after.saturating_sub(before) as usize
    });
    let more = sites[1] - sites[0];
    println!("{more} sites more: .data and .rdata grow by {others:?} bytes");
    assert!(others.iter().sum::<usize>() < 2 * more, "{others:?}");
}
