//! Configuration manager: the registry.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use crate::irp::DEVICE_OBJECT;
use crate::status::NTSTATUS;

/// Types of values (winnt.h).
pub const REG_NONE: u32 = 0;
pub const REG_SZ: u32 = 1;
pub const REG_EXPAND_SZ: u32 = 2;
pub const REG_BINARY: u32 = 3;
pub const REG_DWORD: u32 = 4;
pub const REG_MULTI_SZ: u32 = 7;
/// A `CM_RESOURCE_LIST`.
pub const REG_RESOURCE_LIST: u32 = 8;
pub const REG_QWORD: u32 = 11;

/// `ZwCreateKey`'s disposition.
pub const REG_CREATED_NEW_KEY: u32 = 1;
pub const REG_OPENED_EXISTING_KEY: u32 = 2;

/// `KEY_VALUE_INFORMATION_CLASS`.
pub const KeyValueBasicInformation: i32 = 0;
pub const KeyValueFullInformation: i32 = 1;
pub const KeyValuePartialInformation: i32 = 2;
/// `KEY_INFORMATION_CLASS`.
pub const KeyBasicInformation: i32 = 0;

/// Access to a key.
pub const KEY_READ: u32 = 0x2_0019;
pub const KeyNodeInformation: i32 = 1;
pub const KeyFullInformation: i32 = 2;

#[repr(C)]
pub struct KEY_VALUE_BASIC_INFORMATION {
    pub TitleIndex: u32,
    pub Type: u32,
    /// Bytes.
    pub NameLength: u32,
    pub Name: [u16; 1],
}
layout!(KEY_VALUE_BASIC_INFORMATION, 0x10, NameLength @ 8, Name @ 0xC);

#[repr(C)]
pub struct KEY_VALUE_FULL_INFORMATION {
    pub TitleIndex: u32,
    pub Type: u32,
    /// Offset of the data from the start of the structure.
    pub DataOffset: u32,
    pub DataLength: u32,
    pub NameLength: u32,
    pub Name: [u16; 1],
}
layout!(KEY_VALUE_FULL_INFORMATION, 0x18, DataOffset @ 8, DataLength @ 0xC, NameLength @ 0x10, Name @ 0x14);

#[repr(C)]
pub struct KEY_VALUE_PARTIAL_INFORMATION {
    pub TitleIndex: u32,
    pub Type: u32,
    pub DataLength: u32,
    pub Data: [u8; 1],
}
layout!(KEY_VALUE_PARTIAL_INFORMATION, 0x10, DataLength @ 8, Data @ 0xC);

#[repr(C)]
pub struct KEY_BASIC_INFORMATION {
    pub LastWriteTime: i64,
    pub TitleIndex: u32,
    pub NameLength: u32,
    pub Name: [u16; 1],
}
layout!(KEY_BASIC_INFORMATION, 0x18, NameLength @ 0xC, Name @ 0x10);

#[repr(C)]
pub struct KEY_NODE_INFORMATION {
    pub LastWriteTime: i64,
    pub TitleIndex: u32,
    pub ClassOffset: u32,
    pub ClassLength: u32,
    pub NameLength: u32,
    pub Name: [u16; 1],
}
layout!(KEY_NODE_INFORMATION, 0x20, ClassOffset @ 0xC, NameLength @ 0x14, Name @ 0x18);

#[repr(C)]
pub struct KEY_FULL_INFORMATION {
    pub LastWriteTime: i64,
    pub TitleIndex: u32,
    pub ClassOffset: u32,
    pub ClassLength: u32,
    pub SubKeys: u32,
    /// Longest name of a subkey, in bytes.
    pub MaxNameLen: u32,
    pub MaxClassLen: u32,
    pub Values: u32,
    /// Longest name of a value, in bytes.
    pub MaxValueNameLen: u32,
    pub MaxValueDataLen: u32,
    pub Class: [u16; 1],
}
layout!(KEY_FULL_INFORMATION, 0x30, SubKeys @ 0x14, Values @ 0x20, MaxValueDataLen @ 0x28, Class @ 0x2C);

pub type RTL_QUERY_REGISTRY_ROUTINE = unsafe extern "efiapi" fn(
    ValueName: *mut u16,
    ValueType: u32,
    ValueData: *mut c_void,
    ValueLength: u32,
    Context: *mut c_void,
    EntryContext: *mut c_void,
) -> NTSTATUS;

#[repr(C)]
pub struct RTL_QUERY_REGISTRY_TABLE {
    pub QueryRoutine: Option<RTL_QUERY_REGISTRY_ROUTINE>,
    pub Flags: u32,
    pub Name: *mut u16,
    pub EntryContext: *mut c_void,
    pub DefaultType: u32,
    pub DefaultData: *mut c_void,
    pub DefaultLength: u32,
}
layout!(RTL_QUERY_REGISTRY_TABLE, 0x38, Flags @ 8, Name @ 0x10, EntryContext @ 0x18, DefaultType @ 0x20, DefaultData @ 0x28, DefaultLength @ 0x30);

/// `RTL_QUERY_REGISTRY_TABLE.Flags`.
pub const RTL_QUERY_REGISTRY_SUBKEY: u32 = 0x1;
pub const RTL_QUERY_REGISTRY_TOPKEY: u32 = 0x2;
pub const RTL_QUERY_REGISTRY_REQUIRED: u32 = 0x4;
pub const RTL_QUERY_REGISTRY_NOVALUE: u32 = 0x8;
pub const RTL_QUERY_REGISTRY_NOEXPAND: u32 = 0x10;
pub const RTL_QUERY_REGISTRY_DIRECT: u32 = 0x20;
pub const RTL_QUERY_REGISTRY_DELETE: u32 = 0x40;
pub const RTL_QUERY_REGISTRY_TYPECHECK: u32 = 0x100;

/// What `RelativeTo` makes a path relative to.
pub const RTL_REGISTRY_ABSOLUTE: u32 = 0;
pub const RTL_REGISTRY_SERVICES: u32 = 1;
pub const RTL_REGISTRY_CONTROL: u32 = 2;
pub const RTL_REGISTRY_WINDOWS_NT: u32 = 3;
pub const RTL_REGISTRY_DEVICEMAP: u32 = 4;
pub const RTL_REGISTRY_USER: u32 = 5;
pub const RTL_REGISTRY_HANDLE: u32 = 0x4000_0000;
pub const RTL_REGISTRY_OPTIONAL: u32 = 0x8000_0000;

image! {
    /// Opens a key.
    fn ZwOpenKey(KeyHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens a key, or creates it.
    fn ZwCreateKey(KeyHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, TitleIndex: u32, Class: *mut UNICODE_STRING, CreateOptions: u32, Disposition: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Deletes a key without subkeys.
    fn ZwDeleteKey(KeyHandle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Describes the n-th subkey.
    fn ZwEnumerateKey(KeyHandle: HANDLE, Index: u32, KeyInformationClass: i32, KeyInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Describes a key.
    fn ZwQueryKey(KeyHandle: HANDLE, KeyInformationClass: i32, KeyInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Reads a value.
    fn ZwQueryValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING, KeyValueInformationClass: i32, KeyValueInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Reads the n-th value.
    fn ZwEnumerateValueKey(KeyHandle: HANDLE, Index: u32, KeyValueInformationClass: i32, KeyValueInformation: *mut c_void, Length: u32, ResultLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Writes a value.
    fn ZwSetValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING, TitleIndex: u32, Type: u32, Data: *mut c_void, DataSize: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Deletes a value.
    fn ZwDeleteValueKey(KeyHandle: HANDLE, ValueName: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Writes a key to disk. The lab's registry has none, so that is done at once.
    fn ZwFlushKey(KeyHandle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Reads values as a table asks for them.
    fn RtlQueryRegistryValues(RelativeTo: u32, Path: *const u16, QueryTable: *mut RTL_QUERY_REGISTRY_TABLE, Context: *mut c_void, Environment: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Writes a value by path.
    fn RtlWriteRegistryValue(RelativeTo: u32, Path: *const u16, ValueName: *const u16, ValueType: u32, ValueData: *mut c_void, ValueLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Deletes a value by path.
    fn RtlDeleteRegistryValue(RelativeTo: u32, Path: *const u16, ValueName: *const u16) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Whether a key exists.
    fn RtlCheckRegistryKey(RelativeTo: u32, Path: *mut u16) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Creates a key by path.
    fn RtlCreateRegistryKey(RelativeTo: u32, Path: *mut u16) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS;
    /// Opens the registry key of an enumerated device (1), or of its driver (2); others have none (`STATUS_INVALID_DEVICE_REQUEST`).
    fn IoOpenDeviceRegistryKey(DeviceObject: *mut DEVICE_OBJECT, DevInstKeyType: u32, DesiredAccess: ACCESS_MASK, DeviceRegKey: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
}
