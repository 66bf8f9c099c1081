//! Message formats (`.tmf`), read, and messages as they say.
//!
//! Written from the grammar, not from the writer: it reads what tracepdb writes, too, as far as the items
//! are those that drivers of this workspace use.

use std::collections::HashMap;

use nt::status::NTSTATUS;

use crate::cursor::Cursor;
use crate::message::Message;

/// Why a file of formats cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {what}")]
pub struct FormatError {
    /// Line in the file, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Why a message cannot be shown.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShowError {
    /// There is no format for it.
    #[error("no format for message {number} of this GUID")]
    Unknown {
        /// Its number.
        number: u16,
    },
    /// Its bytes are not what the items say.
    #[error("message {number}: {bytes} bytes are not what its items say")]
    Length {
        /// Its number.
        number: u16,
        /// Bytes of its arguments.
        bytes: usize,
    },
}

/// An argument's item.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// A number of so many bytes; signed, if its form is.
    Number(usize),
    /// An index of so many bytes into a list.
    List(usize, Vec<String>),
    /// 100 ns since 1601.
    Timestamp,
    Status,
    Guid,
    /// Letters of so many bytes, behind their length in bytes.
    Counted(usize),
    /// Letters of one byte up to a zero.
    Terminated,
}

/// What a message says, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Argument(usize, String),
}

/// How messages of one number are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name of the program, or driver.
    pub program: String,
    /// File and line.
    pub place: String,
    /// What stands behind the text: `LEVEL`, `FLAGS`, `FUNC`.
    pub attributes: HashMap<String, String>,
    pieces: Vec<Piece>,
    items: Vec<Item>,
}

/// Formats by message GUID and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats(HashMap<([u8; 16], u16), Format>);

/// First number of an argument.
const FIRST: usize = 10;

impl Formats {
    /// Reads a file.
    ///
    /// Errors: [`FormatError`].
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut all = HashMap::new();
        let mut guid = None;
        let mut program = String::new();
        let mut open: Option<(u16, Format, bool)> = None;
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            let wrong = |what: &str| FormatError {
                line: index + 1,
                what: format!("{what}: {line}"),
            };
            match &mut open {
                None if line.is_empty() || line.starts_with("//") => {}
                None if line.starts_with("#typev") => {
                    let (number, format) = head(line).ok_or_else(|| wrong("no message"))?;
                    open = Some((number, format, false));
                }
                None => {
                    let mut words = line.split(' ');
                    let first = words.next().and_then(parse_guid);
                    guid = Some(first.ok_or_else(|| wrong("no GUID"))?);
                    words.next().unwrap_or_default().clone_into(&mut program);
                }
                Some((_, _, begun @ false)) if line == "{" => *begun = true,
                Some((number, _, true)) if line == "}" => {
                    let guid = guid.ok_or_else(|| wrong("a message without a GUID"))?;
                    let key = (guid, *number);
                    if let Some((_, mut format, _)) = open.take() {
                        format.program.clone_from(&program);
                        all.insert(key, format);
                    }
                }
                Some((_, format, true)) => {
                    let expected = FIRST + format.items.len();
                    let item = argument(line, expected).ok_or_else(|| wrong("no argument"))?;
                    format.items.push(item);
                }
                Some(_) => return Err(wrong("no {")),
            }
        }
        match open {
            None => Ok(Self(all)),
            Some(_) => Err(FormatError {
                line: text.lines().count(),
                what: "the last message has no end".into(),
            }),
        }
    }

    /// Number of formats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The format of a message.
    #[must_use]
    pub fn of(&self, message: &Message<'_>) -> Option<&Format> {
        self.0.get(&(message.guid, message.number))
    }

    /// A message as its format says.
    ///
    /// Errors: [`ShowError`].
    pub fn show(&self, message: &Message<'_>) -> Result<String, ShowError> {
        let number = message.number;
        let format = self.of(message).ok_or(ShowError::Unknown { number })?;
        let wrong = ShowError::Length {
            number,
            bytes: message.data.len(),
        };
        let mut data = Cursor(message.data);
        let values = format.items.iter().map(|item| item.take(&mut data));
        let values: Option<Vec<Value>> = values.collect();
        match values {
            Some(values) if data.0.is_empty() => Ok(format.text(&values)),
            _ => Err(wrong),
        }
    }
}

/// `#typev <name> <number> "<text>" // <attributes>`
fn head(line: &str) -> Option<(u16, Format)> {
    let rest = line.strip_prefix("#typev ")?;
    let (place, rest) = rest.split_once(' ')?;
    let (number, rest) = rest.split_once(' ')?;
    let (text, rest) = rest.strip_prefix('"')?.rsplit_once("\" //")?;
    let attributes = rest.split_whitespace().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let format = Format {
        program: String::new(),
        place: place.to_owned(),
        attributes: attributes.collect(),
        pieces: pieces(text)?,
        items: Vec::new(),
    };
    Some((number.parse().ok()?, format))
}

/// The text in pieces; `%0`, the viewer's own prefix, is none.
fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut all = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        literal += &rest[..at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            literal.push('%');
            rest = after;
            continue;
        }
        let digits = rest.find(|letter: char| !letter.is_ascii_digit());
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        rest = after;
        if let Some(after) = rest.strip_prefix('!') {
            let (form, after) = after.split_once('!')?;
            rest = after;
            if number.is_empty() {
                literal += &format!("%!{form}!");
                continue;
            }
            all.push(Piece::Literal(core::mem::take(&mut literal)));
            let index = number.parse::<usize>().ok()?.checked_sub(FIRST)?;
            all.push(Piece::Argument(index, form.to_owned()));
        } else if number.is_empty() {
            return None;
        }
    }
    literal += rest;
    all.push(Piece::Literal(literal));
    Some(all)
}

/// `<expression>, <item>[(list)] -- <number>`
fn argument(line: &str, expected: usize) -> Option<Item> {
    let (rest, number) = line.rsplit_once(" -- ")?;
    if number.trim().parse::<usize>().ok()? != expected {
        return None;
    }
    let at = rest.rfind(", Item")?;
    let item = rest[at + 2..].trim();
    let (name, list) = match item.split_once('(') {
        Some((name, list)) => (name.trim_end(), Some(list.strip_suffix(')')?)),
        None => (item, None),
    };
    let list = || list.map(|list| list.split(',').map(str::to_owned).collect());
    Some(match name {
        "ItemChar" | "ItemUChar" => Item::Number(1),
        "ItemShort" => Item::Number(2),
        "ItemLong" => Item::Number(4),
        "ItemLongLong" | "ItemULongLong" | "ItemLongLongX" | "ItemPtr" => Item::Number(8),
        "ItemListByte" => Item::List(1, list()?),
        "ItemListShort" => Item::List(2, list()?),
        "ItemListLong" => Item::List(4, list()?),
        "ItemTimestamp" => Item::Timestamp,
        "ItemNTSTATUS" => Item::Status,
        "ItemGuid" => Item::Guid,
        "ItemPString" => Item::Counted(1),
        "ItemPWString" => Item::Counted(2),
        "ItemString" => Item::Terminated,
        _ => return None,
    })
}

/// What an argument is.
enum Value {
    Number(u64, usize),
    Text(String),
}

impl Item {
    fn take(&self, data: &mut Cursor<'_>) -> Option<Value> {
        let mut number = |bytes: usize| {
            let mut all = [0; 8];
            all[..bytes].copy_from_slice(data.bytes(bytes)?);
            Some(u64::from_le_bytes(all))
        };
        Some(match self {
            Self::Number(bytes) => Value::Number(number(*bytes)?, *bytes),
            Self::List(bytes, names) => {
                let index = number(*bytes)?;
                let name = usize::try_from(index).ok().and_then(|at| names.get(at));
                Value::Text(name.cloned().unwrap_or_else(|| index.to_string()))
            }
            Self::Timestamp => Value::Text(time(number(8)?)),
            Self::Status => {
                let code = u32::try_from(number(4)?).ok()?;
                let name = NTSTATUS::from_u32(code).name();
                Value::Text(name.map_or_else(|| format!("{code:#010x}"), str::to_owned))
            }
            Self::Guid => {
                let bytes = data.bytes(16)?.try_into().ok()?;
                Value::Text(format!("{{{}}}", crate::tmf::plain_guid(bytes)))
            }
            Self::Counted(width) => {
                let length = data.u16()?;
                Value::Text(letters(data.bytes(length.into())?, *width))
            }
            Self::Terminated => {
                let length = data.0.iter().position(|byte| *byte == 0)?;
                let text = letters(data.bytes(length)?, 1);
                data.u8()?;
                Value::Text(text)
            }
        })
    }
}

fn letters(bytes: &[u8], width: usize) -> String {
    if width == 1 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let units = bytes.as_chunks::<2>().0.iter();
    let units: Vec<u16> = units.map(|unit| u16::from_le_bytes(*unit)).collect();
    String::from_utf16_lossy(&units)
}

/// Wall time as text. Units: 100 ns since 1601.
#[must_use]
pub fn time(filetime: u64) -> String {
    const UNITS_PER_SECOND: u64 = 10_000_000;
    const SECONDS_1601_TO_1970: i64 = 11_644_473_600;
    let seconds = i64::try_from(filetime / UNITS_PER_SECOND).unwrap_or(0) - SECONDS_1601_TO_1970;
    let rest = i32::try_from(filetime % UNITS_PER_SECOND).unwrap_or(0) * 100;
    match jiff::Timestamp::new(seconds, rest) {
        Ok(time) => time.to_string(),
        Err(_) => filetime.to_string(),
    }
}

impl Format {
    fn text(&self, values: &[Value]) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text += literal,
                Piece::Argument(index, form) => match values.get(*index) {
                    Some(Value::Text(value)) => text += value,
                    Some(Value::Number(number, bytes)) => text += &shown(*number, *bytes, form),
                    None => text.push('?'),
                },
            }
        }
        text
    }
}

/// A number as printf would show it.
fn shown(number: u64, bytes: usize, form: &str) -> String {
    let zeros = form.starts_with('0');
    let digits = form.trim_start_matches('0');
    let width = digits.find(|letter: char| !letter.is_ascii_digit());
    let (width, kind) = digits.split_at(width.unwrap_or(digits.len()));
    let width: usize = width.parse().unwrap_or(0);
    let width = if zeros { width } else { 0 };
    match kind.chars().last() {
        Some('x') => format!("{number:0width$x}"),
        Some('X' | 'p') => format!("{number:0width$X}"),
        Some('d' | 'i') => {
            let unused = 64 - 8 * bytes;
            let signed = (number << unused).cast_signed() >> unused;
            signed.to_string()
        }
        _ => number.to_string(),
    }
}

/// The bytes in memory of a GUID, with or without braces.
#[must_use]
pub fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let text = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or(text);
    let groups: Vec<&str> = text.split('-').collect();
    let [a, b, c, d, e] = groups[..] else {
        return None;
    };
    if [a, b, c, d, e].map(str::len) != [8, 4, 4, 4, 12] {
        return None;
    }
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number(a)?.to_le_bytes()[..4]);
    bytes[4..6].copy_from_slice(&number(b)?.to_le_bytes()[..2]);
    bytes[6..8].copy_from_slice(&number(c)?.to_le_bytes()[..2]);
    bytes[8..10].copy_from_slice(&number(d)?.to_be_bytes()[6..]);
    bytes[10..].copy_from_slice(&number(e)?.to_be_bytes()[2..]);
    Some(bytes)
}
