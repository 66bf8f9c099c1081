//! Run-time library.

use crate::base::{ANSI_STRING, BOOLEAN, UNICODE_STRING};
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
}
