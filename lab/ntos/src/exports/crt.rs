//! The C runtime: memory, strings, formatting.
#![expect(unsafe_code, reason = "exports have foreign signatures")]

use std::cmp::Ordering;
use std::ptr;

use super::{exports, touch};
use crate::format::{format_narrow, format_wide};
use crate::guest;
use crate::machine::current;

exports! {
    crt;

    fn memcpy(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
        current().check_overlap(dest as u64, src as u64, count as u64);
        touch(move || { guest::copy(src, dest, count); dest })
    }
    fn memmove(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 { touch(move || { guest::copy(src, dest, count); dest }) }
    fn memset(dest: *mut u8, c: i32, count: usize) -> *mut u8 { touch(move || { guest::set_bytes(dest, c.to_le_bytes()[0], count); dest }) }
    fn memcmp(buf1: *const u8, buf2: *const u8, count: usize) -> i32 {
        touch(move || {
            let differing = (0..count).map(|index| (at(buf1, index), at(buf2, index))).find(|(a, b)| a != b);
            differing.map_or(0, |(a, b)| sign(a.cmp(&b)))
        })
    }
    fn strlen(str: *const u8) -> usize { touch(move || length(str)) }
    fn strcmp(string1: *const u8, string2: *const u8) -> i32 { touch(move || compare(string1, string2, usize::MAX, |c| c)) }
    fn strncmp(string1: *const u8, string2: *const u8, count: usize) -> i32 { touch(move || compare(string1, string2, count, |c| c)) }
    fn _stricmp(string1: *const u8, string2: *const u8) -> i32 { touch(move || compare(string1, string2, usize::MAX, |c| c.to_ascii_lowercase())) }
    fn strcpy(dest: *mut u8, src: *const u8) -> *mut u8 { touch(move || { guest::copy(src, dest, length(src) + 1); dest }) }
    fn strncpy(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 { touch(move || copy_padded(dest, src, count)) }
    fn strstr(str: *const u8, search: *const u8) -> *mut u8 { touch(move || find(str, search)) }
    fn strchr(str: *const u8, c: i32) -> *mut u8 { touch(move || first(str, c.to_le_bytes()[0])) }
    fn strrchr(str: *const u8, c: i32) -> *mut u8 { touch(move || last(str, c.to_le_bytes()[0])) }
    fn wcslen(str: *const u16) -> usize { touch(move || length(str)) }
    fn wcscmp(string1: *const u16, string2: *const u16) -> i32 { touch(move || compare(string1, string2, usize::MAX, |c| c)) }
    fn wcsncmp(string1: *const u16, string2: *const u16, count: usize) -> i32 { touch(move || compare(string1, string2, count, |c| c)) }
    fn _wcsicmp(string1: *const u16, string2: *const u16) -> i32 { touch(move || compare(string1, string2, usize::MAX, lower)) }
    fn _wcsnicmp(string1: *const u16, string2: *const u16, count: usize) -> i32 { touch(move || compare(string1, string2, count, lower)) }
    fn wcscpy(dest: *mut u16, src: *const u16) -> *mut u16 { touch(move || { guest::copy(src, dest, length(src) + 1); dest }) }
    fn wcsncpy(dest: *mut u16, src: *const u16, count: usize) -> *mut u16 { touch(move || copy_padded(dest, src, count)) }
    fn wcscat(dest: *mut u16, src: *const u16) -> *mut u16 {
        touch(move || {
            guest::copy(src, dest.wrapping_add(length(dest)), length(src) + 1);
            dest
        })
    }
    fn wcschr(str: *const u16, c: u16) -> *mut u16 { touch(move || first(str, c)) }
    fn wcsrchr(str: *const u16, c: u16) -> *mut u16 { touch(move || last(str, c)) }
    fn wcsstr(str: *const u16, search: *const u16) -> *mut u16 { touch(move || find(str, search)) }
    fn vsprintf(buffer: *mut u8, format: *const u8, args: *const usize) -> i32 { put(buffer, usize::MAX, &format_narrow(format, args)) }
    fn _vsnprintf(buffer: *mut u8, count: usize, format: *const u8, args: *const usize) -> i32 { put(buffer, count, &format_narrow(format, args)) }
    fn _vsnwprintf(buffer: *mut u16, count: usize, format: *const u16, args: *const usize) -> i32 { put(buffer, count, &format_wide(format, args)) }
    fn sprintf(slots: *const usize) -> i32 {
        put(slot(slots, 0) as *mut u8, usize::MAX, &format_narrow(slot(slots, 1) as *const u8, slots.wrapping_add(2)))
    }
    fn _snprintf(slots: *const usize) -> i32 {
        put(slot(slots, 0) as *mut u8, slot(slots, 1), &format_narrow(slot(slots, 2) as *const u8, slots.wrapping_add(3)))
    }
    fn swprintf(slots: *const usize) -> i32 {
        put(slot(slots, 0) as *mut u16, usize::MAX, &format_wide(slot(slots, 1) as *const u16, slots.wrapping_add(2)))
    }
    fn _snwprintf(slots: *const usize) -> i32 {
        put(slot(slots, 0) as *mut u16, slot(slots, 1), &format_wide(slot(slots, 2) as *const u16, slots.wrapping_add(3)))
    }
}

/// A unit of a string.
pub(super) trait Unit: Copy + Default + Ord {}
impl Unit for u8 {}
impl Unit for u16 {}

pub(super) fn slot(slots: *const usize, index: usize) -> usize {
    guest::read(slots.wrapping_add(index))
}

pub(super) fn at<T: Unit>(string: *const T, index: usize) -> T {
    guest::read(string.wrapping_add(index))
}

pub(super) fn length<T: Unit>(string: *const T) -> usize {
    let mut index = 0;
    while at(string, index) != T::default() {
        index += 1;
    }
    index
}

fn sign(order: Ordering) -> i32 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

fn lower(unit: u16) -> u16 {
    u8::try_from(unit).map_or(unit, |byte| u16::from(byte.to_ascii_lowercase()))
}

pub(super) fn compare<T: Unit>(
    a: *const T,
    b: *const T,
    count: usize,
    fold: impl Fn(T) -> T,
) -> i32 {
    for index in 0..count {
        let (a, b) = (fold(at(a, index)), fold(at(b, index)));
        if a != b || a == T::default() {
            return sign(a.cmp(&b));
        }
    }
    0
}

/// `strncpy`: zeros to the end if the string is shorter, no terminator if longer.
fn copy_padded<T: Unit>(dest: *mut T, src: *const T, count: usize) -> *mut T {
    let mut ended = false;
    for index in 0..count {
        let unit = if ended { T::default() } else { at(src, index) };
        ended |= unit == T::default();
        guest::write(dest.wrapping_add(index), unit);
    }
    dest
}

fn first<T: Unit>(string: *const T, unit: T) -> *mut T {
    let index = (0..=length(string)).find(|index| at(string, *index) == unit);
    index.map_or(ptr::null_mut(), |index| {
        string.wrapping_add(index).cast_mut()
    })
}

fn last<T: Unit>(string: *const T, unit: T) -> *mut T {
    let index = (0..=length(string))
        .rev()
        .find(|index| at(string, *index) == unit);
    index.map_or(ptr::null_mut(), |index| {
        string.wrapping_add(index).cast_mut()
    })
}

fn find<T: Unit>(string: *const T, search: *const T) -> *mut T {
    let (len, wanted) = (length(string), length(search));
    let matches =
        |start: usize| (0..wanted).all(|index| at(string, start + index) == at(search, index));
    let start =
        (0..=len.saturating_sub(wanted)).find(|start| start + wanted <= len && matches(*start));
    start.map_or(ptr::null_mut(), |start| {
        string.wrapping_add(start).cast_mut()
    })
}

/// Writes a formatted text; the result of the `printf` family.
pub(super) fn put<T: Unit>(buffer: *mut T, count: usize, text: &[T]) -> i32 {
    for (index, unit) in text.iter().take(count).enumerate() {
        guest::write(buffer.wrapping_add(index), *unit);
    }
    if text.len() < count {
        guest::write(buffer.wrapping_add(text.len()), T::default());
    }
    match i32::try_from(text.len()) {
        Ok(len) if text.len() <= count => len,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c(text: &[u8]) -> *const u8 {
        assert!(text.ends_with(&[0]));
        text.as_ptr()
    }

    #[test]
    fn strings_are_compared_up_to_the_end_or_the_count() {
        assert_eq!(compare(c(b"abc\0"), c(b"abd\0"), usize::MAX, |c| c), -1);
        assert_eq!(compare(c(b"abc\0"), c(b"abd\0"), 2, |c| c), 0);
        assert_eq!(compare(c(b"ab\0"), c(b"a\0"), usize::MAX, |c| c), 1);
        assert_eq!(
            compare(c(b"a\0x\0"), c(b"a\0y\0"), 9, |c| c),
            0,
            "nothing behind the end counts"
        );
    }

    #[test]
    fn a_substring_is_found_where_it_begins() {
        let text = c(b"abcabd\0");
        assert_eq!(find(text, c(b"abd\0")).cast_const(), text.wrapping_add(3));
        assert_eq!(find(text, c(b"\0")).cast_const(), text);
        assert!(find(text, c(b"abcabde\0")).is_null());
        assert_eq!(first(text, b'b').cast_const(), text.wrapping_add(1));
        assert_eq!(last(text, b'b').cast_const(), text.wrapping_add(4));
        assert_eq!(first(text, 0).cast_const(), text.wrapping_add(6));
        assert!(first(text, b'x').is_null());
    }

    #[test]
    fn a_counted_copy_pads_or_cuts() {
        let mut buffer = [9u8; 5];
        copy_padded(buffer.as_mut_ptr(), c(b"ab\0"), 4);
        assert_eq!(buffer, [b'a', b'b', 0, 0, 9]);
        copy_padded(buffer.as_mut_ptr(), c(b"xyz\0"), 2);
        assert_eq!(buffer, [b'x', b'y', 0, 0, 9]);
    }

    #[test]
    fn a_bounded_print_is_minus_one_when_it_does_not_fit() {
        let mut buffer = [9u8; 4];
        assert_eq!(put(buffer.as_mut_ptr(), 4, b"abc"), 3);
        assert_eq!(buffer, *b"abc\0");
        let mut buffer = [9u8; 4];
        assert_eq!(put(buffer.as_mut_ptr(), 3, b"abc"), 3);
        assert_eq!(buffer, [b'a', b'b', b'c', 9], "no room for a terminator");
        assert_eq!(put(buffer.as_mut_ptr(), 2, b"xyz"), -1);
        assert_eq!(buffer, [b'x', b'y', b'c', 9]);
    }
}
