//! What an event carries.

use core::fmt;

use nt::status::NTSTATUS;
use trace_format::site::{CUT, Kind};

use crate::catalogue::{Field, Site};

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number without sign.
    Unsigned(u64),
    /// A number with sign.
    Signed(i64),
    /// A number that is shown in hexadecimal, of so many bits.
    Hex(u64, u8),
    /// Yes or no.
    Bool(bool),
    /// A number with a name.
    Named(u64, String),
    /// A GUID.
    Guid([u8; 16]),
    /// Text; whether it was cut off.
    Text(String, bool),
    /// Bytes; whether they were cut off.
    Bytes(Vec<u8>, bool),
    /// The trace does not have it.
    Missing,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |is_cut: &bool| if *is_cut { "…" } else { "" };
        match self {
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Hex(value, bits) => {
                let width = usize::from(bits / 4) + 2;
                // Addresses and other wide numbers are not filled up.
                let width = if *bits < 64 { width } else { 0 };
                write!(f, "{value:#0width$x}")
            }
            Self::Bool(value) => write!(f, "{value}"),
            Self::Named(_, name) => f.write_str(name),
            Self::Guid(bytes) => guid(f, bytes),
            Self::Text(text, is_cut) => write!(f, "{:?}", format!("{text}{}", cut(is_cut))),
            Self::Bytes(bytes, is_cut) => {
                for byte in bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str(cut(is_cut))
            }
            Self::Missing => f.write_str("?"),
        }
    }
}

/// As Windows writes it: three little-endian numbers, then bytes.
fn guid(f: &mut fmt::Formatter<'_>, bytes: &[u8; 16]) -> fmt::Result {
    let [a, b, c, d, e, g, h, i, rest @ ..] = bytes;
    write!(
        f,
        "{{{d:02x}{c:02x}{b:02x}{a:02x}-{g:02x}{e:02x}-{i:02x}{h:02x}-"
    )?;
    for (index, byte) in rest.iter().enumerate() {
        let dash = if index == 2 { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    f.write_str("}")
}

/// The arguments of an event, with their names.
pub fn values<'a>(site: &'a Site, words: &'a [u64]) -> impl Iterator<Item = (&'a str, Value)> {
    let mut words = words.iter().copied();
    site.fields
        .iter()
        .map(move |field| (field.name.as_str(), value(field, &mut words)))
}

fn value(field: &Field, words: &mut impl Iterator<Item = u64>) -> Value {
    let Some(word) = words.next() else {
        return Value::Missing;
    };
    let named = field
        .names
        .binary_search_by_key(&word, |(number, _)| *number);
    if let Some((_, name)) = named.ok().and_then(|at| field.names.get(at)) {
        return Value::Named(word, name.clone());
    }
    match field.kind {
        Kind::Unsigned | Kind::Enum => Value::Unsigned(word),
        Kind::Signed => Value::Signed(word.cast_signed()),
        Kind::Bool if word < 2 => Value::Bool(word == 1),
        Kind::Bool | Kind::Hex | Kind::Pointer | Kind::Irp | Kind::Srb | Kind::ControlCode => {
            Value::Hex(word, field.bits)
        }
        Kind::NtStatus => status(word, field.bits),
        Kind::ScsiStatus => scsi_status(word, field.bits),
        Kind::Guid => {
            let mut bytes = [0; 16];
            let second = words.next().unwrap_or(0);
            for (to, from) in bytes.chunks_exact_mut(8).zip([word, second]) {
                to.copy_from_slice(&from.to_le_bytes());
            }
            Value::Guid(bytes)
        }
        Kind::Text | Kind::Bytes => {
            let length = usize::try_from(word & !CUT).unwrap_or(usize::MAX);
            let mut bytes: Vec<u8> = words
                .take(length.div_ceil(8))
                .flat_map(u64::to_le_bytes)
                .collect();
            bytes.truncate(length);
            let is_cut = word & CUT != 0;
            if field.kind == Kind::Text {
                Value::Text(String::from_utf8_lossy(&bytes).into_owned(), is_cut)
            } else {
                Value::Bytes(bytes, is_cut)
            }
        }
    }
}

fn status(word: u64, bits: u8) -> Value {
    let known = u32::try_from(word).ok().map(NTSTATUS::from_u32);
    match known.and_then(NTSTATUS::name) {
        Some(name) => Value::Named(word, name.to_owned()),
        None => Value::Hex(word, bits),
    }
}

/// Names of SCSI statuses.
///
/// Source: SAM-6 §5.3.1, status codes.
pub(crate) const SCSI_STATUSES: [(u64, &str); 8] = [
    (0x00, "GOOD"),
    (0x02, "CHECK CONDITION"),
    (0x04, "CONDITION MET"),
    (0x08, "BUSY"),
    (0x18, "RESERVATION CONFLICT"),
    (0x28, "TASK SET FULL"),
    (0x30, "ACA ACTIVE"),
    (0x40, "TASK ABORTED"),
];

fn scsi_status(word: u64, bits: u8) -> Value {
    let known = SCSI_STATUSES.iter().find(|(value, _)| *value == word);
    match known {
        Some((_, name)) => Value::Named(word, (*name).to_owned()),
        None => Value::Hex(word, bits),
    }
}
