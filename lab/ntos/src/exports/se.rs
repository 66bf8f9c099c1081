//! Security descriptors, as the run-time library makes them.
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::se::{
    ACCESS_ALLOWED_ACE_TYPE, ACL, ACL_REVISION, SE_DACL_DEFAULTED, SE_DACL_PRESENT,
    SE_GROUP_DEFAULTED, SE_OWNER_DEFAULTED, SE_SACL_DEFAULTED, SE_SACL_PRESENT, SE_SELF_RELATIVE,
    SECURITY_DESCRIPTOR, SECURITY_DESCRIPTOR_REVISION, SID, SID_MAX_SUB_AUTHORITIES,
};
use nt::status::{
    STATUS_ALLOTTED_SPACE_EXCEEDED, STATUS_BAD_DESCRIPTOR_FORMAT, STATUS_BUFFER_TOO_SMALL,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_ACL, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_SECURITY_DESCR, STATUS_INVALID_SID, STATUS_SUCCESS, STATUS_UNKNOWN_REVISION,
};

use super::ex::pool::Wanted;
use super::exports;
use crate::guest::{self, get, set};
use crate::machine::current;
use crate::security::{Parts, SELF_RELATIVE_HEADER};

exports! {
    se;

    fn RtlCreateSecurityDescriptor(SecurityDescriptor: *mut c_void, Revision: u32) -> NTSTATUS {
        if Revision != SECURITY_DESCRIPTOR_REVISION {
            return STATUS_UNKNOWN_REVISION;
        }
        guest::set_bytes(SecurityDescriptor.cast(), 0, size_of::<SECURITY_DESCRIPTOR>());
        set!(SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>(), Revision = 1u8);
        STATUS_SUCCESS
    }
    fn RtlSetDaclSecurityDescriptor(SecurityDescriptor: *mut c_void, DaclPresent: u8, Dacl: *mut ACL, _DaclDefaulted: u8) -> NTSTATUS {
        let descriptor = SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>();
        let control = get!(descriptor, Control);
        if get!(descriptor, Revision) != 1 {
            return STATUS_UNKNOWN_REVISION;
        }
        if control & SE_SELF_RELATIVE != 0 {
            return STATUS_INVALID_SECURITY_DESCR;
        }
        if DaclPresent == 0 {
            set!(descriptor, Control = control & !SE_DACL_PRESENT);
        } else {
            set!(descriptor, Control = control | SE_DACL_PRESENT);
            set!(descriptor, Dacl = Dacl);
        }
        STATUS_SUCCESS
    }
    fn RtlGetDaclSecurityDescriptor(SecurityDescriptor: *mut c_void, DaclPresent: *mut u8, Dacl: *mut *mut ACL, DaclDefaulted: *mut u8) -> NTSTATUS {
        get_acl(SecurityDescriptor, SE_DACL_PRESENT, SE_DACL_DEFAULTED, DaclPresent, Dacl, DaclDefaulted)
    }
    fn RtlGetSaclSecurityDescriptor(SecurityDescriptor: *mut c_void, SaclPresent: *mut u8, Sacl: *mut *mut ACL, SaclDefaulted: *mut u8) -> NTSTATUS {
        get_acl(SecurityDescriptor, SE_SACL_PRESENT, SE_SACL_DEFAULTED, SaclPresent, Sacl, SaclDefaulted)
    }
    fn RtlGetOwnerSecurityDescriptor(SecurityDescriptor: *mut c_void, Owner: *mut *mut c_void, OwnerDefaulted: *mut u8) -> NTSTATUS {
        let Some(parts) = Parts::read(SecurityDescriptor as u64) else { return STATUS_UNKNOWN_REVISION };
        guest::write(Owner, parts.owner as *mut c_void);
        guest::write(OwnerDefaulted, u8::from(parts.control & SE_OWNER_DEFAULTED != 0));
        STATUS_SUCCESS
    }
    fn RtlGetGroupSecurityDescriptor(SecurityDescriptor: *mut c_void, Group: *mut *mut c_void, GroupDefaulted: *mut u8) -> NTSTATUS {
        let Some(parts) = Parts::read(SecurityDescriptor as u64) else { return STATUS_UNKNOWN_REVISION };
        guest::write(Group, parts.group as *mut c_void);
        guest::write(GroupDefaulted, u8::from(parts.control & SE_GROUP_DEFAULTED != 0));
        STATUS_SUCCESS
    }
    fn RtlAbsoluteToSelfRelativeSD(AbsoluteSecurityDescriptor: *mut c_void, SelfRelativeSecurityDescriptor: *mut c_void, BufferLength: *mut u32) -> NTSTATUS {
        let Some(parts) = Parts::read(AbsoluteSecurityDescriptor as u64) else { return STATUS_UNKNOWN_REVISION };
        if parts.control & SE_SELF_RELATIVE != 0 {
            return STATUS_BAD_DESCRIPTOR_FORMAT;
        }
        let copy = parts.to_self_relative();
        let room = guest::read(BufferLength) as usize;
        guest::write(BufferLength, u32::try_from(copy.len()).unwrap_or(u32::MAX));
        if room < copy.len() {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(SelfRelativeSecurityDescriptor.cast(), &copy);
        STATUS_SUCCESS
    }
    fn SeCaptureSecurityDescriptor(InputSecurityDescriptor: *mut c_void, _CurrentMode: i8, PoolType: i32, _ForceCapture: u8, OutputSecurityDescriptor: *mut *mut c_void) -> NTSTATUS {
        if InputSecurityDescriptor.is_null() {
            guest::write(OutputSecurityDescriptor, std::ptr::null_mut());
            return STATUS_SUCCESS;
        }
        let Some(parts) = Parts::read(InputSecurityDescriptor as u64) else { return STATUS_UNKNOWN_REVISION };
        let copy = parts.to_self_relative();
        let block = current().allocate_pool(copy.len(), u32::from_le_bytes(*b"SeSc"), Wanted::of_type(PoolType));
        if block == 0 {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        guest::fill(block as *mut u8, &copy);
        guest::write(OutputSecurityDescriptor, block as *mut c_void);
        STATUS_SUCCESS
    }
    fn SeReleaseSecurityDescriptor(CapturedSecurityDescriptor: *mut c_void, _CurrentMode: i8, _ForceCapture: u8) -> NTSTATUS {
        if !CapturedSecurityDescriptor.is_null() {
            current().free_pool(CapturedSecurityDescriptor as u64, 0);
        }
        STATUS_SUCCESS
    }
    fn RtlCreateAcl(Acl: *mut ACL, AclLength: u32, AclRevision: u32) -> NTSTATUS {
        let Ok(size) = u16::try_from(AclLength) else { return STATUS_INVALID_PARAMETER };
        if usize::from(size) < size_of::<ACL>() || AclRevision != ACL_REVISION {
            return STATUS_INVALID_PARAMETER;
        }
        guest::write(Acl, ACL { AclRevision: 2, Sbz1: 0, AclSize: size & !3, AceCount: 0, Sbz2: 0 });
        STATUS_SUCCESS
    }
    fn RtlAddAccessAllowedAce(Acl: *mut ACL, AceRevision: u32, AccessMask: u32, Sid: *mut c_void) -> NTSTATUS {
        if AceRevision != ACL_REVISION || get!(Acl, AclRevision) != 2 {
            return STATUS_UNKNOWN_REVISION;
        }
        if !is_valid(Sid) {
            return STATUS_INVALID_SID;
        }
        add_ace(Acl, AccessMask, Sid)
    }
    fn RtlLengthSid(Sid: *mut c_void) -> u32 { sid_length(Sid) }
    fn RtlValidSid(Sid: *mut c_void) -> u8 { u8::from(is_valid(Sid)) }
    fn RtlLengthSecurityDescriptor(SecurityDescriptor: *mut c_void) -> u32 {
        let copy = Parts::read(SecurityDescriptor as u64).map(Parts::to_self_relative);
        copy.map_or(SELF_RELATIVE_HEADER, |copy| u32::try_from(copy.len()).unwrap_or(u32::MAX))
    }
}

fn get_acl(
    descriptor: *mut c_void,
    present_bit: u16,
    defaulted_bit: u16,
    present: *mut u8,
    acl: *mut *mut ACL,
    defaulted: *mut u8,
) -> NTSTATUS {
    let Some(parts) = Parts::read(descriptor as u64) else {
        return STATUS_UNKNOWN_REVISION;
    };
    let is_present = parts.control & present_bit != 0;
    guest::write(present, u8::from(is_present));
    if is_present {
        let part = if present_bit == SE_DACL_PRESENT {
            parts.dacl
        } else {
            parts.sacl
        };
        guest::write(acl, part as *mut ACL);
        guest::write(defaulted, u8::from(parts.control & defaulted_bit != 0));
    }
    STATUS_SUCCESS
}

fn sid_length(sid: *mut c_void) -> u32 {
    8 + 4 * u32::from(get!(sid.cast::<SID>(), SubAuthorityCount))
}

fn is_valid(sid: *mut c_void) -> bool {
    let sid = sid.cast::<SID>();
    get!(sid, Revision) == 1 && get!(sid, SubAuthorityCount) <= SID_MAX_SUB_AUTHORITIES
}

fn add_ace(acl: *mut ACL, mask: u32, sid: *mut c_void) -> NTSTATUS {
    let size = usize::from(get!(acl, AclSize));
    let mut offset = size_of::<ACL>();
    for _ in 0..get!(acl, AceCount) {
        let ace = acl.wrapping_byte_add(offset).cast::<nt::se::ACE_HEADER>();
        let ace_size = usize::from(get!(ace, AceSize));
        offset += ace_size;
        if ace_size < 8 || offset > size {
            return STATUS_INVALID_ACL;
        }
    }
    let sid_bytes = guest::bytes(sid.cast(), sid_length(sid) as usize);
    let ace_size = 8 + sid_bytes.len();
    if offset + ace_size > size {
        return STATUS_ALLOTTED_SPACE_EXCEEDED;
    }
    let ace = acl.wrapping_byte_add(offset);
    let header = nt::se::ACE_HEADER {
        AceType: ACCESS_ALLOWED_ACE_TYPE,
        AceFlags: 0,
        AceSize: u16::try_from(ace_size).unwrap_or(u16::MAX),
    };
    guest::write(ace.cast(), header);
    guest::write(ace.wrapping_byte_add(4).cast::<u32>(), mask);
    guest::fill(ace.wrapping_byte_add(8).cast(), &sid_bytes);
    set!(acl, AceCount = get!(acl, AceCount) + 1);
    STATUS_SUCCESS
}
