//! C format strings, as the kernel's printing functions take them.

use crate::guest;

/// A run-away string ends here.
const MAX: usize = 4096;

/// Formats with arguments in 8-byte slots, as a Win64 `va_list` has them.
pub(crate) fn format(text: *const u8, mut slots: *const usize) -> String {
    let mut next = || {
        let value = guest::read(slots);
        slots = slots.wrapping_add(1);
        value as u64
    };
    let bytes = c_string(text);
    let mut out = String::new();
    let mut rest = bytes.as_slice();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            out.push(char::from(*byte));
            continue;
        }
        rest = one(rest, &mut next, &mut out);
    }
    out
}

/// The bytes of a terminated string in driver memory.
pub(crate) fn c_string(text: *const u8) -> Vec<u8> {
    (0..MAX)
        .map(|index| guest::read(text.wrapping_add(index)))
        .take_while(|byte| *byte != 0)
        .collect()
}

fn wide_string(text: *const u16) -> String {
    let units: Vec<u16> = (0..MAX)
        .map(|index| guest::read(text.wrapping_add(index)))
        .take_while(|unit| *unit != 0)
        .collect();
    String::from_utf16_lossy(&units)
}

/// One conversion, after its `%`; returns what follows it.
fn one<'a>(spec: &'a [u8], next: &mut impl FnMut() -> u64, out: &mut String) -> &'a [u8] {
    let flags = spec
        .iter()
        .take_while(|byte| b"-+ #0".contains(byte))
        .count();
    let (zero, left, alternate) = (
        spec[..flags].contains(&b'0'),
        spec[..flags].contains(&b'-'),
        spec[..flags].contains(&b'#'),
    );
    let mut rest = &spec[flags..];
    let width = number(&mut rest, next);
    let precision = rest.strip_prefix(b".").map(|tail| {
        rest = tail;
        number(&mut rest, next)
    });
    let length = rest
        .iter()
        .take_while(|byte| b"hlwIqjzt6432".contains(byte))
        .count();
    let (modifier, tail) = rest.split_at(length);
    let long = modifier.ends_with(b"ll")
        || modifier.starts_with(b"I")
        || modifier.iter().any(|byte| b"qjzt".contains(byte));
    let wide = modifier.contains(&b'l') || modifier.contains(&b'w');
    let Some((conversion, tail)) = tail.split_first() else {
        return &[];
    };
    let text = convert(
        *conversion,
        long && !modifier.starts_with(b"I32"),
        wide,
        alternate,
        precision,
        next,
    );
    pad(out, &text, width, zero && !left, left);
    tail
}

fn number(rest: &mut &[u8], next: &mut impl FnMut() -> u64) -> usize {
    if let Some(tail) = rest.strip_prefix(b"*") {
        *rest = tail;
        return usize::try_from(next() & 0xFFFF).unwrap_or(0);
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, tail) = rest.split_at(digits);
    *rest = tail;
    number
        .iter()
        .fold(0usize, |value, digit| {
            value
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'))
        })
        .min(MAX)
}

fn convert(
    conversion: u8,
    long: bool,
    wide: bool,
    alternate: bool,
    precision: Option<usize>,
    next: &mut impl FnMut() -> u64,
) -> String {
    let limit = |text: String| match precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    };
    let prefix = if alternate { "0x" } else { "" };
    match conversion {
        b'%' => "%".into(),
        b'd' | b'i' => {
            let value = next().cast_signed();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an int is the low half of its slot"
            )]
            let value = if long { value } else { i64::from(value as i32) };
            value.to_string()
        }
        b'u' => unsigned(next(), long).to_string(),
        b'x' => format!("{prefix}{:x}", unsigned(next(), long)),
        b'X' => format!("{prefix}{:X}", unsigned(next(), long)),
        b'p' => format!("{:016X}", next()),
        b'c' | b'C' => char::from_u32(u32::try_from(next() & 0xFFFF).unwrap_or(0))
            .unwrap_or('?')
            .to_string(),
        b's' if !wide => match next() {
            0 => "(null)".into(),
            text => limit(String::from_utf8_lossy(&c_string(text as *const u8)).into_owned()),
        },
        b's' | b'S' => match next() {
            0 => "(null)".into(),
            text => limit(wide_string(text as *const u16)),
        },
        b'Z' => counted(next(), wide),
        other => format!("%{}", char::from(other)),
    }
}

fn unsigned(value: u64, long: bool) -> u64 {
    if long { value } else { value & 0xFFFF_FFFF }
}

/// `%Z` and `%wZ`: counted strings.
fn counted(address: u64, wide: bool) -> String {
    if address == 0 {
        return "(null)".into();
    }
    if wide {
        let string = guest::read(address as *const nt::base::UNICODE_STRING);
        let units: Vec<u16> = (0..usize::from(string.Length / 2))
            .map(|index| guest::read(string.Buffer.wrapping_add(index)))
            .collect();
        return String::from_utf16_lossy(&units);
    }
    let string = guest::read(address as *const nt::base::ANSI_STRING);
    String::from_utf8_lossy(&guest::bytes(string.Buffer, usize::from(string.Length))).into_owned()
}

fn pad(out: &mut String, text: &str, width: usize, zero: bool, left: bool) {
    let missing = width.saturating_sub(text.chars().count());
    if left {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else {
        out.extend(std::iter::repeat_n(if zero { '0' } else { ' ' }, missing));
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str, slots: &[usize]) -> String {
        let text = format!("{text}\0");
        format(text.as_ptr(), slots.as_ptr())
    }

    #[test]
    fn formats_as_the_kernel_does() {
        assert_eq!(
            print(
                "%d %u|%5d|%-5d|%05x|%#x",
                &[usize::MAX, 7, 42, 42, 0xAB, 16]
            ),
            "-1 7|   42|42   |000ab|0x10"
        );
        assert_eq!(
            print("%I64x %llu %p", &[usize::MAX, 5, 0x1234]),
            "ffffffffffffffff 5 0000000000001234"
        );
        let narrow = c"abc";
        let wide: Vec<u16> = "wide\0".encode_utf16().collect();
        assert_eq!(
            print(
                "%s %.2s %ws %S 100%%",
                &[
                    narrow.as_ptr() as usize,
                    narrow.as_ptr() as usize,
                    wide.as_ptr() as usize,
                    wide.as_ptr() as usize
                ]
            ),
            "abc ab wide wide 100%"
        );
        assert_eq!(print("%s %wZ", &[0, 0]), "(null) (null)");
    }

    #[test]
    fn a_broken_format_ends_quietly() {
        assert_eq!(print("%", &[]), "");
        assert_eq!(print("a%5", &[]), "a");
        assert_eq!(print("%!", &[]), "%!");
    }
}
