//! `Zw…`: system services by handle.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

pub(super) mod file;
mod section;

use std::ffi::c_void;

use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{HANDLE, OBJECT_ATTRIBUTES};
use nt::irp::{IO_STATUS_BLOCK, IRP_MJ_READ, IRP_MJ_WRITE};
use nt::se::DACL_SECURITY_INFORMATION;
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_INVALID_HANDLE, STATUS_INVALID_SECURITY_DESCR,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};

use super::{exports, kernel_addresses};
use crate::guest::{self, get};
use crate::machine::{Machine, current};
use crate::memory;
use crate::security;

/// The section of all physical memory.
const PHYSICAL_MEMORY: &str = r"\Device\PhysicalMemory";

/// Windows gives no program memory below; null stands for what is optional.
const LOWEST_USER: u64 = 0x1_0000;

exports! {
    zw;

    fn ZwClose(Handle: HANDLE) -> NTSTATUS { current().close_handle(Handle) }
    fn ZwSetSecurityObject(Handle: HANDLE, SecurityInformation: u32, SecurityDescriptor: *mut c_void) -> NTSTATUS {
        kernel_addresses!(SecurityDescriptor);
        let machine = current();
        match machine.resolve_handle(Handle as u64, None) {
            Ok(object) if SecurityInformation & DACL_SECURITY_INFORMATION != 0 => machine.set_security(object, SecurityDescriptor as u64),
            Ok(_) => STATUS_SUCCESS,
            Err(status) => status,
        }
    }
    fn ZwCreateFile(FileHandle: *mut HANDLE, DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, _AllocationSize: *mut i64, _FileAttributes: u32, ShareAccess: u32, CreateDisposition: u32, CreateOptions: u32, _EaBuffer: *mut c_void, _EaLength: u32) -> NTSTATUS {
        kernel_addresses!(FileHandle, ObjectAttributes, IoStatusBlock);
        let how = file::Open { access: DesiredAccess, share: ShareAccess, disposition: CreateDisposition, options: CreateOptions };
        current().create_file(FileHandle, ObjectAttributes, IoStatusBlock, how)
    }
    fn ZwOpenFile(FileHandle: *mut HANDLE, DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES, IoStatusBlock: *mut IO_STATUS_BLOCK, ShareAccess: u32, OpenOptions: u32) -> NTSTATUS {
        kernel_addresses!(FileHandle, ObjectAttributes, IoStatusBlock);
        let how = file::Open { access: DesiredAccess, share: ShareAccess, disposition: nt::zw::FILE_OPEN, options: OpenOptions };
        current().create_file(FileHandle, ObjectAttributes, IoStatusBlock, how)
    }
    fn ZwReadFile(FileHandle: HANDLE, Event: HANDLE, _ApcRoutine: *mut c_void, _ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, Buffer: *mut c_void, Length: u32, ByteOffset: *mut i64, _Key: *mut u32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, Buffer, ByteOffset);
        let what = file::Transfer { major: IRP_MJ_READ, buffer: Buffer, length: Length, offset: ByteOffset };
        current().transfer_file(FileHandle, Event, IoStatusBlock, &what)
    }
    fn ZwWriteFile(FileHandle: HANDLE, Event: HANDLE, _ApcRoutine: *mut c_void, _ApcContext: *mut c_void, IoStatusBlock: *mut IO_STATUS_BLOCK, Buffer: *mut c_void, Length: u32, ByteOffset: *mut i64, _Key: *mut u32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, Buffer, ByteOffset);
        let what = file::Transfer { major: IRP_MJ_WRITE, buffer: Buffer, length: Length, offset: ByteOffset };
        current().transfer_file(FileHandle, Event, IoStatusBlock, &what)
    }
    fn ZwQueryInformationFile(FileHandle: HANDLE, IoStatusBlock: *mut IO_STATUS_BLOCK, FileInformation: *mut c_void, Length: u32, FileInformationClass: i32) -> NTSTATUS {
        kernel_addresses!(IoStatusBlock, FileInformation);
        current().query_file(FileHandle, IoStatusBlock, FileInformation, Length, FileInformationClass)
    }
    fn ZwOpenSection(SectionHandle: *mut HANDLE, _DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES) -> NTSTATUS {
        kernel_addresses!(ObjectAttributes);
        let machine = current();
        let name = match machine.string(get!(ObjectAttributes, ObjectName).cast_const()) {
            Ok(name) => name,
            Err(status) => return status,
        };
        if name.eq_ignore_ascii_case(PHYSICAL_MEMORY) {
            return STATUS_ACCESS_DENIED;
        }
        outcome(machine.open_section(&name).map(|handle| guest::write(SectionHandle, handle as HANDLE)))
    }
    fn ZwMapViewOfSection(SectionHandle: HANDLE, _ProcessHandle: HANDLE, BaseAddress: *mut *mut c_void, _ZeroBits: usize, _CommitSize: usize, SectionOffset: *mut i64, ViewSize: *mut usize, _InheritDisposition: i32, _AllocationType: u32, Win32Protect: u32) -> NTSTATUS {
        kernel_addresses!(BaseAddress, SectionOffset, ViewSize);
        outcome(current().map_view(SectionHandle as u64, BaseAddress, SectionOffset, ViewSize, Win32Protect))
    }
    fn ZwUnmapViewOfSection(_ProcessHandle: HANDLE, BaseAddress: *mut c_void) -> NTSTATUS { current().unmap_view(BaseAddress as u64) }
    fn ZwCreateSection(SectionHandle: *mut HANDLE, _DesiredAccess: u32, ObjectAttributes: *mut OBJECT_ATTRIBUTES, MaximumSize: *mut i64, SectionPageProtection: u32, _AllocationAttributes: u32, FileHandle: HANDLE) -> NTSTATUS {
        kernel_addresses!(SectionHandle, ObjectAttributes, MaximumSize);
        let machine = current();
        if !FileHandle.is_null() {
            (machine.debug_print)("ZwCreateSection: the lab has sections of the paging file only, not of files\n");
            return STATUS_NOT_SUPPORTED;
        }
        outcome(machine.create_section(ObjectAttributes, MaximumSize, SectionPageProtection).map(|handle| guest::write(SectionHandle, handle as HANDLE)))
    }
}

fn outcome(result: Result<(), NTSTATUS>) -> NTSTATUS {
    result.err().unwrap_or(STATUS_SUCCESS)
}

impl Machine {
    /// Reports addresses of user programs among the arguments of a `Zw…` function, whose previous mode
    /// is the kernel's: nothing probes them.
    pub(super) fn check_zw_addresses(&self, addresses: &[u64]) {
        let is_users = |address: &&u64| **address >= LOWEST_USER && memory::is_user(**address);
        for address in addresses.iter().filter(is_users) {
            self.report(
                RuleId::ZwUserAddress,
                [0, self.call_site(), *address, 0],
                format!(
                    "a Zw function was passed the address {address:#x}, which is a user program's"
                ),
            );
        }
    }

    pub(super) fn close_handle(&self, handle: HANDLE) -> NTSTATUS {
        self.clean_up_file(handle as u64);
        let closed = self.objects.borrow_mut().close(handle as u64);
        match closed {
            Some((object, references)) => {
                self.settle_object(object, references);
                STATUS_SUCCESS
            }
            None => {
                self.report_handle(handle as u64);
                STATUS_INVALID_HANDLE
            }
        }
    }

    fn set_security(&self, object: u64, descriptor: u64) -> NTSTATUS {
        let Some(dacl) = security::read_dacl(descriptor) else {
            return STATUS_INVALID_SECURITY_DESCR;
        };
        if let Some(object) = self.objects.borrow_mut().get_mut(object) {
            object.security = Some(dacl);
        }
        STATUS_SUCCESS
    }
}
