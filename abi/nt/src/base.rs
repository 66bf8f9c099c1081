//! Types that every part of the interface uses (ntdef.h, wdm.h).

use core::ffi::c_void;

pub type BOOLEAN = u8;
pub type HANDLE = *mut c_void;
pub type ACCESS_MASK = u32;
pub type KPROCESSOR_MODE = i8;
/// A 64-bit quantity; the WDK's union of two halves is never needed.
pub type LARGE_INTEGER = i64;
pub type PHYSICAL_ADDRESS = i64;

/// `KPROCESSOR_MODE` of calls from the kernel.
pub const KernelMode: KPROCESSOR_MODE = 0;
/// `KPROCESSOR_MODE` of calls on behalf of a user program.
pub const UserMode: KPROCESSOR_MODE = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UNICODE_STRING {
    /// Bytes in use, without a terminator.
    pub Length: u16,
    /// Bytes available.
    pub MaximumLength: u16,
    pub Buffer: *mut u16,
}
layout!(UNICODE_STRING, 0x10, Buffer @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ANSI_STRING {
    pub Length: u16,
    pub MaximumLength: u16,
    pub Buffer: *mut u8,
}
layout!(ANSI_STRING, 0x10, Buffer @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LIST_ENTRY {
    pub Flink: *mut LIST_ENTRY,
    pub Blink: *mut LIST_ENTRY,
}
layout!(LIST_ENTRY, 0x10);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GUID {
    pub Data1: u32,
    pub Data2: u16,
    pub Data3: u16,
    pub Data4: [u8; 8],
}
layout!(GUID, 0x10);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OBJECT_ATTRIBUTES {
    pub Length: u32,
    pub RootDirectory: HANDLE,
    pub ObjectName: *mut UNICODE_STRING,
    pub Attributes: u32,
    pub SecurityDescriptor: *mut c_void,
    pub SecurityQualityOfService: *mut c_void,
}
layout!(OBJECT_ATTRIBUTES, 0x30, ObjectName @ 0x10, Attributes @ 0x18, SecurityDescriptor @ 0x20);

pub const OBJ_INHERIT: u32 = 0x2;
pub const OBJ_CASE_INSENSITIVE: u32 = 0x40;
pub const OBJ_KERNEL_HANDLE: u32 = 0x200;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PROCESSOR_NUMBER {
    pub Group: u16,
    pub Number: u8,
    pub Reserved: u8,
}
layout!(PROCESSOR_NUMBER, 4, Number @ 2);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GROUP_AFFINITY {
    pub Mask: u64,
    pub Group: u16,
    pub Reserved: [u16; 3],
}
layout!(GROUP_AFFINITY, 0x10, Group @ 8);

/// Processors in one group, at most (a `KAFFINITY` has 64 bits).
pub const MAXIMUM_PROC_PER_GROUP: u32 = 64;
/// Processor group "all groups" (winnt.h).
pub const ALL_PROCESSOR_GROUPS: u16 = 0xFFFF;

pub const DELETE: ACCESS_MASK = 0x0001_0000;
pub const READ_CONTROL: ACCESS_MASK = 0x0002_0000;
pub const WRITE_DAC: ACCESS_MASK = 0x0004_0000;
pub const WRITE_OWNER: ACCESS_MASK = 0x0008_0000;
pub const SYNCHRONIZE: ACCESS_MASK = 0x0010_0000;
pub const GENERIC_ALL: ACCESS_MASK = 0x1000_0000;
pub const GENERIC_EXECUTE: ACCESS_MASK = 0x2000_0000;
pub const GENERIC_WRITE: ACCESS_MASK = 0x4000_0000;
pub const GENERIC_READ: ACCESS_MASK = 0x8000_0000;
