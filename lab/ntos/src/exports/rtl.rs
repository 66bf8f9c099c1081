//! `Rtl…`: strings, time, memory, versions.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

mod time;

use std::cmp::Ordering;
use std::ptr;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{ANSI_STRING, GUID, UNICODE_STRING};
use nt::rtl::{RTL_OSVERSIONINFOW, TIME_FIELDS};
use nt::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_SUCCESS,
};

use super::{exports, touch};
use crate::guest::{self, get, set};
use crate::machine::{Machine, current};
use crate::pool::Owner;

exports! {
    rtl;

    fn RtlInitUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const u16) {
        let units = if SourceString.is_null() { 0 } else { wide_length(SourceString) };
        let bytes = u16::try_from(units * 2).unwrap_or(0xFFFC);
        let maximum = if SourceString.is_null() { 0 } else { bytes + 2 };
        guest::write(DestinationString, UNICODE_STRING { Length: bytes, MaximumLength: maximum, Buffer: SourceString.cast_mut() });
    }
    fn RtlInitAnsiString(DestinationString: *mut ANSI_STRING, SourceString: *const u8) { init_ansi(DestinationString, SourceString) }
    fn RtlInitString(DestinationString: *mut ANSI_STRING, SourceString: *const u8) { init_ansi(DestinationString, SourceString) }
    fn RtlCopyUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING) {
        let source = if SourceString.is_null() { Vec::new() } else { units(SourceString) };
        set!(DestinationString, Length = 0u16);
        let room = usize::from(get!(DestinationString, MaximumLength) / 2);
        append(DestinationString, &source[..source.len().min(room)]);
    }
    fn RtlAppendUnicodeToString(Destination: *mut UNICODE_STRING, Source: *const u16) -> NTSTATUS {
        append(Destination, &wide_units(Source))
    }
    fn RtlAppendUnicodeStringToString(Destination: *mut UNICODE_STRING, Source: *const UNICODE_STRING) -> NTSTATUS {
        append(Destination, &units(Source))
    }
    fn RtlCompareUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: u8) -> i32 {
        match compare(String1, String2, CaseInSensitive != 0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }
    fn RtlEqualUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: u8) -> u8 {
        u8::from(compare(String1, String2, CaseInSensitive != 0) == Ordering::Equal)
    }
    fn RtlFreeUnicodeString(UnicodeString: *mut UNICODE_STRING) {
        let buffer = get!(UnicodeString, Buffer);
        if !buffer.is_null() {
            current().free_pool(buffer as u64, 0);
            guest::write(UnicodeString, UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: ptr::null_mut() });
        }
    }
    fn RtlFreeAnsiString(AnsiString: *mut ANSI_STRING) {
        let buffer = get!(AnsiString, Buffer);
        if !buffer.is_null() {
            current().free_pool(buffer as u64, 0);
            guest::write(AnsiString, ANSI_STRING { Length: 0, MaximumLength: 0, Buffer: ptr::null_mut() });
        }
    }
    fn RtlAnsiStringToUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const ANSI_STRING, AllocateDestinationString: u8) -> NTSTATUS {
        let source = guest::read(SourceString);
        let bytes = guest::bytes(source.Buffer, usize::from(source.Length));
        let units: Vec<u16> = bytes.iter().map(|byte| u16::from(*byte)).collect();
        let Ok(needed) = u16::try_from(units.len() * 2 + 2) else { return STATUS_INVALID_PARAMETER };
        if AllocateDestinationString != 0 {
            let buffer = current().allocate_string(needed);
            if buffer == 0 {
                return STATUS_NO_MEMORY;
            }
            guest::write(DestinationString, UNICODE_STRING { Length: 0, MaximumLength: needed, Buffer: buffer as *mut u16 });
        } else if get!(DestinationString, MaximumLength) < needed {
            return STATUS_BUFFER_OVERFLOW;
        }
        set!(DestinationString, Length = 0u16);
        append(DestinationString, &units)
    }
    fn RtlUnicodeStringToAnsiString(DestinationString: *mut ANSI_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: u8) -> NTSTATUS {
        let bytes: Vec<u8> = units(SourceString).iter().map(|unit| u8::try_from(*unit).unwrap_or(b'?')).chain([0]).collect();
        let Ok(needed) = u16::try_from(bytes.len()) else { return STATUS_INVALID_PARAMETER };
        if AllocateDestinationString != 0 {
            let buffer = current().allocate_string(needed);
            if buffer == 0 {
                return STATUS_NO_MEMORY;
            }
            guest::write(DestinationString, ANSI_STRING { Length: 0, MaximumLength: needed, Buffer: buffer as *mut u8 });
        } else if get!(DestinationString, MaximumLength) < needed {
            return STATUS_BUFFER_OVERFLOW;
        }
        guest::fill(get!(DestinationString, Buffer), &bytes);
        set!(DestinationString, Length = needed - 1);
        STATUS_SUCCESS
    }
    fn RtlIntegerToUnicodeString(Value: u32, Base: u32, String: *mut UNICODE_STRING) -> NTSTATUS {
        let text = match Base {
            0 | 10 => Value.to_string(),
            2 => format!("{Value:b}"),
            8 => format!("{Value:o}"),
            16 => format!("{Value:X}"),
            _ => return STATUS_INVALID_PARAMETER,
        };
        let units: Vec<u16> = text.encode_utf16().collect();
        if usize::from(get!(String, MaximumLength)) < units.len() * 2 {
            return STATUS_BUFFER_OVERFLOW;
        }
        set!(String, Length = 0u16);
        append(String, &units)
    }
    fn RtlCompareMemory(Source1: *const u8, Source2: *const u8, Length: usize) -> usize {
        touch(move || {
            (0..Length)
                .position(|index| guest::read(Source1.wrapping_add(index)) != guest::read(Source2.wrapping_add(index)))
                .unwrap_or(Length)
        })
    }
    fn RtlUnicodeStringToInteger(String: *const UNICODE_STRING, Base: u32, Value: *mut u32) -> NTSTATUS {
        if ![0, 2, 8, 10, 16].contains(&Base) {
            return STATUS_INVALID_PARAMETER;
        }
        guest::write(Value, parse_integer(&String::from_utf16_lossy(&units(String)), Base));
        STATUS_SUCCESS
    }
    fn RtlTimeToTimeFields(Time: *const i64, TimeFields: *mut TIME_FIELDS) { guest::write(TimeFields, time::to_fields(guest::read(Time))) }
    fn RtlTimeFieldsToTime(TimeFields: *const TIME_FIELDS, Time: *mut i64) -> u8 {
        let time = time::from_fields(&guest::read(TimeFields));
        if let Some(time) = time {
            guest::write(Time, time);
        }
        u8::from(time.is_some())
    }
    fn RtlCopyMemory(Destination: *mut u8, Source: *const u8, Length: usize) {
        current().check_overlap(Destination as u64, Source as u64, Length as u64);
        guest::copy(Source, Destination, Length);
    }
    fn RtlMoveMemory(Destination: *mut u8, Source: *const u8, Length: usize) { guest::copy(Source, Destination, Length) }
    fn RtlFillMemory(Destination: *mut u8, Length: usize, Fill: u8) { guest::set_bytes(Destination, Fill, Length) }
    fn RtlZeroMemory(Destination: *mut u8, Length: usize) { guest::set_bytes(Destination, 0, Length) }
    fn RtlAssert(FailedAssertion: *const u8, FileName: *const u8, LineNumber: u32, Message: *const u8) {
        let text = |string: *const u8| match string.is_null() {
            true => String::new(),
            false => String::from_utf8_lossy(&crate::format::c_string(string)).into_owned(),
        };
        let line = format!("assertion failed: {} {} ({}, line {LineNumber})\n", text(FailedAssertion), text(Message), text(FileName));
        (current().debug_print)(&line);
    }
    fn RtlStringFromGUID(Guid: *const GUID, GuidString: *mut UNICODE_STRING) -> NTSTATUS {
        let units: Vec<u16> = guid_text(&guest::read(Guid)).encode_utf16().collect();
        let bytes = u16::try_from(units.len() * 2 + 2).unwrap_or(0);
        let buffer = current().allocate_string(bytes);
        if buffer == 0 {
            return STATUS_NO_MEMORY;
        }
        guest::write(GuidString, UNICODE_STRING { Length: 0, MaximumLength: bytes, Buffer: buffer as *mut u16 });
        append(GuidString, &units)
    }
    fn RtlGetVersion(VersionInformation: *mut RTL_OSVERSIONINFOW) -> NTSTATUS {
        set!(VersionInformation, dwMajorVersion = 10);
        set!(VersionInformation, dwMinorVersion = 0);
        set!(VersionInformation, dwBuildNumber = crate::shared_page::BUILD);
        set!(VersionInformation, dwPlatformId = 2);
        set!(VersionInformation, szCSDVersion = [0u16; 128]);
        STATUS_SUCCESS
    }
}

/// Value of the digits a text begins with, behind blanks and a sign; 0 if there are none.
pub(super) fn parse_integer(text: &str, base: u32) -> u32 {
    let text = text.trim_start_matches(|c| c <= ' ');
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = |prefix: &str, base: u32| text.strip_prefix(prefix).map(|rest| (base, rest));
    let (base, digits) = match base {
        0 => prefixed("0x", 16)
            .or_else(|| prefixed("0o", 8))
            .or_else(|| prefixed("0b", 2))
            .unwrap_or((10, text)),
        base => (base, text),
    };
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(base))
        .fold(0u32, |value, digit| {
            value.wrapping_mul(base).wrapping_add(digit)
        });
    if negative {
        value.wrapping_neg()
    } else {
        value
    }
}

pub(super) fn guid_text(guid: &GUID) -> String {
    let [a, b, rest @ ..] = guid.Data4;
    let rest: String = rest.iter().map(|byte| format!("{byte:02X}")).collect();
    format!(
        "{{{:08X}-{:04X}-{:04X}-{a:02X}{b:02X}-{rest}}}",
        guid.Data1, guid.Data2, guid.Data3
    )
}

/// Parses a GUID with braces, of which nothing may be left out.
pub(super) fn guid_parse(text: &str) -> Option<GUID> {
    let text = text.strip_prefix('{')?.strip_suffix('}')?;
    let parts: Vec<&str> = text.split('-').collect();
    let [a, b, c, d, e] = parts[..] else {
        return None;
    };
    let wrong = |part: &str| !part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if [a, b, c, d, e].map(str::len) != [8, 4, 4, 4, 12] || parts.into_iter().any(wrong) {
        return None;
    }
    let tail = u64::from_str_radix(&format!("{d}{e}"), 16).ok()?;
    Some(GUID {
        Data1: u32::from_str_radix(a, 16).ok()?,
        Data2: u16::from_str_radix(b, 16).ok()?,
        Data3: u16::from_str_radix(c, 16).ok()?,
        Data4: tail.to_be_bytes(),
    })
}

/// The units of a terminated string.
pub(super) fn wide_units(text: *const u16) -> Vec<u16> {
    let bytes = guest::bytes(text.cast(), 2 * wide_length(text));
    from_bytes(&bytes)
}

fn from_bytes(bytes: &[u8]) -> Vec<u16> {
    bytes
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
        .collect()
}

/// Longest terminated string: its counted form must fit.
const MAX_UNITS: usize = 0x7FFE;

fn wide_length(text: *const u16) -> usize {
    guest::touch(move || {
        (0..MAX_UNITS)
            .find(|index| guest::read(text.wrapping_add(*index)) == 0)
            .unwrap_or(MAX_UNITS)
    })
}

fn init_ansi(destination: *mut ANSI_STRING, source: *const u8) {
    let bytes = if source.is_null() {
        0
    } else {
        crate::format::c_string(source).len()
    };
    let length = u16::try_from(bytes).unwrap_or(0xFFFE);
    let maximum = if source.is_null() { 0 } else { length + 1 };
    guest::write(
        destination,
        ANSI_STRING {
            Length: length,
            MaximumLength: maximum,
            Buffer: source.cast_mut(),
        },
    );
}

pub(super) fn units(string: *const UNICODE_STRING) -> Vec<u16> {
    current().is_malformed(string);
    let string = guest::touch(move || guest::read(string));
    let bytes = guest::bytes(string.Buffer.cast(), usize::from(string.Length & !1));
    from_bytes(&bytes)
}

/// Appends, and terminates if there is room for it.
pub(super) fn append(destination: *mut UNICODE_STRING, source: &[u16]) -> NTSTATUS {
    let string = guest::read(destination);
    let start = usize::from(string.Length / 2);
    let room = usize::from(string.MaximumLength / 2);
    if start + source.len() > room {
        return STATUS_BUFFER_TOO_SMALL;
    }
    for (index, unit) in source.iter().enumerate() {
        guest::write(string.Buffer.wrapping_add(start + index), *unit);
    }
    let end = start + source.len();
    if end < room {
        guest::write(string.Buffer.wrapping_add(end), 0);
    }
    set!(destination, Length = u16::try_from(end * 2).unwrap_or(0));
    STATUS_SUCCESS
}

pub(super) fn compare(
    first: *const UNICODE_STRING,
    second: *const UNICODE_STRING,
    ignore_case: bool,
) -> Ordering {
    let text = |string| {
        let text = String::from_utf16_lossy(&units(string));
        if ignore_case {
            text.to_uppercase()
        } else {
            text
        }
    };
    text(first).cmp(&text(second))
}

impl Machine {
    /// Reports a copy between buffers that overlap, by a function that does not allow it.
    pub(super) fn check_overlap(&self, to: u64, from: u64, len: u64) {
        if to != from && to.abs_diff(from) < len {
            self.report(
                RuleId::MemoryOverlap,
                [0, to, from, len],
                format!("{len} bytes were copied from {from:#x} to {to:#x}, which overlaps"),
            );
        }
    }

    /// Reports a counted string that is longer than its buffer, or not of whole characters; whether it is.
    pub(crate) fn is_malformed(&self, string: *const UNICODE_STRING) -> bool {
        let UNICODE_STRING {
            Length: length,
            MaximumLength: maximum,
            Buffer: buffer,
        } = guest::touch(move || guest::read(string));
        let malformed =
            !length.is_multiple_of(2) || length > maximum || (buffer.is_null() && length != 0);
        if malformed {
            let what = format!(
                "the string at {:#x} has a Length of {length} and a MaximumLength of {maximum} bytes, and its buffer is at {:#x}",
                string as u64, buffer as u64
            );
            let parameters = [0, self.call_site(), string as u64, 0];
            self.report(RuleId::StringMalformed, parameters, what);
        }
        malformed
    }

    pub(super) fn allocate_string(&self, bytes: u16) -> u64 {
        if self.must_fail() {
            return 0;
        }
        let tag = u32::from_le_bytes(*b"Rtls");
        let site = self.call_site();
        self.pool
            .borrow_mut()
            .allocate(u64::from(bytes), tag, false, Owner::Driver, site)
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_by_their_base_or_prefix() {
        for (text, base, value) in [
            ("42", 0, 42),
            ("0x1Fz", 0, 31),
            ("0b101", 0, 5),
            (" -1", 10, u32::MAX),
            ("17", 8, 15),
            ("x", 16, 0),
            ("", 0, 0),
        ] {
            assert_eq!(parse_integer(text, base), value, "{text}");
        }
    }

    #[test]
    fn a_guid_is_written_with_braces() {
        let guid = GUID {
            Data1: 0x0001_0203,
            Data2: 0x405,
            Data3: 0x607,
            Data4: [8, 9, 10, 11, 12, 13, 14, 15],
        };
        let text = "{00010203-0405-0607-0809-0A0B0C0D0E0F}";
        assert_eq!(guid_text(&guid), text);
        assert_eq!(
            guid_parse(text).map(|guid| guid_text(&guid)).as_deref(),
            Some(text)
        );
        for wrong in [
            "",
            "{}",
            "{00010203-0405-0607-0809-0A0B0C0D0E0G}",
            &text[1..],
        ] {
            assert!(guid_parse(wrong).is_none(), "{wrong}");
        }
    }
}
