//! System services by handle: files, sections, security.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, HANDLE, LARGE_INTEGER, OBJECT_ATTRIBUTES};
use crate::irp::IO_STATUS_BLOCK;
use crate::status::NTSTATUS;

/// `CreateDisposition`.
pub const FILE_SUPERSEDE: u32 = 0;
pub const FILE_OPEN: u32 = 1;
pub const FILE_CREATE: u32 = 2;
pub const FILE_OPEN_IF: u32 = 3;
pub const FILE_OVERWRITE: u32 = 4;
pub const FILE_OVERWRITE_IF: u32 = 5;

/// `IO_STATUS_BLOCK.Information` of an open that found what it opened.
pub const FILE_OPENED: usize = 1;

/// `CreateOptions`.
pub const FILE_DIRECTORY_FILE: u32 = 0x1;
pub const FILE_SYNCHRONOUS_IO_ALERT: u32 = 0x10;
pub const FILE_SYNCHRONOUS_IO_NONALERT: u32 = 0x20;
pub const FILE_NON_DIRECTORY_FILE: u32 = 0x40;

image! {
    /// Closes a handle.
    fn ZwClose(Handle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Sets parts of an object's security descriptor.
    fn ZwSetSecurityObject(Handle: HANDLE, SecurityInformation: u32, SecurityDescriptor: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Opens a device. There are no disks: a file's path leads nowhere (`STATUS_OBJECT_PATH_NOT_FOUND`).
    fn ZwCreateFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, AllocationSize: *mut LARGE_INTEGER, FileAttributes: u32, ShareAccess: u32, CreateDisposition: u32, CreateOptions: u32, EaBuffer: *mut c_void, EaLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES, WAITS;
    /// Opens a device; see `ZwCreateFile`.
    fn ZwOpenFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, ShareAccess: u32, OpenOptions: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES, WAITS;
    /// Reads from a device, to the end.
    fn ZwReadFile(FileHandle: HANDLE, Event: HANDLE, ApcRoutine: *mut c_void, ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, Buffer: *mut c_void, Length: u32, ByteOffset: *mut LARGE_INTEGER, Key: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Writes to a device, to the end.
    fn ZwWriteFile(FileHandle: HANDLE, Event: HANDLE, ApcRoutine: *mut c_void, ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, Buffer: *mut c_void, Length: u32, ByteOffset: *mut LARGE_INTEGER, Key: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Asks the driver of a device about a file (`IRP_MJ_QUERY_INFORMATION`).
    fn ZwQueryInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FileInformation: *mut c_void, Length: u32, FileInformationClass: i32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Opens a section. There are none but `\Device\PhysicalMemory`, which this machine
    /// Makes a section: memory that can be mapped, of the paging file.
    fn ZwCreateSection(SectionHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, MaximumSize: *mut LARGE_INTEGER, SectionPageProtection: u32, AllocationAttributes: u32, FileHandle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// gives to nobody (`STATUS_ACCESS_DENIED`), as Windows gives it to no user program.
    fn ZwOpenSection(SectionHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Maps a view of a section. No handle here is one of a section.
    fn ZwMapViewOfSection(SectionHandle: HANDLE, ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, ZeroBits: usize, CommitSize: usize, SectionOffset: *mut LARGE_INTEGER, ViewSize: *mut usize, InheritDisposition: i32, AllocationType: u32, Win32Protect: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Unmaps a view. No address here is one (`STATUS_NOT_MAPPED_VIEW`).
    fn ZwUnmapViewOfSection(ProcessHandle: HANDLE, BaseAddress: *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL;
}
