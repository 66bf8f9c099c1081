//! Message formats for tracefmt and TraceView, made from the driver file's own section.
//!
//! ```text
//! <message guid> <driver> // SRC=<file> MJ= MN=
//! #typev <file>_<line> <number> "%0[<function> < <callers>] <text> <name>=%10!u!" // LEVEL=… FLAGS=… FUNC=…
//! {
//! <name>, ItemLong -- 10
//! }
//! ```
//! The message GUID is made of the build's identity, and each copy of a site has a number of its own.
//! Arguments without a form of their own there (byte strings) are left out of the text.

use core::fmt::Write;

use trace_format::site::Kind;

use crate::catalogue::{Catalogue, Field, Site};

/// First message number that WPP uses.
const FIRST_NUMBER: usize = 10;

/// A file of message formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmf {
    /// Its name without folder: the message GUID and `.tmf`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// More copies of sites than there are numbers.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the driver has {0} copies of sites, a message number has 16 bits")]
pub struct TooMany(usize);

/// Message formats of a driver.
///
/// # Errors
/// [`TooMany`].
pub fn tmf(catalogue: &Catalogue, driver: &str) -> Result<Tmf, TooMany> {
    let sites = catalogue.sites();
    if sites.len() + FIRST_NUMBER > usize::from(u16::MAX) {
        return Err(TooMany(sites.len()));
    }
    let guid = guid(catalogue.build().identity);
    let mut text = String::new();
    for (number, site) in (FIRST_NUMBER..).zip(sites) {
        // Writing to a string cannot fail.
        let _ = message(&mut text, &guid, driver, number, site);
    }
    Ok(Tmf {
        name: format!("{guid}.tmf"),
        text,
    })
}

/// A GUID of version 8 (RFC 9562 §5.8) of the build.
fn guid([time, bytes, checksum]: [u32; 3]) -> String {
    let (high, low) = (bytes >> 16, bytes & 0xFFFF);
    format!(
        "{time:08x}-{high:04x}-8{:03x}-8{:03x}-{low:04x}{checksum:08x}",
        0xd12, 0xd0c
    )
}

/// The item of an argument, and how its number is written; `None` if there is none.
fn item(field: &Field) -> Option<(String, &'static str)> {
    if !field.names.is_empty()
        && field
            .names
            .iter()
            .map(|(value, _)| *value)
            .eq(0..field.names.len() as u64)
    {
        let names: Vec<_> = field.names.iter().map(|(_, name)| name.as_str()).collect();
        return Some((format!("ItemListLong({})", names.join(",")), "s"));
    }
    let (item, form) = match field.kind {
        Kind::Unsigned | Kind::Enum => ("ItemULongLong", "I64u"),
        Kind::Signed => ("ItemLongLong", "I64d"),
        Kind::Hex | Kind::ScsiStatus | Kind::ControlCode => ("ItemLongLongX", "I64x"),
        Kind::Pointer | Kind::Irp | Kind::Srb => ("ItemPtr", "p"),
        Kind::Bool => ("ItemListLong(false,true)", "s"),
        Kind::NtStatus => ("ItemNTSTATUS", "s"),
        Kind::Guid => ("ItemGuid", "s"),
        Kind::Text => ("ItemString", "s"),
        Kind::Bytes => return None,
    };
    Some((item.to_owned(), form))
}

fn message(
    to: &mut String,
    guid: &str,
    driver: &str,
    number: usize,
    site: &Site,
) -> core::fmt::Result {
    let file = site.file.rsplit(['/', '\\']).next().unwrap_or(&site.file);
    writeln!(to, "{guid} {driver} // SRC={file} MJ= MN=")?;
    let identifier = |text: &str| text.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let escaped = |text: &str| text.replace('%', "%%").replace(['\r', '\n'], " ");
    let mut chain = site.function.clone();
    for caller in &site.callers {
        write!(chain, " < {caller}")?;
    }
    let physical = site.callers.last().unwrap_or(&site.function);
    let fields = site
        .fields
        .iter()
        .filter_map(|field| Some((field, item(field)?)));
    let fields: Vec<_> = (FIRST_NUMBER..).zip(fields).collect();
    write!(
        to,
        "#typev {}_{} {number} \"%0[{}]",
        identifier(file),
        site.line,
        escaped(&chain)
    )?;
    if !site.text.is_empty() {
        write!(to, " {}", escaped(&site.text))?;
    }
    for (index, (field, (_, form))) in &fields {
        write!(to, " {}=%{index}!{form}!", field.name)?;
    }
    writeln!(
        to,
        "\" //   LEVEL=TRACE_LEVEL_{} FLAGS={} FUNC={}",
        site.level.name().to_uppercase(),
        identifier(&site.flag_name),
        identifier(physical)
    )?;
    writeln!(to, "{{")?;
    for (index, (field, (item, _))) in &fields {
        writeln!(to, "{}, {item} -- {index}", field.name)?;
    }
    writeln!(to, "}}")
}
