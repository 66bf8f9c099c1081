//! Run-time library: strings, their conversions, and small arithmetic.

use crate::base::{ANSI_STRING, BOOLEAN, GUID, LARGE_INTEGER, UNICODE_STRING};
use crate::status::NTSTATUS;

image! {
    /// Makes a counted string of a terminated one; refuses one that is too long.
    fn RtlInitUnicodeStringEx(DestinationString: *mut UNICODE_STRING, SourceString: *const u16) -> NTSTATUS where irql <= DISPATCH_LEVEL;
    /// Whether one string begins another.
    fn RtlPrefixUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: BOOLEAN) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Compares two arrays of units.
    fn RtlCompareUnicodeStrings(String1: *const u16, String1Length: usize, String2: *const u16, String2Length: usize, CaseInSensitive: BOOLEAN) -> i32 where irql <= HIGH_LEVEL;
    /// Makes a string upper case, into a new buffer if asked for.
    fn RtlUpcaseUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Makes a string lower case, into a new buffer if asked for.
    fn RtlDowncaseUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS where irql < DISPATCH_LEVEL, FAILS, ACQUIRES;
    /// Upper case of a unit.
    fn RtlUpcaseUnicodeChar(SourceCharacter: u16) -> u16 where irql <= APC_LEVEL;
    /// Lower case of a unit.
    fn RtlDowncaseUnicodeChar(SourceCharacter: u16) -> u16 where irql == PASSIVE_LEVEL;
    /// Copies a string into a new buffer; flag 1 = terminated, 2 = also when empty.
    fn RtlDuplicateUnicodeString(Flags: u32, StringIn: *const UNICODE_STRING, StringOut: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Whether two strings are equal.
    fn RtlEqualString(String1: *const ANSI_STRING, String2: *const ANSI_STRING, CaseInSensitive: BOOLEAN) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Compares two strings.
    fn RtlCompareString(String1: *const ANSI_STRING, String2: *const ANSI_STRING, CaseInSensitive: BOOLEAN) -> i32 where irql == PASSIVE_LEVEL;
    /// Copies as much as fits.
    fn RtlCopyString(DestinationString: *mut ANSI_STRING, SourceString: *const ANSI_STRING) where irql <= HIGH_LEVEL;
    /// Copies as much as fits, in upper case.
    fn RtlUpperString(DestinationString: *mut ANSI_STRING, SourceString: *const ANSI_STRING) where irql <= APC_LEVEL;
    /// Appends a string.
    fn RtlAppendStringToString(Destination: *mut ANSI_STRING, Source: *const ANSI_STRING) -> NTSTATUS where irql <= APC_LEVEL;
    /// Bytes that a string takes in UTF-16, terminator included.
    fn RtlxAnsiStringToUnicodeSize(AnsiString: *const ANSI_STRING) -> u32 where irql == PASSIVE_LEVEL;
    /// Bytes that a string takes in the ANSI code page, terminator included.
    fn RtlxUnicodeStringToAnsiSize(UnicodeString: *const UNICODE_STRING) -> u32 where irql == PASSIVE_LEVEL;
    /// Converts from UTF-16, as much as fits.
    fn RtlUnicodeToMultiByteN(MultiByteString: *mut u8, MaxBytesInMultiByteString: u32, BytesInMultiByteString: *mut u32, UnicodeString: *const u16, BytesInUnicodeString: u32) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Converts from UTF-16 to upper case, as much as fits.
    fn RtlUpcaseUnicodeToMultiByteN(MultiByteString: *mut u8, MaxBytesInMultiByteString: u32, BytesInMultiByteString: *mut u32, UnicodeString: *const u16, BytesInUnicodeString: u32) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Converts to UTF-16, as much as fits.
    fn RtlMultiByteToUnicodeN(UnicodeString: *mut u16, MaxBytesInUnicodeString: u32, BytesInUnicodeString: *mut u32, MultiByteString: *const u8, BytesInMultiByteString: u32) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Converts one character, and moves the pointer behind it.
    fn RtlAnsiCharToUnicodeChar(SourceCharacter: *mut *mut u8) -> u16 where irql <= HIGH_LEVEL;
    /// Converts UTF-16 to UTF-8; a null destination asks for the length.
    fn RtlUnicodeToUTF8N(UTF8StringDestination: *mut u8, UTF8StringMaxByteCount: u32, UTF8StringActualByteCount: *mut u32, UnicodeStringSource: *const u16, UnicodeStringByteCount: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Converts UTF-8 to UTF-16; a null destination asks for the length.
    fn RtlUTF8ToUnicodeN(UnicodeStringDestination: *mut u16, UnicodeStringMaxByteCount: u32, UnicodeStringActualByteCount: *mut u32, UTF8StringSource: *const u8, UTF8StringByteCount: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Parses a GUID with braces.
    fn RtlGUIDFromString(GuidString: *const UNICODE_STRING, Guid: *mut GUID) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Formats an integer.
    fn RtlInt64ToUnicodeString(Value: u64, Base: u32, String: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Parses an integer; base 0 = by its prefix.
    fn RtlCharToInteger(String: *const u8, Base: u32, Value: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Hashes a string; the only algorithm is `HASH_STRING_ALGORITHM_X65599` (1; 0 = the default).
    fn RtlHashUnicodeString(String: *const UNICODE_STRING, CaseInSensitive: BOOLEAN, HashAlgorithm: u32, HashValue: *mut u32) -> NTSTATUS where irql <= APC_LEVEL;
    /// Whether a name matches a pattern with `*` and `?` (and DOS's `<`, `>` and `"`). An insensitive pattern is in upper case.
    fn FsRtlIsNameInExpression(Expression: *const UNICODE_STRING, Name: *const UNICODE_STRING, IgnoreCase: BOOLEAN, UpcaseTable: *const u16) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Seconds since 1970 of a time; false when they are not 32 bits.
    fn RtlTimeToSecondsSince1970(Time: *const LARGE_INTEGER, ElapsedSeconds: *mut u32) -> BOOLEAN where irql < DISPATCH_LEVEL;
    /// Seconds since 1980 of a time; false when they are not 32 bits.
    fn RtlTimeToSecondsSince1980(Time: *const LARGE_INTEGER, ElapsedSeconds: *mut u32) -> BOOLEAN where irql < DISPATCH_LEVEL;
    /// The time that many seconds after 1970.
    fn RtlSecondsSince1970ToTime(ElapsedSeconds: u32, Time: *mut LARGE_INTEGER) where irql < DISPATCH_LEVEL;
    /// The time that many seconds after 1980.
    fn RtlSecondsSince1980ToTime(ElapsedSeconds: u32, Time: *mut LARGE_INTEGER) where irql < DISPATCH_LEVEL;
    /// Number of the lowest bit that is set; -1 if none is.
    fn RtlFindLeastSignificantBit(Set: u64) -> i8 where irql <= HIGH_LEVEL;
    /// Number of the highest bit that is set; -1 if none is.
    fn RtlFindMostSignificantBit(Set: u64) -> i8 where irql <= HIGH_LEVEL;
    /// The next number of a pseudo-random sequence, which the seed keeps; from 0 to `MAXLONG` - 1.
    fn RtlRandomEx(Seed: *mut u32) -> u32 where irql < DISPATCH_LEVEL;
    /// The next number of a pseudo-random sequence, which the seed keeps; from 0 to `MAXLONG` - 1.
    fn RtlRandom(Seed: *mut u32) -> u32 where irql < DISPATCH_LEVEL;
    /// Whether the kernel has the interfaces of a version (`NTDDI_…`).
    fn RtlIsNtDdiVersionAvailable(Version: u32) -> BOOLEAN where irql == PASSIVE_LEVEL;
}
