//! The C runtime that the kernel image exports.
//!
//! Pure functions on the caller's memory: legal wherever that memory is.
//! `wchar_t` is 16 bits; `va_list` is the address of the argument slots.

image! {
    /// Copies memory that does not overlap.
    fn memcpy(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Copies memory.
    fn memmove(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Sets memory to a byte.
    fn memset(dest: *mut u8, c: i32, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Compares memory.
    fn memcmp(buf1: *const u8, buf2: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Bytes of a string.
    fn strlen(str: *const u8) -> usize where irql <= HIGH_LEVEL;
    /// Compares strings.
    fn strcmp(string1: *const u8, string2: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Compares at most `count` bytes of strings.
    fn strncmp(string1: *const u8, string2: *const u8, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Compares strings without regard to case (ASCII).
    fn _stricmp(string1: *const u8, string2: *const u8) -> i32 where irql <= HIGH_LEVEL;
    /// Copies a string, terminator included.
    fn strcpy(dest: *mut u8, src: *const u8) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Copies at most `count` bytes; zeros to the end if the string is shorter, no terminator if longer.
    fn strncpy(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 where irql <= HIGH_LEVEL;
    /// First occurrence of a string in another; null if none.
    fn strstr(str: *const u8, search: *const u8) -> *mut u8 where irql <= HIGH_LEVEL;
    /// First occurrence of a byte, the terminator included; null if none.
    fn strchr(str: *const u8, c: i32) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Last occurrence of a byte, the terminator included; null if none.
    fn strrchr(str: *const u8, c: i32) -> *mut u8 where irql <= HIGH_LEVEL;
    /// Units of a string.
    fn wcslen(str: *const u16) -> usize where irql <= HIGH_LEVEL;
    /// Compares strings.
    fn wcscmp(string1: *const u16, string2: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Compares at most `count` units of strings.
    fn wcsncmp(string1: *const u16, string2: *const u16, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Compares strings without regard to case (ASCII).
    fn _wcsicmp(string1: *const u16, string2: *const u16) -> i32 where irql <= HIGH_LEVEL;
    /// Compares at most `count` units without regard to case (ASCII).
    fn _wcsnicmp(string1: *const u16, string2: *const u16, count: usize) -> i32 where irql <= HIGH_LEVEL;
    /// Copies a string, terminator included.
    fn wcscpy(dest: *mut u16, src: *const u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Copies at most `count` units, as `strncpy`.
    fn wcsncpy(dest: *mut u16, src: *const u16, count: usize) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Appends a string.
    fn wcscat(dest: *mut u16, src: *const u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// First occurrence of a unit, the terminator included; null if none.
    fn wcschr(str: *const u16, c: u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Last occurrence of a unit, the terminator included; null if none.
    fn wcsrchr(str: *const u16, c: u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// First occurrence of a string in another; null if none.
    fn wcsstr(str: *const u16, search: *const u16) -> *mut u16 where irql <= HIGH_LEVEL;
    /// Formats; returns the length without terminator.
    fn vsprintf(buffer: *mut u8, format: *const u8, args: *const usize) -> i32 where irql <= HIGH_LEVEL;
    /// Formats at most `count` bytes; -1 if there is more, and then no terminator.
    fn _vsnprintf(buffer: *mut u8, count: usize, format: *const u8, args: *const usize) -> i32 where irql <= HIGH_LEVEL;
    /// Formats at most `count` units; -1 if there is more, and then no terminator.
    fn _vsnwprintf(buffer: *mut u16, count: usize, format: *const u16, args: *const usize) -> i32 where irql <= HIGH_LEVEL;
    variadic {
        /// Formats; returns the length without terminator.
        fn sprintf(buffer: *mut u8, format: *const u8, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats at most `count` bytes; -1 if there is more, and then no terminator.
        fn _snprintf(buffer: *mut u8, count: usize, format: *const u8, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats; returns the length without terminator.
        fn swprintf(buffer: *mut u16, format: *const u16, ...) -> i32 where irql <= HIGH_LEVEL;
        /// Formats at most `count` units; -1 if there is more, and then no terminator.
        fn _snwprintf(buffer: *mut u16, count: usize, format: *const u16, ...) -> i32 where irql <= HIGH_LEVEL;
    }
}
