//! Message formats for tracefmt and TraceView, made from the driver file's own section; and the file that
//! tells tracelog which provider it is.
//!
//! ```text
//! <message guid> <driver> // SRC=<driver>.sys MJ= MN=
//! #typev <file>_<ext><line> <number> "%0%11!I64u! [%10!hu!] <function> < <callers>: <text> <name>=%12!u!" //   LEVEL=… FLAGS=… FUNC=…
//! {
//! cpu, ItemShort -- 10
//! ticks, ItemULongLong -- 11
//! <name>, ItemLong -- 12
//! }
//! ```
//! The message GUID is made of the build's identity, and each copy of a site has a number of its own. What
//! the relay sends is what the items say, byte for byte: both go by [`Item`].

use core::fmt::Write;

use trace_format::site::Kind;
use trace_format::wpp::{CLOCKS, FIRST_NUMBER, Item, LOST, MOST_EVENTS, message_guid};

use crate::catalogue::{Catalogue, Field, Site};
use crate::text::headline;
use crate::value::SCSI_STATUSES;

/// A file for tools of Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name without folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Why there is no such file.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TmfError {
    /// More copies of sites than there are numbers.
    #[error("the driver has {0} copies of sites, ETW's messages have numbers for {MOST_EVENTS}")]
    TooMany(usize),
    /// Its events do not go out through ETW.
    #[error("the driver names no provider: its events do not go out through ETW")]
    NoProvider,
}

/// Message formats of a driver; the name of the file is the message GUID and `.tmf`.
///
/// Errors: [`TmfError::TooMany`].
pub fn tmf(catalogue: &Catalogue, driver: &str) -> Result<Written, TmfError> {
    let sites = catalogue.sites();
    if sites.len() > MOST_EVENTS {
        return Err(TmfError::TooMany(sites.len()));
    }
    let guid = plain_guid(message_guid(catalogue.build().identity));
    let driver = identifier(driver);
    let mut text = String::new();
    if let Some(provider) = catalogue.provider() {
        text += &format!(
            "// control GUID {}, provider {}\r\n",
            plain_guid(provider.control),
            provider.name
        );
    }
    for (bit, name) in flags(catalogue) {
        text += &format!("// flag {:#010x} {name}\r\n", 1u32 << bit);
    }
    text += &format!("{guid} {driver} // SRC={driver}.sys MJ= MN=\r\n");
    for (number, site) in (FIRST_NUMBER..).zip(sites) {
        // Writing to a string cannot fail.
        let _ = message(&mut text, number, site);
    }
    text += &own(CLOCKS, "INFORMATION", CLOCKS_FORMAT);
    text += &own(LOST, "WARNING", LOST_FORMAT);
    Ok(Written {
        name: format!("{guid}.tmf"),
        text,
    })
}

/// What `tracelog -guid` wants: control GUID and name of the provider.
///
/// Errors: [`TmfError::NoProvider`].
pub fn guids(catalogue: &Catalogue) -> Result<Written, TmfError> {
    let provider = catalogue.provider().ok_or(TmfError::NoProvider)?;
    let guid = plain_guid(provider.control);
    Ok(Written {
        name: format!("{}.ctl", provider.name),
        text: format!("{guid} {}\r\n", provider.name),
    })
}

/// Names of the flags by bit.
fn flags(catalogue: &Catalogue) -> Vec<(u8, String)> {
    let sites = catalogue.sites();
    let mut flags: Vec<_> = sites
        .iter()
        .map(|site| (site.flag, site.flag_name.clone()))
        .collect();
    flags.sort();
    flags.dedup();
    flags
}

/// A GUID without braces, from its bytes in memory.
#[must_use]
pub fn plain_guid([a, b, c, d, e, f, g, h, rest @ ..]: [u8; 16]) -> String {
    let mut text = format!("{d:02x}{c:02x}{b:02x}{a:02x}-{f:02x}{e:02x}-{h:02x}{g:02x}-");
    for (index, byte) in rest.iter().enumerate() {
        text += if index == 2 { "-" } else { "" };
        text += &format!("{byte:02x}");
    }
    text
}

/// The relay's own messages: what the text says, and the arguments.
type OwnFormat = (&'static str, &'static [(&'static str, &'static str)]);
const CLOCKS_FORMAT: OwnFormat = (
    "%10!I64u! ticks are %11!s!",
    &[("ticks", "ItemULongLong"), ("time", "ItemTimestamp")],
);
const LOST_FORMAT: OwnFormat = (
    "ring %10!hu!: %12!I64u! slots lost from position %11!I64u!",
    &[
        ("ring", "ItemShort"),
        ("position", "ItemULongLong"),
        ("slots", "ItemULongLong"),
    ],
);

fn own(number: u16, level: &str, (text, items): OwnFormat) -> String {
    let mut message = format!(
        "#typev relay_rs0 {number} \"%0{text}\" //   LEVEL=TRACE_LEVEL_{level} FLAGS=RELAY FUNC=relay\r\n{{\r\n"
    );
    for (index, (name, item)) in (FIRST_NUMBER..).zip(items) {
        message += &format!("{name}, {item} -- {index}\r\n");
    }
    message + "}\r\n"
}

fn identifier(text: &str) -> String {
    text.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '-',
        "_",
    )
}

/// Names by value, with numbers where there are none.
fn list(
    names: impl Iterator<Item = (u64, String)> + Clone,
    number: impl Fn(u64) -> String,
) -> String {
    let end = names.clone().map(|(value, _)| value + 1).max().unwrap_or(0);
    let name = |value| names.clone().find(|(known, _)| *known == value);
    let all = (0..end).map(|value| name(value).map_or_else(|| number(value), |(_, name)| name));
    all.collect::<Vec<_>>().join(",")
}

/// The item of an argument, and how it stands in the text, without its index.
fn item(field: &Field) -> (String, &'static str) {
    let names = field.names.iter().cloned();
    let (name, form) = match field.item() {
        Item::Unsigned(1) => ("ItemUChar", "%!u!"),
        Item::Unsigned(2) => ("ItemShort", "%!hu!"),
        Item::Unsigned(4) => ("ItemLong", "%!u!"),
        Item::Unsigned(_) => ("ItemULongLong", "%!I64u!"),
        Item::Signed(2) => ("ItemShort", "%!hd!"),
        Item::Signed(4) => ("ItemLong", "%!d!"),
        Item::Signed(_) => ("ItemLongLong", "%!I64d!"),
        Item::Hex(4) => ("ItemLong", "0x%!08x!"),
        Item::Hex(_) => ("ItemLongLongX", "0x%!I64x!"),
        Item::Status => ("ItemNTSTATUS", "%!s!"),
        Item::Guid => ("ItemGuid", "%!s!"),
        Item::Text if field.kind == Kind::Text => ("ItemPWString", "\"%!s!\""),
        Item::Text => ("ItemPWString", "%!s!"),
        Item::ListByte if field.kind == Kind::Bool => ("ItemListByte(false,true)", "%!s!"),
        Item::ListByte => {
            let statuses = SCSI_STATUSES.iter();
            let statuses = statuses.map(|(value, name)| (*value, (*name).to_owned()));
            let list = list(statuses, |value| format!("{value:#04x}"));
            return (format!("ItemListByte({list})"), "%!s!");
        }
        Item::ListLong => {
            let list = list(names, |value| value.to_string());
            return (format!("ItemListLong({list})"), "%!s!");
        }
    };
    (name.to_owned(), form)
}

fn message(to: &mut String, number: u16, site: &Site) -> core::fmt::Result {
    let file = site.file.rsplit(['/', '\\']).next().unwrap_or(&site.file);
    let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
    let escaped = |text: &str| text.replace('%', "%%").replace(['\r', '\n'], " ");
    let items: Vec<_> = site
        .fields
        .iter()
        .map(|field| (field, item(field)))
        .collect();
    write!(
        to,
        "#typev {}_{}{} {number} \"%0%11!I64u! [%10!hu!] {}",
        identifier(stem),
        identifier(extension),
        site.line,
        escaped(&headline(site))
    )?;
    for (index, (field, (_, form))) in (FIRST_NUMBER + 2..).zip(&items) {
        let form = form.replacen('%', &format!("%{index}"), 1);
        write!(to, " {}={form}", field.name)?;
    }
    let mut functions = vec![site.function.as_str()];
    functions.extend(site.callers.iter().map(String::as_str));
    let functions = functions.join("<").replace(char::is_whitespace, "_");
    write!(
        to,
        "\" //   LEVEL=TRACE_LEVEL_{} FLAGS={} FUNC={functions}\r\n{{\r\n",
        site.level.name().to_uppercase(),
        identifier(&site.flag_name),
    )?;
    write!(
        to,
        "cpu, ItemShort -- {FIRST_NUMBER}\r\nticks, ItemULongLong -- {}\r\n",
        FIRST_NUMBER + 1
    )?;
    for (index, (field, (item, _))) in (FIRST_NUMBER + 2..).zip(&items) {
        write!(to, "{}, {item} -- {index}\r\n", field.name)?;
    }
    to.write_str("}\r\n")
}
