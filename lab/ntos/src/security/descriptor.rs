//! The two forms of a security descriptor.
//!
//! ```text
//!  absolute:       revision 0 control | owner* | group* | sacl* | dacl*     (pointers)
//!  self-relative:  revision 0 control | owner  | group  | sacl  | dacl      (32-bit offsets), parts
//! ```

use nt::se::{ACL, SE_SELF_RELATIVE, SECURITY_DESCRIPTOR, SID};

use crate::guest::{self, get};

/// Bytes of a self-relative descriptor before its parts.
pub(crate) const SELF_RELATIVE_HEADER: u32 = 20;

/// Where the parts of a descriptor are; 0 = it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) control: u16,
    pub(crate) owner: u64,
    pub(crate) group: u64,
    pub(crate) sacl: u64,
    pub(crate) dacl: u64,
}

impl Parts {
    /// Finds the parts of a descriptor in driver memory, of either form.
    ///
    /// `None` when its revision is unknown.
    pub(crate) fn read(descriptor: u64) -> Option<Self> {
        let absolute = descriptor as *mut SECURITY_DESCRIPTOR;
        if get!(absolute, Revision) != 1 {
            return None;
        }
        let control = get!(absolute, Control);
        if control & SE_SELF_RELATIVE == 0 {
            return Some(Self {
                control,
                owner: get!(absolute, Owner) as u64,
                group: get!(absolute, Group) as u64,
                sacl: get!(absolute, Sacl) as u64,
                dacl: get!(absolute, Dacl) as u64,
            });
        }
        let part = |index: u64| match guest::read((descriptor + 4 + 4 * index) as *const u32) {
            0 => 0,
            offset => descriptor + u64::from(offset),
        };
        Some(Self {
            control,
            owner: part(0),
            group: part(1),
            sacl: part(2),
            dacl: part(3),
        })
    }

    fn bytes(&self) -> [Vec<u8>; 4] {
        let sid = |at: u64| match at {
            0 => Vec::new(),
            at => guest::bytes(at as *const u8, sid_length(at)),
        };
        let acl = |at: u64| match at {
            0 => Vec::new(),
            at => guest::bytes(at as *const u8, usize::from(get!(at as *mut ACL, AclSize))),
        };
        [
            sid(self.owner),
            sid(self.group),
            acl(self.sacl),
            acl(self.dacl),
        ]
    }

    /// The descriptor in self-relative form.
    pub(crate) fn to_self_relative(self) -> Vec<u8> {
        let mut out = vec![1, 0];
        out.extend((self.control | SE_SELF_RELATIVE).to_le_bytes());
        let mut offset = SELF_RELATIVE_HEADER;
        let parts = self.bytes();
        for part in &parts {
            let at = if part.is_empty() { 0 } else { offset };
            out.extend(at.to_le_bytes());
            offset += u32::try_from(part.len()).unwrap_or(0);
        }
        out.extend(parts.concat());
        out
    }
}

fn sid_length(sid: u64) -> usize {
    8 + 4 * usize::from(get!(sid as *mut SID, SubAuthorityCount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_self_relative_form_has_the_same_parts() {
        let owner = super::super::well_known::sid(5, &[18]);
        let dacl: Vec<u8> = [2, 0, 8, 0, 0, 0, 0, 0].into();
        let parts = Parts {
            control: nt::se::SE_DACL_PRESENT,
            owner: owner.as_ptr() as u64,
            group: 0,
            sacl: 0,
            dacl: dacl.as_ptr() as u64,
        };
        let copy = parts.to_self_relative();
        assert_eq!(copy.len(), 20 + 12 + 8);
        let read = Parts::read(copy.as_ptr() as u64).expect("revision 1");
        assert_eq!((read.group, read.sacl), (0, 0));
        assert_eq!(guest::bytes(read.owner as *const u8, 12), owner);
        assert_eq!(guest::bytes(read.dacl as *const u8, 8), dacl);
        assert_eq!(read.to_self_relative(), copy);
    }
}
