//! Who may open a device: security descriptors and the access check.

mod descriptor;
mod well_known;

use nt::base::{GENERIC_ALL, GENERIC_EXECUTE, GENERIC_READ, GENERIC_WRITE};
use nt::se::{ACCESS_ALLOWED_ACE_TYPE, SE_DACL_PRESENT};

use crate::guest::{self, get};

pub(crate) use descriptor::{Parts, SELF_RELATIVE_HEADER};
pub(crate) use well_known::se_exports;

/// A SID in its binary form.
pub(crate) type Sid = Vec<u8>;

const LOCAL_SYSTEM: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
const ADMINISTRATORS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];
const USERS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x21, 2, 0, 0];
const PERFORMANCE_LOG_USERS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x2F, 2, 0, 0];
const EVERYONE: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
const AUTHENTICATED_USERS: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 11, 0, 0, 0];

/// How privileged a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// SYSTEM and a member of Administrators.
    Administrator,
    /// A member of Performance Log Users, and of Users.
    PerformanceLogUser,
    /// A member of Users.
    User,
}

impl Privilege {
    /// The user it is: SYSTEM, or a member of Users.
    pub(crate) fn user(self) -> Sid {
        match self {
            Self::Administrator => LOCAL_SYSTEM.to_vec(),
            Self::PerformanceLogUser | Self::User => USERS.to_vec(),
        }
    }

    fn sids(self) -> &'static [&'static [u8]] {
        match self {
            Self::Administrator => &[
                LOCAL_SYSTEM,
                ADMINISTRATORS,
                USERS,
                EVERYONE,
                AUTHENTICATED_USERS,
            ],
            Self::PerformanceLogUser => {
                &[PERFORMANCE_LOG_USERS, USERS, EVERYONE, AUTHENTICATED_USERS]
            }
            Self::User => &[USERS, EVERYONE, AUTHENTICATED_USERS],
        }
    }
}

/// Rights of `FILE_GENERIC_READ`, `…WRITE`, `…EXECUTE` and `FILE_ALL_ACCESS` (winnt.h).
const FILE_GENERIC_READ: u32 = 0x0012_0089;
const FILE_GENERIC_WRITE: u32 = 0x0012_0116;
const FILE_GENERIC_EXECUTE: u32 = 0x0012_00A0;
const FILE_ALL_ACCESS: u32 = 0x001F_01FF;

/// Maps generic rights to those of a device.
pub(crate) fn map_generic(access: u32) -> u32 {
    let generic = [
        (GENERIC_READ, FILE_GENERIC_READ),
        (GENERIC_WRITE, FILE_GENERIC_WRITE),
        (GENERIC_EXECUTE, FILE_GENERIC_EXECUTE),
        (GENERIC_ALL, FILE_ALL_ACCESS),
    ];
    let mapped = generic
        .iter()
        .filter(|(from, _)| access & from != 0)
        .fold(access, |rights, (_, to)| rights | to);
    mapped & !(GENERIC_READ | GENERIC_WRITE | GENERIC_EXECUTE | GENERIC_ALL)
}

/// One entry of an access-control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ace {
    kind: u8,
    mask: u32,
    sid: Sid,
}

/// The entries of a descriptor's DACL; `None` when it has none, which allows everything.
pub(crate) type Dacl = Option<Vec<Ace>>;

/// Whether a DACL grants all of `wanted` (Windows security: entries in order, first word counts).
pub(crate) fn allows(dacl: &Dacl, privilege: Privilege, wanted: u32) -> bool {
    let Some(entries) = dacl else { return true };
    let mut left = map_generic(wanted);
    for ace in entries
        .iter()
        .filter(|ace| privilege.sids().contains(&ace.sid.as_slice()))
    {
        if ace.kind == ACCESS_ALLOWED_ACE_TYPE {
            left &= !map_generic(ace.mask);
        } else if map_generic(ace.mask) & left != 0 {
            return false;
        }
    }
    left == 0
}

/// The DACL of a descriptor in driver memory, absolute or self-relative.
///
/// `None` when its form is wrong.
pub(crate) fn read_dacl(descriptor: u64) -> Option<Dacl> {
    let parts = Parts::read(descriptor)?;
    if parts.control & SE_DACL_PRESENT == 0 || parts.dacl == 0 {
        Some(None)
    } else {
        read_acl(parts.dacl).map(Some)
    }
}

fn read_acl(address: u64) -> Option<Vec<Ace>> {
    let acl = address as *mut nt::se::ACL;
    let (size, count) = (u64::from(get!(acl, AclSize)), get!(acl, AceCount));
    let mut offset = 8;
    let mut entries = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let header = (address + offset) as *mut nt::se::ACE_HEADER;
        let ace_size = u64::from(get!(header, AceSize));
        // Header, mask and the shortest SID; and it ends inside the list.
        if offset + 16 > size || ace_size < 16 || offset + ace_size > size {
            return None;
        }
        entries.push(Ace {
            kind: get!(header, AceType),
            mask: guest::read((address + offset + 4) as *const u32),
            sid: guest::bytes(
                (address + offset + 8) as *const u8,
                usize::try_from(ace_size - 8).ok()?,
            ),
        });
        offset += ace_size;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(mask: u32, sid: &[u8]) -> Ace {
        Ace {
            kind: ACCESS_ALLOWED_ACE_TYPE,
            mask,
            sid: sid.to_vec(),
        }
    }

    #[test]
    fn no_dacl_allows_all_and_an_empty_one_nothing() {
        assert!(allows(&None, Privilege::User, GENERIC_ALL));
        assert!(!allows(&Some(vec![]), Privilege::Administrator, 1));
    }

    #[test]
    fn administrators_get_in_where_users_do_not() {
        let dacl = Some(vec![
            allow(GENERIC_ALL, LOCAL_SYSTEM),
            allow(GENERIC_ALL, ADMINISTRATORS),
        ]);
        assert!(allows(
            &dacl,
            Privilege::Administrator,
            GENERIC_READ | GENERIC_WRITE
        ));
        assert!(!allows(&dacl, Privilege::User, GENERIC_READ));
        let dacl = Some(vec![allow(GENERIC_READ, PERFORMANCE_LOG_USERS)]);
        assert!(allows(&dacl, Privilege::PerformanceLogUser, GENERIC_READ));
        assert!(!allows(&dacl, Privilege::User, GENERIC_READ));
        let dacl = Some(vec![allow(GENERIC_READ, USERS)]);
        assert!(allows(&dacl, Privilege::User, 1));
        assert!(!allows(&dacl, Privilege::User, 2));
    }
}
