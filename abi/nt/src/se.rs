//! Security descriptors (a part of the run-time library on Windows).

use core::ffi::c_void;

use crate::base::{ACCESS_MASK, BOOLEAN, KPROCESSOR_MODE};
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

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LUID {
    pub LowPart: u32,
    pub HighPart: i32,
}
layout!(LUID, 8, HighPart @ 4);

/// Where `SeExports` points: the privileges and SIDs that every system has.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SE_EXPORTS {
    pub SeCreateTokenPrivilege: LUID,
    pub SeAssignPrimaryTokenPrivilege: LUID,
    pub SeLockMemoryPrivilege: LUID,
    pub SeIncreaseQuotaPrivilege: LUID,
    pub SeUnsolicitedInputPrivilege: LUID,
    pub SeTcbPrivilege: LUID,
    pub SeSecurityPrivilege: LUID,
    pub SeTakeOwnershipPrivilege: LUID,
    pub SeLoadDriverPrivilege: LUID,
    pub SeCreatePagefilePrivilege: LUID,
    pub SeIncreaseBasePriorityPrivilege: LUID,
    pub SeSystemProfilePrivilege: LUID,
    pub SeSystemtimePrivilege: LUID,
    pub SeProfileSingleProcessPrivilege: LUID,
    pub SeCreatePermanentPrivilege: LUID,
    pub SeBackupPrivilege: LUID,
    pub SeRestorePrivilege: LUID,
    pub SeShutdownPrivilege: LUID,
    pub SeDebugPrivilege: LUID,
    pub SeAuditPrivilege: LUID,
    pub SeSystemEnvironmentPrivilege: LUID,
    pub SeChangeNotifyPrivilege: LUID,
    pub SeRemoteShutdownPrivilege: LUID,
    pub SeNullSid: *mut c_void,
    pub SeWorldSid: *mut c_void,
    pub SeLocalSid: *mut c_void,
    pub SeCreatorOwnerSid: *mut c_void,
    pub SeCreatorGroupSid: *mut c_void,
    pub SeNtAuthoritySid: *mut c_void,
    pub SeDialupSid: *mut c_void,
    pub SeNetworkSid: *mut c_void,
    pub SeBatchSid: *mut c_void,
    pub SeInteractiveSid: *mut c_void,
    pub SeLocalSystemSid: *mut c_void,
    pub SeAliasAdminsSid: *mut c_void,
    pub SeAliasUsersSid: *mut c_void,
    pub SeAliasGuestsSid: *mut c_void,
    pub SeAliasPowerUsersSid: *mut c_void,
    pub SeAliasAccountOpsSid: *mut c_void,
    pub SeAliasSystemOpsSid: *mut c_void,
    pub SeAliasPrintOpsSid: *mut c_void,
    pub SeAliasBackupOpsSid: *mut c_void,
    pub SeAuthenticatedUsersSid: *mut c_void,
    pub SeRestrictedSid: *mut c_void,
    pub SeAnonymousLogonSid: *mut c_void,
    pub SeUndockPrivilege: LUID,
    pub SeSyncAgentPrivilege: LUID,
    pub SeEnableDelegationPrivilege: LUID,
    pub SeLocalServiceSid: *mut c_void,
    pub SeNetworkServiceSid: *mut c_void,
    pub SeManageVolumePrivilege: LUID,
    pub SeImpersonatePrivilege: LUID,
    pub SeCreateGlobalPrivilege: LUID,
    pub SeTrustedCredManAccessPrivilege: LUID,
    pub SeRelabelPrivilege: LUID,
    pub SeIncreaseWorkingSetPrivilege: LUID,
    pub SeTimeZonePrivilege: LUID,
    pub SeCreateSymbolicLinkPrivilege: LUID,
    pub SeIUserSid: *mut c_void,
    pub SeUntrustedMandatorySid: *mut c_void,
    pub SeLowMandatorySid: *mut c_void,
    pub SeMediumMandatorySid: *mut c_void,
    pub SeHighMandatorySid: *mut c_void,
    pub SeSystemMandatorySid: *mut c_void,
    pub SeOwnerRightsSid: *mut c_void,
    pub SeAllAppPackagesSid: *mut c_void,
    pub SeUserModeDriversSid: *mut c_void,
    pub SeProcTrustWinTcbSid: *mut c_void,
    pub SeTrustedInstallerSid: *mut c_void,
    pub SeDelegateSessionUserImpersonatePrivilege: LUID,
    pub SeAppSiloSid: *mut c_void,
    pub SeAppSiloVolumeRootMinimalCapabilitySid: *mut c_void,
    pub SeAppSiloProfilesRootMinimalCapabilitySid: *mut c_void,
}
layout!(SE_EXPORTS, 0x248, SeNullSid @ 0xB8, SeUndockPrivilege @ 0x168, SeOwnerRightsSid @ 0x200);

pub const SECURITY_DESCRIPTOR_REVISION: u32 = 1;
pub const ACL_REVISION: u32 = 2;
pub const ACCESS_ALLOWED_ACE_TYPE: u8 = 0;
pub const SE_OWNER_DEFAULTED: u16 = 0x1;
pub const SE_GROUP_DEFAULTED: u16 = 0x2;
pub const SE_DACL_PRESENT: u16 = 0x4;
pub const SE_DACL_DEFAULTED: u16 = 0x8;
pub const SE_SACL_PRESENT: u16 = 0x10;
pub const SE_SACL_DEFAULTED: u16 = 0x20;
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
    /// Gets the owner; null when there is none.
    fn RtlGetOwnerSecurityDescriptor(SecurityDescriptor: *mut c_void, Owner: *mut *mut c_void, OwnerDefaulted: *mut BOOLEAN) -> NTSTATUS where irql == PASSIVE_LEVEL;
    /// Gets the primary group; null when there is none.
    fn RtlGetGroupSecurityDescriptor(SecurityDescriptor: *mut c_void, Group: *mut *mut c_void, GroupDefaulted: *mut BOOLEAN) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Gets the system access-control list.
    fn RtlGetSaclSecurityDescriptor(SecurityDescriptor: *mut c_void, SaclPresent: *mut BOOLEAN, Sacl: *mut *mut ACL, SaclDefaulted: *mut BOOLEAN) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Copies an absolute security descriptor into self-relative form.
    fn RtlAbsoluteToSelfRelativeSD(AbsoluteSecurityDescriptor: *mut c_void, SelfRelativeSecurityDescriptor: *mut c_void, BufferLength: *mut u32) -> NTSTATUS where irql < DISPATCH_LEVEL;
    /// Copies a descriptor of either form into pool, in self-relative form; null stays null.
    fn SeCaptureSecurityDescriptor(InputSecurityDescriptor: *mut c_void, CurrentMode: KPROCESSOR_MODE, PoolType: i32, ForceCapture: BOOLEAN, OutputSecurityDescriptor: *mut *mut c_void) -> NTSTATUS where irql <= APC_LEVEL, FAILS, ACQUIRES;
    /// Frees what `SeCaptureSecurityDescriptor` made.
    fn SeReleaseSecurityDescriptor(CapturedSecurityDescriptor: *mut c_void, CurrentMode: KPROCESSOR_MODE, ForceCapture: BOOLEAN) -> NTSTATUS where irql <= APC_LEVEL, RELEASES;
    /// Bytes of a security descriptor in self-relative form.
    fn RtlLengthSecurityDescriptor(SecurityDescriptor: *mut c_void) -> u32 where irql == PASSIVE_LEVEL;
}
