//! C format strings, as the kernel's printing functions take them.

use crate::guest;

/// A run-away string ends here.
const MAX: usize = 4096;

/// Which of C's families a format string belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// `DbgPrint`: narrow, and shown to people, so UTF-8.
    Debug,
    /// `sprintf`: bytes, each a character of its own.
    Narrow,
    /// `swprintf`: 16-bit units; `%s` is wide and `%S` narrow.
    Wide,
}

/// Formats debugger output with arguments in 8-byte slots, as a Win64 `va_list` has them.
pub(crate) fn format(text: *const u8, slots: *const usize) -> String {
    let text = String::from_utf8_lossy(&c_string(text)).into_owned();
    run(Family::Debug, &text, slots)
}

/// Formats as `sprintf` does; without terminator.
pub(crate) fn format_narrow(text: *const u8, slots: *const usize) -> Vec<u8> {
    let text = run(Family::Narrow, &latin(&c_string(text)), slots);
    text.chars()
        .map(|c| u8::try_from(c).unwrap_or(b'?'))
        .collect()
}

/// Formats as `swprintf` does; without terminator.
pub(crate) fn format_wide(text: *const u16, slots: *const usize) -> Vec<u16> {
    run(Family::Wide, &wide_string(text), slots)
        .encode_utf16()
        .collect()
}

fn run(family: Family, text: &str, mut slots: *const usize) -> String {
    let mut next = || {
        let value = guest::read(slots);
        slots = slots.wrapping_add(1);
        value as u64
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, spec)) = rest.split_once('%') {
        out.push_str(plain);
        rest = one(family, spec, &mut next, &mut out);
    }
    out.push_str(rest);
    out
}

/// The bytes of a terminated string in driver memory.
pub(crate) fn c_string(text: *const u8) -> Vec<u8> {
    (0..MAX)
        .map(|index| guest::read(text.wrapping_add(index)))
        .take_while(|byte| *byte != 0)
        .collect()
}

/// Bytes of a string with a precision: it need not be terminated.
fn limited<T: Copy + Default + PartialEq>(text: *const T, precision: Option<usize>) -> Vec<T> {
    (0..precision.unwrap_or(MAX).min(MAX))
        .map(|index| guest::read(text.wrapping_add(index)))
        .take_while(|unit| *unit != T::default())
        .collect()
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn wide_string(text: *const u16) -> String {
    String::from_utf16_lossy(&limited(text, None))
}

/// What stands between a `%` and its conversion.
struct Spec {
    zero: bool,
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// 64 bits.
    long: bool,
    /// `l` or `w`, and `h`: which strings.
    wide: bool,
    narrow: bool,
    /// `h` of integers.
    short: bool,
}

/// One conversion, after its `%`; returns what follows it.
fn one<'a>(
    family: Family,
    spec: &'a str,
    next: &mut impl FnMut() -> u64,
    out: &mut String,
) -> &'a str {
    let (flags, rest) = span(spec, "-+ #0");
    let mut rest = rest;
    let mut width = number(&mut rest, next);
    let precision = rest.strip_prefix('.').map(|tail| {
        rest = tail;
        number(&mut rest, next)
    });
    // A negative width from an argument means "left".
    let left = flags.contains('-') || width < 0;
    width = width.abs();
    let (modifier, tail) = span(rest, "hlwIqjzt6432");
    let mut tail = tail.chars();
    let Some(conversion) = tail.next() else {
        return "";
    };
    let long = modifier.ends_with("ll") || modifier.contains(['I', 'q', 'j', 'z', 't']);
    let spec = Spec {
        zero: flags.contains('0') && !left,
        left,
        plus: flags.contains('+'),
        space: flags.contains(' '),
        alternate: flags.contains('#'),
        width: width.unsigned_abs(),
        precision: precision.and_then(|precision| usize::try_from(precision).ok()),
        long: long && !modifier.starts_with("I32"),
        wide: modifier.contains(['l', 'w']),
        narrow: modifier.contains('h'),
        short: modifier == "h",
    };
    let text = convert(family, conversion, &spec, next);
    pad(out, &text, &spec);
    tail.as_str()
}

/// Splits off the leading characters that are in a set.
fn span<'a>(text: &'a str, set: &str) -> (&'a str, &'a str) {
    let end = text.find(|c| !set.contains(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn number(rest: &mut &str, next: &mut impl FnMut() -> u64) -> isize {
    if let Some(tail) = rest.strip_prefix('*') {
        *rest = tail;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an int is the low half of its slot"
        )]
        let value = next() as u32;
        return (value.cast_signed() as isize).clamp(-MAX.cast_signed(), MAX.cast_signed());
    }
    let (digits, tail) = span(rest, "0123456789");
    *rest = tail;
    if digits.is_empty() {
        return 0;
    }
    digits
        .parse()
        .map_or(MAX, |value: usize| value.min(MAX))
        .cast_signed()
}

/// A converted argument: sign or base, and what zeros may come before.
struct Text {
    prefix: String,
    body: String,
    is_number: bool,
}

impl Text {
    fn plain(body: impl Into<String>) -> Self {
        Self {
            prefix: String::new(),
            body: body.into(),
            is_number: false,
        }
    }
}

fn convert(family: Family, conversion: char, spec: &Spec, next: &mut impl FnMut() -> u64) -> Text {
    match conversion {
        '%' => Text::plain("%"),
        'd' | 'i' => signed(next(), spec),
        'u' => integer(String::new(), unsigned(next(), spec).to_string(), spec),
        'o' => integer(String::new(), format!("{:o}", unsigned(next(), spec)), spec),
        'x' | 'X' => hexadecimal(conversion, unsigned(next(), spec), spec),
        'p' => Text::plain(format!("{:016X}", next())),
        'c' | 'C' => Text::plain(
            char::from_u32(u32::try_from(next() & 0xFFFF).unwrap_or(0))
                .unwrap_or('?')
                .to_string(),
        ),
        's' | 'S' => {
            let by_default = (family == Family::Wide) == (conversion == 's');
            let wide = !spec.narrow && (spec.wide || by_default);
            string(family, next(), wide, spec.precision)
        }
        'Z' => Text::plain(counted(next(), spec.wide)),
        other => Text::plain(format!("%{other}")),
    }
}

fn integer(prefix: String, digits: String, spec: &Spec) -> Text {
    let wanted = spec.precision.unwrap_or(1);
    let zeros = "0".repeat(wanted.saturating_sub(digits.len()));
    Text {
        prefix,
        body: zeros + &digits,
        is_number: spec.precision.is_none(),
    }
}

fn signed(slot: u64, spec: &Spec) -> Text {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a narrow integer is the low part of its slot"
    )]
    let value = match (spec.long, spec.short) {
        (true, _) => slot.cast_signed(),
        (_, true) => i64::from(slot as i16),
        _ => i64::from(slot as i32),
    };
    let prefix = match value {
        ..0 => "-",
        _ if spec.plus => "+",
        _ if spec.space => " ",
        _ => "",
    };
    integer(prefix.into(), value.unsigned_abs().to_string(), spec)
}

fn hexadecimal(conversion: char, value: u64, spec: &Spec) -> Text {
    let digits = format!("{value:x}");
    let prefix = if spec.alternate && value != 0 {
        "0x"
    } else {
        ""
    };
    if conversion == 'X' {
        integer(prefix.to_uppercase(), digits.to_uppercase(), spec)
    } else {
        integer(prefix.into(), digits, spec)
    }
}

fn string(family: Family, address: u64, wide: bool, precision: Option<usize>) -> Text {
    if address == 0 {
        return Text::plain("(null)");
    }
    if wide {
        return Text::plain(String::from_utf16_lossy(&limited(
            address as *const u16,
            precision,
        )));
    }
    let bytes = limited(address as *const u8, precision);
    match family {
        Family::Debug => Text::plain(String::from_utf8_lossy(&bytes)),
        Family::Narrow | Family::Wide => Text::plain(latin(&bytes)),
    }
}

fn unsigned(value: u64, spec: &Spec) -> u64 {
    match (spec.long, spec.short) {
        (true, _) => value,
        (_, true) => value & 0xFFFF,
        _ => value & 0xFFFF_FFFF,
    }
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

fn pad(out: &mut String, text: &Text, spec: &Spec) {
    let length = text.prefix.chars().count() + text.body.chars().count();
    let missing = spec.width.saturating_sub(length);
    let zeros = spec.zero && text.is_number;
    let blanks = |count: usize| std::iter::repeat_n(' ', count);
    out.extend(blanks(if zeros || spec.left { 0 } else { missing }));
    out.push_str(&text.prefix);
    out.extend(std::iter::repeat_n('0', if zeros { missing } else { 0 }));
    out.push_str(&text.body);
    out.extend(blanks(if spec.left { missing } else { 0 }));
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
    fn signs_and_precisions_go_before_zeros() {
        let minus = (-42i32).cast_unsigned() as usize;
        assert_eq!(
            print(
                "%05d|%+d|% d|%.4d|%6.3x|%-6hd|%o|%X",
                &[minus, 7, 7, 42, 10, 0x1_FFFF, 8, 255]
            ),
            "-0042|+7| 7|0042|   00a|-1    |10|FF"
        );
        assert_eq!(print("%*d|%-*d|", &[5, 1, 3, 2]), "    1|2  |");
        assert_eq!(
            print("%*d|", &[(-3i32).cast_unsigned() as usize, 1]),
            "1  |"
        );
    }

    #[test]
    fn a_precision_bounds_a_string_that_has_no_terminator() {
        let bytes = [b'a', b'b', b'c'];
        assert_eq!(print("%.3s", &[bytes.as_ptr() as usize]), "abc");
    }

    #[test]
    fn wide_formats_take_wide_strings_and_narrow_ones_keep_their_bytes() {
        let format: Vec<u16> = "%s %S %hs %ls\0".encode_utf16().collect();
        let wide: Vec<u16> = "w\u{e9}\0".encode_utf16().collect();
        let (narrow, wide) = (c"n".as_ptr() as usize, wide.as_ptr() as usize);
        let text = format_wide(format.as_ptr(), [wide, narrow, narrow, wide].as_ptr());
        assert_eq!(String::from_utf16_lossy(&text), "w\u{e9} n n w\u{e9}");
        let bytes = [0xE9u8, 0xFF, 0];
        let text = format_narrow(c"<%s>".as_ptr().cast(), [bytes.as_ptr() as usize].as_ptr());
        assert_eq!(text, [b'<', 0xE9, 0xFF, b'>']);
    }

    #[test]
    fn a_broken_format_ends_quietly() {
        assert_eq!(print("%", &[]), "");
        assert_eq!(print("a%5", &[]), "a");
        assert_eq!(print("%!", &[]), "%!");
    }
}
