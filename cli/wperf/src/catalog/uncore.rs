//! Events of uncore units by name.
//!
//! Source: DSU TRM 100453, table of PMU events; DMC-620 TRM 100568, the same. CoreSight PMUs name none: their events are
//! the implementer's, and are given by number.

use super::{CatalogError, table};
use crate::grammar::{
    events::{Class, EventSpec, Selector},
    extra::ExtraEvent,
};
use wperf_abi::EventCode;

/// The class as the table of names has it: CoreSight PMUs are all alike.
fn key(class: Class) -> String {
    match class {
        Class::CsPmu(_) => "cspmu".to_owned(),
        other => other.word(),
    }
}

/// The named events of a class: code and name.
pub fn events(class: Class) -> impl Iterator<Item = (u32, &'static str)> {
    let key = key(class);
    table::uncore()
        .iter()
        .filter(move |row| row.class == key)
        .map(|row| (row.code, row.name.as_str()))
}

/// Name and code of what was typed; the user's own names come first. A code without a name is called `rHEX`.
///
/// Errors: [`CatalogError::UnknownEvent`].
pub fn resolve(spec: &EventSpec, extra: &[ExtraEvent]) -> Result<(String, u32), CatalogError> {
    let same = |a: &str, b: &str| {
        a.replace('-', "_")
            .eq_ignore_ascii_case(&b.replace('-', "_"))
    };
    let own = extra.iter().filter(|event| event.class == spec.class);
    match &spec.selector {
        Selector::Name(name) => {
            let own = own.map(|event| (event.name.clone(), event.code));
            let known = events(spec.class).map(|(code, known)| (known.to_owned(), code));
            own.chain(known)
                .find(|(known, _)| same(known, name))
                .ok_or_else(|| CatalogError::UnknownEvent(name.clone()))
        }
        Selector::Code(code) => {
            let known = events(spec.class).find(|(known, _)| known == code);
            let name = known.map_or_else(|| format!("r{code:x}"), |(_, name)| name.to_owned());
            Ok((name, *code))
        }
    }
}

/// An event as the driver takes it.
#[must_use]
pub fn driver_code(class: Class, code: u32) -> EventCode {
    match class {
        Class::DmcClk => EventCode(code | EventCode::DMC_CLK),
        _ => EventCode(code),
    }
}
