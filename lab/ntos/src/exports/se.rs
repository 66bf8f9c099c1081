//! Security descriptors, as the run-time library makes them.
#![expect(unsafe_code, reason = "exports have foreign signatures")]

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::se::{
    ACCESS_ALLOWED_ACE_TYPE, ACL, ACL_REVISION, SE_DACL_PRESENT, SE_SELF_RELATIVE,
    SECURITY_DESCRIPTOR, SECURITY_DESCRIPTOR_REVISION, SID, SID_MAX_SUB_AUTHORITIES,
};
use nt::status::{
    STATUS_ALLOTTED_SPACE_EXCEEDED, STATUS_INVALID_ACL, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_SECURITY_DESCR, STATUS_INVALID_SID, STATUS_SUCCESS, STATUS_UNKNOWN_REVISION,
};

use super::exports;
use crate::guest::{self, get, set};

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
        let descriptor = SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>();
        if get!(descriptor, Revision) != 1 {
            return STATUS_UNKNOWN_REVISION;
        }
        let present = get!(descriptor, Control) & SE_DACL_PRESENT != 0;
        guest::write(DaclPresent, u8::from(present));
        if present {
            guest::write(Dacl, get!(descriptor, Dacl));
            guest::write(DaclDefaulted, 0);
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
        let descriptor = SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>();
        let dacl = get!(descriptor, Dacl);
        let present = get!(descriptor, Control) & SE_DACL_PRESENT != 0 && !dacl.is_null();
        // Self-relative form: 20 bytes of header, then each part.
        let parts = [get!(descriptor, Owner), get!(descriptor, Group)];
        let sids: u32 = parts.into_iter().filter(|sid| !sid.is_null()).map(sid_length).sum();
        20 + sids + if present { u32::from(get!(dacl, AclSize)) } else { 0 }
    }
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
