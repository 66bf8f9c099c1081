//! The declared layouts and constants against two oracles: `windows-sys`,
//! and mingw-w64's ddk headers as gcc reads them.
//!
//! Where an oracle is wrong, or older than the Windows we target, the
//! difference is listed with its reason in `layout/exceptions.rs`; a
//! difference that is no longer there fails too.

#[path = "layout/constants.rs"]
mod constants;
#[path = "layout/exceptions.rs"]
mod exceptions;
#[path = "layout/mingw.rs"]
mod mingw;
#[path = "layout/source.rs"]
mod source;
#[path = "layout/structures.rs"]
mod structures;

use std::collections::BTreeSet;

use exceptions::{Exception, Oracle};

/// One number of ours: the size of a type, the offset of a field, a constant.
struct Fact {
    /// `TYPE`, `TYPE.Field` or `CONSTANT`.
    name: String,
    ours: u64,
    /// What `windows-sys` says, if it has it.
    windows: Option<u64>,
    /// The C expression for it, if the headers have it.
    c: Option<String>,
}

/// Compares what an oracle says with ours, and the differences with the listed ones.
fn compare(oracle: Oracle, facts: &[(&str, u64, u64)], listed: &[Exception]) {
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    for (name, ours, theirs) in facts {
        let exception = listed
            .iter()
            .find(|exception| exception.oracle == oracle && exception.name == *name);
        match exception {
            Some(exception) if exception.theirs == *theirs && ours != theirs => {
                met.insert(exception.name);
            }
            None if ours == theirs => {}
            _ => wrong.push(format!("{name}: ours {ours:#x}, {oracle:?} {theirs:#x}")),
        }
    }
    for exception in listed.iter().filter(|exception| exception.oracle == oracle) {
        if !met.contains(exception.name) {
            wrong.push(format!("{}: listed, but no difference", exception.name));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn facts() -> Vec<Fact> {
    let mut facts = structures::facts();
    facts.extend(constants::facts());
    facts
}

#[test]
#[cfg_attr(miri, ignore = "searches the sources, for minutes under Miri")]
fn every_structure_and_field_that_is_declared_is_compared() {
    let compared: BTreeSet<String> = structures::facts()
        .into_iter()
        .map(|fact| fact.name)
        .collect();
    assert_eq!(compared, source::structures());
}

#[test]
#[cfg_attr(miri, ignore = "searches the sources, for minutes under Miri")]
fn every_constant_that_is_declared_is_compared() {
    let compared: BTreeSet<String> = constants::facts()
        .into_iter()
        .map(|fact| fact.name)
        .collect();
    assert_eq!(compared, source::constants());
}

#[test]
fn windows_sys_agrees() {
    let facts = facts();
    let known: Vec<_> = facts
        .iter()
        .filter_map(|fact| Some((fact.name.as_str(), fact.ours, fact.windows?)))
        .collect();
    compare(Oracle::WindowsSys, &known, exceptions::EXCEPTIONS);
}

#[test]
#[cfg_attr(miri, ignore = "runs a C compiler")]
fn the_ddk_headers_of_mingw_agree() {
    let facts = facts();
    let asked: Vec<_> = facts
        .iter()
        .filter_map(|fact| Some((fact, fact.c.as_deref()?)))
        .collect();
    let expressions: Vec<&str> = asked.iter().map(|(_, c)| *c).collect();
    let values = mingw::evaluate("facts", &expressions);
    let known: Vec<_> = asked
        .iter()
        .zip(values)
        .map(|((fact, _), value)| (fact.name.as_str(), fact.ours, value))
        .collect();
    compare(Oracle::Mingw, &known, exceptions::EXCEPTIONS);
}

#[test]
#[cfg_attr(miri, ignore = "runs a C compiler")]
fn control_codes_are_made_as_the_headers_make_them() {
    let cases = [
        (0x22, 0x800, 0, 0),
        (0x22, 0x901, 3, 3),
        (0xFFFF, 0xFFF, 2, 1),
    ];
    let expressions = cases.map(|(device, function, method, access)| {
        format!("CTL_CODE({device}u, {function}, {method}, {access})")
    });
    let values = mingw::evaluate("codes", &expressions.each_ref().map(String::as_str));
    let ours = cases.map(|(device, function, method, access)| {
        u64::from(nt::io::ctl_code(device, function, method, access))
    });
    assert_eq!(values, ours);
}
