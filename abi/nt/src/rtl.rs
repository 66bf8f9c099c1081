//! Run-time library.

use crate::base::{ANSI_STRING, BOOLEAN, GUID, LARGE_INTEGER, UNICODE_STRING};
use crate::status::NTSTATUS;

#[repr(C)]
pub struct RTL_OSVERSIONINFOW {
    pub dwOSVersionInfoSize: u32,
    pub dwMajorVersion: u32,
    pub dwMinorVersion: u32,
    pub dwBuildNumber: u32,
    pub dwPlatformId: u32,
    pub szCSDVersion: [u16; 128],
}
layout!(RTL_OSVERSIONINFOW, 0x114, dwBuildNumber @ 0xC, szCSDVersion @ 0x14);

/// Broken-down time; a year such as 2026, months and days from 1, Sunday = 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TIME_FIELDS {
    pub Year: i16,
    pub Month: i16,
    pub Day: i16,
    pub Hour: i16,
    pub Minute: i16,
    pub Second: i16,
    pub Milliseconds: i16,
    pub Weekday: i16,
}
layout!(TIME_FIELDS, 0x10, Milliseconds @ 0xC, Weekday @ 0xE);

image! {
    /// Makes a counted string of a terminated one; the buffer is shared.
    fn RtlInitUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const u16) where irql <= DISPATCH_LEVEL;
    /// Makes a counted string of a terminated one; the buffer is shared.
    fn RtlInitAnsiString(DestinationString: *mut ANSI_STRING, SourceString: *const u8) where irql <= HIGH_LEVEL;
    /// Makes a counted string of a terminated one; the buffer is shared.
    fn RtlInitString(DestinationString: *mut ANSI_STRING, SourceString: *const u8) where irql <= HIGH_LEVEL;
    /// Copies as much as fits.
    fn RtlCopyUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const UNICODE_STRING) where irql <= HIGH_LEVEL;
    /// Appends a terminated string.
    fn RtlAppendUnicodeToString(Destination: *mut UNICODE_STRING, Source: *const u16) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Appends a counted string.
    fn RtlAppendUnicodeStringToString(Destination: *mut UNICODE_STRING, Source: *const UNICODE_STRING) -> NTSTATUS where irql <= HIGH_LEVEL;
    /// Compares two strings.
    fn RtlCompareUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: BOOLEAN) -> i32 where irql == PASSIVE_LEVEL;
    /// Whether two strings are equal.
    fn RtlEqualUnicodeString(String1: *const UNICODE_STRING, String2: *const UNICODE_STRING, CaseInSensitive: BOOLEAN) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Frees a string that a Rtl routine allocated.
    fn RtlFreeUnicodeString(UnicodeString: *mut UNICODE_STRING) where irql <= APC_LEVEL, RELEASES;
    /// Frees a string that a Rtl routine allocated.
    fn RtlFreeAnsiString(AnsiString: *mut ANSI_STRING) where irql <= APC_LEVEL, RELEASES;
    /// Converts to UTF-16.
    fn RtlAnsiStringToUnicodeString(DestinationString: *mut UNICODE_STRING, SourceString: *const ANSI_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Converts from UTF-16.
    fn RtlUnicodeStringToAnsiString(DestinationString: *mut ANSI_STRING, SourceString: *const UNICODE_STRING, AllocateDestinationString: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Formats an integer.
    fn RtlIntegerToUnicodeString(Value: u32, Base: u32, String: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Number of leading bytes that are equal.
    fn RtlCompareMemory(Source1: *const u8, Source2: *const u8, Length: usize) -> usize where irql <= HIGH_LEVEL;
    /// The version of Windows.
    fn RtlGetVersion(VersionInformation: *mut RTL_OSVERSIONINFOW) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Parses an integer; base 0 = by its prefix.
    fn RtlUnicodeStringToInteger(String: *const UNICODE_STRING, Base: u32, Value: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Breaks a time (100 ns since 1601) down.
    fn RtlTimeToTimeFields(Time: *const LARGE_INTEGER, TimeFields: *mut TIME_FIELDS) where irql <= HIGH_LEVEL;
    /// Composes a time; false when a field is out of range.
    fn RtlTimeFieldsToTime(TimeFields: *const TIME_FIELDS, Time: *mut LARGE_INTEGER) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Copies memory that does not overlap.
    fn RtlCopyMemory(Destination: *mut u8, Source: *const u8, Length: usize) where irql <= HIGH_LEVEL;
    /// Copies memory.
    fn RtlMoveMemory(Destination: *mut u8, Source: *const u8, Length: usize) where irql <= HIGH_LEVEL;
    /// Sets memory to a byte.
    fn RtlFillMemory(Destination: *mut u8, Length: usize, Fill: u8) where irql <= HIGH_LEVEL;
    /// Sets memory to zero.
    fn RtlZeroMemory(Destination: *mut u8, Length: usize) where irql <= HIGH_LEVEL;
    /// Reports a failed assertion to the debugger.
    fn RtlAssert(FailedAssertion: *const u8, FileName: *const u8, LineNumber: u32, Message: *const u8) where irql <= HIGH_LEVEL;
    /// Formats a GUID with braces into a string it allocates.
    fn RtlStringFromGUID(Guid: *const GUID, GuidString: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
}
