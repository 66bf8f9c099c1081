//! The table APMT, as firmware left it.
//!
//! `AuxKlibGetSystemFirmwareTable` is this call in a static library of the driver kit, which is not
//! linked here; `ZwQuerySystemInformation` is what it makes.
#![expect(unsafe_code, reason = "asks the kernel for a table")]

use crate::Result;
use crate::pool::{PoolBox, PoolTag};
use nt::status;
use nt::sysinfo::{
    SYSTEM_FIRMWARE_TABLE_INFORMATION, SystemFirmwareTableGet, SystemFirmwareTableInformation,
};
use pmu::uncore::apmt;

/// The four characters `ACPI`, first one highest: the provider of ACPI tables.
const PROVIDER: u32 = u32::from_be_bytes(*b"ACPI");
/// More than any table has; what claims to be longer is not read. Units: bytes.
const MOST: usize = 1 << 20;

/// Bytes before the table in an answer: the request.
const HEAD: usize = core::mem::offset_of!(SYSTEM_FIRMWARE_TABLE_INFORMATION, TableBuffer);

/// A copy of the table.
pub(super) struct Apmt(PoolBox<[u8]>);

impl Apmt {
    /// `None` where there is no such table, or no firmware that has tables.
    ///
    /// IRQL: `PASSIVE_LEVEL`.
    /// Errors: `STATUS_INSUFFICIENT_RESOURCES`.
    /// Source: `SystemFirmwareTableInformation`, ntddk.h.
    pub(super) fn read(tag: PoolTag) -> Result<Option<Self>> {
        let mut empty = [0; HEAD];
        let (answer, bytes) = ask(&mut empty);
        match answer {
            status::STATUS_BUFFER_TOO_SMALL if bytes <= MOST => {}
            status::STATUS_INSUFFICIENT_RESOURCES => return Err(answer),
            _ => return Ok(None),
        }
        let mut whole = PoolBox::try_from_fn(tag, HEAD + bytes, |_| Ok(0))?;
        let (answer, returned) = ask(&mut whole);
        match answer {
            status::STATUS_INSUFFICIENT_RESOURCES => Err(answer),
            // The parser goes by the length in the table, and no further than what is there.
            _ => Ok((answer.is_success() && returned <= bytes).then_some(Self(whole))),
        }
    }

    /// The table.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.get(HEAD..).unwrap_or_default()
    }
}

/// Asks for the table into a buffer of the request's length or more; gives the status and how long the
/// table is.
fn ask(buffer: &mut [u8]) -> (nt::NTSTATUS, usize) {
    let table = u32::try_from(buffer.len().saturating_sub(HEAD)).unwrap_or(0);
    let fields = [
        PROVIDER,
        SystemFirmwareTableGet.cast_unsigned(),
        u32::from_le_bytes(apmt::SIGNATURE),
        table,
    ];
    for (place, field) in buffer.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    let bytes = u32::try_from(buffer.len()).unwrap_or(0);
    let mut returned = 0;
    // SAFETY: (1) the buffer has the length that is said. (2) `returned` is a valid place for the answer.
    let status = unsafe {
        nt::sysinfo::ZwQuerySystemInformation(
            SystemFirmwareTableInformation,
            buffer.as_mut_ptr().cast(),
            bytes,
            &raw mut returned,
        )
    };
    let length = buffer
        .chunks_exact(4)
        .nth(3)
        .and_then(|field| field.first_chunk());
    let length = length.map_or(0, |field| u32::from_le_bytes(*field));
    (status, usize::try_from(length).unwrap_or(usize::MAX))
}
