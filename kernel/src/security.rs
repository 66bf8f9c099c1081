//! Who may open the device: nobody but those named here.
#![expect(unsafe_code, reason = "calls the object manager")]

use crate::{Result, check};
use nt::base::{HANDLE, KernelMode, OBJ_KERNEL_HANDLE, WRITE_DAC};
use nt::irp::DEVICE_OBJECT;
use nt::se::{
    ACCESS_ALLOWED_ACE_TYPE, DACL_SECURITY_INFORMATION, SE_DACL_PRESENT, SE_SELF_RELATIVE,
};

/// Who may open a device. SYSTEM and Administrators, who run the machine, have all access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody else.
    Administrators,
    /// Performance Log Users, too, may read and write: the group Windows has for those who may log
    /// performance data of the whole machine.
    PerformanceLogUsers,
}

/// `FILE_ALL_ACCESS` (wdm.h).
const FILE_ALL_ACCESS: u32 = 0x001F_01FF;
/// `FILE_GENERIC_READ | FILE_GENERIC_WRITE` (wdm.h).
const FILE_READ_WRITE: u32 = 0x0012_019F;
/// No inheritance from the parent (`SE_DACL_PROTECTED`, winnt.h).
const SE_DACL_PROTECTED: u16 = 0x1000;

/// A security identifier `S-1-5-…` with `N` sub-authorities (MS-DTYP §2.4.2.2).
#[repr(C)]
struct Sid<const N: usize> {
    revision: u8,
    count: u8,
    authority: [u8; 6],
    sub_authorities: [u32; N],
}

/// An entry that allows access (MS-DTYP §2.4.4.2).
#[repr(C)]
struct Allow<const N: usize> {
    kind: u8,
    flags: u8,
    bytes: u16,
    mask: u32,
    sid: Sid<N>,
}

impl<const N: usize> Allow<N> {
    const fn new(mask: u32, sub_authorities: [u32; N]) -> Self {
        const NT_AUTHORITY: [u8; 6] = [0, 0, 0, 0, 0, 5];
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a SID has at most 15 sub-authorities"
        )]
        let (count, bytes) = (N as u8, size_of::<Self>() as u16);
        let sid = Sid {
            revision: 1,
            count,
            authority: NT_AUTHORITY,
            sub_authorities,
        };
        Self {
            kind: ACCESS_ALLOWED_ACE_TYPE,
            flags: 0,
            bytes,
            mask,
            sid,
        }
    }
}

/// A self-relative security descriptor: offsets, then the list (MS-DTYP §2.4.6).
#[repr(C)]
struct Descriptor {
    revision: u8,
    zero: u8,
    control: u16,
    owner: u32,
    group: u32,
    audit_list: u32,
    access_list: u32,
    list_revision: u8,
    list_zero: u8,
    list_bytes: u16,
    list_count: u16,
    list_zero_2: u16,
    system: Allow<1>,
    administrators: Allow<2>,
    log_users: Allow<2>,
}

const LIST_OFFSET: usize = core::mem::offset_of!(Descriptor, list_revision);

static FOR_ADMINISTRATORS: Descriptor = descriptor(Access::Administrators);
static FOR_LOG_USERS: Descriptor = descriptor(Access::PerformanceLogUsers);

/// The list ends before the entry that does not apply.
const fn descriptor(access: Access) -> Descriptor {
    let (count, end) = match access {
        Access::Administrators => (2, core::mem::offset_of!(Descriptor, log_users)),
        Access::PerformanceLogUsers => (3, size_of::<Descriptor>()),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a few dozen bytes")]
    let list_bytes = (end - LIST_OFFSET) as u16;
    #[expect(clippy::cast_possible_truncation, reason = "a few dozen bytes")]
    let access_list = LIST_OFFSET as u32;
    Descriptor {
        revision: 1,
        zero: 0,
        control: SE_DACL_PRESENT | SE_DACL_PROTECTED | SE_SELF_RELATIVE,
        owner: 0,
        group: 0,
        audit_list: 0,
        access_list,
        list_revision: 2,
        list_zero: 0,
        list_bytes,
        list_count: count,
        list_zero_2: 0,
        system: Allow::new(FILE_ALL_ACCESS, [18]),
        administrators: Allow::new(FILE_ALL_ACCESS, [32, 544]),
        log_users: Allow::new(FILE_READ_WRITE, [32, 559]),
    }
}

/// A handle that is closed when dropped.
struct KernelHandle(HANDLE);

impl Drop for KernelHandle {
    fn drop(&mut self) {
        // SAFETY: an open kernel handle, closed once.
        unsafe { nt::zw::ZwClose(self.0) };
    }
}

/// Puts the descriptor on a device that nobody can open yet (`DO_DEVICE_INITIALIZING`).
///
/// # Safety
/// `device` must be a valid device object.
///
/// IRQL: `PASSIVE_LEVEL`.
/// Errors: those of `ObOpenObjectByPointer` and `ZwSetSecurityObject`.
pub(crate) unsafe fn protect(device: *mut DEVICE_OBJECT, access: Access) -> Result<()> {
    use core::ptr::null_mut;
    let mut handle = null_mut();
    let (object, right) = (device.cast(), WRITE_DAC);
    // SAFETY: (1) the object is valid: promised by the caller. (2) Kernel mode needs no type and no
    // access state. (3) `handle` is a valid place for the answer.
    check(unsafe {
        nt::ob::ObOpenObjectByPointer(
            object,
            OBJ_KERNEL_HANDLE,
            null_mut(),
            right,
            null_mut(),
            KernelMode,
            &raw mut handle,
        )
    })?;
    let handle = KernelHandle(handle);
    let descriptor = match access {
        Access::Administrators => &FOR_ADMINISTRATORS,
        Access::PerformanceLogUsers => &FOR_LOG_USERS,
    };
    let descriptor = (&raw const *descriptor).cast_mut().cast();
    // SAFETY: (1) the handle is open for it. (2) The descriptor is well formed; it is only read.
    check(unsafe { nt::zw::ZwSetSecurityObject(handle.0, DACL_SECURITY_INFORMATION, descriptor) })
}
