//! System services by handle: name space, events, requests to devices.

use core::ffi::c_void;

use crate::base::{
    ACCESS_MASK, BOOLEAN, HANDLE, KPROCESSOR_MODE, LARGE_INTEGER, OBJECT_ATTRIBUTES, UNICODE_STRING,
};
use crate::irp::IO_STATUS_BLOCK;
use crate::ke::KEVENT;
use crate::status::NTSTATUS;

image! {
    /// Opens a directory of the name space.
    fn ZwOpenDirectoryObject(DirectoryHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Makes a directory of the name space, until its last handle is closed.
    fn ZwCreateDirectoryObject(DirectoryHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Lists what is in a directory: `OBJECT_DIRECTORY_INFORMATION`, the last one of zeros.
    fn ZwQueryDirectoryObject(DirectoryHandle: HANDLE, Buffer: *mut c_void, Length: u32, ReturnSingleEntry: BOOLEAN, RestartScan: BOOLEAN, Context: *mut u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Opens a symbolic link itself.
    fn ZwOpenSymbolicLinkObject(LinkHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// What a symbolic link leads to.
    fn ZwQuerySymbolicLinkObject(LinkHandle: HANDLE, LinkTarget: *mut UNICODE_STRING, ReturnedLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks about an object: its name (class 1) or the name of its type (2).
    fn ZwQueryObject(Handle: HANDLE, ObjectInformationClass: i32, ObjectInformation: *mut c_void, ObjectInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Opens another handle to an object; option 1 closes the source, 2 keeps its rights.
    fn ZwDuplicateObject(SourceProcessHandle: HANDLE, SourceHandle: HANDLE, TargetProcessHandle: HANDLE, TargetHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, HandleAttributes: u32, Options: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Closes a handle.
    fn NtClose(Handle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Closes a handle.
    fn ObCloseHandle(Handle: HANDLE, PreviousMode: KPROCESSOR_MODE) -> NTSTATUS where irql == PASSIVE_LEVEL, RELEASES;
    /// Lets a permanent object go with its last handle; those of drivers are never permanent.
    fn ZwMakeTemporaryObject(Handle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Makes an event, or opens the one of that name.
    fn ZwCreateEvent(EventHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, EventType: i32, InitialState: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens an event by name.
    fn ZwOpenEvent(EventHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Makes or opens a named event that lets one thread go at a time.
    fn IoCreateSynchronizationEvent(EventName: *const UNICODE_STRING, EventHandle: *mut HANDLE) -> *mut KEVENT where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Sets an event.
    fn ZwSetEvent(EventHandle: HANDLE, PreviousState: *mut i32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Resets an event.
    fn ZwResetEvent(EventHandle: HANDLE, PreviousState: *mut i32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Resets an event.
    fn ZwClearEvent(EventHandle: HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Waits for an event, a thread or a process.
    fn ZwWaitForSingleObject(Handle: HANDLE, Alertable: BOOLEAN, Timeout: *mut LARGE_INTEGER) -> NTSTATUS where irql == PASSIVE_LEVEL, WAITS;
    /// Opens a device; see `ZwCreateFile`.
    fn IoCreateFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, AllocationSize: *mut LARGE_INTEGER, FileAttributes: u32, ShareAccess: u32, Disposition: u32, CreateOptions: u32, EaBuffer: *mut c_void, EaLength: u32, CreateFileType: i32, InternalParameters: *mut c_void, Options: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES, WAITS;
    /// Opens a device; see `ZwCreateFile`.
    fn NtCreateFile(FileHandle: *mut HANDLE, DesiredAccess: ACCESS_MASK, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, AllocationSize: *mut LARGE_INTEGER, FileAttributes: u32, ShareAccess: u32, CreateDisposition: u32, CreateOptions: u32, EaBuffer: *mut c_void, EaLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES, WAITS;
    /// Deletes a file by name. There are no disks: its path leads nowhere.
    fn ZwDeleteFile(ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Sends an IOCTL to a device, and waits for it.
    fn ZwDeviceIoControlFile(FileHandle: HANDLE, Event: HANDLE, ApcRoutine: *mut c_void, ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, IoControlCode: u32, InputBuffer: *mut c_void, InputBufferLength: u32, OutputBuffer: *mut c_void, OutputBufferLength: u32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Writes what a device still buffers (`IRP_MJ_FLUSH_BUFFERS`).
    fn ZwFlushBuffersFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK) -> NTSTATUS where irql == PASSIVE_LEVEL, WAITS;
    /// Changes a file (`IRP_MJ_SET_INFORMATION`).
    fn ZwSetInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FileInformation: *mut c_void, Length: u32, FileInformationClass: i32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Asks about the volume of a file (`IRP_MJ_QUERY_VOLUME_INFORMATION`).
    fn ZwQueryVolumeInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FsInformation: *mut c_void, Length: u32, FsInformationClass: i32) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, WAITS;
    /// Lists a directory of a disk: a device has none (`STATUS_INVALID_DEVICE_REQUEST`).
    fn ZwQueryDirectoryFile(FileHandle: HANDLE, Event: HANDLE, ApcRoutine: *mut c_void, ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, FileInformation: *mut c_void, Length: u32, FileInformationClass: i32, ReturnSingleEntry: BOOLEAN, FileName: *mut UNICODE_STRING, RestartScan: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Loads a driver by its registry key. The lab's machine has one driver, and no file of another.
    fn ZwLoadDriver(DriverServiceName: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Unloads a driver by its registry key: no other is loaded.
    fn ZwUnloadDriver(DriverServiceName: *mut UNICODE_STRING) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Opens a handle to a named object.
    fn ObOpenObjectByName(ObjectAttributes: *mut OBJECT_ATTRIBUTES, ObjectType: *mut c_void, AccessMode: KPROCESSOR_MODE, AccessState: *mut c_void, DesiredAccess: ACCESS_MASK, ParseContext: *mut c_void, Handle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Whether a handle is the kernel's.
    fn ObIsKernelHandle(Handle: HANDLE) -> BOOLEAN where irql <= APC_LEVEL;
    /// Lets another thread run.
    fn ZwYieldExecution() -> NTSTATUS where irql == PASSIVE_LEVEL;
}
