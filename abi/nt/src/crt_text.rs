//! The C runtime that the kernel image exports: characters, numbers, and the
//! routines that know the size of their destination.
//!
//! The latter are the "secure" functions of the C library's Annex K as
//! Microsoft has them: what is not allowed makes the destination empty and is
//! an error (`EINVAL` 22, `ERANGE` 34); there is no handler to call.

image! {
    /// Compares at most `count` bytes without regard to case (ASCII).
    fn _strnicmp(string1: *const u8, string2: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Appends a string.
    fn strcat(dest: *mut u8, src: *const u8) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Appends at most `count` bytes, and a terminator.
    fn strncat(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Appends at most `count` units, and a terminator.
    fn wcsncat(dest: *mut u16, src: *const u16, count: usize) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Makes a string upper case (ASCII).
    fn _strupr(str: *mut u8) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Makes a string lower case (ASCII).
    fn _strlwr(str: *mut u8) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Makes a string upper case (ASCII).
    fn _wcsupr(str: *mut u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Makes a string lower case (ASCII).
    fn _wcslwr(str: *mut u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Upper case of a character (ASCII).
    fn toupper(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Lower case of a character (ASCII).
    fn tolower(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Upper case of a unit (ASCII).
    fn towupper(c: u16) -> u16 where irql <= HIGH_LEVEL;
    /// Lower case of a unit (ASCII).
    fn towlower(c: u16) -> u16 where irql <= HIGH_LEVEL;
    /// Whether a character is white space (ASCII).
    fn isspace(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Whether a character is a decimal digit.
    fn isdigit(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Whether a character is a hexadecimal digit.
    fn isxdigit(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Whether a character is an upper-case letter (ASCII).
    fn isupper(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Whether a character is a lower-case letter (ASCII).
    fn islower(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Whether a character can be printed, a blank included (ASCII).
    fn isprint(c: i32) -> i32 where irql <= HIGH_LEVEL;
    /// First occurrence of a byte in memory; null if none.
    fn memchr(buffer: *const u8, c: i32, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Bytes of a string, at most `count`.
    fn strnlen(str: *const u8, count: usize) -> usize where irql <= HIGH_LEVEL;
    /// Units of a string, at most `count`.
    fn wcsnlen(str: *const u16, count: usize) -> usize where irql <= HIGH_LEVEL;
    /// Number of leading bytes of a string that are in a set.
    fn strspn(str: *const u8, set: *const u8) -> usize where irql <= HIGH_LEVEL;
    /// Value of the decimal number a string begins with.
    fn atoi(str: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Value of the decimal number a string begins with.
    fn atol(str: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Value of the decimal number a string begins with.
    fn _wtoi(str: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Value of the decimal number a string begins with.
    fn _wtol(str: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Value of the number a string begins with; base 0 = by its prefix. Too large is `ULONG_MAX`.
    fn strtoul(str: *const u8, end: *mut *mut u8, base: i32) -> u32 where irql <= HIGH_LEVEL;
    /// Value of the number a string begins with; base 0 = by its prefix. Too large is the nearest limit.
    fn strtol(str: *const u8, end: *mut *mut u8, base: i32) -> i32 where irql <= HIGH_LEVEL;
    /// Value of the number a string begins with; base 0 = by its prefix. Too large is `ULONG_MAX`.
    fn wcstoul(str: *const u16, end: *mut *mut u16, base: i32) -> u32 where irql <= HIGH_LEVEL;
    /// Writes a number in a base from 2 to 36; the buffer is long enough.
    fn _itoa(value: i32, buffer: *mut u8, base: i32) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Writes a number in a base from 2 to 36; the buffer is long enough.
    fn _itow(value: i32, buffer: *mut u16, base: i32) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Converts to UTF-16, at most `count` units; the length without terminator. Null = only the length.
    fn mbstowcs(dest: *mut u16, src: *const u8, count: usize) -> usize where irql <= HIGH_LEVEL;
    /// Converts from UTF-16, at most `count` bytes; the length without terminator. Null = only the length.
    fn wcstombs(dest: *mut u8, src: *const u16, count: usize) -> usize where irql <= HIGH_LEVEL;
    /// Copies a string to a destination of `size` bytes.
    fn strcpy_s(dest: *mut u8, size: usize, src: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Copies at most `count` bytes of a string to a destination of `size` bytes.
    fn strncpy_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Appends a string in a destination of `size` bytes.
    fn strcat_s(dest: *mut u8, size: usize, src: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Copies a string to a destination of `size` units.
    fn wcscpy_s(dest: *mut u16, size: usize, src: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Copies at most `count` units of a string to a destination of `size` units.
    fn wcsncpy_s(dest: *mut u16, size: usize, src: *const u16, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Appends a string in a destination of `size` units.
    fn wcscat_s(dest: *mut u16, size: usize, src: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Appends at most `count` units in a destination of `size` units.
    fn wcsncat_s(dest: *mut u16, size: usize, src: *const u16, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Copies memory to a destination of `size` bytes.
    fn memcpy_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Copies memory to a destination of `size` bytes, which may overlap it.
    fn memmove_s(dest: *mut u8, size: usize, src: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Formats into `size` bytes; -1 if it does not fit.
    fn vsprintf_s(buffer: *mut u8, size: usize, format: *const u8, args: *const usize) -> i32 where irql <= HIGH_LEVEL;
    /// Formats into `size` units; -1 if it does not fit.
    fn vswprintf_s(buffer: *mut u16, size: usize, format: *const u16, args: *const usize) -> i32 where irql <= HIGH_LEVEL;
    /// The next number of a pseudo-random sequence, from 0 to 32767.
    fn rand() -> i32 where irql <= HIGH_LEVEL;
    /// Starts the sequence of `rand`.
    fn srand(seed: u32) where irql <= HIGH_LEVEL;
    /// Sorts in place, with the caller's order.
    fn qsort(base: *mut u8, count: usize, width: usize, compare: usize) where irql <= HIGH_LEVEL;
    /// Finds an element equal to `key` in a sorted array; null if none.
    fn bsearch(key: *const u8, base: *const u8, count: usize, width: usize, compare: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Touches the pages of a frame of rax bytes, in order, and changes no register: code of its own, no function in C.
    fn __chkstk() where irql <= HIGH_LEVEL;
    /// What a class's table has for a function that it does not define: calling it ends the system.
    fn _purecall() -> i32 where irql <= HIGH_LEVEL;
    variadic {
        /// Formats into `size` bytes; -1 if it does not fit.
        fn sprintf_s(buffer: *mut u8, size: usize, format: *const u8, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats into `size` units; -1 if it does not fit.
        fn swprintf_s(buffer: *mut u16, size: usize, format: *const u16, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats at most `count` bytes into `size`; `count` -1 = as much as fits.
        fn _snprintf_s(buffer: *mut u8, size: usize, count: usize, format: *const u8, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats at most `count` units into `size`; `count` -1 = as much as fits.
        fn _snwprintf_s(buffer: *mut u16, size: usize, count: usize, format: *const u16, ...) -> i32 where irql <= HIGH_LEVEL;
    }
}
