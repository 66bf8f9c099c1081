//! Security: subjects, tokens, privileges, identities.

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, HANDLE, KPROCESSOR_MODE, UNICODE_STRING};
use crate::se::LUID;
use crate::status::NTSTATUS;

/// Whose rights are checked: the thread's borrowed token, or its process's.
#[repr(C)]
pub struct SECURITY_SUBJECT_CONTEXT {
    pub ClientToken: *mut c_void,
    pub ImpersonationLevel: i32,
    pub PrimaryToken: *mut c_void,
    pub ProcessAuditId: *mut c_void,
}
layout!(SECURITY_SUBJECT_CONTEXT, 0x20, ImpersonationLevel @ 8, PrimaryToken @ 0x10);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LUID_AND_ATTRIBUTES {
    pub Luid: LUID,
    pub Attributes: u32,
}
layout!(LUID_AND_ATTRIBUTES, 0xC, Attributes @ 8);

/// Privileges that are asked for, with room for one.
#[repr(C)]
pub struct PRIVILEGE_SET {
    pub PrivilegeCount: u32,
    /// 1 = all of them, else any.
    pub Control: u32,
    pub Privilege: [LUID_AND_ATTRIBUTES; 1],
}
layout!(PRIVILEGE_SET, 0x14, Control @ 4, Privilege @ 8);

/// `TOKEN_INFORMATION_CLASS`.
pub const TokenUser: i32 = 1;
pub const TokenSessionId: i32 = 12;
pub const TokenElevation: i32 = 20;
pub const PRIVILEGE_SET_ALL_NECESSARY: u32 = 1;

image! {
    /// Takes down whose rights the current thread has.
    fn SeCaptureSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) where irql == PASSIVE_LEVEL, ACQUIRES;
    /// Gives a subject context back.
    fn SeReleaseSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) where irql == PASSIVE_LEVEL, RELEASES;
    /// Keeps a subject context from changing.
    fn SeLockSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) where irql == PASSIVE_LEVEL, ACQUIRES;
    /// Lets a subject context change again.
    fn SeUnlockSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) where irql == PASSIVE_LEVEL, RELEASES;
    /// Whether a subject has privileges; the kernel has all.
    fn SePrivilegeCheck(RequiredPrivileges: *mut PRIVILEGE_SET, SubjectSecurityContext: *mut SECURITY_SUBJECT_CONTEXT, AccessMode: KPROCESSOR_MODE) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Whether the current thread has a privilege; the kernel has all.
    fn SeSinglePrivilegeCheck(PrivilegeValue: u64, PreviousMode: KPROCESSOR_MODE) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Whether a subject may have access to an object with a security descriptor.
    fn SeAccessCheck(SecurityDescriptor: *mut c_void, SubjectSecurityContext: *mut SECURITY_SUBJECT_CONTEXT, SubjectContextLocked: BOOLEAN, DesiredAccess: ACCESS_MASK, PreviouslyGrantedAccess: ACCESS_MASK, Privileges: *mut *mut PRIVILEGE_SET, GenericMapping: *mut c_void, AccessMode: KPROCESSOR_MODE, GrantedAccess: *mut ACCESS_MASK, AccessStatus: *mut NTSTATUS) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// Whether a token is an administrator's.
    fn SeTokenIsAdmin(Token: *mut c_void) -> BOOLEAN where irql == PASSIVE_LEVEL;
    /// The logon session of a token: the system's.
    fn SeQueryAuthenticationIdToken(Token: *mut c_void, AuthenticationId: *mut LUID) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks about a token; the answer is in pool that the driver frees.
    fn SeQueryInformationToken(Token: *mut c_void, TokenInformationClass: i32, TokenInformation: *mut *mut c_void) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// The token of a process, referenced.
    fn PsReferencePrimaryToken(Process: *mut c_void) -> *mut c_void where irql == PASSIVE_LEVEL, ACQUIRES;
    /// Gives a process's token back.
    fn PsDereferencePrimaryToken(PrimaryToken: *mut c_void) where irql < DISPATCH_LEVEL, RELEASES;
    /// Opens the token of a process.
    fn ZwOpenProcessToken(ProcessHandle: HANDLE, DesiredAccess: ACCESS_MASK, TokenHandle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens the token of a process.
    fn ZwOpenProcessTokenEx(ProcessHandle: HANDLE, DesiredAccess: ACCESS_MASK, HandleAttributes: u32, TokenHandle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL, FAILS, ACQUIRES;
    /// Opens the token that a thread borrowed: none has.
    fn ZwOpenThreadToken(ThreadHandle: HANDLE, DesiredAccess: ACCESS_MASK, OpenAsSelf: BOOLEAN, TokenHandle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Opens the token that a thread borrowed: none has.
    fn ZwOpenThreadTokenEx(ThreadHandle: HANDLE, DesiredAccess: ACCESS_MASK, OpenAsSelf: BOOLEAN, HandleAttributes: u32, TokenHandle: *mut HANDLE) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Asks about a token.
    fn ZwQueryInformationToken(TokenHandle: HANDLE, TokenInformationClass: i32, TokenInformation: *mut c_void, TokenInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Initialises a SID; its parts are to be filled in.
    fn RtlInitializeSid(Sid: *mut c_void, IdentifierAuthority: *const [u8; 6], SubAuthorityCount: u8) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Address of a part of a SID.
    fn RtlSubAuthoritySid(Sid: *mut c_void, SubAuthority: u32) -> *mut u32 where irql < DISPATCH_LEVEL;
    /// Address of the number of a SID's parts.
    fn RtlSubAuthorityCountSid(Sid: *mut c_void) -> *mut u8 where irql < DISPATCH_LEVEL;
    /// Bytes of a SID with so many parts.
    fn RtlLengthRequiredSid(SubAuthorityCount: u32) -> u32 where irql <= APC_LEVEL;
    /// Whether two SIDs are equal.
    fn RtlEqualSid(Sid1: *mut c_void, Sid2: *mut c_void) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Copies a SID.
    fn RtlCopySid(DestinationSidLength: u32, DestinationSid: *mut c_void, SourceSid: *mut c_void) -> NTSTATUS where irql <= APC_LEVEL;
    /// Writes a SID as `S-1-…`, into a new buffer if asked for.
    fn RtlConvertSidToUnicodeString(UnicodeString: *mut UNICODE_STRING, Sid: *mut c_void, AllocateDestinationString: BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Sets the owner of an absolute security descriptor.
    fn RtlSetOwnerSecurityDescriptor(SecurityDescriptor: *mut c_void, Owner: *mut c_void, OwnerDefaulted: BOOLEAN) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Sets the group of an absolute security descriptor.
    fn RtlSetGroupSecurityDescriptor(SecurityDescriptor: *mut c_void, Group: *mut c_void, GroupDefaulted: BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL;
    /// Whether a security descriptor has the right form.
    fn RtlValidSecurityDescriptor(SecurityDescriptor: *mut c_void) -> BOOLEAN where irql == PASSIVE_LEVEL;
}
