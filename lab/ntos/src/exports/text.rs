//! `Rtl…`: strings and their conversions, small arithmetic.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::exports;
use super::rtl::{append, guid_parse, units};
use crate::guest::{self, get, set};
use crate::machine::current;
use nt::NTSTATUS;
use nt::base::{ANSI_STRING, BOOLEAN, GUID, LARGE_INTEGER, UNICODE_STRING};
use nt::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER,
    STATUS_NAME_TOO_LONG, STATUS_NO_MEMORY, STATUS_SOME_NOT_MAPPED, STATUS_SUCCESS,
};
use std::ptr;

exports! {
    text;

    fn RtlInitUnicodeStringEx(DestinationString: *mut UNICODE_STRING, SourceString: *const u16) -> NTSTATUS {
        let count = if SourceString.is_null() { 0 } else { super::rtl::wide_units(SourceString).len() };
        let bytes = u16::try_from(count * 2).ok().filter(|bytes| *bytes < 0xFFFC);
        let Some(bytes) = bytes else { return STATUS_NAME_TOO_LONG };
        let maximum = if SourceString.is_null() { 0 } else { bytes + 2 };
        guest::write(DestinationString, UNICODE_STRING { Length: bytes, MaximumLength: maximum, Buffer: SourceString.cast_mut() });
        STATUS_SUCCESS
    }
    fn RtlPrefixUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: BOOLEAN) -> BOOLEAN {
        let (prefix, text) = (units(String1), units(String2));
        let fold = |unit: &u16| if CaseInSensitive != 0 { upcase(*unit) } else { *unit };
        u8::from(prefix.len() <= text.len() && prefix.iter().map(fold).eq(text.iter().take(prefix.len()).map(fold)))
    }
    fn RtlCompareUnicodeStrings(String1: *const u16, String1Length: usize, String2: *const u16, String2Length: usize, CaseInSensitive: BOOLEAN) -> i32 {
        let fold = |string: *const u16, count| wide(string, count).into_iter().map(move |unit| if CaseInSensitive != 0 { upcase(unit) } else { unit });
        sign(fold(String1, String1Length).cmp(fold(String2, String2Length)))
    }
    fn RtlUpcaseUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS {
        let text: Vec<u16> = units(SourceString).into_iter().map(upcase).collect();
        deliver_wide(DestinationString, &text, AllocateDestinationString != 0, false)
    }
    fn RtlDowncaseUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS {
        let text: Vec<u16> = units(SourceString).into_iter().map(downcase).collect();
        deliver_wide(DestinationString, &text, AllocateDestinationString != 0, false)
    }
    fn RtlUpcaseUnicodeChar(SourceCharacter: u16) -> u16 { upcase(SourceCharacter) }
    fn RtlDowncaseUnicodeChar(SourceCharacter: u16) -> u16 { downcase(SourceCharacter) }
    fn RtlDuplicateUnicodeString(Flags: u32, StringIn: *const UNICODE_STRING, StringOut: *mut UNICODE_STRING) -> NTSTATUS {
        if Flags & !3 != 0 || Flags == 2 {
            return STATUS_INVALID_PARAMETER;
        }
        let text = units(StringIn);
        if text.is_empty() && Flags & 2 == 0 {
            guest::write(StringOut, UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: ptr::null_mut() });
            return STATUS_SUCCESS;
        }
        deliver_wide(StringOut, &text, true, Flags & 1 != 0)
    }
    fn RtlEqualString(String1: *const ANSI_STRING, String2: *const ANSI_STRING, CaseInSensitive: BOOLEAN) -> BOOLEAN { u8::from(compare_narrow(String1, String2, CaseInSensitive != 0) == 0) }
    fn RtlCompareString(String1: *const ANSI_STRING, String2: *const ANSI_STRING, CaseInSensitive: BOOLEAN) -> i32 { compare_narrow(String1, String2, CaseInSensitive != 0) }
    fn RtlCopyString(DestinationString: *mut ANSI_STRING, SourceString: *const ANSI_STRING) { copy_narrow(DestinationString, SourceString, |c| c) }
    fn RtlUpperString(DestinationString: *mut ANSI_STRING, SourceString: *const ANSI_STRING) { copy_narrow(DestinationString, SourceString, |c| c.to_ascii_uppercase()) }
    fn RtlAppendStringToString(Destination: *mut ANSI_STRING, Source: *const ANSI_STRING) -> NTSTATUS {
        let (to, from) = (guest::read(Destination), narrow(Source));
        let start = usize::from(to.Length);
        if start + from.len() > usize::from(to.MaximumLength) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(to.Buffer.wrapping_add(start), &from);
        set!(Destination, Length = u16::try_from(start + from.len()).unwrap_or(u16::MAX));
        STATUS_SUCCESS
    }
    fn RtlxAnsiStringToUnicodeSize(AnsiString: *const ANSI_STRING) -> u32 { 2 * u32::from(guest::read(AnsiString).Length) + 2 }
    fn RtlxUnicodeStringToAnsiSize(UnicodeString: *const UNICODE_STRING) -> u32 { u32::from(guest::read(UnicodeString).Length / 2) + 1 }
    fn RtlUnicodeToMultiByteN(MultiByteString: *mut u8, MaxBytesInMultiByteString: u32, BytesInMultiByteString: *mut u32, UnicodeString: *const u16, BytesInUnicodeString: u32) -> NTSTATUS {
        to_bytes(MultiByteString, MaxBytesInMultiByteString, BytesInMultiByteString, &wide(UnicodeString, BytesInUnicodeString as usize / 2), |unit| unit)
    }
    fn RtlUpcaseUnicodeToMultiByteN(MultiByteString: *mut u8, MaxBytesInMultiByteString: u32, BytesInMultiByteString: *mut u32, UnicodeString: *const u16, BytesInUnicodeString: u32) -> NTSTATUS {
        to_bytes(MultiByteString, MaxBytesInMultiByteString, BytesInMultiByteString, &wide(UnicodeString, BytesInUnicodeString as usize / 2), upcase)
    }
    fn RtlMultiByteToUnicodeN(UnicodeString: *mut u16, MaxBytesInUnicodeString: u32, BytesInUnicodeString: *mut u32, MultiByteString: *const u8, BytesInMultiByteString: u32) -> NTSTATUS {
        let text: Vec<u16> = guest::bytes(MultiByteString, BytesInMultiByteString as usize).into_iter().map(u16::from).collect();
        let fits = text.len().min(MaxBytesInUnicodeString as usize / 2);
        write_wide(UnicodeString, &text[..fits]);
        put_length(BytesInUnicodeString, fits * 2);
        STATUS_SUCCESS
    }
    fn RtlAnsiCharToUnicodeChar(SourceCharacter: *mut *mut u8) -> u16 {
        let at = guest::read(SourceCharacter);
        guest::write(SourceCharacter, at.wrapping_add(1));
        u16::from(guest::read(at))
    }
    fn RtlUnicodeToUTF8N(UTF8StringDestination: *mut u8, UTF8StringMaxByteCount: u32, UTF8StringActualByteCount: *mut u32, UnicodeStringSource: *const u16, UnicodeStringByteCount: u32) -> NTSTATUS {
        let source = wide(UnicodeStringSource, UnicodeStringByteCount as usize / 2);
        let whole = char::decode_utf16(source.iter().copied()).all(|c| c.is_ok());
        let text = String::from_utf16_lossy(&source);
        let parts = text.chars().map(|c| c.to_string().into_bytes());
        convert_parts(UTF8StringDestination, UTF8StringMaxByteCount as usize, UTF8StringActualByteCount, parts, whole)
    }
    fn RtlUTF8ToUnicodeN(UnicodeStringDestination: *mut u16, UnicodeStringMaxByteCount: u32, UnicodeStringActualByteCount: *mut u32, UTF8StringSource: *const u8, UTF8StringByteCount: u32) -> NTSTATUS {
        let source = guest::bytes(UTF8StringSource, UTF8StringByteCount as usize);
        let whole = std::str::from_utf8(&source).is_ok();
        let text = String::from_utf8_lossy(&source);
        let parts = text.chars().map(|c| c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_le_bytes()).collect());
        convert_parts(UnicodeStringDestination.cast(), UnicodeStringMaxByteCount as usize, UnicodeStringActualByteCount, parts, whole)
    }
    fn RtlGUIDFromString(GuidString: *const UNICODE_STRING, Guid: *mut GUID) -> NTSTATUS {
        match guid_parse(&String::from_utf16_lossy(&units(GuidString))) {
            Some(guid) => {
                guest::write(Guid, guid);
                STATUS_SUCCESS
            }
            None => STATUS_INVALID_PARAMETER,
        }
    }
    fn RtlInt64ToUnicodeString(Value: u64, Base: u32, String: *mut UNICODE_STRING) -> NTSTATUS {
        let text = match Base {
            0 | 10 => Value.to_string(),
            2 => format!("{Value:b}"),
            8 => format!("{Value:o}"),
            16 => format!("{Value:X}"),
            _ => return STATUS_INVALID_PARAMETER,
        };
        let text: Vec<u16> = text.encode_utf16().collect();
        if usize::from(get!(String, MaximumLength)) < text.len() * 2 {
            return STATUS_BUFFER_OVERFLOW;
        }
        set!(String, Length = 0u16);
        append(String, &text)
    }
    fn RtlCharToInteger(String: *const u8, Base: u32, Value: *mut u32) -> NTSTATUS {
        if ![0, 2, 8, 10, 16].contains(&Base) {
            return STATUS_INVALID_PARAMETER;
        }
        let text = String::from_utf8_lossy(&crate::format::c_string(String)).into_owned();
        guest::write(Value, super::rtl::parse_integer(&text, Base));
        STATUS_SUCCESS
    }
    fn RtlHashUnicodeString(String: *const UNICODE_STRING, CaseInSensitive: BOOLEAN, HashAlgorithm: u32, HashValue: *mut u32) -> NTSTATUS {
        if HashAlgorithm > 1 {
            return STATUS_INVALID_PARAMETER;
        }
        let fold = |unit: u16| if CaseInSensitive != 0 { upcase(unit) } else { unit };
        let hash = units(String).into_iter().fold(0u32, |hash, unit| hash.wrapping_mul(65599).wrapping_add(u32::from(fold(unit))));
        guest::write(HashValue, hash);
        STATUS_SUCCESS
    }
    fn FsRtlIsNameInExpression(Expression: *const UNICODE_STRING, Name: *const UNICODE_STRING, IgnoreCase: BOOLEAN, _UpcaseTable: *const u16) -> BOOLEAN {
        let fold = |unit: u16| if IgnoreCase != 0 { upcase(unit) } else { unit };
        let name: Vec<u16> = units(Name).into_iter().map(fold).collect();
        u8::from(matches_pattern(&units(Expression), &name))
    }
    fn RtlTimeToSecondsSince1970(Time: *const LARGE_INTEGER, ElapsedSeconds: *mut u32) -> BOOLEAN { seconds_since(SINCE_1970, Time, ElapsedSeconds) }
    fn RtlTimeToSecondsSince1980(Time: *const LARGE_INTEGER, ElapsedSeconds: *mut u32) -> BOOLEAN { seconds_since(SINCE_1980, Time, ElapsedSeconds) }
    fn RtlSecondsSince1970ToTime(ElapsedSeconds: u32, Time: *mut LARGE_INTEGER) { guest::write(Time, (SINCE_1970 + i64::from(ElapsedSeconds)) * SECOND) }
    fn RtlSecondsSince1980ToTime(ElapsedSeconds: u32, Time: *mut LARGE_INTEGER) { guest::write(Time, (SINCE_1980 + i64::from(ElapsedSeconds)) * SECOND) }
    fn RtlFindLeastSignificantBit(Set: u64) -> i8 { if Set == 0 { -1 } else { i8::try_from(Set.trailing_zeros()).unwrap_or(-1) } }
    fn RtlFindMostSignificantBit(Set: u64) -> i8 { if Set == 0 { -1 } else { i8::try_from(Set.ilog2()).unwrap_or(-1) } }
    fn RtlRandomEx(Seed: *mut u32) -> u32 { random(Seed) }
    fn RtlRandom(Seed: *mut u32) -> u32 { random(Seed) }
    fn RtlIsNtDdiVersionAvailable(Version: u32) -> BOOLEAN { u8::from(Version & 0xFFFF_FF00 <= NTDDI_WIN10 && Version & 0xFF == 0) }
}

/// Units of 100 ns in a second.
const SECOND: i64 = 10_000_000;
/// Seconds from 1601 to 1970, and to 1980.
const SINCE_1970: i64 = 11_644_473_600;
const SINCE_1980: i64 = 11_960_006_400;
/// `NTDDI_WIN10` (sdkddkver.h): service packs, the low byte, ask for themselves.
const NTDDI_WIN10: u32 = 0x0A00_0000;

fn upcase(unit: u16) -> u16 {
    fold(unit, |c| c.to_uppercase().next())
}

fn downcase(unit: u16) -> u16 {
    fold(unit, |c| c.to_lowercase().next())
}

/// The other case of a unit, where it is one unit too.
fn fold(unit: u16, change: impl Fn(char) -> Option<char>) -> u16 {
    let other = char::from_u32(u32::from(unit)).and_then(change);
    other
        .and_then(|c| u16::try_from(u32::from(c)).ok())
        .unwrap_or(unit)
}

fn sign(order: std::cmp::Ordering) -> i32 {
    order as i32
}

fn wide(string: *const u16, count: usize) -> Vec<u16> {
    (0..count)
        .map(|index| guest::read(string.wrapping_add(index)))
        .collect()
}

fn write_wide(to: *mut u16, text: &[u16]) {
    for (index, unit) in text.iter().enumerate() {
        guest::write(to.wrapping_add(index), *unit);
    }
}

fn put_length(to: *mut u32, bytes: usize) {
    if !to.is_null() {
        guest::write(to, u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

fn narrow(string: *const ANSI_STRING) -> Vec<u8> {
    let string = guest::read(string);
    guest::bytes(string.Buffer, usize::from(string.Length))
}

fn compare_narrow(a: *const ANSI_STRING, b: *const ANSI_STRING, ignore_case: bool) -> i32 {
    let text = |string| {
        let mut text = narrow(string);
        if ignore_case {
            text.make_ascii_uppercase();
        }
        text
    };
    sign(text(a).cmp(&text(b)))
}

fn copy_narrow(to: *mut ANSI_STRING, from: *const ANSI_STRING, change: impl Fn(u8) -> u8) {
    let source = if from.is_null() {
        Vec::new()
    } else {
        narrow(from)
    };
    let room = usize::from(get!(to, MaximumLength)).min(source.len());
    let text: Vec<u8> = source[..room].iter().copied().map(change).collect();
    guest::fill(get!(to, Buffer), &text);
    set!(to, Length = u16::try_from(room).unwrap_or(u16::MAX));
}

/// Puts a text into a string, or into a new buffer of it.
pub(super) fn deliver_wide(
    to: *mut UNICODE_STRING,
    text: &[u16],
    allocate: bool,
    terminated: bool,
) -> NTSTATUS {
    let Ok(bytes) = u16::try_from(2 * (text.len() + usize::from(terminated))) else {
        return STATUS_INVALID_PARAMETER;
    };
    if allocate {
        let buffer = current().allocate_string(bytes.max(2));
        if buffer == 0 {
            return STATUS_NO_MEMORY;
        }
        let string = UNICODE_STRING {
            Length: 0,
            MaximumLength: bytes,
            Buffer: buffer as *mut u16,
        };
        guest::write(to, string);
    } else if get!(to, MaximumLength) < bytes {
        return STATUS_BUFFER_OVERFLOW;
    }
    set!(to, Length = 0u16);
    append(to, text)
}

fn to_bytes(
    to: *mut u8,
    room: u32,
    written: *mut u32,
    text: &[u16],
    change: impl Fn(u16) -> u16,
) -> NTSTATUS {
    let bytes: Vec<u8> = text
        .iter()
        .take(room as usize)
        .map(|unit| u8::try_from(change(*unit)).unwrap_or(b'?'))
        .collect();
    guest::fill(to, &bytes);
    put_length(written, bytes.len());
    STATUS_SUCCESS
}

/// Writes whole characters while they fit.
fn convert_parts(
    to: *mut u8,
    room: usize,
    written: *mut u32,
    parts: impl Iterator<Item = Vec<u8>>,
    whole: bool,
) -> NTSTATUS {
    let mut len = 0;
    for bytes in parts {
        if !to.is_null() {
            if len + bytes.len() > room {
                put_length(written, len);
                return STATUS_BUFFER_TOO_SMALL;
            }
            guest::fill(to.wrapping_add(len), &bytes);
        }
        len += bytes.len();
    }
    put_length(written, len);
    if whole {
        STATUS_SUCCESS
    } else {
        STATUS_SOME_NOT_MAPPED
    }
}

fn seconds_since(epoch: i64, time: *const i64, to: *mut u32) -> u8 {
    let seconds = guest::read(time).div_euclid(SECOND) - epoch;
    let seconds = u32::try_from(seconds).ok();
    if let Some(seconds) = seconds {
        guest::write(to, seconds);
    }
    u8::from(seconds.is_some())
}

/// The generator that the reference gives for `RtlUniform`: modulus `MAXLONG`.
fn random(seed: *mut u32) -> u32 {
    let next = (u64::from(guest::read(seed)) * 0x7FFF_FFED + 0x7FFF_FFC3) % 0x7FFF_FFFF;
    let next = u32::try_from(next).unwrap_or(0);
    guest::write(seed, next);
    next
}

/// The file system's wild cards (`FsRtlIsNameInExpression`): `*` any run, `?` any unit,
/// `<` any run up to the last dot, `>` a unit or the end at a dot, `"` a dot or the end.
fn matches_pattern(pattern: &[u16], name: &[u16]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return name.is_empty();
    };
    let dot = u16::from(b'.');
    let tail = || name.split_first().map(|(_, tail)| tail);
    match u8::try_from(*first) {
        Ok(b'*') => (0..=name.len()).any(|skip| matches_pattern(rest, &name[skip..])),
        Ok(b'<') => {
            let last_dot = name.iter().rposition(|unit| *unit == dot);
            let limit = last_dot.unwrap_or(name.len());
            (0..=name.len())
                .filter(|skip| *skip <= limit || *skip == name.len())
                .any(|skip| matches_pattern(rest, &name[skip..]))
        }
        Ok(b'?') => tail().is_some_and(|tail| matches_pattern(rest, tail)),
        Ok(b'>') => match name.first() {
            Some(unit) if *unit != dot => tail().is_some_and(|tail| matches_pattern(rest, tail)),
            _ => matches_pattern(rest, name),
        },
        Ok(b'"') => match name.first() {
            Some(unit) if *unit == dot => tail().is_some_and(|tail| matches_pattern(rest, tail)),
            None => matches_pattern(rest, name),
            Some(_) => false,
        },
        _ => name.first() == Some(first) && tail().is_some_and(|tail| matches_pattern(rest, tail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_cards_match_as_file_systems_have_them() {
        let matches = |pattern: &str, name: &str| {
            let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
            matches_pattern(&units(pattern), &units(name))
        };
        for (pattern, name) in [
            ("*", ""),
            ("*.TXT", "A.B.TXT"),
            ("A?C", "ABC"),
            ("A>>>", "AB"),
            ("<\"*", "A.B"),
            ("<.TXT", "A.B.TXT"),
            ("A\"", "A"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "A"), ("?", ""), ("A*C", "AB"), ("*.TXT", "TXT")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn times_convert_to_seconds_and_back() {
        let mut time = 0;
        guest::write(&raw mut time, (SINCE_1970 + 5) * SECOND + 3);
        let mut seconds = 0;
        assert_eq!(
            seconds_since(SINCE_1970, &raw const time, &raw mut seconds),
            1
        );
        assert_eq!(seconds, 5);
        assert_eq!(
            seconds_since(SINCE_1980, &raw const time, &raw mut seconds),
            0
        );
    }
}
