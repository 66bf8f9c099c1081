//! Security: subjects, tokens, privileges, identities.
#![expect(non_upper_case_globals, reason = "constants of the WDK in patterns")]
#![expect(
    unsafe_code,
    non_snake_case,
    reason = "exports have foreign signatures and the names of the WDK"
)]

use super::ex::pool::Wanted;
use super::{exports, kernel_addresses};
use crate::guest::{self, field, get, set};
use crate::machine::Machine;
use crate::machine::current;
use crate::object::Kind;
use crate::process::SYSTEM_PROCESS;
use crate::security::{self, Privilege};
use lab_verifier::RuleId;
use nt::NTSTATUS;
use nt::base::{ACCESS_MASK, BOOLEAN, HANDLE, KPROCESSOR_MODE, KernelMode, UNICODE_STRING};
use nt::ex::PagedPool;
use nt::se::{
    LUID, SE_GROUP_DEFAULTED, SE_OWNER_DEFAULTED, SE_SELF_RELATIVE, SECURITY_DESCRIPTOR, SID,
    SID_MAX_SUB_AUTHORITIES,
};
use nt::status::{
    STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_INFO_CLASS, STATUS_INVALID_PARAMETER, STATUS_INVALID_SECURITY_DESCR,
    STATUS_NO_TOKEN, STATUS_SUCCESS, STATUS_UNKNOWN_REVISION,
};
use nt::token::{
    LUID_AND_ATTRIBUTES, PRIVILEGE_SET, PRIVILEGE_SET_ALL_NECESSARY, SECURITY_SUBJECT_CONTEXT,
    TokenElevation, TokenSessionId, TokenUser,
};
use std::ffi::c_void;
use std::ptr;

exports! {
    token;

    fn SeCaptureSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) {
        let machine = current();
        let token = machine.token_of(machine.current_process());
        guest::write(SubjectContext, SECURITY_SUBJECT_CONTEXT { ClientToken: ptr::null_mut(), ImpersonationLevel: 0, PrimaryToken: token as *mut c_void, ProcessAuditId: ptr::null_mut() });
    }
    fn SeReleaseSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) { set!(SubjectContext, PrimaryToken = ptr::null_mut::<c_void>()) }
    fn SeLockSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) { current().check_token(get!(SubjectContext, PrimaryToken) as u64); }
    fn SeUnlockSubjectContext(SubjectContext: *mut SECURITY_SUBJECT_CONTEXT) { current().check_token(get!(SubjectContext, PrimaryToken) as u64); }
    fn SePrivilegeCheck(RequiredPrivileges: *mut PRIVILEGE_SET, SubjectSecurityContext: *mut SECURITY_SUBJECT_CONTEXT, AccessMode: KPROCESSOR_MODE) -> BOOLEAN {
        if AccessMode == KernelMode {
            return 1;
        }
        let who = current().check_token(get!(SubjectSecurityContext, PrimaryToken) as u64);
        let first = field!(RequiredPrivileges, Privilege).cast::<LUID_AND_ATTRIBUTES>();
        let mut asked = (0..get!(RequiredPrivileges, PrivilegeCount) as usize).map(|index| holds(who, get!(first.wrapping_add(index), Luid.LowPart)));
        u8::from(if get!(RequiredPrivileges, Control) == PRIVILEGE_SET_ALL_NECESSARY { asked.all(|held| held) } else { asked.any(|held| held) })
    }
    fn SeSinglePrivilegeCheck(PrivilegeValue: u64, PreviousMode: KPROCESSOR_MODE) -> BOOLEAN {
        let machine = current();
        let who = machine.privilege_of(machine.current_process());
        u8::from(PreviousMode == KernelMode || u32::try_from(PrivilegeValue).is_ok_and(|privilege| holds(who, privilege)))
    }
    fn SeAccessCheck(SecurityDescriptor: *mut c_void, SubjectSecurityContext: *mut SECURITY_SUBJECT_CONTEXT, _SubjectContextLocked: BOOLEAN, DesiredAccess: ACCESS_MASK, PreviouslyGrantedAccess: ACCESS_MASK, Privileges: *mut *mut PRIVILEGE_SET, _GenericMapping: *mut c_void, AccessMode: KPROCESSOR_MODE, GrantedAccess: *mut ACCESS_MASK, AccessStatus: *mut NTSTATUS) -> BOOLEAN {
        if !Privileges.is_null() {
            guest::write(Privileges, ptr::null_mut());
        }
        let who = current().check_token(get!(SubjectSecurityContext, PrimaryToken) as u64);
        let allowed = AccessMode == KernelMode || security::read_dacl(SecurityDescriptor as u64).is_some_and(|dacl| security::allows(&dacl, who, DesiredAccess));
        let (granted, status) = if allowed { (DesiredAccess | PreviouslyGrantedAccess, STATUS_SUCCESS) } else { (0, STATUS_ACCESS_DENIED) };
        guest::write(GrantedAccess, granted);
        guest::write(AccessStatus, status);
        u8::from(allowed)
    }
    fn SeTokenIsAdmin(Token: *mut c_void) -> BOOLEAN { u8::from(current().check_token(Token as u64) == Privilege::Administrator) }
    fn SeQueryAuthenticationIdToken(Token: *mut c_void, AuthenticationId: *mut LUID) -> NTSTATUS {
        current().check_token(Token as u64);
        guest::write(AuthenticationId, LUID { LowPart: 0x3E7, HighPart: 0 });
        STATUS_SUCCESS
    }
    fn SeQueryInformationToken(Token: *mut c_void, TokenInformationClass: i32, TokenInformation: *mut *mut c_void) -> NTSTATUS {
        let machine = current();
        let who = machine.check_token(Token as u64);
        let Some(len) = answer(who, TokenInformationClass, 0).map(|bytes| bytes.len()) else { return STATUS_INVALID_INFO_CLASS };
        let block = machine.allocate_pool(len, u32::from_le_bytes(*b"SeTi"), Wanted::of_type(PagedPool));
        if block == 0 {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        guest::fill(block as *mut u8, &answer(who, TokenInformationClass, block).unwrap_or_default());
        guest::write(TokenInformation, block as *mut c_void);
        STATUS_SUCCESS
    }
    fn PsReferencePrimaryToken(Process: *mut c_void) -> *mut c_void {
        let machine = current();
        machine.check_process(Process as u64);
        let token = machine.token_of(Process as u64);
        machine.objects.borrow_mut().reference(token, machine.call_site());
        token as *mut c_void
    }
    fn PsDereferencePrimaryToken(PrimaryToken: *mut c_void) { current().dereference(PrimaryToken as u64); }
    fn ZwOpenProcessToken(ProcessHandle: HANDLE, _DesiredAccess: ACCESS_MASK, TokenHandle: *mut HANDLE) -> NTSTATUS {
        kernel_addresses!(TokenHandle);
        current().open_token(ProcessHandle, TokenHandle)
    }
    fn ZwOpenProcessTokenEx(ProcessHandle: HANDLE, _DesiredAccess: ACCESS_MASK, _HandleAttributes: u32, TokenHandle: *mut HANDLE) -> NTSTATUS {
        kernel_addresses!(TokenHandle);
        current().open_token(ProcessHandle, TokenHandle)
    }
    fn ZwOpenThreadToken(ThreadHandle: HANDLE, _DesiredAccess: ACCESS_MASK, _OpenAsSelf: BOOLEAN, _TokenHandle: *mut HANDLE) -> NTSTATUS { current().resolve_handle(ThreadHandle as u64, Some(Kind::Thread)).err().unwrap_or(STATUS_NO_TOKEN) }
    fn ZwOpenThreadTokenEx(ThreadHandle: HANDLE, _DesiredAccess: ACCESS_MASK, _OpenAsSelf: BOOLEAN, _HandleAttributes: u32, _TokenHandle: *mut HANDLE) -> NTSTATUS { current().resolve_handle(ThreadHandle as u64, Some(Kind::Thread)).err().unwrap_or(STATUS_NO_TOKEN) }
    fn ZwQueryInformationToken(TokenHandle: HANDLE, TokenInformationClass: i32, TokenInformation: *mut c_void, TokenInformationLength: u32, ReturnLength: *mut u32) -> NTSTATUS {
        kernel_addresses!(TokenInformation, ReturnLength);
        let machine = current();
        let token = match machine.resolve_handle(TokenHandle as u64, Some(Kind::Token)) {
            Ok(token) => token,
            Err(status) => return status,
        };
        let Some(bytes) = answer(machine.check_token(token), TokenInformationClass, TokenInformation as u64) else { return STATUS_INVALID_INFO_CLASS };
        guest::write(ReturnLength, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if bytes.len() > TokenInformationLength as usize {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(TokenInformation.cast(), &bytes);
        STATUS_SUCCESS
    }
    fn RtlInitializeSid(Sid: *mut c_void, IdentifierAuthority: *const [u8; 6], SubAuthorityCount: u8) -> NTSTATUS {
        if SubAuthorityCount > SID_MAX_SUB_AUTHORITIES {
            return STATUS_INVALID_PARAMETER;
        }
        let sid = Sid.cast::<SID>();
        set!(sid, Revision = 1u8);
        set!(sid, SubAuthorityCount = SubAuthorityCount);
        set!(sid, IdentifierAuthority = guest::read(IdentifierAuthority));
        STATUS_SUCCESS
    }
    fn RtlSubAuthoritySid(Sid: *mut c_void, SubAuthority: u32) -> *mut u32 { Sid.wrapping_byte_add(8 + 4 * SubAuthority as usize).cast() }
    fn RtlSubAuthorityCountSid(Sid: *mut c_void) -> *mut u8 { Sid.cast::<u8>().wrapping_add(1) }
    fn RtlLengthRequiredSid(SubAuthorityCount: u32) -> u32 { 8 + 4 * SubAuthorityCount }
    fn RtlEqualSid(Sid1: *mut c_void, Sid2: *mut c_void) -> BOOLEAN { u8::from(sid_bytes(Sid1) == sid_bytes(Sid2)) }
    fn RtlCopySid(DestinationSidLength: u32, DestinationSid: *mut c_void, SourceSid: *mut c_void) -> NTSTATUS {
        let sid = sid_bytes(SourceSid);
        if sid.len() > DestinationSidLength as usize {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(DestinationSid.cast(), &sid);
        STATUS_SUCCESS
    }
    fn RtlConvertSidToUnicodeString(UnicodeString: *mut UNICODE_STRING, Sid: *mut c_void, AllocateDestinationString: BOOLEAN) -> NTSTATUS {
        let text: Vec<u16> = sid_text(&sid_bytes(Sid)).encode_utf16().collect();
        super::text::deliver_wide(UnicodeString, &text, AllocateDestinationString != 0, true)
    }
    fn RtlSetOwnerSecurityDescriptor(SecurityDescriptor: *mut c_void, Owner: *mut c_void, OwnerDefaulted: BOOLEAN) -> NTSTATUS {
        let descriptor = SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>();
        if get!(descriptor, Revision) != 1 {
            return STATUS_UNKNOWN_REVISION;
        }
        let control = get!(descriptor, Control);
        if control & SE_SELF_RELATIVE != 0 {
            return STATUS_INVALID_SECURITY_DESCR;
        }
        set!(descriptor, Owner = Owner);
        set!(descriptor, Control = control & !SE_OWNER_DEFAULTED | if OwnerDefaulted != 0 { SE_OWNER_DEFAULTED } else { 0 });
        STATUS_SUCCESS
    }
    fn RtlSetGroupSecurityDescriptor(SecurityDescriptor: *mut c_void, Group: *mut c_void, GroupDefaulted: BOOLEAN) -> NTSTATUS {
        let descriptor = SecurityDescriptor.cast::<SECURITY_DESCRIPTOR>();
        if get!(descriptor, Revision) != 1 {
            return STATUS_UNKNOWN_REVISION;
        }
        let control = get!(descriptor, Control);
        if control & SE_SELF_RELATIVE != 0 {
            return STATUS_INVALID_SECURITY_DESCR;
        }
        set!(descriptor, Group = Group);
        set!(descriptor, Control = control & !SE_GROUP_DEFAULTED | if GroupDefaulted != 0 { SE_GROUP_DEFAULTED } else { 0 });
        STATUS_SUCCESS
    }
    fn RtlValidSecurityDescriptor(SecurityDescriptor: *mut c_void) -> BOOLEAN { u8::from(security::read_dacl(SecurityDescriptor as u64).is_some()) }
}

/// `SeChangeNotifyPrivilege`, which everybody has.
const CHANGE_NOTIFY: u32 = 23;

/// Whether somebody has a privilege.
fn holds(who: Privilege, privilege: u32) -> bool {
    who == Privilege::Administrator || privilege == CHANGE_NOTIFY
}

fn sid_bytes(sid: *mut c_void) -> Vec<u8> {
    let count = usize::from(get!(sid.cast::<SID>(), SubAuthorityCount));
    guest::bytes(sid.cast(), 8 + 4 * count)
}

/// `S-1-authority-part-…`; an authority of more than 32 bits is in hexadecimal.
fn sid_text(sid: &[u8]) -> String {
    let authority = sid[2..8]
        .iter()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mut text = match u32::try_from(authority) {
        Ok(authority) => format!("S-{}-{authority}", sid[0]),
        Err(_) => format!("S-{}-0x{authority:012X}", sid[0]),
    };
    for part in sid[8..].as_chunks::<4>().0 {
        text.push_str(&format!("-{}", u32::from_le_bytes(*part)));
    }
    text
}

/// What is said of a token, as it lies at `base`.
fn answer(who: Privilege, class: i32, base: u64) -> Option<Vec<u8>> {
    match class {
        // SID_AND_ATTRIBUTES, and the SID behind it.
        TokenUser => {
            let mut bytes = (base + 0x10).to_le_bytes().to_vec();
            bytes.extend([0; 8]);
            bytes.extend(who.user());
            Some(bytes)
        }
        TokenSessionId => Some(vec![0; 4]),
        TokenElevation => Some(
            u32::from(who == Privilege::Administrator)
                .to_le_bytes()
                .to_vec(),
        ),
        _ => None,
    }
}

impl Machine {
    /// What a process may do, by the client it is.
    fn privilege_of(&self, process: u64) -> Privilege {
        if self.process_id(process) == Some(SYSTEM_PROCESS) {
            return Privilege::Administrator;
        }
        self.files
            .borrow()
            .privilege_of(process)
            .unwrap_or(Privilege::User)
    }

    /// The token of a process, made at first sight.
    fn token_of(&self, process: u64) -> u64 {
        let known = self.services.borrow().tokens.get(&process).copied();
        if let Some(token) = known {
            return token;
        }
        let who = self.privilege_of(process);
        let Some(token) = self.allocate_object(0x80, b"Toke", Kind::Token) else {
            return 0;
        };
        let mut services = self.services.borrow_mut();
        services.tokens.insert(process, token);
        services.token_rights.insert(token, who);
        token
    }

    /// What a token allows; stops when it is none.
    fn check_token(&self, token: u64) -> Privilege {
        let rights = self.services.borrow().token_rights.get(&token).copied();
        rights.unwrap_or_else(|| {
            self.violate(
                RuleId::BadObject,
                [token, 0, 0, 0],
                format!("{token:#x} is no token"),
            )
        })
    }

    fn open_token(&self, process: HANDLE, to: *mut HANDLE) -> NTSTATUS {
        match self.resolve_handle(process as u64, Some(Kind::Process)) {
            Ok(process) => {
                let token = self.token_of(process);
                self.open_object(token, to)
            }
            Err(status) => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_as_users_know_them() {
        assert_eq!(sid_text(&Privilege::Administrator.user()), "S-1-5-18");
        assert_eq!(sid_text(&[1, 0, 0, 1, 0, 0, 0, 0]), "S-1-0x000100000000");
    }
}
