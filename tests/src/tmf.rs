//! A reader of message formats (`.tmf`) of its own: written from the grammar that public `.tmf` files and
//! the documentation of tracefmt show, knowing nothing of what writes or relays here.
//!
//! ```text
//! file    = { "//" any | guid program "// SRC=" … | message }
//! message = "#typev" name number '"' text '" //' pairs  "{"  { expression ", " item [ "(" list ")" ] " -- " n }  "}"
//! text    = { letter | "%" n "!" form "!" | "%!" name "!" | "%%" | "%0" }
//! ```

use std::collections::BTreeMap;

/// How one message is shown.
#[derive(Clone, Debug)]
pub struct Format {
    /// The text, with its placeholders.
    pub text: String,
    /// `LEVEL`, `FLAGS`, `FUNC`.
    pub pairs: BTreeMap<String, String>,
    /// File and line.
    pub name: String,
    /// Items of the arguments, with their lists.
    pub items: Vec<(String, Vec<String>)>,
}

/// Formats by message GUID, as text in lower case, and number.
pub type Formats = BTreeMap<(String, u16), Format>;

/// Reads a file strictly.
///
/// # Panics
/// At the first line that the grammar does not have.
#[must_use]
pub fn parse(file: &str) -> Formats {
    let mut formats = Formats::new();
    let mut guid = String::new();
    let mut lines = file.split('\n').map(|line| line.trim_end_matches('\r'));
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let Some(rest) = line.strip_prefix("#typev ") else {
            let (first, source) = line.split_once(" // SRC=").expect("a header");
            let (id, program) = first.split_once(' ').expect("a GUID and a name");
            assert!(
                id.len() == 36 && !program.contains(' ') && source.contains(" MJ="),
                "{line}"
            );
            id.clone_into(&mut guid);
            continue;
        };
        let mut words = rest.splitn(3, ' ');
        let name = words.next().expect("a name").to_owned();
        let number = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a number");
        let quoted = words
            .next()
            .and_then(|rest| rest.strip_prefix('"'))
            .expect("a text");
        let end = quoted.rfind("\" //").expect("the end of the text");
        let pairs = quoted[end + 4..].split_whitespace().map(|pair| {
            let (key, value) = pair.split_once('=').expect("KEY=value");
            (key.to_owned(), value.to_owned())
        });
        let mut format = Format {
            text: quoted[..end].to_owned(),
            pairs: pairs.collect(),
            name,
            items: Vec::new(),
        };
        assert_eq!(lines.next(), Some("{"));
        for line in lines.by_ref().take_while(|line| *line != "}") {
            format.items.push(item(line, 10 + format.items.len()));
        }
        let known = formats.insert((guid.clone(), number), format);
        assert!(known.is_none(), "number {number} twice");
    }
    formats
}

fn item(line: &str, expected: usize) -> (String, Vec<String>) {
    let (rest, number) = line.rsplit_once(" -- ").expect("a number");
    assert_eq!(number.parse(), Ok(expected), "{line}");
    let start = rest.find(", Item").expect("an item") + 2;
    match rest[start..].split_once('(') {
        None => (rest[start..].to_owned(), Vec::new()),
        Some((item, list)) => {
            let list = list.strip_suffix(')').expect("the end of the list");
            (
                item.to_owned(),
                list.split(',').map(str::to_owned).collect(),
            )
        }
    }
}

/// Bytes of an item at the beginning of some bytes; `None` for one that the grammar's table does not have.
fn size(item: &str, bytes: &[u8]) -> Option<usize> {
    let counted = || Some(2 + usize::from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?])));
    match item {
        "ItemChar" | "ItemUChar" | "ItemListByte" => Some(1),
        "ItemShort" | "ItemListShort" | "ItemPort" => Some(2),
        "ItemLong" | "ItemListLong" | "ItemNTSTATUS" => Some(4),
        "ItemLongLong" | "ItemULongLong" | "ItemLongLongX" | "ItemLongLongXX" | "ItemPtr"
        | "ItemTimestamp" => Some(8),
        "ItemGuid" => Some(16),
        "ItemPString" | "ItemPWString" => counted(),
        _ => None,
    }
}

/// The arguments of a message, each with its bytes.
///
/// # Panics
/// If the bytes are not exactly what the items say.
fn split<'a>(format: &Format, data: &'a [u8]) -> Vec<&'a [u8]> {
    let mut rest = data;
    let parts = format.items.iter().map(|(item, _)| {
        let bytes = size(item, rest).unwrap_or_else(|| panic!("no size of {item}"));
        assert!(
            bytes <= rest.len(),
            "{item} in {rest:x?} of {}",
            format.text
        );
        let (part, after) = rest.split_at(bytes);
        rest = after;
        part
    });
    let parts = parts.collect();
    assert!(rest.is_empty(), "{rest:x?} left behind {}", format.text);
    parts
}

/// A message in words.
///
/// # Panics
/// If it is not what the format says.
#[must_use]
pub fn show(format: &Format, data: &[u8]) -> String {
    let parts = split(format, data);
    let mut shown = String::new();
    let mut rest = format.text.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        shown += before;
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            shown.push('%');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('0') {
            rest = after;
        } else {
            let mut fields = rest.splitn(3, '!');
            let number = fields
                .next()
                .and_then(|number| number.parse::<usize>().ok());
            let index = number
                .and_then(|number| number.checked_sub(10))
                .expect("an argument");
            let form = fields.next().expect("a form");
            rest = fields.next().expect("the end of the form");
            let (item, list) = &format.items[index];
            shown += &value(item, list, form, parts[index]);
        }
    }
    shown + rest
}

fn value(item: &str, list: &[String], form: &str, bytes: &[u8]) -> String {
    let unsigned = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    match item {
        "ItemListByte" | "ItemListShort" | "ItemListLong" => {
            let index = unsigned(bytes);
            let name = usize::try_from(index)
                .ok()
                .and_then(|index| list.get(index));
            name.cloned().unwrap_or_else(|| index.to_string())
        }
        "ItemNTSTATUS" => {
            let code = u32::try_from(unsigned(bytes)).expect("four bytes");
            let name = nt::NTSTATUS::from_u32(code).name();
            name.map_or_else(|| format!("{code:#010x}"), str::to_owned)
        }
        "ItemGuid" => {
            let part = |range: std::ops::Range<usize>| unsigned(&bytes[range]);
            let tail: String = bytes[10..]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!(
                "{{{:08x}-{:04x}-{:04x}-{:02x}{:02x}-{tail}}}",
                part(0..4),
                part(4..6),
                part(6..8),
                bytes[8],
                bytes[9]
            )
        }
        "ItemPString" => String::from_utf8_lossy(&bytes[2..]).into_owned(),
        "ItemPWString" => {
            let units: Vec<u16> = bytes[2..]
                .chunks(2)
                .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
                .collect();
            String::from_utf16(&units).expect("UTF-16")
        }
        "ItemTimestamp" => unsigned(bytes).to_string(),
        _ => number(form, unsigned(bytes), bytes.len()),
    }
}

/// As printf of Windows does.
fn number(form: &str, value: u64, bytes: usize) -> String {
    let kind = form.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let width = form[..form.len() - kind.len()].parse().unwrap_or(0);
    match kind {
        "u" | "hu" | "lu" | "I64u" => value.to_string(),
        "d" | "hd" | "ld" | "I64d" => match bytes {
            2 => u16::try_from(value)
                .expect("two bytes")
                .cast_signed()
                .to_string(),
            4 => u32::try_from(value)
                .expect("four bytes")
                .cast_signed()
                .to_string(),
            _ => value.cast_signed().to_string(),
        },
        "x" | "I64x" => format!("{value:0width$x}"),
        _ => panic!("a form that printf does not have: {form}"),
    }
}

/// A message's place in the formats, and its arguments: a record with sequence, GUID, time, thread and process.
///
/// # Panics
/// If it is no such record.
#[must_use]
pub fn message(record: &[u8]) -> ((String, u16), &[u8]) {
    assert!(record.len() >= 44, "{} bytes", record.len());
    let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    assert_eq!(usize::from(half(0)), record.len());
    assert_eq!((record[3], half(6)), (0x90, 1 | 2 | 8 | 0x20));
    let hexadecimal = |bytes: &mut dyn Iterator<Item = &u8>| -> String {
        bytes.map(|byte| format!("{byte:02x}")).collect()
    };
    let guid = &record[12..28];
    let groups = [
        hexadecimal(&mut guid[..4].iter().rev()),
        hexadecimal(&mut guid[4..6].iter().rev()),
        hexadecimal(&mut guid[6..8].iter().rev()),
        hexadecimal(&mut guid[8..10].iter()),
        hexadecimal(&mut guid[10..].iter()),
    ];
    ((groups.join("-"), half(4)), &record[44..])
}
