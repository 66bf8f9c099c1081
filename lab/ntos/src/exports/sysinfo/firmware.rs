//! Firmware tables: the ACPI tables of the machine's devices.

use std::ffi::c_void;
use std::mem::offset_of;

use lab_devices::platform::apmt;
use nt::NTSTATUS;
use nt::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INFO_LENGTH_MISMATCH, STATUS_INVALID_PARAMETER,
    STATUS_NOT_FOUND, STATUS_NOT_IMPLEMENTED, STATUS_SUCCESS,
};
use nt::sysinfo::{
    SYSTEM_FIRMWARE_TABLE_INFORMATION, SystemFirmwareTableEnumerate, SystemFirmwareTableGet,
};

use crate::guest::{self, get, set};
use crate::machine::Machine;

/// The provider of ACPI tables.
const ACPI: u32 = u32::from_be_bytes(*b"ACPI");
/// What is before the table in a buffer.
const HEAD: usize = offset_of!(SYSTEM_FIRMWARE_TABLE_INFORMATION, TableBuffer);

impl Machine {
    /// `SYSTEM_FIRMWARE_TABLE_INFORMATION`: the caller says which table, the answer follows.
    ///
    /// A buffer that is too small is told how long the table is.
    pub(super) fn firmware_table(&self, to: *mut c_void, len: u32, needed: *mut u32) -> NTSTATUS {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if to.is_null() || len < HEAD {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        let request = to.cast::<SYSTEM_FIRMWARE_TABLE_INFORMATION>();
        // The lab has no other firmware: no SMBIOS, no raw memory.
        if get!(request, ProviderSignature) != ACPI {
            return STATUS_NOT_IMPLEMENTED;
        }
        let signature = get!(request, TableID).to_le_bytes();
        let table = apmt(&self.platform);
        let action = get!(request, Action);
        let answer = if action == SystemFirmwareTableEnumerate {
            table.map_or(Vec::new(), |_| b"APMT".to_vec())
        } else if action != SystemFirmwareTableGet {
            return STATUS_INVALID_PARAMETER;
        } else if let Some(table) = table.filter(|_| &signature == b"APMT") {
            table
        } else {
            return STATUS_NOT_FOUND;
        };
        let size = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        let room = usize::try_from(get!(request, TableBufferLength)).unwrap_or(0);
        set!(request, TableBufferLength = size);
        if !needed.is_null() {
            guest::write(needed, size.saturating_add(16));
        }
        if room.min(len - HEAD) < answer.len() {
            return STATUS_BUFFER_TOO_SMALL;
        }
        guest::fill(to.cast::<u8>().wrapping_add(HEAD), &answer);
        STATUS_SUCCESS
    }
}
