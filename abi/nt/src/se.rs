//! Security descriptors (a part of the run-time library on Windows).

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN};
use crate::status::NTSTATUS;

/// An absolute security descriptor.
#[repr(C)]
pub struct SECURITY_DESCRIPTOR {
    pub Revision: u8,
    pub Sbz1: u8,
    pub Control: u16,
    pub Owner: *mut c_void,
    pub Group: *mut c_void,
    pub Sacl: *mut ACL,
    pub Dacl: *mut ACL,
}
layout!(SECURITY_DESCRIPTOR, 0x28, Control @ 2, Owner @ 8, Dacl @ 0x20);

#[repr(C)]
pub struct ACL {
    pub AclRevision: u8,
    pub Sbz1: u8,
    /// Bytes, header and entries.
    pub AclSize: u16,
    pub AceCount: u16,
    pub Sbz2: u16,
}
layout!(ACL, 8, AclSize @ 2, AceCount @ 4);

#[repr(C)]
pub struct ACE_HEADER {
    pub AceType: u8,
    pub AceFlags: u8,
    pub AceSize: u16,
}
layout!(ACE_HEADER, 4);

#[repr(C)]
pub struct SID {
    pub Revision: u8,
    pub SubAuthorityCount: u8,
    pub IdentifierAuthority: [u8; 6],
    pub SubAuthority: [u32; 1],
}
layout!(SID, 12, SubAuthority @ 8);

pub const SECURITY_DESCRIPTOR_REVISION: u32 = 1;
pub const ACL_REVISION: u32 = 2;
pub const ACCESS_ALLOWED_ACE_TYPE: u8 = 0;
pub const SE_DACL_PRESENT: u16 = 0x4;
pub const SE_SELF_RELATIVE: u16 = 0x8000;
pub const SID_MAX_SUB_AUTHORITIES: u8 = 15;
/// `SECURITY_INFORMATION`.
pub const DACL_SECURITY_INFORMATION: u32 = 4;

image! {
    /// Initialises an absolute security descriptor.
    fn RtlCreateSecurityDescriptor(SecurityDescriptor: *mut c_void, Revision: u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Sets the discretionary access-control list.
    fn RtlSetDaclSecurityDescriptor(SecurityDescriptor: *mut c_void, DaclPresent: BOOLEAN, Dacl: *mut ACL, DaclDefaulted: BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Gets the discretionary access-control list.
    fn RtlGetDaclSecurityDescriptor(SecurityDescriptor: *mut c_void, DaclPresent: *mut BOOLEAN, Dacl: *mut *mut ACL, DaclDefaulted: *mut BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL;
    /// Initialises an access-control list.
    fn RtlCreateAcl(Acl: *mut ACL, AclLength: u32, AclRevision: u32) -> NTSTATUS where irql <= APC_LEVEL;
    /// Appends an entry that allows access.
    fn RtlAddAccessAllowedAce(Acl: *mut ACL, AceRevision: u32, AccessMask: ACCESS_MASK, Sid: *mut c_void) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Bytes of a SID.
    fn RtlLengthSid(Sid: *mut c_void) -> u32 where irql <= APC_LEVEL;
    /// Whether a SID is well formed.
    fn RtlValidSid(Sid: *mut c_void) -> BOOLEAN where irql <= APC_LEVEL;
    /// Bytes of a security descriptor in self-relative form.
    fn RtlLengthSecurityDescriptor(SecurityDescriptor: *mut c_void) -> u32 where irql == PASSIVE_LEVEL;
}
