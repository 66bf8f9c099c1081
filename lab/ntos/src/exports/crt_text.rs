//! The C runtime: characters, numbers, and routines that know how long their destination is.
#![expect(
    unsafe_code,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::crt::{Unit, at, compare, length, put, slot};
use super::exports;
use crate::format::{format_narrow, format_wide};
use crate::guest::{self};
use crate::machine::current;
use lab_verifier::RuleId;
use std::ptr;

/// `EINVAL` and `ERANGE` (errno.h).
const EINVAL: i32 = 22;
const ERANGE: i32 = 34;
/// `_TRUNCATE` (crtdefs.h): as much as fits.
const TRUNCATE: usize = usize::MAX;
/// `STRUNCATE` (errno.h): it did not all fit.
const STRUNCATE: i32 = 80;

exports! {
    crt_text;

    fn _strnicmp(string1: *const u8, string2: *const u8, count: usize) -> i32 { compare(string1, string2, count, |c| c.to_ascii_lowercase()) }
    fn strcat(dest: *mut u8, src: *const u8) -> *mut u8 { append(dest, src, usize::MAX) }
    fn strncat(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 { append(dest, src, count) }
    fn wcsncat(dest: *mut u16, src: *const u16, count: usize) -> *mut u16 { append(dest, src, count) }
    fn _strupr(str: *mut u8) -> *mut u8 { change(str, |c: u8| c.to_ascii_uppercase()) }
    fn _strlwr(str: *mut u8) -> *mut u8 { change(str, |c: u8| c.to_ascii_lowercase()) }
    fn _wcsupr(str: *mut u16) -> *mut u16 { change(str, upper) }
    fn _wcslwr(str: *mut u16) -> *mut u16 { change(str, lower) }
    fn toupper(c: i32) -> i32 { ascii(c, |c| c.to_ascii_uppercase()) }
    fn tolower(c: i32) -> i32 { ascii(c, |c| c.to_ascii_lowercase()) }
    fn towupper(c: u16) -> u16 { upper(c) }
    fn towlower(c: u16) -> u16 { lower(c) }
    fn isspace(c: i32) -> i32 { class(c, |c| c == b' ' || (9..=13).contains(&c)) }
    fn isdigit(c: i32) -> i32 { class(c, |c| c.is_ascii_digit()) }
    fn isxdigit(c: i32) -> i32 { class(c, |c| c.is_ascii_hexdigit()) }
    fn isupper(c: i32) -> i32 { class(c, |c| c.is_ascii_uppercase()) }
    fn islower(c: i32) -> i32 { class(c, |c| c.is_ascii_lowercase()) }
    fn isprint(c: i32) -> i32 { class(c, |c| (0x20..0x7F).contains(&c)) }
    fn memchr(buffer: *const u8, c: i32, count: usize) -> *mut u8 {
        let wanted = c.to_le_bytes()[0];
        let found = (0..count).find(|index| at(buffer, *index) == wanted);
        found.map_or(ptr::null_mut(), |index| buffer.wrapping_add(index).cast_mut())
    }
    fn strnlen(str: *const u8, count: usize) -> usize { bounded(str, count) }
    fn wcsnlen(str: *const u16, count: usize) -> usize { bounded(str, count) }
    fn strspn(str: *const u8, set: *const u8) -> usize {
        (0..length(str)).take_while(|index| contains(set, at(str, *index))).count()
    }
    fn atoi(str: *const u8) -> i32 { low(number(str, 10).value) }
    fn atol(str: *const u8) -> i32 { low(number(str, 10).value) }
    fn _wtoi(str: *const u16) -> i32 { low(number(str, 10).value) }
    fn _wtol(str: *const u16) -> i32 { low(number(str, 10).value) }
    fn strtoul(str: *const u8, end: *mut *mut u8, base: i32) -> u32 {
        let parsed = number(str, base);
        if !end.is_null() {
            guest::write(end, str.wrapping_add(parsed.end).cast_mut());
        }
        unsigned(&parsed)
    }
    fn strtol(str: *const u8, end: *mut *mut u8, base: i32) -> i32 {
        let parsed = number(str, base);
        if !end.is_null() {
            guest::write(end, str.wrapping_add(parsed.end).cast_mut());
        }
        i32::try_from(parsed.value).unwrap_or(if parsed.value < 0 { i32::MIN } else { i32::MAX })
    }
    fn wcstoul(str: *const u16, end: *mut *mut u16, base: i32) -> u32 {
        let parsed = number(str, base);
        if !end.is_null() {
            guest::write(end, str.wrapping_add(parsed.end).cast_mut());
        }
        unsigned(&parsed)
    }
    fn _itoa(value: i32, buffer: *mut u8, base: i32) -> *mut u8 {
        let text = if base == 10 { value.to_string() } else { digits(u64::from(value.cast_unsigned()), base) };
        put(buffer, usize::MAX, text.as_bytes());
        buffer
    }
    fn _itow(value: i32, buffer: *mut u16, base: i32) -> *mut u16 {
        let text = if base == 10 { value.to_string() } else { digits(u64::from(value.cast_unsigned()), base) };
        let units: Vec<u16> = text.encode_utf16().collect();
        put(buffer, usize::MAX, &units);
        buffer
    }
    fn mbstowcs(dest: *mut u16, src: *const u8, count: usize) -> usize { convert(dest, src, count, u16::from) }
    fn wcstombs(dest: *mut u8, src: *const u16, count: usize) -> usize { convert(dest, src, count, |unit| u8::try_from(unit).unwrap_or(b'?')) }
    fn strcpy_s(dest: *mut u8, size: usize, src: *const u8) -> i32 { copy_safe(dest, size, 0, src, usize::MAX - 1) }
    fn strncpy_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 { copy_safe(dest, size, 0, src, count) }
    fn strcat_s(dest: *mut u8, size: usize, src: *const u8) -> i32 { append_safe(dest, size, src, usize::MAX - 1) }
    fn wcscpy_s(dest: *mut u16, size: usize, src: *const u16) -> i32 { copy_safe(dest, size, 0, src, usize::MAX - 1) }
    fn wcsncpy_s(dest: *mut u16, size: usize, src: *const u16, count: usize) -> i32 { copy_safe(dest, size, 0, src, count) }
    fn wcscat_s(dest: *mut u16, size: usize, src: *const u16) -> i32 { append_safe(dest, size, src, usize::MAX - 1) }
    fn wcsncat_s(dest: *mut u16, size: usize, src: *const u16, count: usize) -> i32 { append_safe(dest, size, src, count) }
    fn memcpy_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 { copy_memory(dest, size, src, count) }
    fn memmove_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 { copy_memory(dest, size, src, count) }
    fn vsprintf_s(buffer: *mut u8, size: usize, format: *const u8, args: *const usize) -> i32 { print_safe(buffer, size, &format_narrow(format, args)) }
    fn vswprintf_s(buffer: *mut u16, size: usize, format: *const u16, args: *const usize) -> i32 { print_safe(buffer, size, &format_wide(format, args)) }
    fn rand() -> i32 {
        let machine = current();
        let mut resources = machine.resources.borrow_mut();
        // The generator of Microsoft's C library.
        resources.random = resources.random.wrapping_mul(214_013).wrapping_add(2_531_011);
        i32::from(u16::try_from(resources.random >> 16 & 0x7FFF).unwrap_or(0))
    }
    fn srand(seed: u32) { current().resources.borrow_mut().random = seed }
    fn qsort(base: *mut u8, count: usize, width: usize, compare: usize) { sort(base, count, width, compare as u64) }
    fn bsearch(key: *const u8, base: *const u8, count: usize, width: usize, compare: usize) -> *mut u8 {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let element = base.wrapping_add(middle * width);
            match order(compare as u64, key, element) {
                0 => return element.cast_mut(),
                sign if sign < 0 => high = middle,
                _ => low = middle + 1,
            }
        }
        ptr::null_mut()
    }
    fn __chkstk() {}
    fn _purecall() -> i32 {
        current().violate(RuleId::BugCheck, [0; 4], "a pure virtual function was called".into())
    }
    fn sprintf_s(slots: *const usize) -> i32 {
        let (buffer, size) = (slot(slots, 0) as *mut u8, slot(slots, 1));
        print_safe(buffer, size, &format_narrow(slot(slots, 2) as *const u8, slots.wrapping_add(3)))
    }
    fn swprintf_s(slots: *const usize) -> i32 {
        let (buffer, size) = (slot(slots, 0) as *mut u16, slot(slots, 1));
        print_safe(buffer, size, &format_wide(slot(slots, 2) as *const u16, slots.wrapping_add(3)))
    }
    fn _snprintf_s(slots: *const usize) -> i32 {
        let (buffer, size, count) = (slot(slots, 0) as *mut u8, slot(slots, 1), slot(slots, 2));
        print_counted(buffer, size, count, &format_narrow(slot(slots, 3) as *const u8, slots.wrapping_add(4)))
    }
    fn _snwprintf_s(slots: *const usize) -> i32 {
        let (buffer, size, count) = (slot(slots, 0) as *mut u16, slot(slots, 1), slot(slots, 2));
        print_counted(buffer, size, count, &format_wide(slot(slots, 3) as *const u16, slots.wrapping_add(4)))
    }
}

fn upper(unit: u16) -> u16 {
    u8::try_from(unit).map_or(unit, |byte| u16::from(byte.to_ascii_uppercase()))
}

fn lower(unit: u16) -> u16 {
    u8::try_from(unit).map_or(unit, |byte| u16::from(byte.to_ascii_lowercase()))
}

fn ascii(c: i32, change: impl Fn(u8) -> u8) -> i32 {
    u8::try_from(c).map_or(c, |byte| i32::from(change(byte)))
}

fn class(c: i32, is: impl Fn(u8) -> bool) -> i32 {
    i32::from(u8::try_from(c).is_ok_and(is))
}

fn contains(set: *const u8, byte: u8) -> bool {
    (0..length(set)).any(|index| at(set, index) == byte)
}

fn bounded<T: Unit>(string: *const T, count: usize) -> usize {
    (0..count)
        .find(|index| at(string, *index) == T::default())
        .unwrap_or(count)
}

fn change<T: Unit>(string: *mut T, f: impl Fn(T) -> T) -> *mut T {
    for index in 0..length(string) {
        guest::write(string.wrapping_add(index), f(at(string, index)));
    }
    string
}

fn append<T: Unit>(dest: *mut T, src: *const T, count: usize) -> *mut T {
    let (end, len) = (length(dest), bounded(src, count));
    guest::copy(src, dest.wrapping_add(end), len);
    guest::write(dest.wrapping_add(end + len), T::default());
    dest
}

/// Copies behind the first `start` units of a destination with room for `size`.
fn copy_safe<T: Unit>(dest: *mut T, size: usize, start: usize, src: *const T, count: usize) -> i32 {
    if dest.is_null() || size == 0 {
        return EINVAL;
    }
    if src.is_null() {
        guest::write(dest, T::default());
        return EINVAL;
    }
    let room = size.saturating_sub(start);
    let len = bounded(src, count.min(room));
    if len < room {
        guest::copy(src, dest.wrapping_add(start), len);
        guest::write(dest.wrapping_add(start + len), T::default());
        return 0;
    }
    if count == TRUNCATE && room > 0 {
        guest::copy(src, dest.wrapping_add(start), room - 1);
        guest::write(dest.wrapping_add(size - 1), T::default());
        return STRUNCATE;
    }
    guest::write(dest, T::default());
    ERANGE
}

fn append_safe<T: Unit>(dest: *mut T, size: usize, src: *const T, count: usize) -> i32 {
    if dest.is_null() || size == 0 {
        return EINVAL;
    }
    let end = bounded(dest, size);
    if end == size {
        guest::write(dest, T::default());
        return EINVAL;
    }
    copy_safe(dest, size, end, src, count)
}

fn copy_memory(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 {
    if count == 0 {
        return 0;
    }
    if dest.is_null() {
        return EINVAL;
    }
    if src.is_null() || size < count {
        guest::set_bytes(dest, 0, size);
        return if src.is_null() { EINVAL } else { ERANGE };
    }
    guest::copy(src, dest, count);
    0
}

fn print_safe<T: Unit>(buffer: *mut T, size: usize, text: &[T]) -> i32 {
    if text.len() < size {
        return put(buffer, size, text);
    }
    if !buffer.is_null() && size != 0 {
        guest::write(buffer, T::default());
    }
    -1
}

fn print_counted<T: Unit>(buffer: *mut T, size: usize, count: usize, text: &[T]) -> i32 {
    let limit = count.min(size.saturating_sub(1));
    if text.len() <= limit || (count != TRUNCATE && count >= size) {
        return print_safe(buffer, size, text);
    }
    put(buffer, size, &text[..limit]);
    -1
}

fn convert<T: Unit, U: Unit>(
    dest: *mut T,
    src: *const U,
    count: usize,
    f: impl Fn(U) -> T,
) -> usize {
    let len = length(src);
    if dest.is_null() {
        return len;
    }
    for index in 0..count.min(len + 1) {
        guest::write(dest.wrapping_add(index), f(at(src, index)));
    }
    len.min(count)
}

/// A number at the beginning of a string.
struct Parsed {
    /// Saturated far beyond the 32 bits that matter.
    value: i64,
    /// Where it ends; 0 if there is none.
    end: usize,
}

fn number<T: Unit + Into<u32>>(string: *const T, base: i32) -> Parsed {
    let character = |index| char::from_u32(at(string, index).into()).unwrap_or('\0');
    let mut index = 0;
    while matches!(character(index), ' ' | '\t'..='\r') {
        index += 1;
    }
    let negative = character(index) == '-';
    if matches!(character(index), '-' | '+') {
        index += 1;
    }
    let hexadecimal = character(index) == '0'
        && matches!(character(index + 1), 'x' | 'X')
        && character(index + 2).is_ascii_hexdigit();
    let base = match base {
        0 | 16 if hexadecimal => {
            index += 2;
            16
        }
        0 if character(index) == '0' => 8,
        0 => 10,
        base => base.unsigned_abs().clamp(2, 36),
    };
    let first = index;
    let mut value = 0i64;
    while let Some(digit) = character(index).to_digit(base) {
        value = value
            .saturating_mul(i64::from(base))
            .saturating_add(i64::from(digit));
        index += 1;
    }
    let end = if index == first { 0 } else { index };
    Parsed {
        value: if negative { -value } else { value },
        end,
    }
}

/// The low half, as the C library's `atoi` gives it.
fn low(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

/// `strtoul`: a negative number wraps, a number too large is the largest.
fn unsigned(parsed: &Parsed) -> u32 {
    match u32::try_from(parsed.value.unsigned_abs()) {
        Ok(value) if parsed.value < 0 => value.wrapping_neg(),
        Ok(value) => value,
        Err(_) => u32::MAX,
    }
}

fn digits(mut value: u64, base: i32) -> String {
    let base = u64::from(base.unsigned_abs().clamp(2, 36));
    let mut text = Vec::new();
    loop {
        let digit = u32::try_from(value % base).unwrap_or(0);
        text.push(char::from_digit(digit, 36).unwrap_or('0'));
        value /= base;
        if value == 0 {
            return text.into_iter().rev().collect();
        }
    }
}

/// The caller's order of two elements: negative, zero or positive.
fn order(routine: u64, a: *const u8, b: *const u8) -> i32 {
    let result = current().call(routine, [a as u64, b as u64, 0, 0]);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an int is the low half of rax"
    )]
    let order = (result as u32).cast_signed();
    order
}

/// Heap sort: in place, as the elements are compared where they are.
fn sort(base: *mut u8, count: usize, width: usize, compare: u64) {
    for root in (0..count / 2).rev() {
        sift(base, root, count, width, compare);
    }
    for end in (1..count).rev() {
        swap(base, base.wrapping_add(end * width), width);
        sift(base, 0, end, width, compare);
    }
}

fn sift(base: *mut u8, mut root: usize, end: usize, width: usize, compare: u64) {
    let element = |index: usize| base.wrapping_add(index * width);
    while 2 * root + 1 < end {
        let left = 2 * root + 1;
        let right = left + 1;
        let child = if right < end && order(compare, element(left), element(right)) < 0 {
            right
        } else {
            left
        };
        if order(compare, element(root), element(child)) >= 0 {
            return;
        }
        swap(element(root), element(child), width);
        root = child;
    }
}

fn swap(a: *mut u8, b: *mut u8, width: usize) {
    let (first, second) = (guest::bytes(a, width), guest::bytes(b, width));
    guest::fill(a, &second);
    guest::fill(b, &first);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_digits_do() {
        for (text, base, value, end) in [
            ("  -12x\0", 10, -12, 5),
            ("0x1Fg\0", 0, 31, 4),
            ("0x\0", 0, 0, 1),
            ("017\0", 0, 15, 3),
            ("zz\0", 36, 35 * 36 + 35, 2),
            ("+\0", 10, 0, 0),
        ] {
            let parsed = number(text.as_ptr(), base);
            assert_eq!((parsed.value, parsed.end), (value, end), "{text}");
        }
        assert_eq!(unsigned(&number(c"-1".as_ptr().cast::<u8>(), 10)), u32::MAX);
        assert_eq!(
            unsigned(&number(c"9999999999".as_ptr().cast::<u8>(), 10)),
            u32::MAX
        );
        assert_eq!(digits(0xFF, 16), "ff");
        assert_eq!(digits(0, 2), "0");
    }

    #[test]
    fn what_does_not_fit_leaves_the_destination_empty() {
        let mut buffer = *b"12345678";
        let to = buffer.as_mut_ptr();
        assert_eq!(copy_safe(to, 4, 0, c"abcd".as_ptr().cast(), 99), ERANGE);
        assert_eq!(buffer, *b"\x002345678");
        let to = buffer.as_mut_ptr();
        assert_eq!(
            copy_safe(to, 4, 0, c"abcd".as_ptr().cast(), TRUNCATE),
            STRUNCATE
        );
        assert_eq!(buffer, *b"abc\x005678");
        let to = buffer.as_mut_ptr();
        assert_eq!(append_safe(to, 8, c"xyz".as_ptr().cast(), 2), 0);
        assert_eq!(buffer, *b"abcxy\x0078");
        assert_eq!(
            print_counted(buffer.as_mut_ptr(), 3, TRUNCATE, b"hello"),
            -1
        );
        assert_eq!(&buffer[..3], b"he\0");
    }
}
